package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// Escape 50 of the list, S43 to S46: each attempt is made on the wire, in each language that the proxy speaks, and none
// may lead to a dial. The policy is the widest that there is: what stops them is not that a host is not on the list.

// notNames are hosts that some reader takes for an address, or for another name.
var notNames = map[string]string{
	"dotted":                "127.0.0.1",
	"dotted, with the root": "127.0.0.1.",
	"decimal":               "2130706433",
	"octal":                 "0177.0.0.1",
	"octal in one":          "017700000001",
	"hexadecimal":           "0x7f000001",
	"hexadecimal, dotted":   "0x7f.0.0.1",
	"short":                 "127.1",
	"IPv6":                  "[::1]",
	"v4-mapped":             "[::ffff:127.0.0.1]",
	"v4-mapped, hex":        "[::ffff:7f00:1]",
	"v4-compatible":         "[::127.0.0.1]",
	"NAT64":                 "[64:ff9b::7f00:1]",
	"6to4":                  "[2002:7f00:1::]",
	"zone":                  "[fe80::1%25lo]",
	"metadata":              "169.254.169.254",
	"metadata, decimal":     "2852039166",
	"metadata, IPv6":        "[fd00:ec2::254]",
	"a public address":      "93.184.215.14",
	"userinfo":              "a.test@evil.test",
	"percent":               "evil%2etest",
	"percent NUL":           "evil.test%00.a.test",
	"unicode":               "bücher.test",
	"unicode dot":           "evil。test",
	"empty label":           "a..test",
	"backslash":             `a.test\evil.test`,
}

func TestNoAddressIsReachedByAnyNotation(t *testing.T) {
	r := newRig(t, nil, "*", "*:*")
	r.behind(0, newUpstream(t, ok).Addr().String())
	for name, host := range notNames {
		for language, text := range map[string]string{
			"connect": "CONNECT " + host + ":443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
			"http":    "GET http://" + host + "/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
			"header":  "GET http://a.test/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
			"socks":   "\x05\x01\x00\x05\x01\x00\x03" + string(rune(len(host))) + host + "\x01\xbb",
		} {
			got := r.says(text)
			if language == "socks" {
				if got != "\x05\x00"+string(socksReply(socksRefused)) {
					t.Errorf("%s by %s: %q", name, language, got)
				}
			} else if !strings.HasPrefix(got, "HTTP/1.1 4") {
				t.Errorf("%s by %s: %q", name, language, got)
			}
			if rec := r.record(); rec.Verdict != Blocked {
				t.Errorf("%s by %s: %+v", name, language, rec)
			}
		}
	}
	for name, text := range map[string]string{
		"IPv4": "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50",
		"IPv6": "\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x50",
		"NUL":  "\x05\x01\x00\x05\x01\x00\x03\x0ca.test\x00.test\x01\xbb", // S43
	} {
		if got := r.says(text); len(got) != 12 || got[3] == socksOK {
			t.Errorf("SOCKS to %s: %q", name, got)
		}
	}
	if d := r.dials(); len(d) != 0 {
		t.Errorf("dialled %v", d)
	}
}

func TestANameThatLeadsInwardsIsRefused(t *testing.T) {
	for name, answers := range map[string][]string{
		"loopback":             {"127.0.0.1"},
		"private":              {"10.0.0.8"},
		"metadata":             {"169.254.169.254"},
		"metadata, v4-mapped":  {"::ffff:169.254.169.254"},
		"NAT64 of metadata":    {"64:ff9b::a9fe:a9fe"},
		"unspecified":          {"0.0.0.0"},
		"a public one as well": {"93.184.215.14", "192.168.0.1"},
		"the last of many":     {"93.184.215.14", "93.184.215.15", "93.184.215.16", "93.184.215.17", "93.184.215.18", "::1"},
	} {
		r := newRig(t, nil, "*")
		r.behind(0, newUpstream(t, ok).Addr().String())
		for _, a := range answers {
			r.names["in.test"] = append(r.names["in.test"], netip.MustParseAddr(a))
		}
		for _, text := range []string{"CONNECT in.test:443 HTTP/1.1\r\n\r\n", "GET http://in.test/ HTTP/1.1\r\nHost: in.test\r\n\r\n"} {
			if got := r.says(text); !strings.HasPrefix(got, "HTTP/1.1 403 blocked by policy: in.test leads to an address") {
				t.Errorf("%s: %q", name, got)
			}
			if rec := r.record(); rec.Reason != PrivateAddress {
				t.Errorf("%s: %+v", name, rec)
			}
		}
		if d := r.dials(); len(d) != 0 {
			t.Errorf("%s: dialled %v", name, d)
		}
	}
}

// A name of a hosts file is judged like any other.
func TestANameOfOneLabelIsCheckedToo(t *testing.T) {
	r := newRig(t, nil, "localhost", "neighbour", "stranger")
	r.behind(0, newUpstream(t, ok).Addr().String())
	r.names["localhost"] = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	r.names["neighbour"] = []netip.Addr{public}
	for host, want := range map[string]string{"localhost": "HTTP/1.1 403 ", "neighbour": "HTTP/1.1 200 ", "stranger": "HTTP/1.1 502 "} {
		conn := r.raw("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		got := make([]byte, len(want))
		if io.ReadFull(conn, got); string(got) != want {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// The proxy's own machine is no public host, whatever its address.
func TestTheMachinesOwnAddressIsRefused(t *testing.T) {
	r := newRig(t, nil, "a.test")
	r.behind(0, newUpstream(t, ok).Addr().String())
	r.proxy.dialer.own = func(a netip.Addr) bool { return a == public }
	if got := r.says("CONNECT a.test:443 HTTP/1.1\r\n\r\n"); !strings.Contains(got, "(this host)") {
		t.Errorf("%q", got)
	}
	var own ownAddresses
	if !own.hold(netip.MustParseAddr("127.0.0.1")) || own.hold(public) {
		t.Error("this machine's addresses are not known")
	}
}

// flipping answers another address each time it is asked.
type flipping struct{ n atomic.Int64 }

func (f *flipping) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	if f.n.Add(1)%2 == 1 {
		return []netip.Addr{public}, nil
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// Rebinding: what is dialled is what was checked. There is no second look-up that could say something else.
func TestARebindingNameIsDialledWhereItWasChecked(t *testing.T) {
	f := &flipping{}
	r := newRig(t, func(_ *rig, o *Options) { o.Resolver = f }, "*")
	r.behind(0, newUpstream(t, ok).Addr().String())
	passed := 0
	for range 10 {
		if strings.HasPrefix(r.says("GET http://re.test/ HTTP/1.1\r\nHost: re.test\r\nConnection: close\r\n\r\n"), "HTTP/1.1 200") {
			passed++
		}
		r.proxy.transport.CloseIdleConnections()
	}
	for _, to := range r.dials() {
		if to.Addr() != public {
			t.Errorf("dialled %v", to)
		}
	}
	if passed == 0 || f.n.Load() < 2 {
		t.Errorf("%d passed after %d look-ups", passed, f.n.Load())
	}
}

// S44, and the operator's view of it: a name is compared by whole labels.
func TestNeighbouringNamesAreOtherNames(t *testing.T) {
	r := newRig(t, nil, "allowed.example", "*.wild.example")
	for _, host := range []string{"allowed.example.evil.test", "evilallowed.example", "x.allowed.example", "wild.example", "evilwild.example", "allowed.exampl", "llowed.example"} {
		if got := r.says("CONNECT " + host + ":443 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
			t.Errorf("%s: %q", host, got)
		}
	}
	if d := r.dials(); len(d) != 0 {
		t.Errorf("dialled %v", d)
	}
}

// The name in the TLS must be the name that was asked for; the host gets not a byte before.
func TestTLSForAnotherNameIsRefused(t *testing.T) {
	plain := &tls.Config{InsecureSkipVerify: true} // no SNI
	other := &tls.Config{InsecureSkipVerify: true, ServerName: "evil.test"}
	for name, c := range map[string]struct {
		first string
		want  Reason
	}{
		"another name":     {string(hello(t, other)), SNIMismatch},
		"no name":          {string(hello(t, plain)), SNIMissing},
		"two names":        {string(sniHello(sniExtension("a.test", "evil.test"))), Malformed},
		"two extensions":   {string(sniHello(append(sniExtension("a.test"), sniExtension("evil.test")...))), Malformed},
		"an address":       {string(sniHello(sniExtension("127.0.0.1"))), SNIMismatch},
		"a name with NUL":  {string(sniHello(sniExtension("a.test\x00evil"))), SNIMismatch},
		"a subdomain":      {string(sniHello(sniExtension("x.a.test"))), SNIMismatch},
		"a broken hello":   {"\x16\x03\x01\x00\x04\x01\xff\xff\xff", Malformed},
		"HTTP/2 in a rush": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Malformed},
	} {
		for _, secret := range []bool{false, true} {
			t.Run(fmt.Sprint(name, secret), func(t *testing.T) {
				change := func(*rig, *Options) {}
				if secret {
					change = withSecret("a.test")
				}
				r := newRig(t, change, "a.test")
				far, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer far.Close()
				seen := make(chan string, 1)
				go func() {
					if c, err := far.Accept(); err == nil {
						b, _ := io.ReadAll(c)
						seen <- string(b)
					}
				}()
				r.behind(443, far.Addr().String())
				conn, in := r.connect("a.test:443")
				io.WriteString(conn, c.first)
				b, _ := io.ReadAll(in)
				if strings.HasPrefix(c.first, "\x16") && string(b) != alert {
					t.Errorf("answered %q", b)
				}
				if rec := r.record(); rec.Verdict != Blocked || rec.Reason != c.want {
					t.Errorf("%+v", rec)
				}
				if !secret {
					if got := <-seen; got != "" {
						t.Errorf("the host saw %q", got)
					}
				} else if d := r.dials(); len(d) != 0 {
					t.Errorf("dialled %v", d)
				}
			})
		}
	}
}

func TestAHostHeaderForAnotherHostIsRefused(t *testing.T) {
	r := newRig(t, nil, "a.test", "b.test")
	u := newUpstream(t, ok)
	r.behind(0, u.Addr().String())
	for name, c := range map[string]struct{ tunnel, text string }{
		"in a CONNECT":          {"", "CONNECT a.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n"},
		"in a request":          {"", "GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n"},
		"with another port":     {"", "GET http://a.test/ HTTP/1.1\r\nHost: a.test:8080\r\n\r\n"},
		"in a tunnel":           {"a.test:80", "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n"},
		"in a tunnel, absolute": {"a.test:80", "GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"a CONNECT in a tunnel": {"a.test:80", "CONNECT b.test:80 HTTP/1.1\r\nHost: b.test:80\r\n\r\n"},
		"a second request":      {"a.test:80", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n"},
	} {
		var got string
		if c.tunnel == "" {
			got = r.says(c.text)
		} else {
			conn, in := r.connect(c.tunnel)
			io.WriteString(conn, c.text)
			b, _ := io.ReadAll(in)
			got = string(b)
		}
		if !strings.Contains(got, "HTTP/1.1 421 ") && !strings.Contains(got, "HTTP/1.1 400 ") {
			t.Errorf("%s: %q", name, got)
		}
		for len(u.got) > 0 {
			if req := <-u.got; strings.Contains(req, "b.test") {
				t.Errorf("%s: the upstream saw %q", name, req)
			}
		}
	}
}

// On the path that has secrets in it the inner Host is judged too: else a secret would go to a neighbour behind the same
// certificate.
func TestASecretsRequestMustNameItsHost(t *testing.T) {
	r := newRig(t, withSecret("a.test"), "a.test", "b.test")
	got := make(chan http.Header, 10)
	r.tls(sees(got), "a.test", "b.test")
	conn, _ := r.connect("a.test:443")
	pool := r.ca.pool.Clone()
	pool.AppendCertsFromPEM(r.proxy.Certificate())
	inside := tls.Client(conn, &tls.Config{ServerName: "a.test", RootCAs: pool})
	fmt.Fprintf(inside, "GET / HTTP/1.1\r\nHost: b.test\r\nAuthorization: %s\r\n\r\n", r.proxy.Placeholders()["TOKEN"])
	resp, err := http.ReadResponse(bufio.NewReader(inside), nil)
	if err != nil || resp.StatusCode != 421 || len(got) != 0 {
		t.Errorf("%v, %v; the upstream saw %d requests", resp, err, len(got))
	}
}

// What two readers could split differently is not passed on at all: nothing of it, and nothing after it.
func TestNothingIsSmuggled(t *testing.T) {
	r := newRig(t, nil, "a.test")
	u := newUpstream(t, ok)
	r.behind(80, u.Addr().String())
	for name, text := range smuggled {
		text = strings.Replace(text, " / HTTP/1", " http://a.test/ HTTP/1", 1)
		got := r.says(text + "GET http://a.test/smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") && !strings.HasPrefix(got, "HTTP/1.1 421 ") || strings.Count(got, "Proxy-Status: ") != 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, text := range map[string]string{
		"a chunk that lies":      "5\r\nab\r\n0\r\n\r\n",
		"a chunk without an end": "zz\r\nab\r\n0\r\n\r\n",
		"a bare LF in a chunk":   "2\nab\n0\n\n",
		"a huge chunk":           "fffffffffffffffff\r\n",
	} {
		r.says("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n" + text + "GET http://a.test/smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n")
		for len(u.got) > 0 {
			if req := <-u.got; strings.HasPrefix(req, "GET") {
				t.Errorf("%s: the upstream saw %q", name, req)
			}
		}
	}
	for len(u.got) > 0 {
		t.Errorf("the upstream saw %q", <-u.got)
	}
}

// S45: neither language is a way round the other.
func TestEveryLanguageIsFilteredAlike(t *testing.T) {
	r := newRig(t, nil, "a.test")
	r.plain(hi)
	r.tls(hi, "a.test")
	for _, scheme := range []string{"http", "socks5h"} {
		for target, allowed := range map[string]bool{"http://a.test/": true, "https://a.test/": true, "http://b.test/": false, "https://b.test/": false,
			"http://a.test:8080/": false, "https://a.test:8443/": false} {
			code, text := get(r.client(scheme), target)
			if (code == 200) != allowed {
				t.Errorf("%s through %s: %d %q", target, scheme, code, text)
			}
		}
	}
}
