package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// body counts and times the reads of a request's body.
type body struct {
	io.ReadCloser
	raw     io.ReadCloser // without the limit
	limit   int64
	rc      *http.ResponseController
	renewed time.Time // when the read deadline was last moved
	wait    time.Duration
	ended   bool // read to its end
}

// limitBody bounds a request's body in bytes and in patience. It comes before every check: the server itself reads
// what a refused client still has to send, and must not wait for one that sends nothing.
func (g *Gateway) limitBody(w *responseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	b := &body{ReadCloser: http.MaxBytesReader(w.ResponseWriter, r.Body, g.maxBody), raw: r.Body, limit: g.maxBody, rc: w.rc, wait: g.patience}
	b.extend()
	r.Body, w.body = b, b
}

// AllowBody lets the request that w answers have a body of up to so many bytes, where that is more than every request
// may have. It is for handlers that stream what they read, and is called before the first read.
func AllowBody(w http.ResponseWriter, most int64) {
	if rw, ok := w.(*responseWriter); ok && rw.body != nil && most > rw.body.limit {
		rw.body.limit = most
		rw.body.ReadCloser = http.MaxBytesReader(rw.ResponseWriter, rw.body.raw, most)
	}
}

// extend moves the read deadline, if a quarter of it has passed. A test's recorder has none to move.
func (b *body) extend() {
	if now := time.Now(); now.Sub(b.renewed) > b.wait/4 {
		b.renewed = now
		b.rc.SetReadDeadline(now.Add(b.wait))
	}
}

// Read moves the deadline before each read and lifts it at the end: from then on the server itself reads the
// connection, to see the client go, and must not time out.
func (b *body) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
		b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}

// ReadBody returns the whole body.
func ReadBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	// The declared length is a hint from a stranger: take it, up to a bound.
	const most = 1 << 20
	size := int64(bytes.MinRead)
	if r.ContentLength > 0 {
		size += min(r.ContentLength, most)
	}
	buf := bytes.NewBuffer(make([]byte, 0, size))
	if _, err := buf.ReadFrom(r.Body); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The request body could not be read to its end.").WithCode("incomplete_body")
	}
	return buf.Bytes(), nil
}

// bodyFault finds a body limit that was passed in err's chain, whatever a room made of it.
func bodyFault(err error) error {
	var e *http.MaxBytesError
	if !errors.As(err, &e) {
		return err
	}
	return fault.Wrap(fault.TooLarge, err, "The request body is larger than %d bytes.", e.Limit).
		WithCode("request_too_large").WithTry("a smaller request, or a higher server.max_body_bytes")
}
