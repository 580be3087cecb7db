package terminal

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/screen"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// pruned tells a session's observer of the sessions that made room, and the embedder's own observer of all.
type pruned struct {
	session.Observer
	to Observer
}

// Pruned tells that room was made.
func (p pruned) Pruned(gone session.Pruned) {
	p.to.Observe(SessionPruned{Session: gone.ID, Alive: gone.Alive, Why: gone.Why})
	if p.Observer != nil {
		p.Observer.Pruned(gone)
	}
}

// Output passes a delta on.
func (p pruned) Output(id, stream int, data []byte) {
	if p.Observer != nil {
		p.Observer.Output(id, stream, data)
	}
}

// Ended passes an end on.
func (p pruned) Ended(id int, exit process.Exit, err error) {
	if p.Observer != nil {
		p.Observer.Ended(id, exit, err)
	}
}

const (
	maxDelta = 8 << 10 // of one delta; larger ones are parted
	maxLast  = 16 << 10
)

// deltas passes one call's output to an observer, whole characters and at most so many times, and sums it up for its end.
type deltas struct {
	to     Observer
	callID string

	mu       sync.Mutex
	sent     int
	rest     [3][]byte // of each stream: the begun character
	preview  []byte
	last     []byte // the end of all, as much as may say why the command failed
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
	d.last = append(d.last, data[max(0, len(data)-maxLast):]...)
	if len(d.last) > 2*maxLast {
		d.last = append(d.last[:0], d.last[len(d.last)-maxLast:]...)
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

// said is the end of the output, as it would be shown.
func (d *deltas) said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return screen.Render(d.last, 0).String()
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
