package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// linger is how long a refused client may go on sending before it is cut off: closing at once would reset the
// connection and take the refusal with it.
const (
	linger      = time.Second
	lingerBytes = 256 << 10
)

// A session is one connection from the box. Its goroutine owns it, but for what is marked.
type session struct {
	p        *Proxy
	conn     net.Conn      // as accepted
	wire     *meter        // conn, counted and timed
	in       *bufio.Reader // over wire; nil once a tunnel needs it no more
	ctx      context.Context
	cancel   context.CancelFunc
	turnAway bool

	rec      Record
	denied   *refusal // the one of rec that is noted already
	open     bool     // rec is begun
	sent     int64    // what earlier records of this connection counted
	received int64

	// Guarded by the proxy's lock.
	where  dest
	raw    bool
	remote net.Conn // the far end of a tunnel
	ended  Reason   // why we cut it
}

// meter counts a connection's bytes and gives every read and write a time.
type meter struct {
	net.Conn
	idle          time.Duration
	by            time.Time // until when a head must be complete; zero for none
	read, written atomic.Int64
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
	s.in = s.p.reader(s.wire)
	s.serve()
	s.finish(nil)
	s.conn.Close()
	s.p.mu.Lock()
	delete(s.p.sessions, s)
	s.p.mu.Unlock()
	s.release()
}

// reader takes one of the readers that hold a head.
func (p *Proxy) reader(from io.Reader) *bufio.Reader {
	r := p.readers.Get().(*bufio.Reader)
	r.Reset(from)
	return r
}

func (p *Proxy) freeReader(r *bufio.Reader) {
	r.Reset(nil)
	p.readers.Put(r)
}

// release gives the session's reader back. A tunnel does so as soon as it has passed on what was read.
func (s *session) release() {
	if s.in != nil {
		s.p.freeReader(s.in)
		s.in = nil
	}
}

// serve tells the dialect by the first byte.
func (s *session) serve() {
	s.headTime()
	if s.turnAway {
		s.begin("", dest{})
		s.refuse(s.wire, &refusal{reason: TooMany, text: fmt.Sprintf("more than %d connections are open from this box", s.p.options.Limits.Connections)})
		return
	}
	first, err := s.in.Peek(1)
	switch {
	case err != nil: // opened and closed without a word: nothing was asked, nothing is recorded
	case first[0] == socksVersion:
		s.serveSocks()
	case token(string(first)):
		s.serveHTTP()
	default:
		s.begin("", dest{})
		s.refuse(s.wire, &refusal{reason: Malformed, text: "this is a proxy: it speaks HTTP, CONNECT and SOCKS5"})
	}
}

// headTime begins the time in which a head must be complete.
func (s *session) headTime() { s.wire.by = time.Now().Add(s.p.options.Limits.HeadTime) }

// await peeks until a parser is satisfied, refuses, or would need more than a head may have. Nothing is consumed.
func await[T any](in *bufio.Reader, parse func([]byte) (T, int, error)) (T, int, error) {
	for size := 1; ; {
		_, err := in.Peek(size)
		b, _ := in.Peek(in.Buffered())
		value, n, bad := parse(b)
		switch {
		case !errors.Is(bad, errShort):
			return value, n, bad
		case errors.Is(err, os.ErrDeadlineExceeded):
			return value, 0, errors.New("it was not complete in time")
		case err != nil:
			return value, 0, fmt.Errorf("it was not complete: %w", err)
		case len(b) >= in.Size():
			return value, 0, fmt.Errorf("it is longer than %d bytes", in.Size())
		}
		size = len(b) + 1
	}
}

// begin opens a record.
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
	return &refusal{reason: BadName, text: err.Error(), try: "the host's name, in ASCII", cause: err}
}

// finish gives the record, if one is open.
func (s *session) finish(r *refusal) {
	if !s.open {
		return
	}
	defer func() { s.open = false }()
	s.p.mu.Lock()
	cut := s.ended
	s.where = dest{}
	s.p.mu.Unlock()
	rec, now := &s.rec, s.p.options.Clock()
	rec.Duration = now.Sub(rec.Started)
	sent, received := s.wire.read.Load(), s.wire.written.Load()
	rec.Sent, rec.Received = sent-s.sent, received-s.received
	s.sent, s.received = sent, received
	switch {
	case cut != "":
		rec.Reason = cut
	case r != nil:
		rec.Verdict, rec.Reason = r.verdict(), r.reason
		s.deny(r)
	}
	s.denied = nil
	if s.p.options.Observe != nil {
		s.p.options.Observe(*rec)
	}
}

// deny notes what is blocked, once. It comes before the client's answer: a command that ends with that answer must find
// it in its result.
func (s *session) deny(r *refusal) {
	if s.open && r.verdict() == Blocked && s.denied != r {
		s.denied = r
		s.p.denials.add(Denial{Host: s.rec.Host, Port: s.rec.Port, Reason: r.reason, Text: printable(r.text), Try: r.try, Last: s.p.options.Clock()})
	}
}

// refuse answers in HTTP, gives the record and lets the client read.
func (s *session) refuse(w io.Writer, r *refusal) {
	s.deny(r)
	w.Write(r.answer())
	if half, ok := w.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() // the end of TLS
	}
	s.part(r)
}

// part gives the record and ends the connection so that what was written arrives.
func (s *session) part(r *refusal) {
	s.finish(r)
	if s.remote != nil {
		s.remote.Close() // nothing will be sent there
	}
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
		s.wire.by = time.Now().Add(linger)
		io.CopyN(io.Discard, s.in, lingerBytes)
	}
}
