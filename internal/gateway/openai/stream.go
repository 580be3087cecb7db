package openai

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/sse"
)

const (
	// firstByte is how long headers wait for the first events, which usually are ready at once and then share
	// their packet. After it they go alone, with a comment.
	firstByte = 5 * time.Millisecond
	// batchBytes is where a batch of ready frames is cut. Some readers lose a frame that a network chunk splits, so a
	// write stays below 16 KiB unless one frame alone is larger.
	batchBytes = 15 << 10
)

// stream writes a response's events as SSE until its terminal event. It returns an error when the client or the
// server stopped earlier; the client then sees the connection cut.
func (d *Door) stream(w http.ResponseWriter, r *http.Request, events Stream) error {
	defer events.Close()
	h := w.Header()
	h["Content-Type"] = streamType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffer
	out := &eventWriter{w: w, rc: http.NewResponseController(w), every: d.Keepalive}
	out.begin()
	defer out.end()
	for {
		frames, err := events.Next(r.Context())
		if errors.Is(err, io.EOF) {
			return out.write(func(b []byte) []byte { return append(b, "data: [DONE]\n\n"...) })
		}
		if err != nil {
			if r.Context().Err() != nil {
				return errClientGone
			}
			gateway.NoRetry(w) // where no byte was sent yet this becomes an answer, and a command may have run
			return err
		}
		for len(frames) > 0 {
			n := 0
			err := out.write(func(b []byte) []byte {
				for n < len(frames) && (n == 0 || len(b)+len(frames[n].Data)+64 < batchBytes) {
					b = sse.AppendFrame(b, frames[n].Type, frames[n].Data)
					n++
				}
				return b
			})
			if err != nil {
				return err
			}
			frames = frames[n:]
		}
	}
}

var (
	streamType = []string{"text/event-stream; charset=utf-8"}
	noCache    = []string{"no-cache, no-transform"}
	noBuffer   = []string{"no"}
)

// eventWriter writes batches and, in silence, keepalive comments. Its timer runs beside the stream's own goroutine;
// the lock keeps a comment from landing inside a frame, and after end from landing anywhere.
type eventWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	every time.Duration

	mu    sync.Mutex
	timer *time.Timer
	last  time.Time // of the last write; zero before the first
	buf   []byte
	err   error
	ended bool
}

func (e *eventWriter) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(min(firstByte, e.every), e.tick)
}

func (e *eventWriter) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.timer.Stop()
}

// tick sends a comment if nothing was sent for a whole interval, and comes back when the next one may be due.
func (e *eventWriter) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || e.err != nil {
		return
	}
	now := time.Now()
	if e.last.IsZero() || now.Sub(e.last) >= e.every {
		e.buf = sse.AppendComment(e.buf[:0], "keepalive")
		e.send(now)
	}
	e.timer.Reset(e.every - now.Sub(e.last))
}

// write sends what fill appends, as one write and one flush.
func (e *eventWriter) write(fill func([]byte) []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	e.buf = fill(e.buf[:0])
	e.send(time.Now())
	return e.err
}

func (e *eventWriter) send(now time.Time) {
	e.last = now
	if _, e.err = e.w.Write(e.buf); e.err == nil {
		e.err = e.rc.Flush()
	}
	if e.err != nil {
		e.err = errors.Join(errClientGone, e.err)
	}
}
