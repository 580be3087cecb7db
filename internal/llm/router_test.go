package llm_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// lister is a provider that only lists.
type lister struct {
	ids   []string
	err   error
	asked atomic.Int64
	hang  chan struct{} // listing waits for it, if set
}

func (l *lister) Models(ctx context.Context) ([]openai.Model, error) {
	l.asked.Add(1)
	if l.hang != nil {
		select {
		case <-l.hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	var models []openai.Model
	for _, id := range l.ids {
		models = append(models, openai.Model{ID: id, Object: "model", Created: 7, OwnedBy: "upstream"})
	}
	return models, l.err
}

func (l *lister) Stream(context.Context, llm.Request) iter.Seq2[openai.Event, error] { return nil }

func TestResolve(t *testing.T) {
	r := llm.NewRouter(llm.Options{
		Providers: map[string]llm.Provider{
			"scripted": &lister{ids: []string{"scripted"}},
			"ollama":   &lister{ids: []string{"qwen3:8b", "both", "openai/gpt-oss"}},
			"openai":   &lister{ids: []string{"gpt-5", "both"}},
			"down":     &lister{err: errors.New("refused")},
		},
		Aliases: map[string]string{"fast": "ollama/qwen3:8b", "smart": "gpt-5", "best": "smart", "ring": "ring2", "ring2": "ring", "gpt-5": "openai/gpt-5"},
		Default: "fast",
	})
	for _, tt := range []struct{ model, provider, name string }{
		{"openai/gpt-5", "openai", "gpt-5"},
		{"openai/not-listed", "openai", "not-listed"},
		{"ollama/openai/gpt-oss", "ollama", "openai/gpt-oss"},
		{"ollama/a/b/c", "ollama", "a/b/c"},
		{"openai/gpt-oss", "openai", "gpt-oss"}, // a provider's prefix wins over a name with a slash
		{"qwen3:8b", "ollama", "qwen3:8b"},
		{"scripted", "scripted", "scripted"},
		{"scripted/parallel", "scripted", "parallel"},
		{"fast", "ollama", "qwen3:8b"},
		{"smart", "openai", "gpt-5"},
		{"best", "openai", "gpt-5"},
		{"", "ollama", "qwen3:8b"},
		{"down/x", "down", "x"},
	} {
		route, err := r.Resolve(t.Context(), "org", tt.model)
		if err != nil || route.ProviderName != tt.provider || route.Model != tt.name || route.Provider == nil {
			t.Errorf("%q: %+v, %v; want %s and %s", tt.model, route, err, tt.provider, tt.name)
		}
	}
	for _, tt := range []struct {
		model string
		kind  fault.Kind
		code  string
		says  []string
	}{
		{"both", fault.Invalid, "ambiguous_model", []string{"ollama/both", "openai/both"}},
		{"nope", fault.NotFound, "model_not_found", []string{"nope", "down", "ollama/"}},
		{"nobody/x", fault.NotFound, "model_not_found", []string{"nobody/x"}},
		{"openai/", fault.NotFound, "model_not_found", nil},
		{"Scripted", fault.NotFound, "model_not_found", nil},
		{"ring", fault.NotFound, "model_not_found", []string{"ring"}},
	} {
		_, err := r.Resolve(t.Context(), "org", tt.model)
		e, ok := fault.As(err)
		if !ok || e.Kind != tt.kind || e.Code != tt.code || e.Param != "model" {
			t.Errorf("%q: %v", tt.model, err)
			continue
		}
		for _, s := range tt.says {
			if !strings.Contains(e.Public(), s) {
				t.Errorf("%q: %q does not name %q", tt.model, e.Public(), s)
			}
		}
	}
	_, err := llm.NewRouter(llm.Options{}).Resolve(t.Context(), "org", "")
	if e, ok := fault.As(err); !ok || e.Kind != fault.Invalid || e.Param != "model" {
		t.Errorf("no model and no default: %v", err)
	}
}

func TestModels(t *testing.T) {
	r := llm.NewRouter(llm.Options{Providers: map[string]llm.Provider{
		"b": &lister{ids: []string{"z", "a"}}, "a": &lister{ids: []string{"org/x"}}, "down": &lister{err: errors.New("x")}}})
	var got []string
	for _, m := range r.Models(t.Context(), "org") {
		got = append(got, m.ID+" "+m.OwnedBy)
	}
	if diff := cmp.Diff([]string{"a/org/x a", "b/a b", "b/z b"}, got); diff != "" {
		t.Error(diff)
	}
	if none := llm.NewRouter(llm.Options{}).Models(t.Context(), "org"); none == nil || len(none) != 0 {
		t.Errorf("without providers: %v", none)
	}
}

func TestPrefixAsksNobody(t *testing.T) {
	p := &lister{ids: []string{"x"}}
	r := llm.NewRouter(llm.Options{Providers: map[string]llm.Provider{"p": p}})
	if _, err := r.Resolve(t.Context(), "org", "p/x"); err != nil || p.asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, p.asked.Load())
	}
}

func TestListsAreRemembered(t *testing.T) {
	var mu sync.Mutex
	now := time.Unix(0, 0)
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	good, bad := &lister{ids: []string{"x"}}, &lister{err: errors.New("down")}
	r := llm.NewRouter(llm.Options{Providers: map[string]llm.Provider{"good": good, "bad": bad}, Clock: clock})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := r.Resolve(t.Context(), "org", "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if good.asked.Load() != 1 || bad.asked.Load() != 1 {
		t.Errorf("asked %d and %d times by 20 at once", good.asked.Load(), bad.asked.Load())
	}
	pass(11 * time.Second)
	r.Models(t.Context(), "org")
	if good.asked.Load() != 1 || bad.asked.Load() != 2 {
		t.Errorf("after 11 s: asked %d and %d times", good.asked.Load(), bad.asked.Load())
	}
	good.err = errors.New("down now")
	pass(2 * time.Minute)
	if _, err := r.Resolve(t.Context(), "org", "x"); err != nil {
		t.Errorf("an old list is forgotten when the provider is down: %v", err)
	}
}

func TestACallerThatLeavesSpoilsNothing(t *testing.T) {
	p := &lister{ids: []string{"x"}, hang: make(chan struct{})}
	r := llm.NewRouter(llm.Options{Providers: map[string]llm.Provider{"p": p}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Resolve(ctx, "org", "x"); err == nil {
		t.Error("resolved without a list")
	}
	close(p.hang)
	if _, err := r.Resolve(t.Context(), "org", "x"); err != nil {
		t.Errorf("the next caller: %v", err)
	}
}

func TestCheckTools(t *testing.T) {
	err := llm.Check(&lister{}, llm.Request{Tools: []openai.Tool{{Type: "function"}, {Type: "mcp"}}})
	if e, ok := fault.As(err); !ok || e.Kind != fault.Invalid || !strings.Contains(e.Message, "mcp") {
		t.Errorf("err = %v", err)
	}
	if err := llm.Check(&lister{}, llm.Request{Tools: []openai.Tool{{Type: "function"}}}); err != nil {
		t.Error(err)
	}
}

func TestTurnStopsWhenNobodyListens(t *testing.T) {
	for stop := 1; stop < 16; stop++ {
		n := 0
		w := llm.NewTurn(func(openai.Event, error) bool {
			if n++; n > stop {
				t.Fatalf("event %d after the consumer left at %d", n, stop)
			}
			return n < stop
		}, nil)
		w.Reasoning([]byte("a"))
		w.Text([]byte("b"))
		w.Refusal([]byte("c"))
		c := w.Call("f")
		c.Write("{}")
		w.Text([]byte("d"))
		w.Complete(nil)
		w.Fail(errors.New("late"))
		if n != stop || !w.Gone() {
			t.Errorf("stop at %d: %d events", stop, n)
		}
	}
}

func BenchmarkTurnText(b *testing.B) {
	w := llm.NewTurn(func(openai.Event, error) bool { return true }, nil)
	token := []byte("token ")
	b.ReportAllocs()
	for b.Loop() {
		w.Text(token)
	}
}
