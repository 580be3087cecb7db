package egress

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// answer writes a response with framing of our own: its length, its end and its connection headers are not the
// upstream's, nor is its phrase, which could hold anything.
func answer(w io.Writer, req *http.Request, resp *http.Response, last bool) error {
	out := bufio.NewWriterSize(w, 8<<10)
	out.WriteString("HTTP/1.1 " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode) + "\r\n")
	none := resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
	chunked := false
	h := resp.Header
	h.Del("Content-Length")
	switch {
	case none:
	case resp.ContentLength >= 0:
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	case req.Method != http.MethodHead && req.ProtoAtLeast(1, 1):
		h.Set("Transfer-Encoding", "chunked")
		chunked = true
	}
	if last {
		h.Set("Connection", "close")
	}
	h.Write(out)
	out.WriteString("\r\n")
	if none || req.Method == http.MethodHead || resp.ContentLength == 0 {
		return out.Flush()
	}
	if resp.ContentLength < 0 {
		if err := out.Flush(); err != nil { // a stream's head does not wait for its first piece
			return err
		}
	}
	var to io.Writer = out
	if chunked {
		to = httputil.NewChunkedWriter(out)
	}
	if err := copyFlushed(to, out, resp.Body); err != nil {
		return err
	}
	if chunked {
		out.WriteString("0\r\n\r\n")
	}
	return out.Flush()
}

// copyFlushed passes each piece on as it comes: the body may be a stream of events.
func copyFlushed(to io.Writer, out *bufio.Writer, from io.Reader) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return err
			}
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A body is a request's body as the transport reads it. The transport may read on after it has answered; stop makes
// sure that it no longer does.
type body struct {
	from    io.Reader
	conn    net.Conn // the client, to wake a read
	ended   atomic.Bool
	stopped atomic.Bool
	whole   func()     // called when it has ended
	reading sync.Mutex // held during a read

	inviting sync.Mutex
	invite   io.Writer // where 100 Continue is still to be said, or nil
}

var errAnswered = errors.New("the request was answered")

func newBody(conn net.Conn, out io.Writer, req *http.Request, whole func()) *body {
	b := &body{from: req.Body, conn: conn, whole: whole}
	if req.ContentLength == 0 {
		b.ended.Store(true)
		whole()
	}
	if req.Header.Get("Expect") != "" {
		b.invite = out
	}
	return b
}

// Read reads from the client, who is first told to go on if it asked.
func (b *body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.stopped.Load() {
		return 0, errAnswered
	}
	b.inviting.Lock()
	if b.invite != nil {
		io.WriteString(b.invite, "HTTP/1.1 100 Continue\r\n\r\n")
		b.invite = nil
	}
	b.inviting.Unlock()
	n, err := b.from.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
		b.whole()
	}
	return n, err
}

// Close does nothing: what is left of a body is for the session to deal with.
func (b *body) Close() error { return nil }

// answered ends invitations: once an answer begins they would be taken for a part of it.
func (b *body) answered() {
	b.inviting.Lock()
	b.invite = nil
	b.inviting.Unlock()
}

// stop returns when nobody reads the body any more. A read that waits for the client is woken.
func (b *body) stop() {
	b.stopped.Store(true)
	if b.ended.Load() {
		return
	}
	for !b.reading.TryLock() {
		b.conn.SetReadDeadline(time.Unix(1, 0))
		time.Sleep(time.Millisecond)
	}
	b.reading.Unlock()
}
