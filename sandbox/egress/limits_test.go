package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// open waits until the proxy counts so many sessions.
func (r *rig) open(n int) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r.proxy.mu.Lock()
		now := len(r.proxy.sessions)
		r.proxy.mu.Unlock()
		if now == n {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d sessions are open, want %d", now, n)
		}
	}
}

// A client that says nothing at first is accepted all the same, and served when it speaks.
func TestASilentClientIsAcceptedToo(t *testing.T) {
	r := newRig(t, nil, "a.test")
	r.says("CONNECT b.test:443 HTTP/1.1\r\n\r\n") // it serves by now
	r.open(0)
	conn := r.raw("")
	r.open(1)
	io.WriteString(conn, "CONNECT b.test:443 HTTP/1.1\r\n\r\n")
	if b, _ := io.ReadAll(conn); !strings.HasPrefix(string(b), "HTTP/1.1 403 ") {
		t.Errorf("%q", b)
	}
}

func TestTooManyConnectionsAreToldSo(t *testing.T) {
	r := newRig(t, func(_ *rig, o *Options) { o.Limits.Connections = 2 }, "tcp://a.test:9000")
	r.behind(9000, newUpstream(t, ok).Addr().String())
	r.connect("a.test:9000")
	r.connect("a.test:9000")
	if got := r.says("CONNECT a.test:9000 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "more than 2 connections") {
		t.Errorf("%q", got)
	}
	if rec := r.record(); rec.Reason != TooMany {
		t.Errorf("%+v", rec)
	}
}

func TestAHeadHasASizeAndATime(t *testing.T) {
	short := newRig(t, func(_ *rig, o *Options) { o.Limits.HeadTime = 500 * time.Millisecond }, "a.test")
	long := newRig(t, func(_ *rig, o *Options) { o.Limits.Head, o.Limits.HeadTime = 4096, patience }, "a.test")
	for name, c := range map[string]struct{ text, want string }{
		"endless":        {"GET http://a.test/ HTTP/1.1\r\nX: " + strings.Repeat("x", 5000), "it is longer than 4096 bytes"},
		"slow":           {"GET http://a.test/ HTTP/1.1\r\nX: 1\r\n", "it was not complete in time"},
		"slow CONNECT":   {"CONNECT a.test:443 HTT", "it was not complete in time"},
		"many lines":     {"GET http://a.test/ HTTP/1.1\r\n" + strings.Repeat("X: 1\r\n", 400) + "\r\n", "too many header lines"},
		"another tongue": {"\x00\x01", "it speaks HTTP, CONNECT and SOCKS5"},
	} {
		r := long // what does not wait must not be late on a slow machine
		if strings.HasPrefix(name, "slow") {
			r = short
		}
		if got := r.says(c.text); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
		if rec := r.record(); rec.Verdict != Blocked || rec.Reason != Malformed {
			t.Errorf("%s: %+v", name, rec)
		}
	}
	if got := short.says("\x05\x01\x00\x05\x01"); got != "\x05\x00"+string(socksReply(socksRefused)) {
		t.Errorf("slow SOCKS: %q", got)
	}
}

func TestASilentTunnelEnds(t *testing.T) {
	r := newRig(t, func(_ *rig, o *Options) { o.Limits.Idle = 500 * time.Millisecond }, "tcp://a.test:9000")
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	r.behind(9000, far.Addr().String())
	conn, in := r.connect("a.test:9000")
	if b, err := io.ReadAll(in); len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	conn.Close()
	r.open(0)
}

// A later policy may only be narrower, and cuts what it does not hold.
func TestNarrowing(t *testing.T) {
	r := newRig(t, nil, "tcp://a.test:9000", "tcp://b.test:9000")
	u := newUpstream(t, ok)
	r.behind(9000, u.Addr().String())
	_, a := r.connect("a.test:9000")
	connB, b := r.connect("b.test:9000")
	wider, _ := ParsePolicy(TypeAllowlist, []string{"tcp://a.test:9000", "c.test"}, Bundles{})
	if err := r.proxy.Narrow(wider); err == nil {
		t.Error("it was widened")
	}
	only, _ := ParsePolicy(TypeAllowlist, []string{"tcp://b.test:9000"}, Bundles{})
	if err := r.proxy.Narrow(only); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	if rec := r.record(); rec.Host != "a.test" || rec.Verdict != Allowed || rec.Reason != Narrowed {
		t.Errorf("%+v", rec)
	}
	io.WriteString(connB, "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n")
	if resp, err := http.ReadResponse(b, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	} else {
		io.Copy(io.Discard, resp.Body)
	}
	if got := r.says("CONNECT a.test:9000 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("%q", got)
	}
	if err := r.proxy.Narrow(Policy{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(b); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// The end of a proxy is the end of every connection, in whatever state, and each has its record.
func TestCloseCutsEveryConnection(t *testing.T) {
	r := newRig(t, withSecret("s.test"), "a.test", "s.test", "tcp://a.test:9000")
	waiting := make(chan bool, 2)
	hang := func(w http.ResponseWriter, req *http.Request) {
		waiting <- true
		<-req.Context().Done() // the proxy's connection is gone
	}
	r.plain(hang)
	r.tls(hang, "s.test")
	r.behind(9000, newUpstream(t, ok).Addr().String())
	ends := make(chan string, 4)
	go func() {
		_, text := get(r.client("http"), "http://a.test/")
		ends <- "plain " + text
	}()
	go func() {
		_, text := get(r.client("http"), "https://s.test/")
		ends <- "secret " + text
	}()
	tunnel, in := r.connect("a.test:9000")
	half := r.raw("CONNECT a.te")
	<-waiting
	<-waiting
	r.open(4)
	began := time.Now()
	r.proxy.Close()
	if took := time.Since(began); took > patience/2 {
		t.Errorf("closing took %v", took)
	}
	for range 2 {
		select {
		case <-ends:
		case <-time.After(patience):
			t.Fatal("a request goes on")
		}
	}
	for _, c := range []net.Conn{tunnel, half} {
		if _, err := io.ReadAll(c); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Error("a connection goes on")
		}
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("a tunnel goes on")
	}
	for range 3 { // the half CONNECT never asked for anything
		if rec := r.record(); rec.Reason != Closed {
			t.Errorf("%+v", rec)
		}
	}
	if _, err := net.Dial("tcp", r.address); err == nil {
		t.Error("it still listens")
	}
}

// A client that goes away takes its connections along.
func TestAClientThatGoesAwayLeavesNothing(t *testing.T) {
	r := newRig(t, nil, "tcp://a.test:9000")
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	r.behind(9000, far.Addr().String())
	conn, _ := r.connect("a.test:9000")
	up, err := far.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close() // a reset, as by a killed process
	up.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(up); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the far end goes on")
	}
	r.open(0)
}

// Denied is what a result shows: gathered by host, bounded, in the order of their last time.
func TestDenialsAreGathered(t *testing.T) {
	r := newRig(t, nil, "a.test")
	began := time.Now()
	for i := range maxDenials + 10 {
		r.says(fmt.Sprintf("CONNECT h%d.test:443 HTTP/1.1\r\n\r\n", i))
	}
	r.says("CONNECT h20.test:443 HTTP/1.1\r\n\r\n")
	denied := r.proxy.Denied(began)
	if len(denied) != maxDenials {
		t.Fatalf("%d denials", len(denied))
	}
	if last := denied[len(denied)-1]; last.Host != "h20.test" || last.Count != 2 || last.String() != `h20.test:443 is not allowed (2 times). Try: add "h20.test" to network_policy.allowed_domains` {
		t.Errorf("%+v: %s", last, last)
	}
	if later := r.proxy.Denied(time.Now()); len(later) != 0 {
		t.Errorf("%v", later)
	}
}

// What is recorded are names and numbers: no header, no path, no body, whatever the connection was.
func TestARecordHoldsNoContent(t *testing.T) {
	r := newRig(t, withSecret("s.test"), "a.test", "s.test")
	r.plain(hi)
	r.tls(hi, "s.test")
	for _, target := range []string{"http://a.test/", "https://s.test/", "http://b.test/"} {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", target+"canary-path?canary-query=1", strings.NewReader("canary-body"))
		req.Header.Set("Authorization", r.proxy.Placeholders()["TOKEN"])
		req.Header.Set("X-Canary", "canary-header")
		resp, err := r.client("http").Do(req)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		resp.Body.Close()
	}
	conn := r.raw("GET http://a.test/canary-path HTTP/1.1\r\nX-Canary: canary-header\r\nHost: a.test\r\n\r\n")
	bufio.NewReader(conn).ReadByte()
	r.proxy.Close()
	for range 4 {
		if text := fmt.Sprintf("%+v", r.record()); strings.Contains(text, "canary") || strings.Contains(text, "hsp_") {
			t.Error(text)
		}
	}
	if text := fmt.Sprintf("%+v", r.proxy.Denied(time.Time{})); strings.Contains(text, "canary") {
		t.Error(text)
	}
}
