package anthropic

import (
	"bufio"
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
	// drain bounds the wait for the end of a body behind message_stop: a body read to its end leaves a connection to
	// use again.
	drain = 50 * time.Millisecond
	// lateStop bounds the wait for message_stop behind the stop reason, for servers that forget it.
	lateStop = 10 * time.Second
)

// follow reads an answer of status 200 to its end.
func (p *Provider) follow(ctx context.Context, res *http.Response, body *watch, d *decoder) *failure {
	var r io.Reader = body
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != "text/event-stream" {
		sniffed := bufio.NewReader(body)
		switch firstByte(sniffed) {
		case '{':
			return p.whole(ctx, sniffed, d)
		case 'd', 'e', 'i', 'r', ':', 0xEF: // data, event, id, retry, a comment, a byte order mark
			r = sniffed
		default:
			head, err := io.ReadAll(io.LimitReader(sniffed, maxMessage))
			if err != nil && len(head) == 0 {
				return p.cut(ctx, err)
			}
			return &failure{err: fault.Wrap(fault.Upstream, errors.New(clean(string(head), p.secrets)),
				"%s answered with something that is no event stream (content type %q)", p.o.Name, clean(res.Header.Get("Content-Type"), p.secrets)).
				WithCode("server_error").WithTry("check the provider's base_url: it must be the part before /v1/messages")}
		}
	}
	frames := sse.NewReader(r)
	for !d.turn.Gone() && !d.done {
		frame, err := frames.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if d.finished() {
				break // only message_stop was still to come
			}
			return p.cut(ctx, err)
		}
		if err := d.data(frame.Name, frame.Data); err != nil {
			return p.told(err)
		}
		if d.finished() {
			body.idle = min(body.idle, lateStop)
		}
	}
	if d.turn.Gone() {
		return nil
	}
	if _, err := d.close(); err != nil {
		return p.told(err)
	}
	body.idle = drain
	io.CopyN(io.Discard, r, maxErrorBody) // for the connection's sake alone
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

// whole reads an answer that came in one piece: a message, or an error under status 200.
func (p *Provider) whole(ctx context.Context, r io.Reader, d *decoder) *failure {
	raw, err := io.ReadAll(io.LimitReader(r, maxWhole))
	if err != nil {
		return p.cut(ctx, err)
	}
	if err := d.whole(raw); err != nil {
		return p.told(err)
	}
	if _, err := d.close(); err != nil {
		return p.told(err)
	}
	return nil
}

// cut is the failure for an answer that broke.
func (p *Provider) cut(ctx context.Context, err error) *failure {
	if context.Cause(ctx) == errIdle {
		return &failure{err: fault.New(fault.Upstream, "%s sent nothing for %s", p.o.Name, p.o.IdleTimeout.Round(time.Millisecond)).
			WithCode("server_error")}
	}
	return &failure{again: true, err: fault.Wrap(fault.Upstream, errors.New(clean(err.Error(), p.secrets)), "%s broke off in the middle of the answer",
		p.o.Name).WithCode("server_error").WithTry("the same request again")}
}
