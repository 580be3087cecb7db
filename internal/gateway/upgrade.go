package gateway

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/hardshell-dev/hardshell/fault"
)

// Upgrade makes a WebSocket of the request that w answers, which its route has let in like any other: its Host, its
// Origin and its key were checked. An error is the request's answer. The socket ends with its handler at the latest. every
// is how often the other side is asked whether it is there.
func Upgrade(w http.ResponseWriter, r *http.Request, every time.Duration) (*Socket, error) {
	rw, ok := w.(*responseWriter)
	if !ok {
		return nil, fault.New(fault.Internal, "No gateway has made this writer.")
	}
	if err := checkUpgrade(w.Header(), r); err != nil {
		return nil, err
	}
	g := rw.route.g
	s := newSocket(g, rw, r)
	if !g.sockets.enter(s) {
		return nil, fault.New(fault.Unavailable, "The server is stopping.").WithTry("the same request in a moment")
	}
	// InsecureSkipVerify leaves the Origin to checkSource, which knows the operator's hosts and is stricter.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		g.sockets.leave(s)
		return nil, fault.Wrap(fault.Internal, err, "The connection could not be upgraded.")
	}
	conn.SetReadLimit(-1) // receive counts itself: beyond its limit the library would close the connection
	s.conn = conn
	rw.socket, rw.status = s, http.StatusSwitchingProtocols
	if g.observer != nil {
		g.observer.RequestEnded(rw.route.name, rw.status, time.Since(rw.started)) // the request has; the connection goes on
	}
	s.tasks.Go(s.read)
	s.tasks.Go(func() { s.ping(every) })
	return s, nil
}

// checkUpgrade refuses, in our envelope, what is no opening handshake of RFC 6455.
func checkUpgrade(answer http.Header, r *http.Request) error {
	upgrade := func(format string, args ...any) error {
		answer.Set("Connection", "Upgrade")
		answer.Set("Upgrade", "websocket")
		answer.Set("Sec-WebSocket-Version", "13")
		return WithStatus(http.StatusUpgradeRequired, fault.New(fault.Invalid, format, args...).WithCode("upgrade_required"))
	}
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).WithCode("invalid_handshake")
	}
	switch {
	case r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || r.ProtoMajor > 1 || !named(r.Header, "Connection", "upgrade") || !named(r.Header, "Upgrade", "websocket"):
		return upgrade("GET is for WebSockets here: the request must ask for an upgrade, over HTTP/1.1.")
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return upgrade("WebSockets of version 13 are spoken here.")
	case r.ContentLength != 0:
		return bad("A request that asks for an upgrade has no body.")
	}
	keys := r.Header.Values("Sec-WebSocket-Key")
	if len(keys) != 1 {
		return bad("The request must have one Sec-WebSocket-Key.")
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err != nil || len(raw) != 16 {
		return bad("Sec-WebSocket-Key must be 16 bytes in base64.")
	}
	return nil
}

// named says whether a header that is a list of words has one, in whatever case.
func named(h http.Header, header, word string) bool {
	return slices.ContainsFunc(h.Values(header), func(line string) bool {
		return slices.ContainsFunc(strings.Split(line, ","), func(one string) bool {
			return strings.EqualFold(strings.TrimSpace(one), word)
		})
	})
}
