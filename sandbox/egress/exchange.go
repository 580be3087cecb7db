package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A channel is where requests come in and answers go out.
type channel struct {
	in     *bufio.Reader
	out    io.Writer
	client string // as in Record; for a channel that is not fixed
	fixed  *dest  // the tunnel's destination; nil if every request names its own
	secure bool   // TLS ended here: secrets go in
}

func (c channel) scheme() string {
	if c.secure {
		return "https"
	}
	return "http"
}

// terminate ends the client's TLS and passes its requests on, over TLS of our own.
func (s *session) terminate(where dest) bool {
	s.rec.Carried = CarriedTerminated
	config, err := s.p.authority.server(where.host)
	if err != nil {
		s.part(&refusal{reason: Unreachable, text: "no certificate can be made for " + where.host, cause: err})
		return true
	}
	conn := tls.Server(peeked{s.wire, s.in}, config)
	if err := conn.HandshakeContext(s.ctx); err != nil {
		s.rec.Verdict, s.rec.Reason = Failed, Malformed // most often a client that does not trust the box's bundle
		return true
	}
	in := bufio.NewReaderSize(conn, s.p.options.Limits.Head)
	defer conn.Close()
	return s.exchange(channel{in: in, out: conn, fixed: &where, secure: true})
}

// peeked is a connection whose first bytes were looked at.
type peeked struct {
	net.Conn
	in *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.in.Read(b) }

// exchange passes requests on, one after the other. It says whether nobody reads from the client any more.
func (s *session) exchange(c channel) bool {
	if s.rec.Carried == "" && c.fixed != nil {
		s.rec.Carried = CarriedPlain
	}
	tunnelled := *s
	_ = tunnelled
	for first := true; ; first = false {
		if !first {
			s.wire.by = time.Now().Add(s.p.options.Limits.Idle)
			if _, err := c.in.Peek(1); err != nil {
				return true
			}
		}
		s.headTime()
		again, idle := s.one(c)
		if !again {
			return idle
		}
	}
}
