package providertest_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/anthropic"
	"github.com/hardshell-dev/hardshell/internal/llm/bedrock"
	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	"github.com/hardshell-dev/hardshell/internal/llm/gemini"
	"github.com/hardshell-dev/hardshell/internal/llm/openai"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
)

// column is a provider of the page.
type column struct {
	name, model string
	body        func(llm.Request) ([]byte, error)
	leftOut     map[string]string
}

// TestPage holds api/providers.md, which it writes under -update, against what the dialects do.
func TestPage(t *testing.T) {
	columns := []column{
		{"openai", "gpt-5.2", openai.Dialect{Provider: "p", NativeShell: "on"}.Body, openai.LeftOut()},
		{"chat", "m", chat.Dialect{Provider: "p"}.Body, chat.LeftOut()},
		{"anthropic", "claude-sonnet-4-5", anthropic.Dialect{Provider: "p", Version: "2023-06-01"}.Body, anthropic.LeftOut()},
		{"bedrock", "m", bedrock.Dialect{Provider: "p"}.Body, bedrock.LeftOut()},
		{"gemini", "gemini-3-pro", gemini.Dialect{Provider: "p"}.Body, gemini.LeftOut()},
	}
	var page bytes.Buffer
	page.WriteString(`# What each provider does with a request

Made by a test out of what the dialects do (` + "`go test ./internal/llm/providertest -run Page -update`" + `). Each row sets one thing of a
request: *mapped* changes what is sent, *refused* is a 400 that names the field, *left out* changes nothing, and the answer says so in the header
` + "`x-hardshell-warning`" + `, but for what our own answers hold (ids, phases, annotations and thinking that come back) and for values that mean
what is done anyway. ` + "`chat`" + ` is a server that nothing is known of; OpenAI's and Azure's take more.

| set |`)
	var fates []map[string]providertest.Fate
	for _, c := range columns {
		fmt.Fprintf(&page, " %s |", c.name)
		f, err := providertest.Fates(llm.Request{Model: c.model}, func(r llm.Request) (string, error) {
			body, err := c.body(r)
			return r.Model + fmt.Sprint(r.Whole) + string(body), err // these two may stand in the path
		})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fates = append(fates, f)
	}
	page.WriteString("\n| --- |")
	for range columns {
		page.WriteString(" --- |")
	}
	for _, name := range slices.Sorted(maps.Keys(fates[0])) {
		if name == "Shell" || name == "Patch" || name == "Hosted" || name == "Whole" || name == "ContextManagement" { // of ours, and no field of a client's; the last is done for every provider
			continue
		}
		fmt.Fprintf(&page, "\n| `%s` |", field(name))
		for _, f := range fates {
			fmt.Fprintf(&page, " %s |", f[name])
		}
	}
	page.WriteString("\n\nA tool that a provider cannot serve is a 400 that names tool and provider. What is left out without a refusal, and when:\n")
	for _, c := range columns {
		fmt.Fprintf(&page, "\n## %s\n\n", c.name)
		for _, key := range slices.Sorted(maps.Keys(c.leftOut)) {
			fmt.Fprintf(&page, "- `%s`: %s\n", key, c.leftOut[key])
		}
	}
	providertest.Golden(t, "../../../api/providers.md", page.Bytes())
}

// field is a field's name as a client writes it, behind which stands what of it.
func field(name string) string {
	first, rest, dotted := strings.Cut(name, ".")
	if first == "Items" {
		first = "Input"
	}
	var b strings.Builder
	for i, r := range first {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	if dotted {
		b.WriteString(": " + rest)
	}
	return b.String()
}
