package chat

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/sse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// packer writes chunks as they come and, in silence, comments, by a timer that runs beside the stream's own goroutine.
// Nothing is written before the first news, so that what fails at once is an HTTP error.
type packer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	every time.Duration

	mu     sync.Mutex
	timer  *time.Timer
	last   time.Time
	begun  bool
	closed bool
	err    error
}

func newPacker(w http.ResponseWriter, every time.Duration) *packer {
	p := &packer{w: w, rc: http.NewResponseController(w), every: every, last: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.tick)
	return p
}

func (p *packer) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.err != nil {
		return
	}
	silent := time.Since(p.last)
	if silent >= p.every {
		p.write(sse.AppendComment(nil, "keepalive"))
		silent = 0
	}
	p.timer.Reset(p.every - silent)
}

// write sends bytes. The lock is held.
func (p *packer) write(b []byte) {
	if !p.begun {
		p.begun = true
		h := p.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
	}
	p.last = time.Now()
	if _, p.err = p.w.Write(b); p.err == nil {
		p.err = p.rc.Flush()
	}
	if p.err != nil {
		p.err = errors.Join(response.ErrClientGone, p.err)
	}
}

func (p *packer) send(chunks []object) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b []byte
	for _, c := range chunks {
		b = sse.AppendFrame(b, "", marshal(c))
	}
	if len(b) > 0 && p.err == nil {
		p.write(b)
	}
	return p.err
}

func (p *packer) finish(chunks []object) error {
	if err := p.send(chunks); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write([]byte("data: [DONE]\n\n"))
	return p.err
}

// fail tells a client that has seen a beginning why there is no more; any other gets the error as its answer.
func (p *packer) fail(err error) (told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		return false
	}
	d := gateway.Describe(err, p.w.Header().Get("X-Request-Id"))
	p.write(sse.AppendFrame(nil, "", marshal(openai.ErrorBody{Error: openai.ErrorObject{Message: d.Message, Type: "server_error", Code: &d.Code}})))
	return true
}

func (p *packer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.timer.Stop()
}
