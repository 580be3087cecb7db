package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// upstream is a loopback server that shows what it was sent, request by request, and answers with what it is told to.
type upstreamServer struct {
	net.Listener
	got chan string // each request's head and body, as they came
}

// newUpstream answers each request of each connection with the same bytes.
func newUpstream(t *testing.T, answer string) *upstreamServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u := &upstreamServer{l, make(chan string, 100)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c, answer)
		}
	}()
	return u
}

func (u *upstreamServer) serve(c net.Conn, answer string) {
	defer c.Close()
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(c, &seen))
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			if seen.Len() > 0 {
				u.got <- "UNREADABLE " + seen.String()
			}
			return
		}
		io.Copy(io.Discard, req.Body)
		u.got <- seen.String()[:seen.Len()-in.Buffered()]
		rest, _ := in.Peek(in.Buffered())
		seen.Reset()
		seen.Write(rest)
		if _, err := io.WriteString(c, answer); err != nil || strings.Contains(answer, "Connection: close") {
			return
		}
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// What the upstream gets is written anew: one framing, one Host, no header that speaks to a proxy.
func TestWhatAnUpstreamGets(t *testing.T) {
	for name, c := range map[string]struct{ send, want string }{
		"a request": {"GET http://a.test/p%2Fq?x=%20y&z HTTP/1.1\r\nHost: a.test\r\nX-A: 1\r\n\r\n",
			"GET /p%2Fq?x=%20y&z HTTP/1.1\r\nHost: a.test\r\nX-A: 1\r\n\r\n"},
		"hops": {"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nConnection: X-Mine, keep-alive\r\nX-Mine: 1\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"a body":         {"POST http://a.test/ HTTP/1.1\r\nHost: a.test:80\r\nContent-Length: 3\r\n\r\nabc", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc"},
		"chunks":         {"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		"two slashes":    {"GET http://a.test//evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET //evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"a bare query":   {"GET http://a.test? HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET /? HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"HTTP/1.0":       {"GET http://a.test/ HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"a dot":          {"GET http://A.Test./ HTTP/1.1\r\nHost: a.TEST.\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
		"empty chunks":   {"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		"no length POST": {"POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, "a.test")
			u := newUpstream(t, ok)
			r.behind(80, u.Addr().String())
			conn := r.raw(c.send)
			if got := <-u.got; got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != 200 {
				t.Errorf("%v, %v", resp, err)
			}
		})
	}
}

// An answer's framing is ours, whatever the upstream's was; the phrase and the hop headers do not pass.
func TestWhatAClientGets(t *testing.T) {
	for name, c := range map[string]struct{ method, version, answer, want string }{
		"a length":         {"GET", "1.1", "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nX-A: 1\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\n\r\nok"},
		"chunks":           {"GET", "1.1", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		"to its end":       {"GET", "1.1", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		"chunks, old":      {"GET", "1.0", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"},
		"no content":       {"GET", "1.1", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
		"not modified":     {"GET", "1.1", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n"},
		"a head":           {"HEAD", "1.1", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"},
		"hops":             {"GET", "1.1", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nProxy-Authenticate: Basic\r\nKeep-Alive: 1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"a strange phrase": {"GET", "1.1", "HTTP/1.1 599 <b>\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, "a.test")
			u := newUpstream(t, c.answer)
			r.behind(80, u.Addr().String())
			conn := r.raw(c.method + " http://a.test/ HTTP/" + c.version + "\r\nHost: a.test\r\n\r\n")
			b := make([]byte, len(c.want))
			if n, err := io.ReadFull(conn, b); err != nil || string(b) != c.want {
				t.Errorf("got  %q, %v\nwant %q", b[:n], err, c.want)
			}
		})
	}
}

func TestManyRequestsOnOneConnection(t *testing.T) {
	r := newRig(t, nil, "a.test", "b.test")
	u := newUpstream(t, ok)
	r.behind(80, u.Addr().String())
	var text strings.Builder
	for i := range 6 {
		host := "ab"[i/3:i/3+1] + ".test"
		fmt.Fprintf(&text, "POST http://%s/%d HTTP/1.1\r\nHost: %s\r\nContent-Length: 4\r\n\r\nbody", host, i, host)
	}
	conn := r.raw(text.String())
	in := bufio.NewReader(conn)
	for i := range 6 {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		io.Copy(io.Discard, resp.Body)
		if got := <-u.got; !strings.HasPrefix(got, fmt.Sprintf("POST /%d HTTP/1.1\r\n", i)) || !strings.HasSuffix(got, "\r\n\r\nbody") {
			t.Errorf("request %d: %q", i, got)
		}
	}
	conn.Close()
	sent := int64(0)
	for _, host := range []string{"a.test", "b.test"} {
		rec := r.record()
		if rec.Host != host || rec.Requests != 3 || rec.Carried != CarriedPlain || rec.Client != "http" || rec.Received != int64(3*len("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) {
			t.Errorf("%+v", rec)
		}
		sent += rec.Sent
	}
	if sent != int64(text.Len()) { // what came in one piece counts where it came
		t.Errorf("%d bytes were sent and %d recorded", text.Len(), sent)
	}
	if n := len(r.dials()); n != 2 {
		t.Errorf("%d connections for two hosts", n)
	}
}

func TestContinueIsSaidToWhoAsks(t *testing.T) {
	r := newRig(t, nil, "a.test")
	u := newUpstream(t, ok)
	r.behind(80, u.Addr().String())
	conn := r.raw("PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	in.ReadString('\n')
	io.WriteString(conn, "abc")
	if got := <-u.got; !strings.HasSuffix(got, "\r\n\r\nabc") || strings.Contains(got, "Expect") {
		t.Errorf("%q", got)
	}
	if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v, %v", resp, err)
	}
}

// An upstream that answers before it has the whole request ends the connection, not the proxy.
func TestAnAnswerBeforeTheRequestIsWhole(t *testing.T) {
	r := newRig(t, nil, "a.test")
	r.plain(func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(w, "too large")
	})
	conn := r.raw("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000000\r\n\r\nbegun")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
		t.Fatalf("%+v, %v", resp, err)
	}
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "too large" {
		t.Errorf("%q, %v", b, err)
	}
	conn.Close()
	if rec := r.record(); rec.Verdict != Allowed || rec.Requests != 1 {
		t.Errorf("%+v", rec)
	}
}

// A stream of events passes as it comes.
func TestAStreamIsNotHeldBack(t *testing.T) {
	r := newRig(t, nil, "a.test")
	next := make(chan bool)
	r.plain(func(w http.ResponseWriter, req *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	resp, err := r.client("http").Get("http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for i := range 3 {
		line, err := in.ReadString('\n')
		if err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("%q, %v", line, err)
		}
		in.ReadString('\n')
		next <- true
	}
}

func TestABrokenAnswerIsNotCompleted(t *testing.T) {
	for name, answer := range map[string]string{
		"short":     "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nshort",
		"mid chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n64\r\nshort",
	} {
		r := newRig(t, nil, "a.test")
		u := newUpstream(t, answer)
		r.behind(80, u.Addr().String())
		if code, body := get(r.client("http"), "http://a.test/"); code != 0 {
			t.Errorf("%s: a whole answer %d %q", name, code, body)
		}
		if rec := r.record(); rec.Verdict != Failed || rec.Reason != Broken {
			t.Errorf("%s: %+v", name, rec)
		}
	}
}

func TestAWebSocketPasses(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			r := newRig(t, withSecret("a.test"), "a.test")
			echo := func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("Upgrade") != "websocket" || req.Header.Get("Connection") != "Upgrade" {
					w.WriteHeader(400)
					return
				}
				c, in, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer c.Close()
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				io.Copy(c, in)
			}
			r.plain(echo)
			r.tls(echo, "a.test")
			req, _ := http.NewRequestWithContext(t.Context(), "GET", scheme+"://a.test/", nil)
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "websocket")
			resp, err := r.client("http").Transport.RoundTrip(req)
			if err != nil || resp.StatusCode != 101 {
				t.Fatalf("%v, %v", resp, err)
			}
			c := resp.Body.(io.ReadWriteCloser)
			for _, word := range []string{"hello", "again"} {
				io.WriteString(c, word)
				b := make([]byte, len(word))
				if _, err := io.ReadFull(c, b); err != nil || string(b) != word {
					t.Fatalf("%q, %v", b, err)
				}
			}
			c.Close()
			if rec := r.record(); rec.Verdict != Allowed {
				t.Errorf("%+v", rec)
			}
		})
	}
}

// What would have a host repeat a request, or wait for a word that we do not know, goes no further.
func TestMethodsAndExpectationsThatAreRefused(t *testing.T) {
	r := newRig(t, nil, "a.test")
	u := newUpstream(t, ok)
	r.behind(80, u.Addr().String())
	for name, text := range map[string]string{
		"TRACE":                 "TRACE http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"CONNECT with a body":   "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\nContent-Length: 3\r\n\r\nabc",
		"another expectation":   "PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nExpect: 200-ok\r\nContent-Length: 3\r\n\r\nabc",
		"two expectations":      "PUT http://a.test/ HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
		"the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/3":                "GET http://a.test/ HTTP/3\r\nHost: a.test\r\n\r\n",
	} {
		if got := r.says(text); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if d := r.dials(); len(d) != 0 || len(u.got) != 0 {
		t.Errorf("dialled %v", d)
	}
}

// A host that switches protocols unasked would have a tunnel that nobody judges.
func TestAnUnaskedSwitchIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ asked, to string }{
		"no upgrade":      {"", "websocket"},
		"another upgrade": {"Connection: Upgrade\r\nUpgrade: raw\r\n", "websocket"},
		"to another":      {"Connection: Upgrade\r\nUpgrade: websocket\r\n", "raw"},
	} {
		r := newRig(t, nil, "a.test")
		u := newUpstream(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+c.to+"\r\n\r\nraw bytes")
		r.behind(80, u.Addr().String())
		if got := r.says("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n" + c.asked + "\r\n"); !strings.HasPrefix(got, "HTTP/1.1 502 ") || strings.Contains(got, "raw bytes") {
			t.Errorf("%s: %q", name, got)
		}
		if rec := r.record(); rec.Verdict != Failed || rec.Reason != Broken {
			t.Errorf("%s: %+v", name, rec)
		}
	}
}

// A command that is killed takes along what was begun for it upstream.
func TestAClientThatLeavesEndsItsRequest(t *testing.T) {
	for name, text := range map[string]string{
		"plain":       "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"with a body": "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody",
		"chunked":     "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"streaming":   "GET http://a.test/stream HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"secret":      "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withSecret("a.test"), "a.test")
			began, ended := make(chan bool, 1), make(chan bool, 1)
			hang := func(w http.ResponseWriter, req *http.Request) {
				io.Copy(io.Discard, req.Body)
				if req.URL.Path == "/stream" {
					w.(http.Flusher).Flush()
				}
				began <- true
				<-req.Context().Done()
				ended <- true
			}
			r.plain(hang)
			r.tls(hang, "a.test")
			var client io.WriteCloser
			if name == "secret" {
				conn, _ := r.connect("a.test:443")
				pool := x509.NewCertPool()
				pool.AppendCertsFromPEM(r.proxy.Certificate())
				client = tls.Client(conn, &tls.Config{ServerName: "a.test", RootCAs: pool})
				io.WriteString(client, text)
			} else {
				client = r.raw(text)
			}
			<-began
			client.Close()
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatal("the request goes on upstream")
			}
			if rec := r.record(); name != "streaming" && rec.Reason != Left {
				t.Errorf("%+v", rec)
			}
			r.open(0)
		})
	}
}
