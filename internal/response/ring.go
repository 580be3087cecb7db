package response

import "github.com/hardshell-dev/hardshell/internal/wire/openai"

// Frame is one event as it is stored and sent: Data is its JSON, byte for byte. Frames are never changed.
type Frame struct {
	Seq  int64
	Type string
	Data []byte
}

// frameCost is what a frame takes in memory besides its bytes.
const frameCost = 48

// Encoded events are packed into chunks that grow with the run, so that an event costs no allocation of its own and
// an idle run little memory.
const (
	firstChunk = 2 << 10
	lastChunk  = 32 << 10
)

// ring holds the newest events of a run, without a gap: [first, end). What a reader has taken out of it stays valid:
// frames are only ever added behind and left out in front, in a copy.
type ring struct {
	first  int64
	frames []Frame
	bytes  int
	chunk  []byte
	grow   int
}

func (q *ring) end() int64 { return q.first + int64(len(q.frames)) }

// add numbers an event, encodes it and takes it in. On an error nothing has happened.
func (q *ring) add(ev openai.Event) error {
	if cap(q.chunk)-len(q.chunk) < 512 {
		q.grow = min(max(firstChunk, 2*q.grow), lastChunk)
		q.chunk = make([]byte, 0, q.grow)
	}
	seq, at := q.end(), len(q.chunk)
	ev.SetSequence(seq)
	grown, err := openai.AppendEvent(q.chunk, ev)
	if err != nil {
		return err
	}
	q.put(Frame{Seq: seq, Type: ev.EventType(), Data: grown[at:len(grown):len(grown)]})
	if q.chunk = grown; cap(grown) > lastChunk {
		q.chunk = nil // a large event has moved to memory of its own; small ones must not keep it alive
	}
	return nil
}

func (q *ring) put(f Frame) {
	q.frames = append(q.frames, f)
	q.bytes += len(f.Data) + frameCost
}

// slice returns the events [from, to), which the ring must hold.
func (q *ring) slice(from, to int64) []Frame {
	a, b := from-q.first, to-q.first
	return q.frames[a:b:b]
}

// drop forgets the events before seq.
func (q *ring) drop(seq int64) {
	n := int(seq - q.first)
	if n <= 0 {
		return
	}
	for _, f := range q.frames[:n] {
		q.bytes -= len(f.Data) + frameCost
	}
	q.frames = append(make([]Frame, 0, 2*(len(q.frames)-n)+8), q.frames[n:]...)
	q.first = seq
}
