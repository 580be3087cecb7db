package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const okStream = "data: " + commonChunk + "\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

func writeStream(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, s)
	w.(http.Flusher).Flush()
}

// serve starts a server and a provider of it.
func serve(t testing.TB, o Options, h http.HandlerFunc) *Provider {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // handlers that abort on purpose
	srv.Start()
	t.Cleanup(srv.Close)
	o.BaseURL = srv.URL + "/v1/"
	p := New(o)
	t.Cleanup(p.client.CloseIdleConnections)
	return p
}

func hello() llm.Request {
	return llm.Request{Model: "m", Items: []openai.Item{openai.UserText("hello")}}
}

func TestRequestOnTheWire(t *testing.T) {
	p := serve(t, Options{APIKey: "sk-1", Headers: map[string]string{"X-Tenant": "t-1"}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, want := range map[string]string{"Authorization": "Bearer sk-1", "X-Tenant": "t-1", "Content-Type": "application/json",
			"Accept": "text/event-stream"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if r.URL.Path != "/v1/chat/completions" || r.ContentLength != int64(len(body)) || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("path %q, length %d of %d, encoding %q", r.URL.Path, r.ContentLength, len(body), r.Header.Get("Accept-Encoding"))
		}
		writeStream(w, okStream)
	})
	if a := providertest.Collect(t, t.Context(), p, hello()); a.Err != nil || a.Text() != "token " {
		t.Errorf("err %v, text %q", a.Err, a.Text())
	}
}

func TestTriesAgainBeforeTheFirstEvent(t *testing.T) {
	hijack := func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		c.Close()
	}
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.Error(w, `{"error":{"message":"no"}}`, code)
		}
	}
	stream := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { writeStream(w, s) }
	}
	tests := []struct {
		name    string
		answers []http.HandlerFunc // the last one for all further tries
		tries   int64
		ok      bool
		code    string
	}{
		{"429 then well", []http.HandlerFunc{status(429, "Retry-After", "0"), stream(okStream)}, 2, true, ""},
		{"500 and 503 then well", []http.HandlerFunc{status(500), status(503), stream(okStream)}, 3, true, ""},
		{"529 then well", []http.HandlerFunc{status(529), stream(okStream)}, 2, true, ""},
		{"connection closed then well", []http.HandlerFunc{hijack, stream(okStream)}, 2, true, ""},
		{"empty stream then well", []http.HandlerFunc{stream(": hi\n\n"), stream(okStream)}, 2, true, ""},
		{"overloaded in the stream then well", []http.HandlerFunc{stream("data: {\"error\":{\"message\":\"x\",\"code\":503}}\n\n"), stream(okStream)}, 2, true, ""},
		{"always 503", []http.HandlerFunc{status(503)}, 3, false, "server_error"},
		{"always 429", []http.HandlerFunc{status(429)}, 3, false, "rate_limit_exceeded"},
		{"429 for longer than we wait", []http.HandlerFunc{status(429, "Retry-After", "3600")}, 1, false, "rate_limit_exceeded"},
		{"400", []http.HandlerFunc{status(400)}, 1, false, "invalid_prompt"},
		{"401", []http.HandlerFunc{status(401)}, 1, false, "server_error"},
		{"404", []http.HandlerFunc{status(404)}, 1, false, "model_not_found"},
		{"501", []http.HandlerFunc{status(501)}, 1, false, "server_error"},
		{"cut behind the first event", []http.HandlerFunc{stream("data: " + commonChunk + "\n\n")}, 1, false, "server_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int64
			p := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if !bytes.Contains(body, []byte("hello")) {
					t.Errorf("the body of a try is %q", body)
				}
				n := int(tries.Add(1))
				tt.answers[min(n, len(tt.answers))-1](w, r)
			})
			a := providertest.Collect(t, t.Context(), p, hello())
			if tries.Load() != tt.tries || (a.Err == nil) != tt.ok {
				t.Errorf("%d tries, err %v; want %d, ok %v", tries.Load(), a.Err, tt.tries, tt.ok)
			}
			if e, ok := fault.As(a.Err); ok && (e.Code != tt.code || e.Kind != fault.Upstream) {
				t.Errorf("%v %q, want code %q", e.Kind, e.Code, tt.code)
			}
		})
	}
}

func TestPatience(t *testing.T) {
	hang := func(r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"no head", func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); hang(r) }, "did not answer within"},
		{"head and nothing more", func(w http.ResponseWriter, r *http.Request) { writeStream(w, ": hi\n\n"); hang(r) }, "sent nothing for"},
		{"silent in the middle", func(w http.ResponseWriter, r *http.Request) {
			writeStream(w, "data: "+commonChunk+"\n\n")
			hang(r)
		}, "sent nothing for"},
		{"silent in an error body", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			hang(r)
		}, "refused the request"},
		{"silent behind the finish", func(w http.ResponseWriter, r *http.Request) {
			writeStream(w, strings.TrimSuffix(okStream, "data: [DONE]\n\n"))
			hang(r)
		}, ""},
		{"open behind the end", func(w http.ResponseWriter, r *http.Request) { writeStream(w, okStream); hang(r) }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, Options{FirstByteTimeout: 300 * time.Millisecond, IdleTimeout: 300 * time.Millisecond}, tt.answer)
			a := providertest.Collect(t, t.Context(), p, hello())
			if tt.want == "" && a.Err != nil || tt.want != "" && (a.Err == nil || !strings.Contains(a.Err.Error(), tt.want)) {
				t.Errorf("err = %v, want %q", a.Err, tt.want)
			}
		})
	}
}

// A stream that goes on for many times the limits is no fault, and the time in which the consumer is slow does not count.
func TestNoOverallLimit(t *testing.T) {
	p := serve(t, Options{FirstByteTimeout: 2 * time.Second, IdleTimeout: 2 * time.Second}, func(w http.ResponseWriter, _ *http.Request) {
		for range 10 {
			writeStream(w, "data: "+commonChunk+"\n\n")
			time.Sleep(250 * time.Millisecond)
		}
		writeStream(w, okStream)
	})
	var text strings.Builder
	for ev, err := range p.Stream(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := ev.(*openai.DeltaEvent); ok {
			if text.Len() == 0 {
				time.Sleep(2200 * time.Millisecond)
			}
			text.WriteString(d.Delta)
		}
	}
	if want := strings.Repeat("token ", 11); text.String() != want {
		t.Errorf("text %q, want %q", text.String(), want)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := New(Options{Name: "gone", BaseURL: "http://user:sk-password@" + l.Addr().String() + "/v1?key=sk-query", APIKey: "sk-secret"})
	a := providertest.Collect(t, t.Context(), p, hello())
	if fault.KindOf(a.Err) != fault.Upstream || !strings.Contains(a.Err.Error(), "gone cannot be reached") {
		t.Errorf("err = %v", a.Err)
	}
	for e := a.Err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(fmt.Sprintf("%v %+v", e, e), "sk-") {
			t.Errorf("a secret got out: %+v", e)
		}
	}
}

func TestRedirectIsRefused(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	p := serve(t, Options{Headers: map[string]string{"Api-Key": "sk-header-secret"}}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	a := providertest.Collect(t, t.Context(), p, hello())
	if a.Err == nil || elsewhere.Load() != 0 {
		t.Errorf("err %v, %d requests elsewhere", a.Err, elsewhere.Load())
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	var connections atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeStream(w, okStream) }))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	p := New(Options{BaseURL: srv.URL})
	defer p.client.CloseIdleConnections()
	for range 20 {
		if a := providertest.Collect(t, t.Context(), p, hello()); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	if n := connections.Load(); n > 3 { // one, but for a scheduler that holds the end of a body back beyond the drain
		t.Errorf("%d connections for 20 calls", n)
	}
}

// A fast upstream that answers before it has read everything must not cut a stream: the body comes from memory.
func TestNoStreamIsCut(t *testing.T) {
	p := serve(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { writeStream(w, okStream) })
	for i := range 300 {
		a := providertest.Collect(t, t.Context(), p, hello())
		if a.Err != nil {
			t.Fatalf("stream %d: %v", i, a.Err)
		}
	}
}

func TestCancelBeforeTheHead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	p := serve(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
		close(gone)
	})
	a := providertest.Collect(t, ctx, p, hello())
	if fault.KindOf(a.Err) != fault.Cancelled {
		t.Errorf("err = %v", a.Err)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the upstream call is still under way")
	}
}

func TestModels(t *testing.T) {
	asked := New(Options{Name: "a", BaseURL: "http://127.0.0.1:1", Models: []string{"x", "org/y"}})
	models, err := asked.Models(t.Context())
	if err != nil || len(models) != 2 || models[1].ID != "org/y" || models[1].OwnedBy != "a" {
		t.Errorf("%+v, %v", models, err)
	}
	p := serve(t, Options{Name: "b", APIKey: "sk-1"}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer sk-1" {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		io.WriteString(w, `{"object":"list","data":[{"id":"m1","created":1.5e9},{"id":""},{"id":"org/m2","created":null}]}`)
	})
	models, err = p.Models(t.Context())
	if err != nil || len(models) != 2 || models[0].Created != 1500000000 || models[1].ID != "org/m2" {
		t.Errorf("%+v, %v", models, err)
	}
	bad := serve(t, Options{Name: "c"}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	if _, err := bad.Models(t.Context()); fault.KindOf(err) != fault.Upstream {
		t.Errorf("err = %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "2", 2 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "-1", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", 1e6 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:15 GMT", 10 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2020 03:04:15 GMT", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
	} {
		if got := retryAfter(http.Header{http.CanonicalHeaderKey(tt.name): {tt.value}}, now); got != tt.want {
			t.Errorf("%s: %s = %v, want %v", tt.name, tt.value, got, tt.want)
		}
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
		if p := New(Options{BaseURL: base}); p.dialect.MaxCompletionTokens != want || p.dialect.KeepRoles != want {
			t.Errorf("%s: %+v, want %v", base, p.dialect, want)
		}
	}
	if p := New(Options{BaseURL: "https://api.openai.com/v1", MaxTokensField: "max_tokens", DeveloperRole: "system"}); p.dialect.MaxCompletionTokens || p.dialect.KeepRoles {
		t.Errorf("the settings do not win: %+v", p.dialect)
	}
}

// BenchmarkStream is a whole answer of 64 chunks over loopback, with the server in the same process.
func BenchmarkStream(b *testing.B) {
	body := strings.Repeat("data: "+commonChunk+"\n\n", 64) + okStream
	p := serve(b, Options{}, func(w http.ResponseWriter, _ *http.Request) { writeStream(w, body) })
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range p.Stream(b.Context(), hello()) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n < 64 {
			b.Fatal(n)
		}
	}
}
