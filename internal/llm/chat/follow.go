package chat

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/sse"
)

// follow reads an answer of status 200 to its end.
func (p *Provider) follow(ctx context.Context, res *http.Response, body *watch, turn *llm.Turn) *failure {
	d := &decoder{turn: turn, provider: p.o.Name, secrets: p.secrets}
	var r io.Reader = body
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != "text/event-stream" {
		// Some servers stream under another name; some answer whole, with an error or with a web page.
		sniffed := bufio.NewReaderSize(body, 16) // 16 is the least: to sniff is all it is for
		switch first := firstByte(sniffed); first {
		case '{':
			return p.whole(ctx, sniffed, res.ContentLength, d)
		case 'd', 'e', 'i', 'r', ':', 0xEF: // data, event, id, retry, a comment, a byte order mark
			r = sniffed
		default:
			head, err := io.ReadAll(io.LimitReader(sniffed, maxMessage))
			if err != nil && len(head) == 0 {
				return p.cut(ctx, err)
			}
			return &failure{err: notAStream(p.o.Name, res.Header.Get("Content-Type"), head, p.secrets)}
		}
	}
	frames := sse.NewReader(r)
	for !turn.Gone() && !d.done {
		frame, err := frames.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if d.finished() {
				break // only usage was still to come
			}
			return p.cut(ctx, err)
		}
		if err := d.data(frame.Name, frame.Data); err != nil {
			return p.told(err)
		}
		d.flush(frames.Ready())
		if d.finished() {
			body.idle = min(body.idle, lateUsage)
		}
	}
	if turn.Gone() {
		return nil
	}
	if err := d.end(); err != nil {
		return p.told(err)
	}
	body.idle = drain
	io.CopyN(io.Discard, r, maxErrorBody)
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

// whole reads an answer that came in one piece: a completion, or an error under status 200. length is what the server
// says that it has, -1 if it does not say; it is not relied on.
func (p *Provider) whole(ctx context.Context, r io.Reader, length int64, d *decoder) *failure {
	buf := bytes.NewBuffer(make([]byte, 0, min(max(length, 1<<10), 1<<20)+bytes.MinRead)) // room to see the end in
	if _, err := buf.ReadFrom(io.LimitReader(r, maxWhole)); err != nil {
		return p.cut(ctx, err)
	}
	raw := buf.Bytes()
	if err := d.data("", bytes.TrimSpace(raw)); err != nil {
		return p.told(err)
	}
	d.flush(false)
	if d.finish == "" && d.turn.Items() == 0 {
		e := parseError(raw)
		if e.message == "" {
			e.message = "the answer is JSON and no completion"
		}
		return p.told(upstreamError(p.o.Name, 0, e, p.secrets))
	}
	d.done = true
	if err := d.end(); err != nil {
		return p.told(err)
	}
	return nil
}

// told is the failure for an error that the server told or that its answer is.
func (p *Provider) told(err error) *failure {
	e, ok := fault.As(err)
	if !ok {
		e = fault.Wrap(fault.Upstream, err, "%s failed", p.o.Name)
	}
	return &failure{err: e, again: e.Code == "server_error" || e.Code == "rate_limit_exceeded"}
}

// cut is the failure for a stream that broke.
func (p *Provider) cut(ctx context.Context, err error) *failure {
	switch {
	case context.Cause(ctx) == errIdle:
		return &failure{err: fault.New(fault.Upstream, "%s sent nothing for %s", p.o.Name, p.o.IdleTimeout.Round(time.Millisecond)).
			WithCode("server_error")}
	default:
		return &failure{again: true, err: fault.Wrap(fault.Upstream, err, "%s broke off in the middle of the answer", p.o.Name).
			WithCode("server_error").WithTry("the same request again")}
	}
}
