package process

import (
	"context"
	"iter"
	"unicode/utf8"
)

// The bounds of [Job.Deltas] when none are given.
const (
	MaxDeltas     = 10_000
	MaxDeltaSize  = 8 << 10
	MaxDeltaBytes = 1 << 20
)

// DeltaLimits bound what a reader is sent while a command runs, not what is captured: the spool has every byte, and
// views and readers show it. Zero values are the bounds above.
type DeltaLimits struct {
	Count int   // deltas in all, those that tell what was left out included; at least 4
	Size  int   // bytes of the stream that one delta shows; at least 4
	Bytes int64 // bytes of one stream in all
}

func (l DeltaLimits) orDefault() DeltaLimits {
	if l.Count <= 0 {
		l.Count = MaxDeltas
	}
	if l.Size <= 0 {
		l.Size = MaxDeltaSize
	}
	if l.Bytes <= 0 {
		l.Bytes = MaxDeltaBytes
	}
	l.Count, l.Size = max(l.Count, 4), max(l.Size, utf8.UTFMax)
	return l
}

// Delta is a piece of a stream as text: whole characters only.
type Delta struct {
	Stream int
	Text   string
	// Omitted says, in the last delta of a stream that was cut short, how many of its bytes no delta shows.
	Omitted int64
}

// Deltas yields what the call writes as text, in the order of its arrival, up to the limits; then it stays silent until
// the call ends, and says for each stream how much it left out.
func (j *Job) Deltas(ctx context.Context, limits DeltaLimits) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		s := sender{limits: limits.orDefault(), yield: yield}
		for chunk, err := range j.Follow(ctx) {
			if err != nil {
				if s.finish() {
					yield(Delta{}, err)
				}
				return
			}
			if !s.take(chunk) {
				return
			}
		}
		s.finish()
	}
}

// sender cuts chunks into deltas.
type sender struct {
	limits  DeltaLimits
	yield   func(Delta, error) bool
	count   int
	streams [3]sentStream
}

type sentStream struct {
	decoder Decoder
	next    int64 // offset of the next byte
	sent    int64
	omitted int64
	over    bool // nothing more of this stream is sent
}

// ends are kept free for what finish may have to say: a held character's rest and a count for each stream.
const ends = 4

// take sends a chunk; false means that nobody listens any more.
func (s *sender) take(c Chunk) bool {
	st := &s.streams[c.Stream]
	if gap := c.Offset - st.next; gap > 0 { // no longer kept
		st.omitted += gap + int64(st.decoder.drop())
	}
	st.next = c.Offset + int64(len(c.Data))
	for data := c.Data; len(data) > 0; {
		n := int(min(int64(len(data)), int64(s.limits.Size), s.limits.Bytes-st.sent))
		if st.over || n == 0 || s.count >= s.limits.Count-ends {
			st.over = true
			st.omitted += int64(len(data) + st.decoder.drop())
			return true
		}
		text := st.decoder.Write(data[:n])
		st.sent += int64(n)
		data = data[n:]
		if text != "" && !s.send(Delta{Stream: c.Stream, Text: text}) {
			return false
		}
	}
	return true
}

func (s *sender) send(d Delta) bool {
	s.count++
	return s.yield(d, nil)
}

// finish sends unfinished characters and the counts of what was left out.
func (s *sender) finish() bool {
	for stream := Stdout; stream <= Stderr; stream++ {
		st := &s.streams[stream]
		if rest := st.decoder.Flush(); rest != "" && !s.send(Delta{Stream: stream, Text: rest}) {
			return false
		}
		if st.omitted > 0 && !s.send(Delta{Stream: stream, Omitted: st.omitted}) {
			return false
		}
	}
	return true
}
