package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// keys is a tenant service of fixed keys.
type keys map[string]tenant.Principal

func (k keys) Authenticate(_ context.Context, token string) (tenant.Principal, error) {
	p, ok := k[token]
	if !ok {
		return p, fault.New(fault.Unauthenticated, "This key is not valid.")
	}
	return p, nil
}

var twoKeys = keys{
	"run-key":     {Org: "one", KeyID: "k1", Scopes: []tenant.Scope{tenant.ScopeRun}},
	"approve-key": {Org: "one", KeyID: "k2", Scopes: []tenant.Scope{tenant.ScopeApprove}},
	"metrics-key": {Org: "two", KeyID: "k3", Scopes: []tenant.Scope{tenant.ScopeMetrics}},
	"admin-key":   {Org: "two", KeyID: "k4", Scopes: []tenant.Scope{tenant.ScopeAdmin}},
}

// logBook collects log records as JSON lines.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines waits until the log holds the record msg, which is written after the answer, and returns its text.
func (l *logBook) lines(t testing.TB, msg string) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		text := l.buf.String()
		l.mu.Unlock()
		if strings.Contains(text, `"msg":"`+msg+`"`) {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("no record %q in the log:\n%s", msg, text)
		}
	}
}

type fixture struct {
	g    *gateway.Gateway
	log  *logBook
	base string
}

// start serves a gateway on loopback with the given routes.
func start(t testing.TB, o gateway.Options, routes map[string]gateway.Handler) fixture {
	t.Helper()
	f := fixture{log: &logBook{}}
	o.Tenants = twoKeys
	o.Logger = slog.New(slog.NewJSONHandler(f.log, nil))
	f.g = gateway.New(o)
	for pattern, h := range routes {
		f.g.Handle(pattern, tenant.ScopeRun, h, nil)
	}
	s := httptest.NewUnstartedServer(f.g)
	s.Config = gateway.NewServer(f.g, o.Logger)
	s.Start()
	t.Cleanup(s.Close)
	f.base = s.URL
	return f
}

func ok(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
	io.WriteString(w, "ok")
	return nil
}

// send makes a request; mutate may change it first.
func (f fixture) send(t testing.TB, method, path string, body io.Reader, mutate func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer run-key")
	if mutate != nil {
		mutate(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

func TestKinds(t *testing.T) {
	// The one table of kinds and statuses. Every kind that has a name is here.
	want := map[string]int{
		"internal": 500, "invalid": 400, "unauthenticated": 401, "forbidden": 403, "not_found": 404, "conflict": 409,
		"expired": 404, "too_large": 413, "rate_limited": 429, "unsupported": 400, "unavailable": 503, "upstream": 502,
		"isolation": 503, "cancelled": 499,
	}
	for kind := fault.Internal; kind <= fault.Cancelled; kind++ {
		status, known := want[kind.String()]
		if !known {
			t.Errorf("kind %s has no row", kind)
		}
		d := gateway.Describe(fmt.Errorf("do it: %w", fault.New(kind, "Sentence.").WithTry("this")), "")
		if d.Status != status || d.Message != "Sentence. Try: this" {
			t.Errorf("%s: status %d, message %q; want %d with its try line", kind, d.Status, d.Message, status)
		}
	}
	d := gateway.Describe(errors.New("disk /secret/path broke"), "req_1")
	if d.Status != 500 || strings.Contains(d.Message, "secret") || !strings.Contains(d.Message, "req_1") {
		t.Errorf("an unclassed error shows %d %q", d.Status, d.Message)
	}
}

func TestEveryAnswerHasOurRequestID(t *testing.T) {
	f := start(t, gateway.Options{}, map[string]gateway.Handler{"GET /v1/thing": ok})
	seen := map[string]bool{}
	for _, path := range []string{"/v1/thing", "/v1/none", "/healthz", "//v1/thing", "/"} {
		res, _ := f.send(t, "GET", path, nil, func(r *http.Request) { r.Header.Set("X-Request-Id", "theirs") })
		got := res.Header.Get("X-Request-Id")
		if !id.Valid(id.Request, got) || seen[got] {
			t.Errorf("%s: request id %q is not a fresh one of ours", path, got)
		}
		seen[got] = true
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	f := start(t, gateway.Options{}, map[string]gateway.Handler{"GET /v1/thing": ok, "POST /v1/thing": ok, "DELETE /v1/thing/{id}": ok})
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/other", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "/v1/thing/", 404, ""},
		{"GET", "//v1/thing", 404, ""},
		{"GET", "/v1/../v1/thing", 404, ""},
		{"GET", "/v2/thing", 404, ""},
		{"POST", "/healthz", 404, ""},
		{"PUT", "/v1/thing", 405, "GET, POST, HEAD"},
		{"OPTIONS", "/api/v1/thing", 405, "GET, POST, HEAD"},
		{"GET", "/v1/thing/x", 405, "DELETE"},
		{"HEAD", "/v1/thing", 200, ""},
		{"GET", "/api/v1/thing", 200, ""},
	} {
		res, body := f.send(t, c.method, c.path, nil, nil)
		allow := strings.Join(sorted(res.Header.Get("Allow")), ", ")
		if res.StatusCode != c.status || allow != strings.Join(sorted(c.allow), ", ") {
			t.Errorf("%s %s: %d Allow %q, want %d %q", c.method, c.path, res.StatusCode, allow, c.status, c.allow)
		}
		if c.status >= 400 && c.method != "HEAD" && !json.Valid([]byte(body)) {
			t.Errorf("%s %s: the error is not JSON: %q", c.method, c.path, body)
		}
	}
}

func sorted(list string) []string {
	seen := map[string]bool{}
	for s := range strings.SplitSeq(list, ", ") {
		seen[s] = true
	}
	var out []string
	for _, s := range []string{"GET", "POST", "HEAD", "DELETE"} {
		if seen[s] {
			out = append(out, s)
		}
	}
	return out
}

func TestHealthIsOpenAndSaysWhatItIsGiven(t *testing.T) {
	f := start(t, gateway.Options{Health: func() any { return map[string]string{"status": "draining"} }}, nil)
	res, body := f.send(t, "GET", "/healthz", nil, func(r *http.Request) {
		r.Header.Del("Authorization")
		r.Host = "probe.example"
	})
	if res.StatusCode != 200 || body != `{"status":"draining"}`+"\n" {
		t.Errorf("healthz: %d %q", res.StatusCode, body)
	}
	f.send(t, "GET", "/v1/none", nil, nil)
	if log := f.log.lines(t, "request"); strings.Contains(log, "healthz") {
		t.Errorf("a probe fills the log:\n%s", log)
	}
}

func TestBodyLimitCountsWhileReading(t *testing.T) {
	read := func(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
		b, err := gateway.ReadBody(r)
		if err == nil {
			fmt.Fprint(w, len(b))
		}
		return err
	}
	// A room that reads the body and classes the failure as its own must not hide the limit.
	disguised := func(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
		_, err := io.Copy(io.Discard, r.Body)
		return fault.Wrap(fault.Unavailable, fmt.Errorf("copy: %w", err), "The disk is full.")
	}
	f := start(t, gateway.Options{MaxBody: 1000}, map[string]gateway.Handler{"POST /v1/read": read, "POST /v1/disguised": disguised})
	for _, c := range []struct {
		name, path string
		body       io.Reader // wrapped readers have no declared length and go chunked
		status     int
	}{
		{"at the limit", "/v1/read", strings.NewReader(strings.Repeat("x", 1000)), 200},
		{"declared too long", "/v1/read", strings.NewReader(strings.Repeat("x", 1001)), 413},
		{"chunked at the limit", "/v1/read", io.LimitReader(endless{}, 1000), 200},
		{"chunked too long", "/v1/read", io.LimitReader(endless{}, 100_000), 413},
		{"through a room", "/v1/disguised", io.LimitReader(endless{}, 100_000), 413},
	} {
		res, body := f.send(t, "POST", c.path, c.body, nil)
		if res.StatusCode != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, res.StatusCode, body, c.status)
		}
		if c.status == 413 && !strings.Contains(body, "1000 bytes") {
			t.Errorf("%s: the limit is not named in %s", c.name, body)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestPanicIsAnswerOfTheServerLoggedOnce(t *testing.T) {
	f := start(t, gateway.Options{}, map[string]gateway.Handler{
		"GET /v1/early": func(http.ResponseWriter, *http.Request, tenant.Principal) error { panic("secret state") },
		"GET /v1/late": func(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			panic("too late")
		},
	})
	res, body := f.send(t, "GET", "/v1/early", nil, nil)
	if res.StatusCode != 500 || strings.Contains(body, "secret") || res.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("panic: %d %q retry=%q", res.StatusCode, body, res.Header.Get("X-Should-Retry"))
	}
	log := f.log.lines(t, "request")
	if n := strings.Count(log, "secret state"); n != 1 {
		t.Errorf("the panic stands %d times in the log:\n%s", n, log)
	}
	if !strings.Contains(log, res.Header.Get("X-Request-Id")) {
		t.Errorf("the log does not name the request id")
	}
	if err := f.readToEnd(t, "/v1/late"); err == nil {
		t.Error("an answer that panicked half way looks whole")
	}
}

// readToEnd reads an answer and returns how that failed.
func (f fixture) readToEnd(t testing.TB, path string) error {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", f.base+path, nil)
	req.Header.Set("Authorization", "Bearer run-key")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func TestErrorAfterTheAnswerBeganCutsIt(t *testing.T) {
	f := start(t, gateway.Options{}, map[string]gateway.Handler{
		"GET /v1/thing": func(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
			io.WriteString(w, "half")
			http.NewResponseController(w).Flush()
			return errors.New("store went away")
		},
	})
	if err := f.readToEnd(t, "/v1/thing"); err == nil {
		t.Error("half an answer looks whole")
	}
	if log := f.log.lines(t, "request"); strings.Count(log, "store went away") != 1 {
		t.Errorf("the cause is not in the log once:\n%s", log)
	}
}

func TestLogHoldsNoSecret(t *testing.T) {
	f := start(t, gateway.Options{}, map[string]gateway.Handler{"POST /v1/thing/{id}": ok})
	f.send(t, "POST", "/v1/thing/path-part?q=query-part", strings.NewReader("body-part"), nil)
	log := f.log.lines(t, "request")
	for _, secret := range []string{"run-key", "body-part", "query-part"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log shows %s:\n%s", secret, log)
		}
	}
	for _, wanted := range []string{"POST /v1/thing/{id}", `"status":200`, `"org":"one"`} {
		if !strings.Contains(log, wanted) {
			t.Errorf("the log lacks %s:\n%s", wanted, log)
		}
	}
}

func TestKeyByEitherHeader(t *testing.T) {
	f := start(t, gateway.Options{}, map[string]gateway.Handler{"GET /v1/thing": ok})
	for _, c := range []struct {
		authorization, apiKey string
		status                int
	}{
		{"Bearer run-key", "", 200},
		{"bearer  run-key ", "", 200},
		{"", "run-key", 200},
		{"Basic cnVuLWtleQ==", "", 401},
		{"run-key", "", 401},
		{"Bearer ", "", 401},
		{"", "", 401},
		{"Bearer wrong", "run-key", 401}, // the first key given decides; another one does not save it
	} {
		res, _ := f.send(t, "GET", "/v1/thing", nil, func(r *http.Request) {
			r.Header.Del("Authorization")
			if c.authorization != "" {
				r.Header.Set("Authorization", c.authorization)
			}
			if c.apiKey != "" {
				r.Header.Set("X-Api-Key", c.apiKey)
			}
		})
		if res.StatusCode != c.status {
			t.Errorf("Authorization %q, x-api-key %q: %d, want %d", c.authorization, c.apiKey, res.StatusCode, c.status)
		}
		if c.status == 401 && res.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("401 without WWW-Authenticate")
		}
	}
}

func TestRequestThatNeverEndsItsHeaderIsClosed(t *testing.T) {
	s := gateway.NewServer(gateway.New(gateway.Options{Tenants: twoKeys}), nil)
	if s.ReadHeaderTimeout <= 0 || s.IdleTimeout <= 0 || s.WriteTimeout != 0 {
		t.Errorf("server deadlines: header %v, idle %v, write %v", s.ReadHeaderTimeout, s.IdleTimeout, s.WriteTimeout)
	}
}
