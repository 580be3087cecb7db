package straight

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a Transport that counts its own connections and the requests that go behind.
type counted struct {
	*Transport
	dialed, behind atomic.Int64
}

func newTransport(t testing.TB) *counted {
	c := &counted{}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	behind := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c.behind.Add(1)
		return dialer.DialContext(ctx, network, address)
	}}
	c.Transport = &Transport{Behind: behind, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c.dialed.Add(1)
		return dialer.DialContext(ctx, network, address)
	}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func post(t testing.TB, ctx context.Context, url, text string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// asked is what a round trip gives, to be compared.
func asked(rt http.RoundTripper, r *http.Request) string {
	res, err := rt.RoundTrip(r)
	if err != nil {
		return "no answer"
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d %q %q, %d long, whole %t", res.StatusCode, res.Header, text, res.ContentLength, err == nil)
}

// scripted is a server that answers each connection's first request with bytes and then closes or waits.
func scripted(t testing.TB, answer string, stay bool) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				io.Copy(io.Discard, r.Body)
				io.WriteString(c, answer)
				if stay {
					io.Copy(io.Discard, c) // until the client goes
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// Whatever a server says, the answer is the one that http.Transport gives.
func TestAnswersAreThoseOfTheTransport(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, tc := range map[string]struct {
		answer string
		stay   bool
	}{
		"a length":                  {ok + "Content-Length: 2\r\nX-A: 1\r\nX-A: 2\r\n\r\nhi", true},
		"a length that is not kept": {ok + "Content-Length: 5\r\n\r\nhi", false},
		"chunks":                    {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", true},
		"chunks cut":                {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n", false},
		"chunks that are none":      {ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", true},
		"until the end":             {ok + "Connection: close\r\n\r\nhi", false},
		"until the end, old":        {"HTTP/1.0 200 OK\r\n\r\nhi", false},
		"no content":                {"HTTP/1.1 204 No Content\r\n\r\n", true},
		"an error":                  {"HTTP/1.1 503 Away\r\nRetry-After: 3\r\nContent-Length: 4\r\n\r\naway", true},
		"a redirect":                {"HTTP/1.1 302 Found\r\nLocation: http://else.where/\r\nContent-Length: 0\r\n\r\n", true},
		"words before the answer":   {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nhi", true},
		"two lengths":               {ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", false},
		"no HTTP":                   {"220 mail ESMTP\r\n", false},
		"nothing":                   {"", false},
		"half a head":               {ok + "Content-Le", false},
	} {
		t.Run(name, func(t *testing.T) {
			url := scripted(t, tc.answer, tc.stay)
			ctx := within(t)
			tr := newTransport(t)
			got := asked(tr, post(t, ctx, url, "ask"))
			want := asked(&http.Transport{DisableCompression: true, DisableKeepAlives: false}, post(t, ctx, url, "ask"))
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if tr.dialed.Load() != 1 || tr.behind.Load() != 0 {
				t.Errorf("%d connections straight, %d behind", tr.dialed.Load(), tr.behind.Load())
			}
		})
	}
}

func TestWhatIsNoAnswerIsRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"an endless head":    "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 2*maxHead),
		"another protocol":   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
		"never the real one": strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 8<<10)+"\r\n\r\n", maxHead>>13),
	} {
		t.Run(name, func(t *testing.T) {
			res, err := newTransport(t).RoundTrip(post(t, within(t), scripted(t, answer, true), "ask"))
			if err == nil {
				t.Errorf("got %s", res.Status)
			}
		})
	}
}

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Host", r.Host)
	w.Header().Set("X-Agent", r.UserAgent())
	w.Write(text)
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	tr := newTransport(t)
	for i := range 20 {
		text := fmt.Sprint("number ", i)
		res, err := tr.RoundTrip(post(t, within(t), s.URL, text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if string(got) != text || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
		if host, agent := res.Header.Get("X-Host"), res.Header.Get("X-Agent"); "http://"+host != s.URL || agent != "Go-http-client/1.1" {
			t.Errorf("asked of %q by %q", host, agent)
		}
	}
	if n := tr.dialed.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestAConnectionThatTheServerClosedIsNotUsed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	tr := newTransport(t)
	for range 20 {
		if got := asked(tr, post(t, within(t), s.URL, "hello")); !strings.Contains(got, "hello") {
			t.Fatal(got)
		}
		s.CloseClientConnections()
	}
	if n := tr.dialed.Load(); n != 20 {
		t.Errorf("%d connections", n)
	}
}

// What is not straight goes behind, and comes back all the same.
func TestWhatGoesBehind(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(echo))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(echo))
	defer secure.Close()
	proxied := func(*http.Request) (*url.URL, error) { return url.Parse(plain.URL) }
	big := strings.Repeat("x", maxBody+1)
	for name, tc := range map[string]struct {
		url, text string
		proxy     func(*http.Request) (*url.URL, error)
		change    func(*http.Request)
		behind    int64
	}{
		"a small body":   {url: plain.URL, text: big[:maxBody]},
		"a big body":     {url: plain.URL, text: big, behind: 1},
		"TLS":            {url: secure.URL, text: "hi", behind: 1},
		"by a proxy":     {url: "http://else.where.test", text: "hi", proxy: proxied, behind: 1},
		"unknown length": {url: plain.URL, text: "hi", change: func(r *http.Request) { r.ContentLength = -1 }, behind: 1},
		"an upgrade":     {url: plain.URL, text: "hi", change: func(r *http.Request) { r.Header.Set("Upgrade", "x") }, behind: 1},
		"an expectation": {url: plain.URL, text: "hi", change: func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, behind: 1},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t)
			tr.Behind.Proxy = tc.proxy
			tr.Behind.TLSClientConfig = secure.Client().Transport.(*http.Transport).TLSClientConfig
			r := post(t, within(t), tc.url, tc.text)
			if tc.change != nil {
				tc.change(r)
			}
			if got := asked(tr, r); !strings.Contains(got, tc.text) {
				t.Errorf("got %.200s", got)
			}
			if tr.behind.Load() != tc.behind || tr.dialed.Load() != 1-tc.behind {
				t.Errorf("%d straight, %d behind", tr.dialed.Load(), tr.behind.Load())
			}
		})
	}
}

// gated is a server that says hello, then waits until its client has gone or it may end.
func gated(t testing.TB, hello bool) (s *httptest.Server, end, left chan struct{}) {
	end, left = make(chan struct{}), make(chan struct{}, 100)
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if hello {
			io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
		}
		select {
		case <-end:
		case <-r.Context().Done():
			left <- struct{}{}
		}
	}))
	t.Cleanup(s.Close)
	return s, end, left
}

func TestACancelledContextEndsTheRequest(t *testing.T) {
	why := errors.New("nobody waits any more")
	t.Run("before the head", func(t *testing.T) {
		s, _, left := gated(t, false)
		ctx, cancel := context.WithCancelCause(within(t))
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		if _, err := newTransport(t).RoundTrip(post(t, ctx, s.URL, "ask")); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		<-left
	})
	t.Run("in the body", func(t *testing.T) {
		s, _, left := gated(t, true)
		ctx, cancel := context.WithCancelCause(within(t))
		tr := newTransport(t)
		res, err := tr.RoundTrip(post(t, ctx, s.URL, "ask"))
		if err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, text); string(text) != "hello" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		if _, err := res.Body.Read(text); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		<-left
		if len(tr.idle) > 0 {
			t.Error("its connection is kept")
		}
	})
	t.Run("before it begins", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(within(t))
		cancel(why)
		tr := newTransport(t)
		if _, err := tr.RoundTrip(post(t, ctx, "http://127.0.0.1:1", "ask")); !errors.Is(err, why) || tr.dialed.Load() > 0 {
			t.Errorf("got %v", err)
		}
	})
}

func TestClosingABodyEndsItsReader(t *testing.T) {
	s, _, left := gated(t, true)
	res, err := newTransport(t).RoundTrip(post(t, within(t), s.URL, "ask"))
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(res.Body)
		read <- err
	}()
	time.AfterFunc(20*time.Millisecond, func() { res.Body.Close() })
	if err := <-read; err == nil {
		t.Error("the body ended well")
	}
	<-left
}

// A stream's pieces come when they are sent.
func TestAStreamIsLive(t *testing.T) {
	s, end, _ := gated(t, true)
	tr := newTransport(t)
	res, err := tr.RoundTrip(post(t, within(t), s.URL, "ask"))
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 5)
	if _, err := io.ReadFull(res.Body, text); string(text) != "hello" || err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	close(end)
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.idle) != 1 {
		t.Error("its connection is not kept")
	}
}

func TestManyAtOnce(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	tr := newTransport(t)
	ctx := within(t)
	var wg sync.WaitGroup
	for worker := range 32 {
		wg.Go(func() {
			for i := range 50 {
				text := bytes.Repeat([]byte{byte('a' + worker%26)}, 1+rand.IntN(20_000))
				some, cancel := context.WithCancel(ctx)
				if i%7 == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, cancel)
				}
				res, err := tr.RoundTrip(post(t, some, s.URL, string(text)))
				if err == nil {
					var got []byte
					got, err = io.ReadAll(res.Body)
					if err == nil && !bytes.Equal(got, text) {
						t.Errorf("%d bytes of %q for %d of %q", len(got), got[:1], len(text), text[:1])
					}
					res.Body.Close()
				}
				if err != nil && some.Err() == nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
}

// A connection that nobody uses is closed after a while.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Bool
		tr := &Transport{Behind: &http.Transport{}, Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				in := bufio.NewReader(theirs)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						closed.Store(true)
						return
					}
					io.Copy(io.Discard, r.Body)
					io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
				}
			}()
			return ours, nil
		}}
		for range 3 {
			if got := asked(tr, post(t, t.Context(), "http://model.test/v1", "ask")); !strings.Contains(got, "hi") {
				t.Fatal(got)
			}
			time.Sleep(idleTime / 2)
		}
		if closed.Load() {
			t.Fatal("closed while it was in use")
		}
		time.Sleep(2 * idleTime)
		synctest.Wait()
		if !closed.Load() {
			t.Error("it is kept for ever")
		}
		if tr.sweeping || len(tr.idle) > 0 {
			t.Error("the sweep goes on")
		}
	})
}
