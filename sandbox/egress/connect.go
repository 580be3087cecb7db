package egress

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
)

// serveSocks speaks SOCKS5 as far as a destination.
func (s *session) serveSocks() {
	s.begin("socks5", dest{})
	deny := func(r *refusal) {
		s.deny(r)
		s.wire.Write(socksReply(r.socks()))
		s.part(r)
	}
	_, n, err := await(s.in, parseGreeting)
	if errors.Is(err, errSocksAuth) {
		s.wire.Write([]byte{socksVersion, 0xff})
	}
	if err != nil {
		s.part(&refusal{reason: Malformed, text: err.Error()})
		return
	}
	s.in.Discard(n)
	if _, err := s.wire.Write([]byte{socksVersion, 0}); err != nil {
		return
	}
	req, n, err := await(s.in, parseRequest)
	switch {
	case errors.Is(err, errSocksAddress):
		deny(&refusal{reason: BadName, text: err.Error(), try: "socks5h://, so that the proxy gets the name", cause: err})
		return
	case err != nil:
		deny(&refusal{reason: Malformed, text: err.Error(), cause: err})
		return
	}
	s.in.Discard(n)
	where := dest{port: req.port}
	s.rec.Port = req.port
	if where.host, err = Name(req.host); err != nil {
		deny(s.badDest(req.host, err))
		return
	}
	s.rec.Host = where.host
	if req.port == 0 {
		deny(&refusal{reason: Malformed, text: "there is no port 0"})
		return
	}
	s.connect(where, socksReply(socksOK), deny)
}

// serveHTTP reads the first head: CONNECT opens a tunnel, anything else is a request to pass on.
func (s *session) serveHTTP() {
	h, n, err := await(s.in, parseHead)
	if err != nil || h.method != "CONNECT" {
		s.exchange(channel{in: s.in, out: s.wire})
		return
	}
	s.begin("connect", dest{})
	where, err := parseDest(h.target, 0)
	var r *refusal
	if err != nil {
		r = s.badDest(h.target, err)
	} else {
		s.rec.Host, s.rec.Port = where.host, where.port
		host, bad := parseDest(h.host, where.port)
		switch {
		case h.body:
			r = &refusal{reason: Malformed, text: "a CONNECT has no body"}
		case h.hosts == 1 && (bad != nil || host != where):
			r = &refusal{reason: HostMismatch, text: "the Host header is not " + where.String()}
		}
	}
	deny := func(r *refusal) { s.refuse(s.wire, r) }
	if r != nil {
		deny(r)
		return
	}
	s.in.Discard(n)
	s.connect(where, []byte("HTTP/1.1 200 Connection established\r\n\r\n"), deny)
}

// connect judges a destination, reaches it, says so, and carries what the client then begins.
func (s *session) connect(where dest, welcome []byte, deny func(*refusal)) {
	raw, r := s.aim(where)
	if r != nil {
		deny(r)
		return
	}
	// The host of a secret is dialled when there is a request to it: those connections are kept and used again.
	owned := !raw && s.p.wallet.owns(where.host)
	var remote net.Conn
	if !owned {
		var err error
		if remote, err = s.p.dialer.to(s.ctx, where); err != nil {
			deny(refused(err, Unreachable, where.String()+" cannot be reached"))
			return
		}
		defer remote.Close()
		if !s.hold(remote) {
			return
		}
	}
	if _, err := s.wire.Write(welcome); err != nil {
		return
	}
	if raw {
		s.rec.Carried = CarriedRaw
		s.relay(remote)
		return
	}
	s.headTime()
	first, err := s.in.Peek(1)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.part(uninspectable(where, "the client said nothing"))
	case err != nil: // it left
	case first[0] == recordHandshake:
		s.secure(where, remote, owned)
	case token(string(first)):
		if remote != nil {
			remote.Close() // requests take connections of the transport
		}
		s.exchange(channel{in: s.in, out: s.wire, fixed: &where})
	default:
		s.part(uninspectable(where, "the client began with neither"))
	}
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
func (s *session) secure(where dest, remote net.Conn, owned bool) {
	sni, _, err := await(s.in, parseHello)
	var r *refusal
	switch name, bad := Name(sni); {
	case err != nil:
		r = &refusal{reason: Malformed, text: "the TLS to " + where.String() + " cannot be judged", cause: err}
	case sni == "":
		r = &refusal{reason: SNIMissing, text: "the TLS to " + where.String() + " names no host"}
	case bad != nil || name != where.host:
		r = &refusal{reason: SNIMismatch, text: "the TLS to " + where.String() + " names another host, " + strconv.QuoteToASCII(strings.ToValidUTF8(sni, "?"))}
	}
	switch {
	case r != nil:
		s.deny(r)
		s.wire.Write([]byte(alert))
		s.part(r)
	case owned:
		s.terminate(where)
	default:
		s.rec.Carried = CarriedTunnel
		s.relay(remote)
	}
}
