package openai

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/sse"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// firstByte is how long the headers wait for the first events, which usually are ready at once and then share
	// their packet. After it they go alone, with a comment.
	firstByte = 5 * time.Millisecond
	// linger is how soon after a packet another one may follow. Events of a burst share one, which costs each reader
	// less than waking up for every token; an event that comes alone is never held.
	linger = time.Millisecond
	// batchBytes is where a packet is cut. Some readers lose a frame that a network chunk splits, so a write stays below
	// 16 KiB unless one frame alone is larger.
	batchBytes = 15 << 10
)

// stream writes a response's events as SSE until its terminal event. It returns an error when the client or the
// server stopped earlier; the client then sees an `error` event that says why, and the connection cut.
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
			return out.finish("data: [DONE]\n\n")
		}
		if err != nil {
			if r.Context().Err() != nil {
				return response.ErrClientGone
			}
			out.end()          // from here on no comment reads the head of the answer
			gateway.NoRetry(w) // where no byte was sent yet this becomes an answer, and a command may have run
			out.fail(errorObject(err, w.Header().Get("X-Request-Id")))
			return err
		}
		if err := out.write(frames); err != nil {
			return err
		}
	}
}

var (
	streamType = []string{"text/event-stream; charset=utf-8"}
	noCache    = []string{"no-cache, no-transform"}
	noBuffer   = []string{"no"}
)

// eventWriter gathers frames into packets and, in silence, sends keepalive comments. Its timer runs beside the
// stream's own goroutine; the lock keeps a comment from landing inside a frame, and after end from landing anywhere.
type eventWriter struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	every time.Duration

	mu    sync.Mutex
	timer *time.Timer
	due   time.Time // when the timer fires
	last  time.Time // of the last packet; zero before the first
	buf   []byte    // frames that wait for their packet
	seq   int64     // of the last frame
	err   error
	ended bool
}

func (e *eventWriter) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := min(firstByte, e.every)
	e.due = time.Now().Add(first)
	e.timer = time.AfterFunc(first, e.tick)
}

func (e *eventWriter) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.timer.Stop()
}

// tick sends what waits, or a comment if nothing was sent for a whole interval, and comes back when the next one may
// be due.
func (e *eventWriter) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended || e.err != nil {
		return
	}
	now := time.Now()
	if len(e.buf) == 0 && (e.last.IsZero() || now.Sub(e.last) >= e.every) {
		e.buf = sse.AppendComment(e.buf, "keepalive")
	}
	e.send(now)
	e.arm(now, e.last.Add(e.every))
}

// arm makes the timer fire at t or earlier: one that is due before is left alone, sends what waits and comes again.
func (e *eventWriter) arm(now, t time.Time) {
	if e.due.After(now) && !e.due.After(t) {
		return
	}
	e.due = t
	e.timer.Reset(t.Sub(now))
}

// write puts frames into packets. What it leaves waiting, the timer sends.
func (e *eventWriter) write(frames []response.Frame) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for _, f := range frames {
		if len(e.buf) > 0 && len(e.buf)+len(f.Type)+len(f.Data)+16 > batchBytes {
			e.send(now)
		}
		if e.err != nil {
			return e.err
		}
		e.buf = sse.AppendFrame(e.buf, f.Type, f.Data)
		e.seq = f.Seq
	}
	switch {
	case e.last.IsZero() && !slices.ContainsFunc(frames, carriesNews):
		e.arm(now, now.Add(linger)) // the opening words; the first real event takes them along
	case now.Sub(e.last) >= linger:
		e.send(now)
	default:
		e.arm(now, e.last.Add(linger))
	}
	return e.err
}

// carriesNews says whether somebody may wait for the frame: all but those that say that a response has begun.
func carriesNews(f response.Frame) bool {
	return f.Type != wire.EventCreated && f.Type != wire.EventInProgress && f.Type != wire.EventQueued
}

// finish sends everything that waits, and the end mark.
func (e *eventWriter) finish(mark string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.buf)+len(mark) > batchBytes+1<<10 {
		e.send(time.Now())
	}
	e.buf = append(e.buf, mark...)
	e.send(time.Now())
	return e.err
}

// fail tells a client that has seen a beginning why there is no more. The event is not one of the response's: it has
// the number of the last that is, so that a client which resumes behind it misses nothing. Its fields stand in it twice,
// as some readers look for them beside the type and some within `error`.
func (e *eventWriter) fail(o wire.ErrorObject) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last.IsZero() && len(e.buf) == 0 {
		return
	}
	data, err := wire.Marshal(struct {
		Type    string           `json:"type"`
		Code    *string          `json:"code"`
		Message string           `json:"message"`
		Param   *string          `json:"param"`
		Number  int64            `json:"sequence_number"`
		Error   wire.ErrorObject `json:"error"`
	}{"error", o.Code, o.Message, o.Param, e.seq, o})
	if err != nil { // strings always marshal
		return
	}
	e.buf = sse.AppendFrame(e.buf, "error", data)
	e.send(time.Now())
}

// send writes and flushes what waits, as one packet.
func (e *eventWriter) send(now time.Time) {
	if e.err != nil || len(e.buf) == 0 {
		return
	}
	e.last = now
	if _, e.err = e.w.Write(e.buf); e.err == nil {
		e.err = e.rc.Flush()
	}
	if e.err != nil {
		e.err = errors.Join(response.ErrClientGone, e.err)
	}
	e.buf = e.buf[:0]
}
