package resident

import (
	"time"

	"golang.org/x/sys/unix"
)

// A reader that is woken for each write of a busy command costs it two switches of the processor for every few
// kilobytes. So a pipe through which much flows is widened and left alone for a moment after each drain, and the owner
// is told of a job's growth once in a moment. What is written now and then is moved and told at once, as ever.
const (
	restTime = time.Millisecond
	tellTime = time.Millisecond
	// muchFlow is what flows through a pipe before it is widened, and littleFlow what comes in a rest that is the last.
	muchFlow   = 512 << 10
	littleFlow = 64 << 10
	widePipe   = 1 << 20
)

// pace lets a stream rest after a drain of n bytes, or ends its rests.
func (s *server) pace(end pipeEnd, n int64) {
	st := &end.job.streams[end.stream]
	if st.pipe < 0 || st.size+st.lost < muchFlow || st.narrow {
		return
	}
	now := monotonic()
	if st.rest > 0 && n < littleFlow || now-st.moved > 2*restTime { // it is not busy, or no longer
		st.flow = 0
	}
	st.moved = now
	if st.flow += n; st.flow < muchFlow {
		s.unrest(st)
		return
	}
	if !st.wide {
		if _, err := unix.FcntlInt(uintptr(st.pipe), unix.F_SETPIPE_SZ, widePipe); err != nil {
			st.narrow = true // its user has too many; a narrow pipe would be full for most of a rest
			return
		}
		st.wide = true
	}
	if st.rest == 0 {
		s.rewatch(st.pipe, 0) // its end is told all the same
		s.resting[st.pipe] = end
	}
	st.rest = now + restTime
}

func (s *server) unrest(st *stream) {
	if st.rest > 0 {
		st.rest = 0
		delete(s.resting, st.pipe)
		s.rewatch(st.pipe, unix.EPOLLIN)
	}
}

// rested drains the streams whose rest is over.
func (s *server) rested(now time.Duration) {
	for _, end := range s.resting {
		if st := &end.job.streams[end.stream]; now >= st.rest {
			s.drain(end, drainShare)
		}
	}
}

// inOrder drains what rests beside a stream that has something: it came before.
func (s *server) inOrder(end pipeEnd) {
	for i := range end.job.streams {
		if st := &end.job.streams[i]; i != end.stream && st.rest > 0 {
			s.drain(pipeEnd{end.job, i}, st.waiting())
		}
	}
}
