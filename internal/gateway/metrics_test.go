package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

func TestMetricsWantAKeyOfTheirOwn(t *testing.T) {
	shown := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "counts 1\n") })
	f := start(t, gateway.Options{Metrics: shown}, map[string]gateway.Handler{"GET /v1/x": ok})
	for _, c := range []struct {
		name, method, path, key, origin string
		status                          int
	}{
		{"no key", "GET", "/metrics", "", "", 401},
		{"wrong key", "GET", "/metrics", "guess", "", 401},
		{"a key that runs", "GET", "/metrics", "run-key", "", 403},
		{"a key that approves", "GET", "/metrics", "approve-key", "", 403},
		{"a key for metrics", "GET", "/metrics", "metrics-key", "", 200},
		{"a key for metrics and another route", "GET", "/v1/x", "metrics-key", "", 403},
		{"an admin's key", "GET", "/metrics", "admin-key", "", 200},
		{"a web page", "GET", "/metrics", "metrics-key", "https://evil.example", 403},
		{"its head", "HEAD", "/metrics", "metrics-key", "", 200},
		{"another method", "POST", "/metrics", "metrics-key", "", 405},
		{"below the API", "GET", "/v1/metrics", "metrics-key", "", 404},
	} {
		res, body := f.send(t, c.method, c.path, nil, func(r *http.Request) {
			r.Header.Del("Authorization")
			if c.key != "" {
				r.Header.Set("Authorization", "Bearer "+c.key)
			}
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
		})
		if res.StatusCode != c.status || strings.Contains(body, "counts") != (c.status == 200 && c.method == "GET") {
			t.Errorf("%s: %d %s, want %d", c.name, res.StatusCode, body, c.status)
		}
	}
	f = start(t, gateway.Options{}, nil)
	if res, _ := f.send(t, "GET", "/metrics", nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer admin-key") }); res.StatusCode != 404 {
		t.Errorf("without metrics: %d", res.StatusCode)
	}
}

// ledger is an observer that remembers.
type ledger struct {
	mu    sync.Mutex
	began int
	ended []string
	done  chan struct{} // a token per end
}

func (l *ledger) RequestBegan() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began++
}

func (l *ledger) RequestEnded(route string, status int, took time.Duration) {
	l.mu.Lock()
	l.ended = append(l.ended, route+" "+http.StatusText(status))
	l.mu.Unlock()
	l.done <- struct{}{}
}

// Every request is counted in and out, also one that panics, and a path that nobody serves is no label.
func TestRequestsAreCounted(t *testing.T) {
	l := &ledger{done: make(chan struct{}, 10)}
	f := start(t, gateway.Options{Observer: l}, map[string]gateway.Handler{
		"GET /v1/x/{id}": ok,
		"GET /v1/panics": func(http.ResponseWriter, *http.Request, tenant.Principal) error { panic("x") },
	})
	run := func(r *http.Request) { r.Header.Set("Authorization", "Bearer run-key") }
	for _, path := range []string{"/v1/x/1", "/api/v1/x/2", "/v1/panics", "/secret/path", "/healthz"} {
		f.send(t, "GET", path, nil, run)
		select {
		case <-l.done: // the end is told after the answer
		case <-time.After(30 * time.Second):
			t.Fatalf("%s was not counted", path)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	want := []string{"GET /v1/x/{id} OK", "GET /v1/x/{id} OK", "GET /v1/panics Internal Server Error", "- Not Found", "GET /healthz OK"}
	if l.began != 5 || !slices.Equal(l.ended, want) {
		t.Errorf("%d began, %q", l.began, l.ended)
	}
}
