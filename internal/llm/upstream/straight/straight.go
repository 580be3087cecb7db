// Package straight asks an HTTP/1.1 server on the caller's own goroutine.
//
// http.Transport hands each request to a goroutine that writes and its answer to another that reads, which pays for
// pipelining of big bodies, HTTP/2 and much else. A model server on the same machine or network is asked for a few
// kilobytes over plain HTTP, and there the two hand-overs are a good part of what a gateway adds. So small requests to http
// URLs go straight: written, and the head of the answer read, by who asks. Everything else goes to the transport behind
// it: TLS, a proxy, a body that may not fit into the socket's buffers (a server that answers without reading it would be
// waited for in vain), an upgrade.
//
// What holds as for http.Transport: a cancelled context ends the request and the reading of its body with the context's
// cause; a connection is used again only when an answer was read to its end and the server means to keep it; one that the
// server has closed while it was idle is not used; heads are bounded.
package straight

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	maxBody  = 32 << 10 // fits into any socket's buffers
	maxHead  = 1 << 20
	maxIdle  = 512 // connections a server
	idleTime = 90 * time.Second
)

// Transport is an http.RoundTripper. It is safe for use by many goroutines.
type Transport struct {
	// Dial opens a connection.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Behind takes what does not go straight.
	Behind *http.Transport

	mu       sync.Mutex
	idle     map[string][]*conn // by address, the one that was used last at the end
	sweeping bool
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	address, ok := t.goes(r)
	if !ok {
		return t.Behind.RoundTrip(r)
	}
	ctx := r.Context()
	c, err := t.conn(ctx, address)
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	// From here on only the end of the answer's body, or its Close, lets the context go.
	c.stop = context.AfterFunc(ctx, c.interrupt)
	res, err := c.ask(r)
	if r.Body != nil {
		r.Body.Close()
	}
	if err != nil {
		c.close()
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	c.keep = !res.Close && !r.Close
	if res.Body == http.NoBody {
		c.release()
		return res, nil
	}
	res.Body = &body{src: res.Body, c: c, ctx: ctx}
	return res, nil
}

// goes says whether a request goes straight, and to which address.
func (t *Transport) goes(r *http.Request) (address string, ok bool) {
	if r.URL.Scheme != "http" || r.ContentLength < 0 || r.ContentLength > maxBody || r.ContentLength == 0 && r.Body != nil && r.Body != http.NoBody ||
		r.Method == http.MethodConnect || r.Method == http.MethodHead || r.Header.Get("Upgrade") != "" || r.Header.Get("Expect") != "" {
		return "", false
	}
	host, port := r.URL.Hostname(), r.URL.Port()
	for i := range len(host) {
		if host[i] >= 0x80 {
			return "", false
		}
	}
	if t.Behind.Proxy != nil {
		if proxy, err := t.Behind.Proxy(r); proxy != nil || err != nil {
			return "", false
		}
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(host, port), host != ""
}

// conn takes an idle connection that still stands, or opens one.
func (t *Transport) conn(ctx context.Context, address string) (*conn, error) {
	for {
		t.mu.Lock()
		list := t.idle[address]
		if len(list) == 0 {
			t.mu.Unlock()
			break
		}
		c := list[len(list)-1]
		list[len(list)-1] = nil
		t.idle[address] = list[:len(list)-1]
		t.mu.Unlock()
		if quiet(c.Conn) {
			return c, nil
		}
		c.Close()
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	nc, err := t.Dial(ctx, "tcp", address)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	c := &conn{Conn: nc, t: t, address: address}
	c.in = bufio.NewReaderSize(&c.head, 16<<10)
	c.head.src = nc
	c.out = bufio.NewWriterSize(nc, 4<<10)
	c.interrupt = func() { nc.SetDeadline(time.Unix(1, 0)) } // whoever reads or writes is woken
	return c, nil
}

// put makes a connection idle.
func (t *Transport) put(c *conn) {
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = map[string][]*conn{}
	}
	if len(t.idle[c.address]) >= maxIdle {
		c.Close()
		return
	}
	t.idle[c.address] = append(t.idle[c.address], c)
	if !t.sweeping {
		t.sweeping = true
		time.AfterFunc(idleTime, t.sweep)
	}
}

// sweep closes what was idle for too long, and comes again while anything is idle.
func (t *Transport) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(time.Now().Add(-idleTime))
	if t.sweeping = len(t.idle) > 0; t.sweeping {
		time.AfterFunc(idleTime, t.sweep)
	}
}

// drop closes what is idle since before a time. It needs the lock.
func (t *Transport) drop(before time.Time) {
	for address, list := range t.idle {
		n := 0
		for n < len(list) && list[n].since.Before(before) {
			list[n].Close()
			n++
		}
		if list = list[n:]; len(list) == 0 {
			delete(t.idle, address)
		} else {
			t.idle[address] = list
		}
	}
}

// CloseIdleConnections closes what is idle, also behind.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	t.drop(time.Now().Add(time.Hour))
	t.mu.Unlock()
	t.Behind.CloseIdleConnections()
}

// conn is a connection, used by one request at a time.
type conn struct {
	net.Conn
	t       *Transport
	address string
	in      *bufio.Reader
	out     *bufio.Writer
	head    bounded
	since   time.Time // when it became idle

	// For the request under way.
	interrupt func()
	stop      func() bool // lets the context go; false: it has ended, and the deadline is set
	keep      bool        // the server means to go on
}

// ask writes the request and reads the head of its answer.
func (c *conn) ask(r *http.Request) (*http.Response, error) {
	if err := r.Write(c.out); err != nil {
		return nil, err
	}
	if err := c.out.Flush(); err != nil {
		return nil, err
	}
	c.head.left = maxHead
	for {
		res, err := http.ReadResponse(c.in, r)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF:
			if c.head.left == 0 {
				return nil, fmt.Errorf("the head of the answer is larger than %d bytes", maxHead)
			}
			return nil, errors.New("the server closed the connection without an answer")
		case err != nil:
			return nil, err
		case res.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server changes the protocol, unasked")
		case res.StatusCode >= 200:
			c.head.left = -1
			return res, nil
		}
	}
}

// release lets the context go and keeps the connection if it can be used again.
func (c *conn) release() {
	if c.stop() && c.keep && c.in.Buffered() == 0 {
		c.t.put(c)
		return
	}
	c.Close()
}

// close lets the context go and closes the connection.
func (c *conn) close() {
	c.stop()
	c.Close()
}

// bounded reads no more than what is left; less than 0 is no bound.
type bounded struct {
	src  io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return b.src.Read(p)
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.src.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// body is an answer's. It lets the connection go at its end or when it is closed, which another goroutine may do.
type body struct {
	src io.Reader
	ctx context.Context

	mu  sync.Mutex
	c   *conn // nil: let go
	err error // of the reads from now on
}

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := b.src.Read(p)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		return n, b.err // closed meanwhile
	}
	if err == io.EOF {
		b.c.release()
	} else {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
		b.c.close()
	}
	b.c, b.err = nil, err
	return n, err
}

// Close lets go of the connection. What is still to come is not waited for.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		b.c.close()
		b.c = nil
	}
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}
