package terminal

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// events passes a session's events to its observer, and knows which call a live command belongs to.
type events struct {
	to Observer

	mu   sync.Mutex
	live map[int]*liveCall
}

// liveCall is what is told of a live command when it ends.
type liveCall struct {
	deltas *deltas
	end    ExecCommandEnd
}

func newEvents(to Observer) *events { return &events{to: to, live: map[int]*liveCall{}} }

// follow is told of a command that may live on, before it starts.
func (e *events) follow(id int, end ExecCommandEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	end.Session = id
	e.live[id] = &liveCall{deltas: newDeltas(e.to, end.CallID), end: end}
}

// forget takes back a follow: the command never started.
func (e *events) forget(id int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, id)
}

// of is the observer of a session's store. next is one that the embedder wants told too; nil is none.
func (e *events) of(next session.Observer) session.Observer { return storeEvents{e, next} }

type storeEvents struct {
	*events
	next session.Observer
}

// Output passes a delta on.
func (e storeEvents) Output(id, stream int, data []byte) {
	e.mu.Lock()
	call := e.live[id]
	e.mu.Unlock()
	if call != nil {
		call.deltas.write(stream, data)
	}
	if e.next != nil {
		e.next.Output(id, stream, data)
	}
}

// Ended tells of a live command's end.
func (e storeEvents) Ended(id int, exit process.Exit, err error) {
	e.mu.Lock()
	call := e.live[id]
	delete(e.live, id)
	e.mu.Unlock()
	if call != nil {
		end := call.end
		end.ExitCode, end.Signal, end.TimedOut = exit.Code, exit.Signal, exit.TimedOut
		end.Stdout, end.Stderr, end.Duration, end.At = exit.Stdout, exit.Stderr, exit.Ended.Sub(exit.Started), exit.Ended
		if err != nil {
			end.Error, end.Message = "io", err.Error()
		} else if exit.TimedOut {
			end.Error = "timeout"
		} else if exit.Signal != "" {
			end.Error = "signal"
		}
		end.Preview, end.Digest = call.deltas.sum()
		e.to.Observe(end)
	}
	if e.next != nil {
		e.next.Ended(id, exit, err)
	}
}

// Pruned tells that room was made.
func (e storeEvents) Pruned(p session.Pruned) {
	e.to.Observe(SessionPruned{Session: p.ID, Alive: p.Alive, Why: p.Why})
	if e.next != nil {
		e.next.Pruned(p)
	}
}

// maxDelta is the size of one delta; larger ones are parted.
const maxDelta = 8 << 10

// deltas passes one call's output to an observer, whole characters and at most so many times, and sums it up for its end.
type deltas struct {
	to     Observer
	callID string

	mu       sync.Mutex
	sent     int
	rest     [3][]byte // of each stream: the begun character
	preview  []byte
	digested hash.Hash
}

func newDeltas(to Observer, callID string) *deltas {
	return &deltas{to: to, callID: callID, digested: sha256.New()}
}

func (d *deltas) write(stream int, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.digested.Write(data)
	if room := TelemetryPreviewMaxBytes + 4 - len(d.preview); room > 0 {
		d.preview = append(d.preview, data[:min(room, len(data))]...)
	}
	data = append(d.rest[stream], data...)
	d.rest[stream] = nil
	for len(data) > 0 {
		n := wholeCharacters(data, maxDelta)
		if n == 0 {
			d.rest[stream] = append([]byte(nil), data...)
			return
		}
		d.send(stream, data[:n])
		data = data[n:]
	}
}

func (d *deltas) send(stream int, chunk []byte) {
	if d.sent == MaxExecOutputDeltasPerCall {
		return
	}
	d.sent++
	name := Stdout
	if stream == process.Stderr {
		name = Stderr
	}
	d.to.Observe(ExecCommandOutputDelta{CallID: d.callID, Stream: name, Chunk: chunk})
}

// sum sends what is left and returns the preview and the digest of everything.
func (d *deltas) sum() (preview, digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for stream, rest := range d.rest {
		if len(rest) > 0 {
			d.send(stream, rest)
			d.rest[stream] = nil
		}
	}
	text := string(d.preview)
	if len(d.preview) > TelemetryPreviewMaxBytes {
		text = text[:wholeCharacters(d.preview, len(d.preview))]
	}
	return TelemetryPreview(text), "sha256:" + hex.EncodeToString(d.digested.Sum(nil))
}

// wholeCharacters is how many of the first max bytes are whole characters, or cannot be the beginning of one; 0 when
// all there is may be.
func wholeCharacters(data []byte, max int) int {
	n := min(len(data), max)
	for back := 1; back <= 3 && back <= n; back++ {
		b := data[n-back]
		if b < 0x80 {
			return n
		}
		if b >= 0xC0 { // a first byte: how long is its character?
			size := 2
			if b >= 0xE0 {
				size = 3
			}
			if b >= 0xF0 {
				size = 4
			}
			if size > back {
				return n - back
			}
			return n
		}
	}
	return n
}
