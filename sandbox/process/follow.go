package process

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
)

// followBuffer bounds a chunk. It is the default size of a pipe: more than this rarely arrives at once.
const followBuffer = 64 << 10

// Follow yields what the call wrote, in the order in which it arrived, from the start. It waits for more, and ends
// after the last byte of the call; a call that is lost ends with its error after the bytes that are there. Pieces of
// one stream that are ready together come as one chunk of at most 64 KiB.
func (j *Job) Follow(ctx context.Context) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		r := follower{job: j}
		defer r.close()
		for {
			chunk, err := r.next(ctx)
			if err == io.EOF {
				return
			}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}

// follower is one reader's place in a job.
type follower struct {
	job     *Job
	order   *os.File
	streams [3]*os.File
	offset  [3]int64 // of the next byte, per stream

	read   int64 // bytes of the order file that were taken
	stream int   // the piece in hand
	left   int64
	buf    []byte
	recs   []byte // records that were read and not taken
	block  [512]byte
}

// next returns the next chunk, io.EOF after the last one.
func (r *follower) next(ctx context.Context) (Chunk, error) {
	for {
		valid, more, lost := r.job.progress()
		if err := r.piece(valid); err != nil {
			return Chunk{}, err
		}
		if r.left > 0 {
			return r.take()
		}
		if more == nil {
			if lost != nil {
				return Chunk{}, lost
			}
			return Chunk{}, io.EOF
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Chunk{}, context.Cause(ctx)
		}
	}
}

// piece makes the piece in hand as long as the order file allows: records of one stream that follow each other are
// one piece, up to a buffer's worth.
func (r *follower) piece(valid int64) error {
	for r.left < followBuffer {
		if len(r.recs) < orderRecord {
			n := min(valid-r.read, int64(len(r.block)))
			if n < orderRecord {
				return nil
			}
			if r.order == nil {
				f, err := os.Open(filepath.Join(r.job.dir, orderFile))
				if err != nil {
					return fmt.Errorf("follow job: %w", err)
				}
				r.order = f
			}
			n -= n % orderRecord
			if _, err := r.order.ReadAt(r.block[:n], r.read); err != nil {
				return fmt.Errorf("follow job: read order at %d: %w", r.read, err)
			}
			r.recs = r.block[:n]
			r.read += n
		}
		stream, length := decodeOrder(r.recs)
		if r.left > 0 && stream != r.stream {
			return nil
		}
		r.stream, r.left = stream, r.left+length
		r.recs = r.recs[orderRecord:]
	}
	return nil
}

// take reads a chunk of the piece in hand.
func (r *follower) take() (Chunk, error) {
	f := r.streams[r.stream]
	if f == nil {
		var err error
		if f, err = os.Open(r.job.path(r.stream)); err != nil {
			return Chunk{}, fmt.Errorf("follow job: %w", err)
		}
		r.streams[r.stream] = f
	}
	n := int(min(r.left, followBuffer))
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, min(2*cap(r.buf), followBuffer), 4<<10))
	}
	data, offset := r.buf[:n], r.offset[r.stream]
	if _, err := f.ReadAt(data, offset); err != nil {
		return Chunk{}, fmt.Errorf("follow job: read stream %d at %d: %w", r.stream, offset, err)
	}
	r.offset[r.stream] += int64(n)
	r.left -= int64(n)
	return Chunk{Stream: r.stream, Offset: offset, Data: data}, nil
}

func (r *follower) close() {
	for _, f := range append(r.streams[:], r.order) {
		if f != nil {
			f.Close()
		}
	}
}
