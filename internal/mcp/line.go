package mcp

import "github.com/modelcontextprotocol/go-sdk/mcp"

// line is what is known of a client's connections. A client that listens has one that stands; when that is cut and none
// comes in its place, the client has gone away, though the protocol has no word for it.
type line struct {
	open  int
	stood bool          // it has listened
	back  chan struct{} // closed when it is heard of again; nil while a connection is open
}

// connected notes a connection of a session, until left is called. A session that is not the key's leaves no trace.
func (h *Hall) connected(g *guest, name string, stands bool) (left func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || name == "" || g.session(name) == nil {
		return func() {}
	}
	l := g.lines[name]
	if l == nil {
		l = &line{}
		g.lines[name] = l
	}
	l.open++
	l.stood = l.stood || stands
	l.heard()
	return func() { h.left(g, name, l) }
}

// left notes the end of a connection. Of one that listened, the last one's end begins the time after which it is away.
func (h *Hall) left(g *guest, name string, l *line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.open--; l.open > 0 {
		return
	}
	if !l.stood || h.closed || g.session(name) == nil {
		delete(g.lines, name)
		return
	}
	back := make(chan struct{})
	l.back = back
	late, stop := h.c.Clock.Timer(h.c.Away)
	h.under.Go(func() {
		defer stop()
		select {
		case <-back:
		case <-late:
			h.away(g, name, l, back)
		}
	})
}

// away ends the session of a client that has gone, with its commands.
func (h *Hall) away(g *guest, name string, l *line, back chan struct{}) {
	h.mu.Lock()
	gone := l.back == back && !h.closed
	var s *mcp.ServerSession
	if gone {
		delete(g.lines, name)
		s = g.session(name)
	}
	h.mu.Unlock()
	if s == nil {
		return
	}
	h.c.Logger.Info("an MCP client has gone away", "session", name, "after", h.c.Away)
	h.end(g, name)
	_ = s.Close() // its connection is gone
}

// hangUp ends what waits for clients; h.mu is held.
func (h *Hall) hangUp() {
	for _, g := range h.keys {
		for _, l := range g.lines {
			l.heard()
		}
	}
}

// heard ends the time after which a client is away.
func (l *line) heard() {
	if l.back != nil {
		close(l.back)
		l.back = nil
	}
}

// session is the key's of a name, or nil.
func (g *guest) session(name string) *mcp.ServerSession {
	for s := range g.server.Sessions() {
		if s.ID() == name {
			return s
		}
	}
	return nil
}
