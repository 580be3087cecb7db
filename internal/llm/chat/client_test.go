package chat

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
)

const okStream = "data: " + commonChunk + "\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// serve starts a server and a provider of it.
func serve(t testing.TB, o upstream.Options, h http.HandlerFunc) *Provider {
	t.Helper()
	o.BaseURL = providertest.Serve(t, h) + "/v1/"
	p := New(Options{Options: o})
	t.Cleanup(p.Close)
	return p
}

// What is asked for in one piece says so in its body, and is read in either form.
func TestOnTheWire(t *testing.T) {
	const whole = `{"choices":[{"index":0,"message":{"role":"assistant","content":"token "},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`
	p := serve(t, upstream.Options{APIKey: "sk-1"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q struct{ Stream bool }
		if err := json.Unmarshal(body, &q); err != nil || bytes.Contains(body, []byte("stream_options")) != q.Stream {
			t.Errorf("body %s: %v", body, err)
		}
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer sk-1" {
			t.Errorf("path %q, authorization %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		if q.Stream {
			providertest.WriteStream(w, okStream)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, whole)
	})
	for _, whole := range []bool{false, true} {
		r := providertest.Hello()
		r.Whole = whole
		a := providertest.Collect(t, t.Context(), p, r)
		if a.Err != nil || a.Text() != "token " || whole && a.Final.Usage.TotalTokens != 4 {
			t.Errorf("whole %v: err %v, text %q, final %+v", whole, a.Err, a.Text(), a.Final)
		}
	}
}

// A try that said nothing leaves nothing behind.
func TestTheSecondTryIsAFreshOne(t *testing.T) {
	tries := 0
	p := serve(t, upstream.Options{}, func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			providertest.WriteStream(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\"}]}}],\"usage\":{\"prompt_tokens\":9}}\n\n")
			return
		}
		providertest.WriteStream(w, okStream)
	})
	a := providertest.Collect(t, t.Context(), p, providertest.Hello())
	if a.Err != nil || a.Text() != "token " || a.Final.Usage != nil || tries != 2 {
		t.Errorf("err %v, text %q, final %+v, %d tries", a.Err, a.Text(), a.Final, tries)
	}
}

func TestModels(t *testing.T) {
	p := serve(t, upstream.Options{Name: "b", APIKey: "sk-1"}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer sk-1" {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		io.WriteString(w, `{"object":"list","data":[{"id":"m1","created":1.5e9},{"id":""},{"id":"org/m2","created":null}]}`)
	})
	models, err := p.Models(t.Context())
	if err != nil || len(models) != 2 || models[0].Created != 1500000000 || models[1].ID != "org/m2" {
		t.Errorf("%+v, %v", models, err)
	}
	bad := serve(t, upstream.Options{Name: "c"}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	if _, err := bad.Models(t.Context()); fault.KindOf(err) != fault.Upstream {
		t.Errorf("err = %v", err)
	}
}

func TestDialectOfHosts(t *testing.T) {
	for base, want := range map[string]bool{
		"https://api.openai.com/v1":                 true,
		"https://x.openai.azure.com/openai/v1/":     true,
		"http://127.0.0.1:11434/v1":                 false,
		"https://api.openai.com.evil.example/v1":    false,
		"https://openrouter.ai/api/v1?x=openai.com": false,
	} {
		if p := New(Options{Options: upstream.Options{BaseURL: base}}); p.dialect.MaxCompletionTokens != want || p.dialect.KeepRoles != want {
			t.Errorf("%s: %+v, want %v", base, p.dialect, want)
		}
	}
	p := New(Options{Options: upstream.Options{BaseURL: "https://api.openai.com/v1"}, MaxTokensField: "max_tokens", DeveloperRole: "system"})
	if p.dialect.MaxCompletionTokens || p.dialect.KeepRoles {
		t.Errorf("the settings do not win: %+v", p.dialect)
	}
}

func TestEveryFieldIsMappedOrRefused(t *testing.T) {
	providertest.Fields(t, LeftOut(), providertest.Case{Base: llm.Request{Model: "m"}, Body: Dialect{Provider: "test", Vendor: true}.Body},
		providertest.Case{Base: llm.Request{Model: "m"}, Body: Dialect{Provider: "test"}.Body})
}

// BenchmarkStream is a whole answer of 64 chunks over loopback, with the server in the same process.
func BenchmarkStream(b *testing.B) {
	body := strings.Repeat("data: "+commonChunk+"\n\n", 64) + okStream
	p := serve(b, upstream.Options{}, func(w http.ResponseWriter, _ *http.Request) { providertest.WriteStream(w, body) })
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range p.Stream(b.Context(), providertest.Hello()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
