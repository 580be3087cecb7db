package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// linger is how long a refused client may go on sending before it is cut off: closing at once would reset the
// connection and take the refusal with it.
const (
	linger      = time.Second
	lingerBytes = 256 << 10
)

// A session is one connection from the box.
type session struct {
	p        *Proxy
	conn     net.Conn // as accepted
	wire     *meter   // conn, counted and timed
	in       *bufio.Reader
	ctx      context.Context
	cancel   context.CancelFunc
	turnAway bool

	rec       Record
	open      bool  // rec is begun
	sentMark  int64 // what earlier records of this connection counted
	recvdMark int64

	// Guarded by the proxy's lock.
	where  dest
	raw    bool
	remote net.Conn // the far end of a tunnel
	ended  Reason   // why we cut it
}

// meter counts a connection's bytes and gives every read and write a time.
type meter struct {
	net.Conn
	idle           time.Duration
	by             time.Time // until when a head must be complete; zero for none
	read, written  atomic.Int64
	closedForReads bool
}

func (m *meter) Read(b []byte) (int, error) {
	end := m.by
	if end.IsZero() {
		end = time.Now().Add(m.idle)
	}
	m.SetReadDeadline(end)
	n, err := m.Conn.Read(b)
	m.read.Add(int64(n))
	return n, err
}

func (m *meter) Write(b []byte) (int, error) {
	m.SetWriteDeadline(time.Now().Add(m.idle))
	n, err := m.Conn.Write(b)
	m.written.Add(int64(n))
	return n, err
}

func (p *Proxy) newSession(conn net.Conn) *session {
	s := &session{p: p, conn: conn, wire: &meter{Conn: conn, idle: p.options.Limits.Idle}}
	s.ctx, s.cancel = context.WithCancel(p.ctx)
	return s
}

// cut ends a session from outside. The proxy's lock is held.
func (s *session) cut(why Reason) {
	if s.ended == "" {
		s.ended = why
	}
	s.cancel()
	s.conn.Close()
	if s.remote != nil {
		s.remote.Close()
	}
}

func (s *session) run() {
	defer s.cancel()
	s.in = s.p.readers.Get().(*bufio.Reader)
	s.in.Reset(s.wire)
	reusable := s.serve()
	s.finish(nil)
	s.conn.Close()
	s.p.mu.Lock()
	delete(s.p.sessions, s)
	s.p.mu.Unlock()
	if reusable {
		s.in.Reset(nil)
		s.p.readers.Put(s.in)
	}
}

// serve tells the dialect by the first byte. It says whether the reader is free again: a request body that an upstream
// left unread may still be held by the transport.
func (s *session) serve() (reusable bool) {
	if s.turnAway {
		s.begin("", dest{})
		s.refuse(s.wire, &refusal{reason: TooMany, text: "too many connections are open from this box (" + strconv.Itoa(s.p.options.Limits.Connections) + ")"})
		return true
	}
	s.headTime()
	first, err := s.in.Peek(1)
	if err != nil {
		return true // opened and closed without a word: nothing was asked
	}
	switch c := first[0]; {
	case c == socksVersion:
		return s.serveSocks()
	case token(string(first)):
		return s.serveHTTP()
	}
	s.begin("", dest{})
	s.refuse(s.wire, &refusal{reason: Malformed, text: "this is a proxy: it speaks HTTP, CONNECT and SOCKS5"})
	return true
}

// headTime begins the time in which a head must be complete.
func (s *session) headTime() { s.wire.by = time.Now().Add(s.p.options.Limits.HeadTime) }

// await peeks until a parser is satisfied, refuses, or would need more than a head may have. Nothing is consumed.
func await[T any](s *session, parse func([]byte) (T, int, error)) (T, int, error) {
	for size := 1; ; {
		_, err := s.in.Peek(size)
		b, _ := s.in.Peek(s.in.Buffered())
		value, n, bad := parse(b)
		if !errors.Is(bad, errShort) {
			return value, n, bad
		}
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = errors.New("it was not complete in time")
			}
			return value, 0, err
		}
		if size = len(b) + 1; size > s.in.Size() {
			return value, 0, fmt.Errorf("it is longer than %d bytes", s.in.Size())
		}
	}
}

// begin opens a record for a destination.
func (s *session) begin(client string, where dest) {
	s.finish(nil)
	s.rec = Record{Started: s.p.options.Clock(), Client: client, Host: where.host, Port: where.port, Verdict: Allowed}
	s.open = true
}

// aim asks the policy. On success the session is known to Narrow under its destination.
func (s *session) aim(where dest) (raw bool, r *refusal) {
	p := s.p
	p.mu.Lock()
	defer p.mu.Unlock()
	ok, raw := p.policy.pass(where)
	if !ok {
		return false, p.notAllowed(where)
	}
	s.where, s.raw = where, raw
	return raw, nil
}

// badDest makes a refusal of a name that cannot be judged, and records it as it was asked for.
func (s *session) badDest(asked string, err error) *refusal {
	s.rec.Host = printable(asked)
	if len(s.rec.Host) > maxName {
		s.rec.Host = s.rec.Host[:maxName]
	}
	return &refusal{reason: BadName, text: err.Error(), try: "the host's name, in ASCII"}
}

// finish gives the record, if one is open.
func (s *session) finish(r *refusal) {
	if !s.open {
		return
	}
	s.open = false
	s.p.mu.Lock()
	cut := s.ended
	s.where = dest{}
	s.p.mu.Unlock()
	rec := &s.rec
	rec.Duration = s.p.options.Clock().Sub(rec.Started)
	sent, received := s.wire.read.Load(), s.wire.written.Load()
	rec.Sent, rec.Received = sent-s.sentMark, received-s.recvdMark
	s.sentMark, s.recvdMark = sent, received
	if r == nil && cut != "" {
		rec.Reason = cut
	}
	if r != nil {
		rec.Verdict, rec.Reason = r.verdict(), r.reason
	}
	if r != nil && rec.Verdict == Blocked {
		s.p.denials.add(Denial{Host: rec.Host, Port: rec.Port, Reason: r.reason, Text: printable(r.text), Try: r.try, Last: s.p.options.Clock()})
	}
	if s.p.options.Observe != nil {
		s.p.options.Observe(*rec)
	}
}

// refuse answers in HTTP, gives the record and lets the client read.
func (s *session) refuse(w io.Writer, r *refusal) {
	w.Write(r.answer())
	s.part(r)
}

// part ends a refused connection so that what was written arrives.
func (s *session) part(r *refusal) {
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
		s.wire.by = time.Now().Add(linger)
		io.CopyN(io.Discard, s.in, lingerBytes)
	}
	s.finish(r)
}

// serveSocks speaks SOCKS5 as far as a destination.
func (s *session) serveSocks() bool {
	s.begin("socks5", dest{})
	_, n, err := await(s, parseGreeting)
	if err != nil {
		if errors.Is(err, errSocksAuth) {
			s.wire.Write([]byte{socksVersion, 0xff})
		}
		s.part(&refusal{reason: Malformed, text: err.Error()})
		return true
	}
	s.in.Discard(n)
	if _, err := s.wire.Write([]byte{socksVersion, 0}); err != nil {
		return true
	}
	req, n, err := await(s, parseRequest)
	if err != nil {
		r := &refusal{reason: Malformed, text: err.Error(), cause: err}
		if errors.Is(err, errSocksAddress) {
			r.reason, r.try = BadName, "socks5h://, so that the proxy gets the name"
		}
		s.wire.Write(socksReply(r.socks()))
		s.part(r)
		return true
	}
	s.in.Discard(n)
	where := dest{port: req.port}
	deny := func(r *refusal) bool {
		s.wire.Write(socksReply(r.socks()))
		s.part(r)
		return true
	}
	s.rec.Port = req.port
	if where.host, err = Name(req.host); err != nil || req.port == 0 {
		if err == nil {
			err = errors.New("there is no port 0")
		}
		return deny(s.badDest(req.host, err))
	}
	s.rec.Host = where.host
	return s.connect(where, socksReply(socksOK), deny)
}

// serveHTTP reads the first head: CONNECT opens a tunnel, anything else is a request to pass on.
func (s *session) serveHTTP() bool {
	h, n, err := await(s, parseHead)
	if err != nil || h.method != "CONNECT" {
		return s.exchange(channel{in: s.in, out: s.wire, client: "http"})
	}
	s.begin("connect", dest{})
	deny := func(r *refusal) bool {
		s.refuse(s.wire, r)
		return true
	}
	where, err := parseDest(h.target, 0)
	if err != nil {
		return deny(s.badDest(h.target, err))
	}
	s.rec.Host, s.rec.Port = where.host, where.port
	if h.body {
		return deny(&refusal{reason: Malformed, text: "a CONNECT has no body"})
	}
	if h.hosts == 1 {
		if host, err := parseDest(h.host, where.port); err != nil || host != where {
			return deny(&refusal{reason: HostMismatch, text: "the Host header is not " + where.String()})
		}
	}
	s.in.Discard(n)
	return s.connect(where, []byte("HTTP/1.1 200 Connection established\r\n\r\n"), deny)
}

// connect judges a destination, reaches it, says so, and carries what the client then begins.
func (s *session) connect(where dest, welcome []byte, deny func(*refusal) bool) bool {
	raw, r := s.aim(where)
	if r != nil {
		return deny(r)
	}
	owned := !raw && s.p.wallet.owns(where.host)
	var remote net.Conn
	if !owned { // the host of a secret is dialled when there is a request, and its connections are kept
		var err error
		if remote, err = s.p.dialer.to(s.ctx, where); err != nil {
			return deny(refused(err, Unreachable, where.String()+" cannot be reached"))
		}
		defer remote.Close()
		if !s.hold(remote) {
			return true
		}
	}
	if _, err := s.wire.Write(welcome); err != nil {
		return true
	}
	if raw {
		s.rec.Carried = CarriedRaw
		s.relay(remote)
		return true
	}
	s.headTime()
	first, err := s.in.Peek(1)
	switch {
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded):
		s.part(uninspectable(where, "the client said nothing"))
		return true
	case err != nil:
		return true
	case first[0] == recordHandshake:
		return s.secure(where, remote, owned)
	case token(string(first)):
		if remote != nil {
			remote.Close() // requests take connections of the transport
		}
		return s.exchange(channel{in: s.in, out: s.wire, fixed: &where})
	}
	s.part(uninspectable(where, "the client began with neither"))
	return true
}

func uninspectable(where dest, what string) *refusal {
	return &refusal{reason: NotInspectable, text: "only TLS and HTTP may pass to " + where.String() + ", and " + what,
		try: `the entry "tcp://` + where.String() + `" for other protocols`}
}

// hold makes the far end of a tunnel known to cut. It says false if the session was cut before.
func (s *session) hold(remote net.Conn) bool {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.remote = remote
	return s.ended == ""
}

// secure carries TLS, once its server name is the name that was asked for.
func (s *session) secure(where dest, remote net.Conn, owned bool) bool {
	sni, _, err := await(s, func(b []byte) (string, int, error) { return parseHello(b) })
	var r *refusal
	switch name, bad := Name(sni); {
	case err != nil:
		r = &refusal{reason: Malformed, text: "the TLS to " + where.String() + " cannot be judged", cause: err}
	case sni == "":
		r = &refusal{reason: SNIMissing, text: "the TLS to " + where.String() + " names no host"}
	case bad != nil || name != where.host:
		r = &refusal{reason: SNIMismatch, text: "the TLS to " + where.String() + " names another host, " + strconv.Quote(strings.ToValidUTF8(sni, "?"))}
	}
	if r != nil {
		s.wire.Write([]byte(alert))
		s.part(r)
		return true
	}
	if owned {
		return s.terminate(where)
	}
	s.rec.Carried = CarriedTunnel
	s.relay(remote)
	return true
}
