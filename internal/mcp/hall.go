package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// HallConfig is what clients get who come over HTTP. Containers is required.
type HallConfig struct {
	Containers *container.Service
	// Observe is told what a client's commands do, in a container; its error turns the client away. nil is nobody.
	Observe func(p tenant.Principal, containerID string) (terminal.Observer, error)
	Locks   string        // as in [Config]; a container counts as one repository
	Idle    time.Duration // after which a client that asks nothing has gone away; 0 is 30 minutes
	Away    time.Duration // the same of one that listened, and no longer does; 0 is 5 minutes
	Most    int           // sessions of one key; 0 is 64
	Clock   session.Clock // nil is the machine's
	Version string        // of the program
	Logger  *slog.Logger  // nil discards
}

const (
	defaultIdle = 30 * time.Minute
	defaultAway = 5 * time.Minute
	defaultMost = 64

	sessionHeader = "Mcp-Session-Id"
	// ContainerHeader names a container for a session to work in, in place of a new one.
	ContainerHeader = "X-Hardshell-Container"

	// hostedKey begins the keys of all commands that a hall starts in containers.
	hostedKey = "mcp-"
)

// A Hall serves MCP over streamable HTTP to any number of clients: each session gets a door of its own and a container of
// its key's organisation, where all its commands run. A key's sessions are kept apart from every other key's: to them they
// are not there.
type Hall struct {
	c HallConfig

	mu     sync.Mutex
	keys   map[string]*guest
	closed bool
	under  sync.WaitGroup
}

// guest is a key with its sessions.
type guest struct {
	who     tenant.Principal
	server  *mcp.Server
	handler http.Handler
	visits  map[*mcp.ServerSession]*visit // Hall.mu guards these
	lines   map[string]*line              // by session
}

// visit is one session that has called a tool.
type visit struct {
	mu    sync.Mutex
	door  *door // nil before the first call, and after the end
	back  *hosted
	place string // the container's id
	own   bool   // it was made for this session
	gone  string // the container before, which had expired; told once
	over  bool
}

// NewHall opens a hall. Commands that an earlier one left running in containers, as it was killed, are ended: nobody can
// reach them.
func NewHall(c HallConfig) *Hall {
	if c.Idle <= 0 {
		c.Idle = defaultIdle
	}
	if c.Away <= 0 {
		c.Away = defaultAway
	}
	if c.Most <= 0 {
		c.Most = defaultMost
	}
	if c.Clock == nil {
		c.Clock = machineClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(tenant.Principal, string) (terminal.Observer, error) { return nil, nil }
	}
	c.Containers.EndLive(hostedKey)
	return &Hall{c: c, keys: map[string]*guest{}}
}

// Serve answers a request of a key that was checked, and whose Host and Origin were.
func (h *Hall) Serve(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	g, err := h.guest(p)
	if err != nil {
		return err
	}
	name := r.Header.Get(sessionHeader)
	switch {
	case name == "" && r.Method == http.MethodPost && h.full(g):
		return fault.New(fault.RateLimited, "This key has %d MCP sessions; no more are allowed.", h.c.Most).WithTry("end sessions that are not needed (DELETE)")
	case name != "" && r.Method == http.MethodDelete:
		h.end(g, name) // the SDK waits for the calls that are under way
	}
	defer h.connected(g, name, r.Method == http.MethodGet)()
	g.handler.ServeHTTP(w, r)
	return nil
}

// guest is the key's, a new one the first time.
func (h *Hall) guest(p tenant.Principal) (*guest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fault.New(fault.Unavailable, "The server is stopping.")
	}
	if g := h.keys[p.KeyID]; g != nil {
		return g, nil
	}
	g := &guest{who: p, visits: map[*mcp.ServerSession]*visit{}, lines: map[string]*line{}}
	g.server = newServer(Config{Version: h.c.Version, Logger: h.c.Logger}, hostedInstructions, hostedSpecs(),
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return h.handle(ctx, g, req)
		})
	g.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.server }, &mcp.StreamableHTTPOptions{
		Logger: h.c.Logger, SessionTimeout: h.c.Idle, DisableLocalhostProtection: true}) // the gateway has seen to it
	h.keys[p.KeyID] = g
	return g, nil
}

// full says whether a key has as many sessions as it may.
func (h *Hall) full(g *guest) bool {
	n := 0
	for range g.server.Sessions() {
		n++
	}
	return n >= h.c.Most
}

// handle serves a tool call of a session.
func (h *Hall) handle(ctx context.Context, g *guest, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	began := h.c.Clock.Now()
	v, err := h.visit(g, req.Session)
	if err != nil {
		return broken("session", err), nil
	}
	opening, cancel := context.WithTimeout(ctx, Bound/2)
	defer cancel()
	d, back, news, reset, err := h.doorOf(opening, g, v, req)
	if err != nil {
		return broken("container", err), nil
	}
	result, err := d.serve(ctx, req, h.c.Clock.Now().Sub(began))
	if result == nil {
		return result, err
	}
	if reset == nil {
		if reset = back.news(); reset != nil {
			news += reset.String() + "\n"
		}
	}
	if reset != nil {
		tell(result, reset)
	}
	if news != "" {
		result.Content = append([]mcp.Content{&mcp.TextContent{Text: news}}, result.Content...)
	}
	return result, err
}

// The reasons of a [terminal.Reset] that only a container has.
const (
	resetExpired   = "container_expired"
	resetContainer = "container_restarted"
)

// tell puts a reset where programs look for it.
func tell(result *mcp.CallToolResult, reset *terminal.Reset) {
	switch s := result.StructuredContent.(type) {
	case terminal.ExecResult:
		s.Restarted = reset
		result.StructuredContent = s
	case map[string]any:
		s["session_restarted"] = reset
	case nil:
		result.StructuredContent = map[string]any{"session_restarted": reset}
	}
}

// visit is the session's, a new one at its first call. It ends with the session.
func (h *Hall) visit(g *guest, s *mcp.ServerSession) (*visit, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fault.New(fault.Unavailable, "The server is stopping.")
	}
	if v := g.visits[s]; v != nil {
		return v, nil
	}
	v := &visit{}
	g.visits[s] = v
	h.under.Go(func() {
		_ = s.Wait() // however it ended
		h.mu.Lock()
		delete(g.visits, s)
		h.mu.Unlock()
		h.leave(v)
	})
	return v, nil
}

// doorOf is the session's door, and what is to be told of its container. One that was made for the session and has expired
// meanwhile is replaced.
func (h *Hall) doorOf(ctx context.Context, g *guest, v *visit, req *mcp.CallToolRequest) (d *door, back *hosted, news string, reset *terminal.Reset, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return nil, nil, "", nil, fault.New(fault.Unavailable, "The session has ended.")
	}
	if v.door != nil {
		_, err := h.c.Containers.Usable(ctx, g.who.Org, v.place)
		if err == nil {
			return v.door, v.back, "", nil, nil
		}
		if kind := fault.KindOf(err); !v.own || kind != fault.Expired && kind != fault.NotFound {
			return nil, nil, "", nil, err
		}
		h.shut(v)
		v.gone = v.place
	}
	place, own := "", true
	if req.Extra != nil && req.Extra.Header.Get(ContainerHeader) != "" {
		place, own = req.Extra.Header.Get(ContainerHeader), false
	} else {
		made, err := h.c.Containers.Create(ctx, g.who.Org, container.CreateSpec{Name: "mcp"})
		if err != nil {
			return nil, nil, "", nil, err
		}
		place = made.ID
	}
	if d, back, err = h.open(ctx, g, place); err != nil {
		if own {
			err = errors.Join(err, h.c.Containers.Delete(context.WithoutCancel(ctx), g.who.Org, place))
		}
		return nil, nil, "", nil, err
	}
	v.door, v.back, v.place, v.own = d, back, place, own
	news = "In container " + place + ".\n"
	if v.gone != "" {
		reset = &terminal.Reset{Reason: resetExpired, Message: "Container " + v.gone + " has ended, with its files and sessions. This is a new, empty one: " + place + "."}
		news = reset.String() + "\n"
		v.gone = ""
	}
	return d, back, news, reset, nil
}

// open makes a door to a container.
func (h *Hall) open(ctx context.Context, g *guest, place string) (*door, *hosted, error) {
	found, err := h.c.Containers.Ready(ctx, g.who.Org, place)
	if err != nil {
		return nil, nil, err
	}
	c, err := h.c.Containers.Get(ctx, g.who.Org, place)
	if err != nil {
		return nil, nil, err
	}
	network := "off"
	if c.Network != nil && c.Network.Type == egress.TypeAllowlist {
		network = "proxied"
	}
	if h.c.Locks != "" {
		if err := os.MkdirAll(h.c.Locks, 0o700); err != nil {
			return nil, nil, fmt.Errorf("make the folder of locks: %w", err)
		}
	}
	observer, err := h.c.Observe(g.who, place)
	if err != nil {
		return nil, nil, err
	}
	backend := &hosted{containers: h.c.Containers, org: g.who.Org, id: place, found: found, network: network, key: hostedKey + strings.ToLower(rand.Text()) + "-"}
	d, err := open(context.WithoutCancel(ctx), Config{Terminal: backend.session(h.c.Containers.Facts(ctx), observer), Clock: h.c.Clock, Logger: h.c.Logger,
		Locks: h.c.Locks, Repository: func(string) string { return "container " + place }})
	return d, backend, err
}

// end kills what a session of a key runs, so that nothing waits for it.
func (h *Hall) end(g *guest, name string) {
	var found *visit
	h.mu.Lock()
	for s, v := range g.visits {
		if s.ID() == name {
			found = v
		}
	}
	h.mu.Unlock()
	if found != nil {
		h.leave(found)
	}
}

// leave ends a visit.
func (h *Hall) leave(v *visit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	h.shut(v)
}

// shut closes the visit's door. It needs the visit's mu.
func (h *Hall) shut(v *visit) {
	if v.door == nil {
		return
	}
	if err := v.door.close(); err != nil {
		h.c.Logger.Warn("an MCP session did not end cleanly", "container", v.place, "error", err)
	}
	v.door = nil
}

// Close ends every session with its commands, and lets calls that are under way answer that. It waits no longer than the
// context.
func (h *Hall) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.hangUp()
	var sessions []*mcp.ServerSession
	var visits []*visit
	for _, g := range h.keys {
		for s := range g.server.Sessions() {
			sessions = append(sessions, s)
		}
		for _, v := range g.visits {
			visits = append(visits, v)
		}
	}
	h.mu.Unlock()
	for _, v := range visits {
		h.under.Go(func() { h.leave(v) })
	}
	for _, s := range sessions {
		h.under.Go(func() { _ = s.Close() }) // its client may have gone
	}
	done := make(chan struct{})
	go func() { h.under.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
