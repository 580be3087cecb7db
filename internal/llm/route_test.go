package llm_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// player plays one turn, and remembers the models that it was asked for.
type player struct {
	asked []string
	check error
	play  func(*llm.Turn)
}

func (p *player) Models(context.Context) ([]openai.Model, error) {
	return []openai.Model{{ID: "m"}}, nil
}

func (p *player) Check(llm.Request) error { return p.check }

func (p *player) Stream(_ context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	p.asked = append(p.asked, r.Model)
	return func(yield func(openai.Event, error) bool) { p.play(llm.NewTurn(yield, nil)) }
}

func says(text string) func(*llm.Turn) {
	return func(t *llm.Turn) { t.Text([]byte(text)); t.Complete(nil) }
}

func fails(err error) func(*llm.Turn) { return func(t *llm.Turn) { t.Fail(err) } }

func TestFallbacks(t *testing.T) {
	down := fault.New(fault.Upstream, "a is overloaded").WithCode("server_error")
	limited := fault.New(fault.Upstream, "b limits the rate of requests").WithCode("rate_limit_exceeded")
	unserved := fault.New(fault.Invalid, "tool type \"web_search\" cannot be served").WithCode("unsupported_tool")
	for _, tt := range []struct {
		name  string
		a, b  player
		asked string // of each: the model's name, or - where it was not asked
		text  string
		err   string
	}{
		{"the first answers", player{play: says("A")}, player{play: says("B")}, "x -", "A", ""},
		{"the first is down", player{play: fails(down)}, player{play: says("B")}, "x org/y", "B", ""},
		{"the first cannot serve it", player{check: unserved}, player{play: says("B")}, "- org/y", "B", ""},
		{"the second cannot serve it either", player{check: unserved}, player{check: unserved}, "- -", "", "web_search"},
		{"both are down", player{play: fails(down)}, player{play: fails(limited)}, "x org/y", "", "b limits the rate"},
		{"the first breaks off", player{play: func(t *llm.Turn) { t.Text([]byte("A")); t.Fail(down) }}, player{play: says("B")}, "x -", "A", "a is overloaded"},
		{"the caller cancels", player{play: fails(fault.New(fault.Cancelled, "cancelled"))}, player{play: says("B")}, "x -", "", "cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := llm.NewRouter(llm.Options{Providers: map[string]llm.Provider{"a": &tt.a, "b": &tt.b},
				Fallbacks: map[string][]string{"steady": {"a/x", "b/org/y"}}, Aliases: map[string]string{"s": "steady"}})
			route, err := r.Resolve(t.Context(), "org", "s")
			if err != nil || route.ProviderName != "a" || route.Model != "x" {
				t.Fatalf("%+v, %v", route, err)
			}
			q := providertest.Hello()
			q.Model = route.Model
			var a providertest.Answer
			for ev, err := range route.Provider.Stream(t.Context(), q) {
				if err != nil {
					a.Err = err
				} else {
					a.Events = append(a.Events, ev)
				}
			}
			if err := a.Judge(); err != nil {
				t.Error(err)
			}
			asked := func(p player) string { return strings.Join(append(p.asked, "-")[:1], "") }
			if got := asked(tt.a) + " " + asked(tt.b); got != tt.asked {
				t.Errorf("asked %s, want %s", got, tt.asked)
			}
			var said strings.Builder
			for _, ev := range a.Events {
				if d, ok := ev.(*openai.DeltaEvent); ok {
					said.WriteString(d.Delta)
				}
			}
			if said.String() != tt.text || (a.Err == nil) != (tt.err == "") || a.Err != nil && !strings.Contains(a.Err.Error(), tt.err) {
				t.Errorf("said %q, err %v", said.String(), a.Err)
			}
			if err := llm.Check(route.Provider, q); (err == nil) != (tt.a.check == nil || tt.b.check == nil) {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// A request's own list stands behind its model; what of it leads nowhere is left out, and a model is asked once.
func TestModelsOfARequest(t *testing.T) {
	a, b := &player{play: fails(fault.New(fault.Upstream, "down"))}, &player{play: says("B")}
	r := llm.NewRouter(llm.Options{Providers: map[string]llm.Provider{"a": a, "b": b}})
	route, err := r.Resolve(t.Context(), "org", "a/x", "nobody/y", "a/x", "b/z")
	if err != nil {
		t.Fatal(err)
	}
	if got := providertest.Collect(t, t.Context(), route.Provider, llm.Request{Model: route.Model}); got.Text() != "B" {
		t.Errorf("%q, %v", got.Text(), got.Err)
	}
	if diff := cmp.Diff([][]string{{"x"}, {"z"}}, [][]string{a.asked, b.asked}); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Resolve(t.Context(), "org", "nobody/x", "b/z"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a first model that is not there: %v", err)
	}
}

// What an organisation may not use it is refused, is not shown, and does not stand in for anything.
func TestModelsOfAnOrganisation(t *testing.T) {
	r := llm.NewRouter(llm.Options{
		Providers: map[string]llm.Provider{"a": &lister{ids: []string{"m", "n"}}, "b": &lister{ids: []string{"m"}}, "down": &lister{err: errors.New("x")}},
		Aliases:   map[string]string{"fast": "a/n"}, Fallbacks: map[string][]string{"steady": {"a/m", "b/m"}},
		Allowed: map[string][]string{"one": {"b/*"}, "two": {"a/n", "b/m"}, "none": {}, "*": {"a/*", "b/*"}}})
	for _, tt := range []struct {
		org, model, provider, code string
	}{
		{"one", "b/m", "b", ""},
		{"one", "m", "b", ""}, // the only one that it may use
		{"one", "a/m", "", "model_not_allowed"},
		{"one", "fast", "", "model_not_allowed"},
		{"one", "steady", "b", ""},
		{"two", "a/n", "a", ""},
		{"two", "a/nn", "", "model_not_allowed"},
		{"none", "b/m", "", "model_not_allowed"},
		{"none", "m", "", "model_not_found"},
		{"else", "m", "", "ambiguous_model"},
		{"else", "down/x", "", "model_not_allowed"},
	} {
		route, err := r.Resolve(t.Context(), tt.org, tt.model)
		if e, ok := fault.As(err); tt.code == "" && (err != nil || route.ProviderName != tt.provider) || tt.code != "" && (!ok || e.Code != tt.code) {
			t.Errorf("%s, %s: %+v, %v; want %s%s", tt.org, tt.model, route, err, tt.provider, tt.code)
		} else if ok && tt.org == "one" && strings.Contains(e.Try, "a/") {
			t.Errorf("the refusal names what may not be used: %s", e.Try)
		}
	}
	for org, want := range map[string]string{"one": "b/m steady", "two": "a/n b/m fast steady", "none": "", "else": "a/m a/n b/m fast steady"} {
		var got []string
		for _, m := range r.Models(t.Context(), org) {
			got = append(got, m.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s sees %v, want %s", org, got, want)
		}
	}
}
