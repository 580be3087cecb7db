package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/sse"
)

const (
	// maxWhole bounds an answer in one piece.
	maxWhole = 32 << 20
	// maxOdd bounds what is read of an answer that is neither a stream nor JSON.
	maxOdd = 8 << 10
	// drain bounds the wait for the end of a body behind the last frame: a body read to its end leaves a connection to
	// use again.
	drain    = 50 * time.Millisecond
	maxDrain = 64 << 10
	// late bounds the wait for what may still come when the model has ended, as usage may, for servers that never end
	// the stream.
	late = 10 * time.Second
)

// Frames are a stream's frames, one after the other. [sse.Reader] is what nearly all servers send.
type Frames interface {
	// Next returns the next frame, and io.EOF at the end of the stream. Its data is valid until the next call.
	Next() (sse.Event, error)
	// Ready says that the next frame is there already.
	Ready() bool
}

// follow reads an answer of status 200 to its end.
func (s *Server) follow(ctx context.Context, res *http.Response, body *watch, a Answer) error {
	var r io.Reader = body
	var frames Frames
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case s.d.Framing != nil && media == s.d.FramingType:
		frames = s.d.Framing(r)
	case media != "text/event-stream":
		// Some servers stream under another name; some answer whole, with an error or with a web page.
		sniffed := bufio.NewReaderSize(body, 16) // 16 is the least: to sniff is all it is for
		switch firstByte(sniffed) {
		case '{':
			return s.whole(ctx, sniffed, res.ContentLength, a)
		case 'd', 'e', 'i', 'r', ':', 0xEF: // data, event, id, retry, a comment, a byte order mark
			r = sniffed
		default:
			head, err := io.ReadAll(io.LimitReader(sniffed, maxOdd)) // more than is shown, lest a secret be cut and not known
			if err != nil && len(head) == 0 {
				return s.cut(ctx, err)
			}
			return &failure{err: s.noStream(res.Header.Get("Content-Type"), head)}
		}
	}
	if frames == nil {
		frames = sse.NewReader(r)
	}
	for !a.Over() {
		frame, err := frames.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if a.Late() {
				break // nothing that matters was still to come
			}
			return s.cut(ctx, err)
		}
		if err := a.Frame(frame, frames.Ready()); err != nil {
			return err
		}
		if a.Late() {
			body.idle = min(body.idle, late)
		}
	}
	if a.Gone() {
		return nil
	}
	if err := a.End(); err != nil {
		return err
	}
	body.idle = drain
	io.CopyN(io.Discard, r, maxDrain) // for the connection's sake alone
	return nil
}

// firstByte is the first byte that is no white space, 0 if there is none.
func firstByte(r *bufio.Reader) byte {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0
		}
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			r.UnreadByte()
			return c
		}
	}
}

// whole reads an answer that came in one piece. length is what the server says that it has, -1 if it does not say; it
// is not relied on.
func (s *Server) whole(ctx context.Context, r io.Reader, length int64, a Answer) error {
	buf := bytes.NewBuffer(make([]byte, 0, min(max(length, 1<<10), 1<<20)+bytes.MinRead)) // room to see the end in
	if _, err := buf.ReadFrom(io.LimitReader(r, maxWhole)); err != nil {
		return s.cut(ctx, err)
	}
	if err := a.Whole(bytes.TrimSpace(buf.Bytes())); err != nil {
		return err
	}
	return a.End()
}

// cut is the failure for an answer that broke.
func (s *Server) cut(ctx context.Context, err error) error {
	if context.Cause(ctx) == errIdle {
		return &failure{err: fault.New(fault.Upstream, "%s sent nothing for %s", s.o.Name, s.o.IdleTimeout.Round(time.Millisecond)).
			WithCode("server_error")}
	}
	return &failure{again: true, err: fault.Wrap(fault.Upstream, errors.New(s.clean(err.Error())), "%s broke off in the middle of the answer",
		s.o.Name).WithCode("server_error").WithTry("the same request again")}
}
