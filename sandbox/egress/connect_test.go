package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

var quiet = log.New(io.Discard, "", 0)

func hi(w http.ResponseWriter, req *http.Request) { io.WriteString(w, "hi "+req.Host+" "+req.Proto) }

func TestAnAllowedHostIsReached(t *testing.T) {
	for _, scheme := range []string{"http", "socks5", "socks5h"} {
		t.Run(scheme, func(t *testing.T) {
			r := newRig(t, nil, "a.test")
			r.plain(hi)
			r.tls(hi, "a.test")
			if code, body := get(r.client(scheme), "http://a.test/x"); code != 200 || body != "hi a.test HTTP/1.1" {
				t.Errorf("http: %d %q", code, body)
			}
			if code, body := get(r.client(scheme), "https://a.test/x"); code != 200 || body != "hi a.test HTTP/2.0" {
				t.Errorf("https: %d %q", code, body) // a tunnel carries HTTP/2 too: it is not read
			}
			for _, to := range r.dials() {
				if to.Addr() != public {
					t.Errorf("dialled %v", to)
				}
			}
		})
	}
}

// The tunnel is the client's own: the certificate that it sees is the upstream's.
func TestATunnelIsNotRead(t *testing.T) {
	r := newRig(t, nil, "a.test")
	r.tls(hi, "a.test")
	c, _ := r.connect("a.test:443")
	client := tls.Client(c, &tls.Config{ServerName: "a.test", RootCAs: r.ca.pool})
	if err := client.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := client.ConnectionState().PeerCertificates[0].Issuer.CommonName; got != "the world" {
		t.Errorf("the certificate is of %q", got)
	}
	client.Close()
	rec := r.record()
	if rec.Carried != CarriedTunnel || rec.Verdict != Allowed || rec.Host != "a.test" || rec.Port != 443 || rec.Client != "connect" || rec.Sent == 0 || rec.Received == 0 {
		t.Errorf("%+v", rec)
	}
}

func TestALargeTunnelIsByteExact(t *testing.T) {
	r := newRig(t, nil, "tcp://a.test:9000")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		io.Copy(c, c)
		c.(*net.TCPConn).CloseWrite()
	}()
	r.behind(9000, l.Addr().String())
	c, in := r.connect("a.test:9000")
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	go func() {
		c.Write(sent)
		c.(*net.TCPConn).CloseWrite() // the other half goes on
	}()
	got, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes came back, %v", len(got), len(sent), err)
	}
	if rec := r.record(); rec.Carried != CarriedRaw || rec.Sent < int64(len(sent)) || rec.Received < int64(len(sent)) {
		t.Errorf("%+v", rec)
	}
}

// Over a host that is allowed for TLS and HTTP nothing else passes.
func TestOtherProtocolsNeedARuleOfTheirOwn(t *testing.T) {
	r := newRig(t, nil, "a.test:*")
	r.behind(0, "127.0.0.1:1")
	for name, first := range map[string]string{"binary": "\x00\x01\x02", "a line": "\r\n", "TLS alert": "\x15\x03\x01\x00\x02\x02\x31"} {
		far, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan string, 1)
		go func() {
			c, err := far.Accept()
			if err != nil {
				return
			}
			b, _ := io.ReadAll(c)
			seen <- string(b)
		}()
		r.behind(22, far.Addr().String())
		c, in := r.connect("a.test:22")
		io.WriteString(c, first)
		if b, _ := io.ReadAll(in); len(b) != 0 {
			t.Errorf("%s: answered %q", name, b)
		}
		if got := <-seen; got != "" {
			t.Errorf("%s: the host saw %q", name, got)
		}
		if rec := r.record(); rec.Verdict != Blocked || rec.Reason != NotInspectable {
			t.Errorf("%s: %+v", name, rec)
		}
		far.Close()
	}
	if denied := r.proxy.Denied(r.proxy.options.Clock().Add(-patience)); len(denied) != 1 || !strings.Contains(denied[0].String(), `"tcp://a.test:22"`) || denied[0].Count != 3 {
		t.Errorf("%+v", denied)
	}
}

func TestARefusalNamesHostAndRemedy(t *testing.T) {
	bundles, err := ParseBundles(map[string][]string{"npm": {"npm.test", "*.npm.test"}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(_ *rig, o *Options) { o.Bundles = bundles }, "a.test")
	for name, c := range map[string]struct{ send, status, host, remedy string }{
		"connect":   {"CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n", "403", "b.test:443", `add "b.test" to network_policy.allowed_domains`},
		"http":      {"GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", "403", "b.test:80", `add "b.test" to`},
		"bundle":    {"CONNECT npm.test:443 HTTP/1.1\r\nHost: npm.test:443\r\n\r\n", "403", "npm.test:443", `add "bundle:npm" to`},
		"below":     {"CONNECT x.npm.test:443 HTTP/1.1\r\n\r\n", "403", "x.npm.test:443", `add "bundle:npm" to`},
		"a port":    {"CONNECT a.test:22 HTTP/1.1\r\n\r\n", "403", "a.test:22", `add "a.test:22" to`},
		"a literal": {"CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n", "400", "127.0.0.1", "the host's name"},
	} {
		got := r.says(c.send)
		line, rest, _ := strings.Cut(got, "\r\n")
		_, body, _ := strings.Cut(rest, "\r\n\r\n")
		if !strings.HasPrefix(line, "HTTP/1.1 "+c.status+" blocked by policy: ") {
			t.Errorf("%s: %q", name, line) // tools that show nothing else show the status line
		}
		for _, text := range []string{line, body} {
			if !strings.Contains(text, c.host) || !strings.Contains(text, c.remedy) {
				t.Errorf("%s: %q does not name %s and %s", name, text, c.host, c.remedy)
			}
		}
		if rec := r.record(); rec.Verdict != Blocked {
			t.Errorf("%s: %+v", name, rec)
		}
	}
	if len(r.dials()) != 0 {
		t.Errorf("dialled %v", r.dials())
	}
}

// Above the operator's ceiling the remedy names the operator's key.
func TestARefusalNamesTheCeiling(t *testing.T) {
	r := newRig(t, func(_ *rig, o *Options) {
		o.Ceiling, _ = ParseCeiling("limits.allowed_egress_hosts", []string{"a.test"}, Bundles{})
	}, "a.test")
	if got := r.says("CONNECT b.test:443 HTTP/1.1\r\n\r\n"); !strings.Contains(got, `once the operator has "b.test" in limits.allowed_egress_hosts`) {
		t.Errorf("%q", got)
	}
	// Of a package tool's host it names the bundle, which has its other hosts too.
	r = newRig(t, func(_ *rig, o *Options) {
		o.Bundles, _ = ParseBundles(nil)
		o.Ceiling, _ = ParseCeiling("limits.allowed_egress_hosts", []string{"a.test"}, o.Bundles)
	}, "a.test")
	if got := r.says("CONNECT " + registries["pip"][1] + ":443 HTTP/1.1\r\n\r\n"); !strings.Contains(got, `add "bundle:pip" to network_policy.allowed_domains, once the operator has "bundle:pip" in limits.allowed_egress_hosts`) {
		t.Errorf("%q", got)
	}
}

func TestTheZeroProxyLetsNothingThrough(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if r := p.notAllowed(dest{"a.test", 443}); r.reason != NotAllowed {
		t.Errorf("%+v", r)
	}
	if ok, _ := p.policy.pass(dest{"a.test", 443}); ok {
		t.Error("it lets a.test through")
	}
	policy, _ := ParsePolicy(TypeAllowlist, []string{"a.test"}, Bundles{})
	if _, err := New(Options{Policy: policy}); err == nil {
		t.Error("a policy without a ceiling is above it")
	}
}

func TestUnreachableHosts(t *testing.T) {
	r := newRig(t, nil, "a.test", "nowhere.test")
	r.names["nowhere.test"] = []netip.Addr{}
	for target, want := range map[string]Reason{"a.test:443": Unreachable, "nowhere.test:443": Unresolved} {
		if got := r.says("CONNECT " + target + " HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 502 "+target[:len(target)-4]) {
			t.Errorf("%s: %q", target, got)
		}
		if rec := r.record(); rec.Verdict != Failed || rec.Reason != want {
			t.Errorf("%s: %+v", target, rec)
		}
	}
	if denied := r.proxy.Denied(r.proxy.options.Clock().Add(-patience)); len(denied) != 0 {
		t.Errorf("what failed is told as blocked: %v", denied)
	}
}
