package anthropic

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/sse"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// packer writes a message as it comes. Its first events wait for the first news, so that what fails at once is an HTTP
// error, as the vendor answers it. In silence it sends pings, by a timer that runs beside the stream's own goroutine.
type packer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	every time.Duration

	mu     sync.Mutex
	timer  *time.Timer
	last   time.Time // when something was sent
	buf    []byte    // events that wait to be sent
	open   []byte    // message_start; nil once it is told
	err    error
	closed bool
}

func newPacker(w http.ResponseWriter, every time.Duration, open wire.Response) *packer {
	p := &packer{w: w, rc: http.NewResponseController(w), every: every, last: time.Now()}
	p.open = appendEvent(nil, wire.Event{Type: wire.EventMessageStart, Message: &open})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.tick)
	return p
}

// appendEvent appends an event as SSE. Nine in ten are deltas of text or arguments, which are written by hand.
func appendEvent(b []byte, ev wire.Event) []byte {
	key, text := "", ""
	switch {
	case ev.Type != wire.EventBlockDelta:
	case ev.Delta.Type == wire.DeltaText:
		key, text = "text", ev.Delta.Text
	case ev.Delta.Type == wire.DeltaInput:
		key, text = "partial_json", ev.Delta.PartialJSON
	case ev.Delta.Type == wire.DeltaThinking:
		key, text = "thinking", ev.Delta.Thinking
	}
	if key == "" {
		return sse.AppendFrame(b, ev.Type, marshal(ev))
	}
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = strconv.AppendInt(b, int64(ev.Index), 10)
	b = append(b, ",\"delta\":{\"type\":\""...)
	b = append(b, ev.Delta.Type...)
	b = append(b, "\",\""...)
	b = append(b, key...)
	b = append(b, "\":"...)
	b = openai.AppendString(b, text)
	return append(b, "}}\n\n"...)
}

// tick sends a ping where nothing was sent for a whole interval.
func (p *packer) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.err != nil {
		return
	}
	silent := time.Since(p.last)
	if silent >= p.every {
		p.begin()
		p.buf = appendEvent(p.buf, wire.Event{Type: wire.EventPing})
		p.send()
		silent = 0
	}
	p.timer.Reset(p.every - silent)
}

// begin tells the message's beginning, once.
func (p *packer) begin() {
	if p.open == nil {
		return
	}
	h := p.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	p.buf, p.open = append(p.open, p.buf...), nil
}

func (p *packer) send() {
	if p.err != nil || len(p.buf) == 0 {
		return
	}
	p.last = time.Now()
	if _, p.err = p.w.Write(p.buf); p.err == nil {
		p.err = p.rc.Flush()
	}
	if p.err != nil {
		p.err = errors.Join(response.ErrClientGone, p.err)
	}
	p.buf = p.buf[:0]
}

func (p *packer) event(ev wire.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin()
	p.buf = appendEvent(p.buf, ev)
}

func (p *packer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send()
	return p.err
}

func (p *packer) finish(end wire.Event) error {
	p.event(end)
	p.event(wire.Event{Type: wire.EventMessageStop})
	return p.flush()
}

// fail tells a client that has seen a beginning why there is no more; any other gets the error as its answer.
func (p *packer) fail(err error) (told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil {
		return false
	}
	_, body := errorOf(err, p.w.Header().Get("X-Request-Id"))
	p.buf = sse.AppendFrame(p.buf, wire.EventError, marshal(body))
	p.send()
	return true
}

func (p *packer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.timer.Stop()
}
