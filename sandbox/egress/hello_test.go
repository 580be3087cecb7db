package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"
)

// hello returns the first bytes of a TLS client.
func hello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Client(near, config).HandshakeContext(context.Background())
	b := make([]byte, 16<<10)
	far.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

func TestHello(t *testing.T) {
	for name, config := range map[string]*tls.Config{
		"plain":   {ServerName: "a.test"},
		"old":     {ServerName: "a.test", MaxVersion: tls.VersionTLS12},
		"with h2": {ServerName: "a.test", NextProtos: []string{"h2", "http/1.1"}},
	} {
		b := hello(t, config)
		sni, n, err := parseHello(append(b[:len(b):len(b)], "more"...))
		if err != nil || sni != "a.test" || n != len(b) {
			t.Errorf("%s: %q, %d of %d, %v", name, sni, n, len(b), err)
		}
		for cut := range b {
			if _, _, err := parseHello(b[:cut]); !errors.Is(err, errShort) {
				t.Fatalf("%s cut at %d: %v", name, cut, err)
			}
		}
		// The same hello in records of seven bytes.
		var pieces []byte
		for body := b[5:]; len(body) > 0; {
			k := min(7, len(body))
			pieces = append(pieces, 22, 3, 1, 0, byte(k))
			pieces, body = append(pieces, body[:k]...), body[k:]
		}
		if sni, n, err := parseHello(pieces); err != nil || sni != "a.test" || n != len(pieces) {
			t.Errorf("%s in pieces: %q, %d, %v", name, sni, n, err)
		}
	}
	if sni, _, err := parseHello(hello(t, &tls.Config{InsecureSkipVerify: true})); err != nil || sni != "" {
		t.Errorf("without a name: %q, %v", sni, err)
	}
}

// sniHello builds a hello around raw extensions.
func sniHello(extensions []byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0, byte(len(extensions)>>8), byte(len(extensions)))
	body = append(body, extensions...)
	message := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{22, 3, 1, byte(len(message) >> 8), byte(len(message))}, message...)
}

func sniExtension(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(append(list, 0, 0, byte(len(n))), n...)
	}
	data := append([]byte{0, byte(len(list))}, list...)
	return append([]byte{0, 0, 0, byte(len(data))}, data...)
}

func TestHellosThatAreRefused(t *testing.T) {
	if sni, _, err := parseHello(sniHello(sniExtension("a.test"))); err != nil || sni != "a.test" {
		t.Fatalf("the builder is wrong: %q, %v", sni, err)
	}
	good := sniHello(sniExtension("a.test"))
	for name, b := range map[string][]byte{
		"two names":       sniHello(sniExtension("a.test", "evil.test")),
		"two extensions":  sniHello(append(sniExtension("a.test"), sniExtension("evil.test")...)),
		"an empty name":   sniHello(sniExtension("")),
		"an empty list":   sniHello(sniExtension()),
		"no such type":    sniHello([]byte{0, 0, 0, 5, 0, 3, 1, 0, 0}),
		"list too long":   sniHello([]byte{0, 0, 0, 5, 0, 9, 0, 0, 1}),
		"SSL 2":           {0x80, 0x2e, 1, 3, 1},
		"an alert":        {21, 3, 1, 0, 2, 2, 40},
		"an empty record": {22, 3, 1, 0, 0},
		"a huge record":   {22, 3, 1, 0xff, 0xff},
		"server hello":    {22, 3, 3, 0, 4, 2, 0, 0, 0},
		"a huge hello":    {22, 3, 3, 0, 4, 1, 0xff, 0, 0},
		"more after it":   append(append([]byte{22, 3, 1, 0, good[4] + 1}, good[5:]...), 0),
		"HTTP":            []byte("GET / HTTP/1.1\r\n"),
	} {
		if sni, _, err := parseHello(b); err == nil || errors.Is(err, errShort) {
			t.Errorf("%s: %q, %v", name, sni, err)
		}
	}
}

// stub is a connection that gives bytes and takes any.
type stub struct {
	net.Conn
	b []byte
}

func (s *stub) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(p, s.b)
	s.b = s.b[n:]
	return n, nil
}
func (s *stub) Write(p []byte) (int, error)      { return len(p), nil }
func (s *stub) SetDeadline(time.Time) error      { return nil }
func (s *stub) SetReadDeadline(time.Time) error  { return nil }
func (s *stub) SetWriteDeadline(time.Time) error { return nil }
func (s *stub) Close() error                     { return nil }

// A name that we read is the name that a TLS server reads, or none is.
func FuzzHello(f *testing.F) {
	f.Add(hello(f, &tls.Config{ServerName: "a.test"}))
	f.Add(hello(f, &tls.Config{InsecureSkipVerify: true}))
	f.Add(sniHello(sniExtension("a.test")))
	f.Add(sniHello(sniExtension("a.test", "b.test")))
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, n, err := parseHello(b)
		if n > len(b) {
			t.Fatalf("%d of %d bytes", n, len(b))
		}
		if err != nil {
			return
		}
		theirs, asked := "", false
		tls.Server(&stub{b: b}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			theirs, asked = h.ServerName, true
			return nil, errors.New("enough")
		}}).Handshake()
		if asked && theirs != ours {
			if name, bad := Name(ours); bad == nil && name != theirs && name+"." != theirs {
				t.Fatalf("we read %q, crypto/tls %q", ours, theirs)
			}
		}
	})
}
