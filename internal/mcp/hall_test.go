package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

// nowhere is a runtime that has no containers.
type nowhere struct{}

func (nowhere) Name() string                    { return "nowhere" }
func (nowhere) Supported(context.Context) error { return nil }
func (nowhere) Prepare(context.Context, container.Spec) (container.Workspace, error) {
	return container.Workspace{}, errors.New("none")
}
func (nowhere) Open(context.Context, container.Spec) (container.Box, error) {
	return nil, errors.New("none")
}
func (nowhere) Remove(context.Context, container.Spec) error { return nil }

// lobby is a hall behind HTTP.
type lobby struct {
	*Hall
	containers *container.Service
	server     *httptest.Server
}

// newLobby opens a hall whose requests are all of one key.
func newLobby(t *testing.T, r container.Runtime, change func(*HallConfig)) *lobby {
	t.Helper()
	ctx := context.Background()
	data := t.TempDir()
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(data, "hardshell.db")})
	if err != nil {
		t.Fatal(err)
	}
	l := &lobby{}
	if l.containers, err = container.New(ctx, container.Options{DB: db, Runtime: r, Dir: filepath.Join(data, "containers")}); err != nil {
		t.Fatal(err)
	}
	c := HallConfig{Containers: l.containers}
	change(&c)
	l.Hall = NewHall(c)
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := l.Serve(w, r, tenant.Principal{Org: "org", KeyID: "key"}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := l.Hall.Close(ctx); err != nil {
			t.Errorf("the hall: %v", err)
		}
		l.server.Close()
		if err := l.containers.Close(ctx); err != nil {
			t.Errorf("the containers: %v", err)
		}
		db.Close()
	})
	return l
}

// send is one request of a session.
func (l *lobby) send(t *testing.T, ctx context.Context, method, session, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, l.server.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set(sessionHeader, session)
		r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// ask is a request to its end.
func (l *lobby) ask(t *testing.T, session, body string) int {
	t.Helper()
	answer := l.send(t, t.Context(), http.MethodPost, session, body)
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

const (
	initialize  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	ping        = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
)

func (l *lobby) begin(t *testing.T) (session string) {
	t.Helper()
	answer := l.send(t, t.Context(), http.MethodPost, "", initialize)
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if session = answer.Header.Get(sessionHeader); session == "" {
		t.Fatalf("no session: %d", answer.StatusCode)
	}
	if status := l.ask(t, session, initialized); status != http.StatusAccepted {
		t.Fatalf("%d", status)
	}
	return session
}

// listen opens the connection that stands, and gives how it is cut.
func (l *lobby) listen(t *testing.T, session string) (cut func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	answer := l.send(t, ctx, http.MethodGet, session, "")
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%d", answer.StatusCode)
	}
	return func() { cancel(); answer.Body.Close() }
}

// A client whose listening connection is gone, and which is not heard of again, has gone away; one that comes back in
// time, or has never listened, has not.
func TestAClientThatGoesAway(t *testing.T) {
	clock := newClock()
	l := newLobby(t, nowhere{}, func(c *HallConfig) { c.Clock = clock })
	silent := l.begin(t)
	session := l.begin(t)
	var last chan struct{}
	// awaited waits until the client is waited for anew, and no longer for the time before.
	awaited := func() {
		t.Helper()
		waitFor(t, "the client is waited for", func() bool {
			back := l.awaits(session)
			if back == nil || back == last || clock.waiting(defaultAway) != 1 {
				return false
			}
			last = back
			return true
		})
	}
	cut := l.listen(t, session)
	if l.awaits(session) != nil {
		t.Error("a client that listens is waited for")
	}
	cut()
	awaited()
	cut = l.listen(t, session)
	waitFor(t, "the client is back", func() bool { return l.awaits(session) == nil && clock.waiting(defaultAway) == 0 })
	if status := l.ask(t, session, ping); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	cut()
	awaited()
	if status := l.ask(t, session, ping); status != http.StatusOK { // it asks, so it is there; then it is waited for again
		t.Errorf("%d", status)
	}
	awaited()
	if gone := clock.next(); gone != defaultAway {
		t.Errorf("it is away after %v", gone)
	}
	waitFor(t, "the session's end", func() bool { return !l.has(session) })
	if status := l.ask(t, session, ping); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	if status := l.ask(t, silent, ping); status != http.StatusOK {
		t.Errorf("a client that never listened: %d", status)
	}
	waitFor(t, "nothing is kept", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.keys["key"].lines) == 0
	})
}

// awaits is what a session's client is waited for by, if it is.
func (l *lobby) awaits(session string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := l.keys["key"].lines[session]; line != nil {
		return line.back
	}
	return nil
}

func (l *lobby) has(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys["key"].session(session) != nil
}

// waiting counts those who wait for exactly so long from now.
func (h *handmade) waiting(d time.Duration) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.timers {
		if at.Equal(h.now.Add(d)) {
			n++
		}
	}
	return n
}

// resetOf is what a result says of a reset.
func resetOf(t *testing.T, structured any) (reason string) {
	t.Helper()
	var s struct {
		Restarted struct{ Reason, Message string } `json:"session_restarted"`
	}
	raw, err := json.Marshal(structured)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Restarted.Reason
}

// soon bounds a call in these tests.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
