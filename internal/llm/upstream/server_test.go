package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestRequestOnTheWire(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want map[string]string
	}{
		{Options{APIKey: "sk-1", Headers: map[string]string{"X-Tenant": "t-1"}}, map[string]string{"Authorization": "Bearer sk-1", "X-Tenant": "t-1",
			"Content-Type": "application/json", "Accept": "text/event-stream"}},
		{Options{APIKey: "sk-1", Headers: map[string]string{"Authorization": "Basic eA=="}}, map[string]string{"Authorization": "Basic eA=="}},
		{Options{}, map[string]string{"Authorization": ""}},
		{Options{Headers: map[string]string{"host": "inner.example"}}, map[string]string{"Host": "inner.example"}},
	} {
		s := over(t, tt.o, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Header.Set("Host", r.Host)
			for name, want := range tt.want {
				if got := r.Header.Get(name); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			if r.URL.Path != "/v1/ask" || r.ContentLength != int64(len(body)) || r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("path %q, length %d of %d, encoding %q", r.URL.Path, r.ContentLength, len(body), r.Header.Get("Accept-Encoding"))
			}
			providertest.WriteStream(w, okStream)
		})
		if a, err := ask(t.Context(), s, false); err != nil || a.said() != "token" {
			t.Errorf("err %v, said %q", err, a.said())
		}
	}
}

// What cannot be signed is not sent.
func TestAuthorizeMayRefuse(t *testing.T) {
	s := New(Options{Name: "up", BaseURL: "http://127.0.0.1:1"}, Dialect{Authorize: func(*http.Request, []byte) error {
		return fault.New(fault.Upstream, "no credentials")
	}})
	if _, err := ask(t.Context(), s, false); err == nil || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("err = %v", err)
	}
	if err := s.Get(t.Context(), "/models", nil); err == nil || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("err = %v", err)
	}
}

func TestNoSecretGetsOut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	gone := New(Options{Name: "gone", BaseURL: "http://user:sk-password@" + l.Addr().String() + "/v1?key=sk-query", APIKey: "sk-secret",
		MaxTries: 1}, Dialect{Authorize: Bearer("sk-secret")})
	tells := func(status int, contentType, body string) *Server {
		return New(Options{Name: "tells", BaseURL: "http://upstream.example", APIKey: "sk-secret",
			Headers: map[string]string{"X": "sk-header", "Authorization": "Bearer sk-bearer"}, MaxTries: 1,
			Client: &http.Client{Transport: trip(func(*http.Request) (*http.Response, error) {
				return answer(status, contentType, strings.NewReader(body), "Location", "http://x/?sk-secret"), nil
			})}}, Dialect{Authorize: func(r *http.Request, _ []byte) error { // as one whose credentials are found when they are needed
			r.Header.Set("X-Amz-Security-Token", "sk-session")
			r.Header.Set("X-Goog-Api-Key", "sk-token")
			return nil
		}})
	}
	const said = "key sk-secret, header sk-header, Bearer sk-bearer or sk-bearer alone, session sk-session, token sk-token"
	for name, s := range map[string]*Server{
		"unreachable":      gone,
		"400":              tells(400, "application/json", `{"error":{"message":"`+said+`","code":"sk-token","type":"sk-session"}}`),
		"401":              tells(401, "application/json", `{"error":{"message":"Incorrect API key provided: sk-se***et"}}`),
		"plain text":       tells(500, "text/plain", said),
		"a redirect":       tells(302, "text/plain", said),
		"a web page":       tells(200, "text/html; x=sk-session", "<html>"+said),
		"in the stream":    tells(200, "text/event-stream", "data: {\"error\":\""+said+"\"}\n\n"),
		"in an odd answer": tells(200, "application/json", `{"message":"`+said+`"}`),
		"not JSON":         tells(200, "application/json", `{sk-secret`),
		"broken":           tells(200, "text/event-stream", "data: BROKEN "+said+"\n\n"),
		"where it is cut":  tells(200, "text/plain", strings.Repeat("x", maxMessage-5)+"sk-session"),
	} {
		_, err := ask(t.Context(), s, false)
		if fault.KindOf(err) != fault.Upstream {
			t.Errorf("%s: err = %v", name, err)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(fmt.Sprintf("%v %+v", e, e), "sk-") {
				t.Errorf("%s: a secret got out: %+v", name, e)
			}
		}
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	s := over(t, Options{APIKey: "sk-key"}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	_, err := ask(t.Context(), s, false)
	if err == nil || !strings.Contains(err.Error(), "redirect") || elsewhere.Load() != 0 {
		t.Errorf("err %v, %d requests elsewhere", err, elsewhere.Load())
	}
	if err := s.Get(t.Context(), "/models", nil); err == nil || elsewhere.Load() != 0 {
		t.Errorf("err %v, %d requests elsewhere", err, elsewhere.Load())
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	var connections atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { providertest.WriteStream(w, okStream) }))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	s := New(Options{BaseURL: srv.URL}, Dialect{})
	defer s.Close()
	const calls = 40
	for range calls {
		if _, err := ask(t.Context(), s, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n > calls/2 { // one, but for a scheduler that holds the end of a body back beyond the drain
		t.Errorf("%d connections for %d calls", n, calls)
	}
}

// A fast upstream that answers before it has read everything must not cut a stream: the body comes from memory.
func TestNoStreamIsCut(t *testing.T) {
	s := over(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { providertest.WriteStream(w, okStream) })
	for i := range 300 {
		if a, err := ask(t.Context(), s, false); err != nil || a.said() != "token" {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
}

func TestCancelBeforeTheHead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	s := over(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
		close(gone)
	})
	if _, err := ask(ctx, s, false); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("err = %v", err)
	}
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Error("the upstream call is still under way")
	}
}

func TestModels(t *testing.T) {
	s := New(Options{Name: "a", BaseURL: "http://127.0.0.1:1", Models: []string{"x", "org/y", "a/z"}}, Dialect{})
	models, err := s.Models(t.Context(), nil)
	if err != nil || len(models) != 3 || models[1].ID != "org/y" || models[2].ID != "z" || models[1].OwnedBy != "a" {
		t.Errorf("%+v, %v", models, err)
	}
	s = New(Options{Name: "b"}, Dialect{})
	models, err = s.Models(t.Context(), func(context.Context) ([]openai.Model, error) { return []openai.Model{s.Model("m", -1)}, nil })
	if err != nil || len(models) != 1 || models[0].Created != 0 {
		t.Errorf("%+v, %v", models, err)
	}
	if _, err := s.Models(t.Context(), func(context.Context) ([]openai.Model, error) {
		return nil, fault.New(fault.Upstream, "no")
	}); fault.KindOf(err) != fault.Upstream {
		t.Errorf("err = %v", err)
	}
	bad := over(t, Options{}, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	if err := bad.Get(t.Context(), "/models", &struct{}{}); fault.KindOf(err) != fault.Upstream {
		t.Errorf("err = %v", err)
	}
}

// What each vendor's errors are understood as.
func TestErrors(t *testing.T) {
	for _, tt := range []struct{ name, body, code, says string }{
		{"OpenAI", `{"error":{"message":"m","type":"server_error","code":null}}`, "server_error", "up failed: m"},
		{"a number as code", `{"error":{"message":"m","code":429}}`, "rate_limit_exceeded", "limits the rate"},
		{"a string", `{"error":"m"}`, "server_error", "up failed: m"},
		{"detail", `{"detail":[{"x":1}]}`, "server_error", `[{"x":1}]`},
		{"Anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, "server_error", "up is overloaded: m"},
		{"Anthropic billing", `{"type":"error","error":{"type":"billing_error","message":"m"}}`, "insufficient_quota", "refused"},
		{"Google", `{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}`, "invalid_prompt", "refused the request: m"},
		{"Google's quota", `{"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}`, "rate_limit_exceeded", "limits"},
		{"AWS", `{"__type":"ThrottlingException","message":"m"}`, "rate_limit_exceeded", "limits"},
		{"AWS's input", `{"__type":"ValidationException","message":"Input is too long for requested model."}`, "context_length_exceeded", "refused"},
		{"too long", `{"error":{"code":400,"message":"prompt is too long: 3 tokens > 2 maximum"}}`, "context_length_exceeded", "refused"},
		{"a code that clients act on", `{"error":{"code":"content_filter","message":"m"}}`, "content_filter", "m"},
		{"nothing", `{}`, "server_error", "up failed"},
	} {
		s := in(Options{MaxTries: 1}, nil)
		e, ok := fault.As(s.Told(ReadError([]byte(tt.body))))
		if !ok || e.Code != tt.code || !strings.Contains(e.Message, tt.says) {
			t.Errorf("%s: %q %q, want %q %q", tt.name, e.Code, e.Message, tt.code, tt.says)
		}
	}
}
