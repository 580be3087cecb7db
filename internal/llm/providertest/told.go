package providertest

import (
	"slices"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// untold are settings that nobody is warned about: what our own answers hold and clients hand back as it is, and values
// that mean what is done anyway.
var untold = []string{"Items.annotation", "Items.phase", "Items.id", "Items.reasoning", "ServiceTier.default", "Whole", "Shell", "Patch", "Hosted", "ContextManagement"}

// Told holds that a caller is warned of each wish that is left out, under a field that the provider's list knows it by, and
// of none that is not.
func Told(t *testing.T, list map[string]string, cases ...Case) {
	t.Helper()
	for _, c := range cases {
		fates, err := Fates(c.Base, func(r llm.Request) (string, error) {
			body, err := c.Body(r)
			return r.Model + string(body), err
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, fate := range fates {
			s := settings[name]
			base := c.Base
			if len(base.Tools) == 0 {
				base.Tools = []openai.Tool{Shell}
			}
			if len(base.Items) == 0 {
				base.Items = []openai.Item{openai.UserText("a")}
			}
			base.Items, base.Tools = slices.Clone(base.Items), slices.Clone(base.Tools)
			if s.from != nil {
				s.from(&base)
			}
			before := llm.Omitted(base, list, c.Body)
			base.Items, base.Tools = slices.Clone(base.Items), slices.Clone(base.Tools)
			s.set(&base)
			told := llm.Omitted(base, list, c.Body)
			named := slices.ContainsFunc(told, func(field string) bool { return slices.Contains(s.keys, field) })
			switch {
			case fate == LeftOut && !named && !slices.Contains(untold, name):
				t.Errorf("%s: nobody is told that %s is left out (%q)", c.Base.Model, name, told)
			case fate == Mapped && slices.ContainsFunc(told, func(field string) bool { return slices.Contains(s.keys, field) && !slices.Contains(before, field) }):
				t.Errorf("%s: %s is sent, and said to be left out: %q, before %q", c.Base.Model, name, told, before)
			}
		}
	}
}
