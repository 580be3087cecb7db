package resident

import (
	"time"

	"golang.org/x/sys/unix"
)

// stream moves one stream of a job from its pipe to its spool, by splice only: what has left the pipe is in the file.
type stream struct {
	pipe int   // -1 when nobody can write any more
	file int   // -1 before the first byte
	size int64 // bytes in the spool, which is the offset in the stream
	hole int64 // where the punched part ends
	full bool  // the disk takes no more: nothing is kept from here on
	lost int64 // bytes that were not kept

	flow   int64         // bytes that came without a pause, see pace
	moved  time.Duration // when it was drained last
	rest   time.Duration // until when the pipe is left alone; 0: it is watched
	wide   bool
	narrow bool // it cannot be widened
}

// spoolNames are the files, by stream.
var spoolNames = [2]string{FileStdout, FileStderr}

// waiting is how many bytes lie in the pipe.
func (s *stream) waiting() int64 {
	n, err := unix.IoctlGetInt(s.pipe, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return int64(n)
}

// drain moves up to limit bytes that lie in the pipe now. It says how many are new in the spool, and whether the
// stream is over.
func (s *stream) drain(dir int, name string, limit int64, discard int) (n int64, over bool) {
	if s.file < 0 && !s.full {
		fd, err := create(dir, name)
		if err != nil {
			s.full = true
		}
		s.file = fd
	}
	for n < limit && !s.full {
		at := s.size
		k, err := unix.Splice(s.pipe, nil, s.file, &at, int(min(limit-n, 1<<20)), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return n, false
		case err != nil: // the disk is full, or a limit was reached
			s.full = true
			continue
		case k == 0:
			return n, true
		}
		n += k
		s.size += k
		s.punch()
	}
	if s.full {
		return n, s.lose(limit-n, discard)
	}
	return n, false
}

// lose throws away what lies in the pipe, so that the command goes on, and counts it.
func (s *stream) lose(limit int64, discard int) (over bool) {
	for limit > 0 {
		k, err := unix.Splice(s.pipe, nil, discard, nil, int(min(limit, 1<<20)), unix.SPLICE_F_NONBLOCK)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err != unix.EAGAIN
		}
		if k == 0 {
			return true
		}
		s.lost += k
		limit -= k
	}
	return false
}

// punch frees the middle of a spool that has grown beyond its cap. Where holes cannot be made the rest is lost, and
// counted, rather than the disk filled.
func (s *stream) punch() {
	from, to := Gap(s.size)
	if to <= s.hole {
		return
	}
	from = max(from, s.hole)
	if err := unix.Fallocate(s.file, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from); err != nil {
		s.full = true
		return
	}
	s.hole = to
}

func (s *stream) close() {
	if s.pipe >= 0 {
		unix.Close(s.pipe)
	}
	if s.file >= 0 {
		unix.Close(s.file)
	}
	s.pipe, s.file = -1, -1
}
