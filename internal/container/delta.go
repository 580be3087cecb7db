package container

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Delta is the next piece of a command's output: valid UTF-8, at most 8 KiB a stream.
type Delta struct{ Stdout, Stderr string }

const (
	maxDelta = 8 << 10 // of one stream in one delta
	// maxLive is what a stream shows live: beyond it nobody reads along, and every byte would become an event.
	maxLive = 1 << 20
	// pace is the least time between two small deltas. A program that writes byte by byte makes fifty a second, not
	// a million; what arrives meanwhile comes together.
	pace = 20 * time.Millisecond
)

// Cursor is how much of a command's output somebody has: bytes of the deltas' text, of each stream.
type Cursor struct{ Stdout, Stderr int64 }

// Follow yields the command's output as it comes, from the start, and ends at the command's end. Each stream is cut
// after 1 MiB; a last delta then says how much was left out. The result's views and counts are of the whole stream.
func (e *Execution) Follow(ctx context.Context) iter.Seq2[Delta, error] {
	return e.FollowFrom(ctx, Cursor{})
}

// FollowFrom is Follow from a cursor on. The text of a stream depends on its bytes alone, however they came and whoever
// follows: what is behind the cursor fits to what is before it.
func (e *Execution) FollowFrom(ctx context.Context, from Cursor) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		b := &buffer{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
		b.streams[0].skip, b.streams[1].skip = from.Stdout, from.Stderr
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		wg.Go(func() { b.fill(ctx, e.job) })
		var last time.Time
		for {
			d, err, over := b.take()
			if d != (Delta{}) {
				last = time.Now()
				if !yield(d, nil) {
					return
				}
				continue
			}
			if err != nil {
				yield(Delta{}, err)
				return
			}
			if over {
				return
			}
			<-b.wake // fill always ends with one
			b.rest(last.Add(pace))
		}
	}
}

// buffer holds what was read and not yet taken: at most a delta of each stream, so that a slow reader slows the
// reading and nothing else.
type buffer struct {
	wake chan struct{} // something is there, or it is over
	room chan struct{} // something was taken

	mu      sync.Mutex
	streams [2]liveStream
	over    bool
	err     error
	full    chan struct{} // closed when waiting for more makes no sense; nil while nobody rests
}

type liveStream struct {
	decoder process.Decoder
	text    []byte // decoded, not taken
	skip    int64  // bytes of text that the reader has and is not given
	shown   int64  // bytes of text so far, those included
	next    int64  // offset of the next byte
	cut     bool   // maxLive was reached
	left    int64  // bytes that were left out
}

// fill reads the job into the buffer until its end.
func (b *buffer) fill(ctx context.Context, job Job) {
	defer b.signal()
	for chunk, err := range job.Follow(ctx) {
		if err != nil {
			b.end(err)
			return
		}
		if !b.add(ctx, chunk) {
			b.end(context.Cause(ctx))
			return
		}
	}
	b.end(nil)
}

// add takes a chunk in pieces that fit, waiting for room. It answers false when ctx ended.
func (b *buffer) add(ctx context.Context, chunk process.Chunk) bool {
	s := &b.streams[chunk.Stream-1]
	for data := chunk.Data; ; {
		b.mu.Lock()
		if gap := chunk.Offset - s.next; gap > 0 {
			s.put(fmt.Sprintf("%s\n[… %d bytes no longer kept …]\n", s.decoder.Flush(), gap))
			s.next += gap
		}
		n := s.take(data)
		s.next += int64(n)
		data = data[n:]
		full, room := len(s.text) >= maxDelta/2, len(s.text) < maxDelta
		if full && b.full != nil {
			close(b.full)
			b.full = nil
		}
		b.mu.Unlock()
		b.signal()
		if len(data) == 0 {
			return true
		}
		chunk.Offset = s.next
		if room && ctx.Err() == nil { // what the reader has takes none
			continue
		}
		select {
		case <-b.room:
		case <-ctx.Done():
			return false
		}
	}
}

// take decodes some of data, as much as there is room for, and says how much that was.
func (s *liveStream) take(data []byte) int {
	if s.cut {
		s.left += int64(len(data))
		return len(data)
	}
	n := max(min(len(data), maxDelta-len(s.text)), 0)
	if near := maxLive - s.shown; int64(n)*int64(len("\uFFFD")) >= near { // the cut is after a byte, whatever came with it
		for i := range n {
			s.put(s.decoder.Write(data[i : i+1]))
			if s.shown >= maxLive {
				s.cut = true
				return i + 1
			}
		}
		return n
	}
	s.put(s.decoder.Write(data[:n]))
	return n
}

// put adds text, but for what the reader has.
func (s *liveStream) put(text string) {
	s.shown += int64(len(text))
	known := min(s.skip, int64(len(text)))
	s.skip -= known
	s.text = append(s.text, text[known:]...)
}

func (b *buffer) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := err == nil || fault.KindOf(err) == fault.Unavailable // else somebody may go on where we stop
	for i := range b.streams {
		s := &b.streams[i]
		if !over {
			continue
		}
		if !s.cut {
			s.put(s.decoder.Flush())
		} else if s.left > 0 {
			s.put(fmt.Sprintf("\n[… %d more bytes left out of the live output …]\n", s.left))
		}
	}
	b.over, b.err = true, err
	if b.full != nil {
		close(b.full)
		b.full = nil
	}
}

func (b *buffer) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what is there, cut at a character. The end is told only when nothing is left.
func (b *buffer) take() (d Delta, err error, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, to := range []*string{&d.Stdout, &d.Stderr} {
		s := &b.streams[i]
		n := cut(s.text, maxDelta)
		*to = string(s.text[:n])
		s.text = append(s.text[:0], s.text[n:]...)
	}
	if d != (Delta{}) {
		select {
		case b.room <- struct{}{}:
		default:
		}
		return d, nil, false
	}
	return Delta{}, b.err, b.over
}

// rest waits until then, or until more is not worth waiting for.
func (b *buffer) rest(until time.Time) {
	wait := time.Until(until)
	if wait <= 0 {
		return
	}
	b.mu.Lock()
	for i := range b.streams {
		if len(b.streams[i].text) >= maxDelta/2 {
			b.mu.Unlock()
			return
		}
	}
	if b.over {
		b.mu.Unlock()
		return
	}
	full := make(chan struct{})
	b.full = full
	b.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	}
}

// cut returns the length of the longest prefix of whole characters of valid text that has at most n bytes.
func cut(text []byte, n int) int {
	if len(text) <= n {
		return len(text)
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
