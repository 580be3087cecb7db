package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// A channel is where requests come in and answers go out.
type channel struct {
	in     *bufio.Reader
	out    io.Writer
	fixed  *dest // the tunnel's destination; nil if every request names its own
	secure bool  // TLS ended here: secrets go in
}

// scheme returns the upstream's scheme and the port that a Host header without one means.
func (c channel) scheme() (string, uint16) {
	if c.secure {
		return "https", 443
	}
	return "http", 80
}

// terminate ends the client's TLS and passes its requests on, over TLS of our own.
func (s *session) terminate(where dest) {
	s.rec.Carried = CarriedTerminated
	config, err := s.p.authority.server(where.host)
	if err != nil {
		s.part(&refusal{reason: Handshake, text: "no certificate can be made for " + where.host, cause: err})
		return
	}
	conn := tls.Server(peeked{s.wire, s.in}, config)
	if err := conn.HandshakeContext(s.ctx); err != nil {
		s.finish(&refusal{reason: Handshake, text: "the TLS with the box was not agreed on", cause: err})
		return
	}
	in := s.p.reader(conn)
	defer s.p.freeReader(in)
	defer conn.CloseWrite()
	s.exchange(channel{in: in, out: conn, fixed: &where, secure: true})
}

// peeked is a connection whose first bytes were looked at.
type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// exchange passes requests on, one after the other. When it returns, nobody else reads from the client.
func (s *session) exchange(c channel) {
	for s.headTime(); s.one(c); s.headTime() {
		s.wire.by = time.Time{}
		if _, err := c.in.Peek(1); err != nil {
			return
		}
	}
}

// one passes one request on. It says whether another may follow.
func (s *session) one(c channel) bool {
	if !s.open {
		s.begin("http", dest{})
	}
	req, where, r := s.request(c)
	if r != nil {
		s.refuse(c.out, r)
		return false
	}
	s.wire.by = time.Time{}
	s.rec.Requests++
	var made []swap
	if c.secure {
		var used []string
		used, made = s.p.wallet.fill(where.host, req.Header)
		s.rec.Secrets = slices.Compact(slices.Sorted(slices.Values(append(s.rec.Secrets, used...))))
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	client := &watch{in: c.in, conn: s.conn, gone: cancel}
	defer client.stop()
	body := newBody(s.conn, c.out, req, client.begin)
	resp, err := s.p.transport.RoundTrip(s.outgoing(c, req, where, body).WithContext(ctx))
	body.answered()
	if err != nil {
		body.stop()
		client.stop()
		if s.ctx.Err() == nil && ctx.Err() != nil {
			s.finish(&refusal{reason: Left, text: "the client went away before " + where.String() + " had answered", cause: err})
			return false
		}
		s.refuse(c.out, s.broken(where, err))
		return false
	}
	defer resp.Body.Close()
	stripHops(resp.Header)
	if c.secure {
		s.p.wallet.scrub(resp.Header, made)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		client.stop()
		s.upgrade(c, req, resp)
		return false
	}
	if c.secure {
		s.p.wallet.scrubBody(resp, made)
	}
	last := req.Close || !req.ProtoAtLeast(1, 1) || !body.ended.Load()
	err = answer(c.out, req, resp, last)
	unread := !body.ended.Load()
	body.stop()
	client.stop()
	switch {
	case err != nil:
		s.finish(&refusal{reason: Broken, text: "the answer of " + where.String() + " broke off", cause: err})
		return false
	case unread: // the client is still sending what nobody wants
		s.part(nil)
	}
	return !last
}

// request reads and judges one request.
func (s *session) request(c channel) (*http.Request, dest, *refusal) {
	malformed := func(err error) (*http.Request, dest, *refusal) {
		return nil, dest{}, &refusal{reason: Malformed, text: "the request cannot be judged: " + err.Error(), cause: err}
	}
	h, _, err := await(c.in, parseHead)
	if err != nil {
		return malformed(err)
	}
	if h.method == http.MethodConnect || h.method == http.MethodTrace {
		return malformed(errors.New(h.method + " is not passed on here")) // TRACE would repeat a secret in a body
	}
	var where dest
	if c.fixed != nil {
		where = *c.fixed
		if h.target[0] != '/' && h.target != "*" {
			return malformed(errors.New("the target is not a path"))
		}
	} else if where, err = absolute(h.target); err != nil {
		if _, named := fault.As(err); !named {
			return malformed(err)
		}
		return nil, dest{}, s.badDest(h.target, err)
	}
	if s.rec.Host != "" && (s.rec.Host != where.host || s.rec.Port != where.port) {
		s.begin("http", where)
	}
	s.rec.Host, s.rec.Port = where.host, where.port
	if !c.secure {
		s.rec.Carried = CarriedPlain
	}
	_, byDefault := c.scheme()
	if host, err := parseDest(h.host, byDefault); h.hosts == 1 && (err != nil || host != where) {
		return nil, dest{}, &refusal{reason: HostMismatch, text: "the Host header is not " + where.String()}
	}
	if _, r := s.aim(where); r != nil {
		return nil, dest{}, r
	}
	req, err := http.ReadRequest(c.in)
	if err != nil {
		return malformed(err)
	}
	if h.hosts == 0 && req.ProtoAtLeast(1, 1) {
		return malformed(errors.New("there is no Host"))
	}
	if e := req.Header.Values("Expect"); len(e) > 1 || len(e) == 1 && !strings.EqualFold(e[0], "100-continue") {
		return malformed(errors.New("the only Expect spoken here is 100-continue"))
	}
	return req, where, nil
}

// outgoing makes the upstream's request. Where it goes is written from what was judged, not from what was sent.
func (s *session) outgoing(c channel, req *http.Request, where dest, b *body) *http.Request {
	stripHops(req.Header)
	req.Header.Del("Expect") // we answer it ourselves
	if req.Header.Values("User-Agent") == nil {
		req.Header["User-Agent"] = []string{""} // none, rather than ours
	}
	if c.secure {
		req.Header.Set("Accept-Encoding", "identity") // so that a value can be seen in the answer
	}
	scheme, byDefault := c.scheme()
	out := &http.Request{
		Method: req.Method, Header: req.Header, ContentLength: req.ContentLength, Host: where.host,
		URL: &url.URL{Scheme: scheme, Host: where.String(), Path: req.URL.Path, RawPath: req.URL.RawPath,
			RawQuery: req.URL.RawQuery, ForceQuery: req.URL.ForceQuery},
	}
	if where.port != byDefault {
		out.Host = where.String()
	}
	if req.ContentLength != 0 {
		out.Body = b
	}
	return out
}

// broken says why no answer came.
func (s *session) broken(where dest, err error) *refusal {
	var bad *tls.CertificateVerificationError
	switch {
	case s.ctx.Err() != nil:
		return &refusal{reason: Closed, text: "the proxy closed the connection", cause: err}
	case errors.As(err, &bad):
		return &refusal{reason: BadCertificate, text: "the certificate of " + where.String() + " cannot be verified", cause: err}
	}
	return refused(err, Unreachable, where.String()+" did not answer")
}

// upgrade carries a web socket that was asked for. Its frames are not read, on no path.
func (s *session) upgrade(c channel, req *http.Request, resp *http.Response) {
	far, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !upgrades(req.Header) || !upgrades(resp.Header) {
		s.refuse(c.out, &refusal{reason: Broken, text: "the upstream switched to a protocol that was not asked for"})
		return
	}
	var head strings.Builder
	head.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	resp.Header.Write(&head)
	head.WriteString("\r\n")
	if _, err := io.WriteString(c.out, head.String()); err != nil {
		return
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		io.Copy(far, c.in)
		far.Close()
	}()
	io.Copy(c.out, far)
	s.conn.Close()
	<-up
}
