package process

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// followBuffer bounds a chunk. It is the default size of a pipe: more than this rarely arrives at once.
const followBuffer = 64 << 10

// Follow yields what the call wrote, in the order in which it arrived (as far as a full disk let that be noted: the rest
// comes at the end), from the start. It waits for more, and ends
// after the last byte of the call; a call that is lost ends with its error after the bytes that are there. Pieces of
// one stream that are ready together come as one chunk of at most 64 KiB.
func (j *Job) Follow(ctx context.Context) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		r := follower{job: j, more: j.watch()}
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
	more    chan struct{}
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
		valid, ended, lost := r.job.progress()
		if err := r.piece(valid); err != nil {
			return Chunk{}, err
		}
		if r.left > 0 {
			if chunk, err := r.take(); err != nil || len(chunk.Data) > 0 {
				return chunk, err
			}
			continue // what was to come is no longer kept
		}
		if ended {
			if lost != nil {
				return Chunk{}, lost
			}
			if r.unnamed() {
				continue
			}
			return Chunk{}, io.EOF
		}
		select {
		case <-r.more:
		case <-ctx.Done():
			return Chunk{}, context.Cause(ctx)
		}
	}
}

// piece makes the piece in hand as long as the order file allows: records of one stream that follow each other are
// one piece, up to a buffer's worth.
func (r *follower) piece(valid int64) error {
	for r.left < followBuffer {
		if len(r.recs) < resident.OrderSize {
			n := min(valid-r.read, int64(len(r.block)))
			if n < resident.OrderSize {
				return nil
			}
			if r.order == nil {
				f, err := os.Open(filepath.Join(r.job.dir, resident.FileOrder))
				if err != nil {
					return fmt.Errorf("follow job: %w", err)
				}
				r.order = f
			}
			n -= n % resident.OrderSize
			if _, err := r.order.ReadAt(r.block[:n], r.read); err != nil {
				return fmt.Errorf("follow job: read order at %d: %w", r.read, err)
			}
			r.recs = r.block[:n]
			r.read += n
		}
		stream, length := resident.ParseOrder(r.recs)
		if r.left > 0 && stream != r.stream {
			return nil
		}
		r.stream, r.left = stream, r.left+length
		r.recs = r.recs[resident.OrderSize:]
	}
	return nil
}

// unnamed takes in hand, after the last record, bytes of the ended call that none names: the order file needs room too,
// and a spool may have taken the last of a disk. Which stream's came first is not known then.
func (r *follower) unnamed() bool {
	for _, stream := range []int{Stdout, Stderr} {
		if size, _ := r.job.callSize(stream); size > r.offset[stream] {
			r.stream, r.left = stream, size-r.offset[stream]
			return true
		}
	}
	return false
}

// take reads a chunk of the piece in hand; it is empty when the bytes are no longer kept.
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
	data, offset, err := readKept(f, r.buf[:n], r.offset[r.stream])
	if err != nil {
		return Chunk{}, fmt.Errorf("follow job: read stream %d at %d: %w", r.stream, r.offset[r.stream], err)
	}
	r.offset[r.stream] += int64(n)
	r.left -= int64(n)
	return Chunk{Stream: r.stream, Offset: offset, Data: data}, nil
}

// readKept fills buf from the spool at off and returns the part of it that is still kept, which begins at the returned
// offset. The spool is looked at after the read: a hole that is punched meanwhile reads as zeros.
func readKept(f *os.File, buf []byte, off int64) ([]byte, int64, error) {
	if _, err := f.ReadAt(buf, off); err != nil {
		return nil, off, err
	}
	end := off + int64(len(buf))
	if end <= resident.SpoolHead {
		return buf, off, nil
	}
	size, err := f.Seek(0, io.SeekEnd) // as f.Stat, and allocates nothing
	if err != nil {
		return nil, off, err
	}
	switch from, to := resident.Gap(size); {
	case from == to || end <= from || off >= to:
		return buf, off, nil
	case off < from:
		return buf[:from-off], off, nil // a gap is longer than a buffer
	default:
		return buf[min(to, end)-off:], min(to, end), nil
	}
}

func (r *follower) close() {
	r.job.unwatch(r.more)
	for _, f := range append(r.streams[:], r.order) {
		if f != nil {
			f.Close()
		}
	}
}
