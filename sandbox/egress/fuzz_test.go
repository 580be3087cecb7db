package egress

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// pieces gives a text in pieces of so many bytes.
type pieces struct {
	text []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.text)
	p.text = p.text[n:]
	return n, nil
}
func (p *pieces) Close() error { return nil }

// However a body is cut, no form of a value is in what comes out, all else is as it was, and lengths are kept.
func FuzzScrub(f *testing.F) {
	f.Add([]byte("the token is aaaab-secret, aaaaab-secret"), 3)
	f.Add([]byte("aaaab-secre"), 1)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		forms := [][]byte{[]byte("aaaab-secret"), []byte("YWFhYWItc2VjcmV0"), []byte("secretaaaab")}
		s := &scrubbed{ReadCloser: &pieces{slices.Clone(body), min(max(size, 1), 1<<16)}, forms: forms, longest: 16}
		got, err := io.ReadAll(s)
		if err != nil || len(got) != len(body) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(body), err)
		}
		for _, form := range forms {
			if bytes.Contains(got, form) {
				t.Fatalf("%q holds %q", got, form)
			}
		}
		for i := range got {
			if got[i] != body[i] && got[i] != '*' {
				t.Fatalf("%q became %q", body, got)
			}
		}
		if !bytes.ContainsFunc(body, func(r rune) bool { return strings.ContainsRune("aYs", r) }) && !bytes.Equal(got, body) {
			t.Fatalf("%q became %q", body, got)
		}
	})
}

// resolveAll finds every name at the same public address.
type resolveAll struct{}

func (resolveAll) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{public}, nil
}

// Whatever a client says, an upstream hears only requests for the one host that is allowed, in a framing that leaves nothing
// over, and never the placeholder's value: this path has no TLS.
func FuzzSession(f *testing.F) {
	for _, text := range smuggled {
		f.Add([]byte(strings.Replace(text, " / HTTP/1", " http://a.test/ HTTP/1", 1) + "GET http://a.test/2 HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	}
	f.Add([]byte("CONNECT a.test:80 HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x06a.test\x00\x50GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"))
	policy, _ := ParsePolicy(TypeAllowlist, []string{"a.test"}, Bundles{})
	ceiling, _ := ParseCeiling("", []string{"*"}, Bundles{})
	f.Fuzz(func(t *testing.T, b []byte) {
		heard := make(chan string, 1000)
		ends := make(chan bool, 100)
		calls := 0
		p, err := New(Options{Policy: policy, Ceiling: ceiling, Resolver: resolveAll{},
			Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
				near, far := net.Pipe()
				calls++
				go func() {
					defer func() { far.Close(); ends <- true }()
					in := bufio.NewReader(far)
					if first, err := in.Peek(1); err != nil || first[0] == recordHandshake {
						return // a tunnel
					}
					for {
						req, err := http.ReadRequest(in)
						if err != nil {
							if err != io.EOF && err != io.ErrClosedPipe && err != io.ErrUnexpectedEOF {
								heard <- "unreadable: " + err.Error()
							}
							return
						}
						heard <- req.Host
						if _, err := io.Copy(io.Discard, req.Body); err != nil {
							return
						}
						if _, err := io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
							return
						}
					}
				}()
				return near, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		p.newSession(&stub{b: b}).run()
		p.Close()
		for range calls {
			<-ends
		}
		close(heard)
		for host := range heard {
			if host != "a.test" {
				t.Fatalf("the upstream heard %q", host)
			}
		}
	})
}
