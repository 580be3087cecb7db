package llm_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// omitter is a provider that knows of a user and of no more, and refuses pictures.
type omitter struct{ list map[string]string }

func (omitter) Models(context.Context) ([]openai.Model, error) { return nil, nil }
func (omitter) Stream(context.Context, llm.Request) iter.Seq2[openai.Event, error] {
	return func(func(openai.Event, error) bool) {}
}
func (o omitter) Check(r llm.Request) error {
	_, err := o.body(r)
	return err
}
func (o omitter) Omits(r llm.Request) []string { return llm.Omitted(r, o.list, o.body) }

func (omitter) body(r llm.Request) ([]byte, error) {
	for _, i := range r.Items {
		if strings.Contains(string(i.Raw), "input_image") {
			return nil, fault.New(fault.Invalid, "no pictures")
		}
	}
	return []byte(r.User), nil
}

var list = map[string]string{"temperature": "always", "top_p": "always", "service_tier": "always", "input[].detail": "always", "user": "never"}

// TestWarnings: a caller is told, by provider, which of its wishes nobody will hear of.
func TestWarnings(t *testing.T) {
	half := 0.5
	picture := openai.Item{Type: "message", Raw: json.RawMessage(`{"role":"user","content":[{"type":"x","detail":"high"},{"type":"input_text","text":"\"detail\":1"}]}`)}
	auto := openai.Item{Type: "message", Raw: json.RawMessage(`{"role":"user","content":[{"type":"x","detail":"auto"}]}`)}
	one := llm.Route{Provider: omitter{list}, ProviderName: "one", Model: "m"}
	for name, c := range map[string]struct {
		r    llm.Request
		want string
	}{
		"nothing wished":              {llm.Request{}, ""},
		"what is sent":                {llm.Request{User: "u"}, ""},
		"what is not in the list":     {llm.Request{PromptCacheKey: "k"}, ""},
		"what is not sent":            {llm.Request{User: "u", Temperature: &half, TopP: &half}, "one leaves out: temperature, top_p"},
		"a tier":                      {llm.Request{ServiceTier: "flex"}, "one leaves out: service_tier"},
		"what is served anyway":       {llm.Request{ServiceTier: "auto"}, ""},
		"how to look at a picture":    {llm.Request{Items: []openai.Item{picture}}, "one leaves out: input[].detail"},
		"as a picture is looked at":   {llm.Request{Items: []openai.Item{auto}}, ""},
		"words that look like a wish": {llm.Request{Items: []openai.Item{openai.UserText(`"detail": "high", {"detail":"high"}`)}}, ""},
	} {
		if got := strings.Join(one.Warnings(c.r), "|"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := (llm.Route{Provider: plainProvider{}, ProviderName: "p"}).Warnings(llm.Request{Temperature: &half}); got != nil {
		t.Errorf("%q of a provider that leaves nothing out", got)
	}

	// Of several that may answer each is told of, but for those that refuse.
	router := llm.NewRouter(llm.Options{Providers: map[string]llm.Provider{"one": omitter{list}, "two": omitter{map[string]string{"top_p": "always"}}, "plain": plainProvider{}},
		Fallbacks: map[string][]string{"all": {"one/m", "two/m", "plain/m"}}})
	route, err := router.Resolve(t.Context(), "org", "all")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(route.Warnings(llm.Request{Temperature: &half, TopP: &half}), "|"); got != "one leaves out: temperature, top_p|two leaves out: top_p" {
		t.Errorf("%q", got)
	}
	image := openai.NewItem(map[string]any{"type": "message", "role": "user", "content": []any{map[string]string{"type": "input_image"}}})
	if got := route.Warnings(llm.Request{TopP: &half, Items: []openai.Item{image}}); got != nil {
		t.Errorf("%q of providers that refuse", got)
	}
}

// plainProvider leaves nothing out.
type plainProvider struct{}

func (plainProvider) Models(context.Context) ([]openai.Model, error) { return nil, nil }
func (plainProvider) Stream(context.Context, llm.Request) iter.Seq2[openai.Event, error] {
	return func(func(openai.Event, error) bool) {}
}
