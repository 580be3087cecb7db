package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
)

func TestAStopEndsSockets(t *testing.T) {
	gate := make(chan struct{})
	h := talk(t, gateway.Options{}, time.Minute, busy(gate))
	idle, working := h.dial(t), h.dial(t)
	var heard []<-chan string
	for _, c := range []*websocket.Conn{idle, working} {
		heard = append(heard, listen(c))
		say(t, c, "first")
		if got := next(t, heard[len(heard)-1]); got != "taken" {
			t.Fatal(got)
		}
	}
	say(t, working, "second")
	takenIn(t, working)
	wait := h.g.CloseSockets()
	if _, _, err := websocket.Dial(soon(t), h.base+"/v1/talk", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer run-key"}}}); err == nil ||
		!strings.Contains(err.Error(), "503") {
		t.Errorf("a new socket: %v", err)
	}
	close(gate)
	if got := next(t, heard[1]); got != "second" {
		t.Errorf("what waited when the server stopped got %q", got)
	}
	for i := range heard {
		if got := next(t, heard[i]); got != "closed 1012" {
			t.Errorf("a stop: %s", got)
		}
	}
	if err := wait(soon(t)); err != nil {
		t.Error(err)
	}
}

func TestAStopCutsWhatGoesOn(t *testing.T) {
	h := talk(t, gateway.Options{}, time.Minute, busy(nil))
	c := h.dial(t)
	say(t, c, "first")
	hear(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.g.CloseSockets()(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	h.over(t)
	if err := h.g.CloseSockets()(soon(t)); err != nil {
		t.Errorf("a second stop: %v", err)
	}
}

// TestASocketIsLoggedAndCounted: the connection once, when it ends, and each message as a request of its own.
func TestASocketIsLoggedAndCounted(t *testing.T) {
	l := &ledger{done: make(chan struct{}, 10)}
	h := talk(t, gateway.Options{Observer: l}, time.Minute, func(s *gateway.Socket) error {
		for _, err := range []error{nil, fault.New(fault.NotFound, "Nothing."), fmt.Errorf("disk 7")} {
			if _, err := s.Next(); err != nil {
				return err
			}
			_, ended := s.Begin()
			ended(err)
		}
		return s.Send([]byte("done"))
	})
	c := h.dial(t)
	for range 3 {
		say(t, c, "secret-part")
	}
	hear(t, c)
	h.over(t)
	want := []string{"GET /v1/talk Switching Protocols", "WS /v1/talk OK", "WS /v1/talk Not Found", "WS /v1/talk Internal Server Error"}
	for range want {
		<-l.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began != len(want) || !slices.Equal(l.ended, want) {
		t.Errorf("%d began, %q", l.began, l.ended)
	}
	log := ""
	for deadline := time.Now().Add(patient); !strings.Contains(log, `"status":101`); time.Sleep(time.Millisecond) {
		if log = h.log.lines(t, "request"); time.Now().After(deadline) {
			break
		}
	}
	for _, wanted := range []string{`"route":"GET /v1/talk","status":101`, `"method":"WS","route":"WS /v1/talk","status":200`, `"status":404`, `"status":500`,
		`"org":"one"`, `"socket":"req_`} {
		if !strings.Contains(log, wanted) {
			t.Errorf("the log lacks %s:\n%s", wanted, log)
		}
	}
	if strings.Count(log, "disk 7") != 1 || strings.Contains(log, "secret-part") || strings.Contains(log, "run-key") {
		t.Errorf("the log:\n%s", log)
	}
}

func TestAHandlerThatPanicsClosesItsSocket(t *testing.T) {
	l := &ledger{done: make(chan struct{}, 10)}
	h := talk(t, gateway.Options{Observer: l}, time.Minute, func(s *gateway.Socket) error {
		_, ended := s.Begin()
		ended(nil)
		s.Begin()
		panic("oh")
	})
	c := h.dial(t)
	if _, _, err := c.Read(soon(t)); err == nil {
		t.Error("the connection is still there")
	}
	if log := h.log.lines(t, "handler panicked"); strings.Count(log, "handler panicked") != 1 {
		t.Error(log)
	}
	want := []string{"GET /v1/talk Switching Protocols", "WS /v1/talk OK", "WS /v1/talk Internal Server Error"}
	for range want {
		<-l.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began != len(want) || !slices.Equal(l.ended, want) {
		t.Errorf("%d began, %q", l.began, l.ended)
	}
}

// changing are keys of which one can be revoked.
type changing struct{ revoked atomic.Bool }

func (k *changing) Authenticate(ctx context.Context, token string) (tenant.Principal, error) {
	if k.revoked.Load() {
		return tenant.Principal{}, fault.New(fault.Unauthenticated, "This key is not valid.")
	}
	return twoKeys.Authenticate(ctx, token)
}

func TestTheKeyOfASocketIsReadAgain(t *testing.T) {
	k := &changing{}
	g := gateway.New(gateway.Options{Tenants: k})
	g.Handle("GET /v1/talk", tenant.ScopeRun, func(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
		s, err := gateway.Upgrade(w, r, time.Minute)
		for err == nil {
			if _, err = s.Next(); err != nil {
				break
			}
			p, denied := s.Principal()
			err = s.Send(fmt.Append(nil, p.Org, denied == nil))
		}
		return nil
	}, nil)
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	c := hall{fixture: fixture{base: server.URL}}.dial(t)
	say(t, c, "x")
	if got := hear(t, c); got != "onetrue" {
		t.Error(got)
	}
	k.revoked.Store(true)
	say(t, c, "x")
	if got := hear(t, c); got != "false" {
		t.Errorf("a revoked key: %s", got)
	}
}
