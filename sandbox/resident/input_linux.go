package resident

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// inputCap bounds what is kept of a job's input that its command has not read. The owner keeps the rest.
	inputCap = 64 << 10
	// inputRetry is how often a terminal that was full is tried again: the kernel may say that there is room before
	// there is, and then says nothing more.
	inputRetry = 50 * time.Millisecond
)

// input is the way to a command's stdin that stays open while it runs: the write end of a pipe, or the terminal's
// master. Nothing here ever waits for the command.
type input struct {
	fd      int           // -1: nothing can be given
	tty     bool          // fd is the master, which is the job's first stream too
	given   bool          // there was one
	queue   []byte        // what the command has not taken, at most inputCap
	starved bool          // the owner was told that not all was taken, and waits for Room
	closing bool          // the pipe closes after the queue
	watched bool          // epoll tells when there is room
	retry   time.Duration // monotonic; 0 is none
}

// give answers an Input.
func (s *server) give(m *Input) Took {
	took := Took{Request: m.Request}
	j := s.jobs[m.Job]
	if took.Refusal = refusal(j); took.Refusal != RefusedNot {
		return took
	}
	in := &j.input
	n := 0
	if len(in.queue) == 0 { // the queue is only for what the kernel does not take
		n = in.write(m.Data)
	}
	if n >= 0 {
		k := min(len(m.Data)-n, inputCap-len(in.queue))
		in.queue = append(in.queue, m.Data[n:n+k]...)
		n += k
		in.starved = n < len(m.Data)
		took.Bytes = uint32(n)
		s.awaitRoom(j)
		return took
	}
	s.closeInput(j)
	took.Refusal = RefusedClosed
	return took
}

// refusal says why nothing can be given to a job.
func refusal(j *job) Refusal {
	switch {
	case j == nil || j.ended:
		return RefusedEnded
	case !j.input.given:
		return RefusedNever
	case j.input.fd < 0 || j.input.closing:
		return RefusedClosed
	}
	return RefusedNot
}

// write writes what the kernel takes now and says how much that was; -1 is an input that nobody will read any more.
func (in *input) write(p []byte) (n int) {
	for n < len(p) {
		k, err := unix.Write(in.fd, p[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN || err == nil && k == 0:
			return n
		case err != nil:
			return -1
		}
		n += k
	}
	return n
}

// feed writes what waits for room.
func (s *server) feed(j *job) {
	in := &j.input
	if in.fd < 0 {
		return
	}
	n := in.write(in.queue)
	if n < 0 {
		s.closeInput(j)
		return
	}
	if in.queue = in.queue[n:]; len(in.queue) == 0 {
		in.queue = nil
		if in.closing {
			s.closeInput(j)
			return
		}
	}
	if in.starved && len(in.queue) <= inputCap/2 {
		in.starved = false
		s.say(appendRoom(nil, j.id))
	}
	s.awaitRoom(j)
}

// awaitRoom asks to be woken when an input with a queue has room.
func (s *server) awaitRoom(j *job) {
	in := &j.input
	waits := len(in.queue) > 0
	in.retry = 0
	if waits && in.tty {
		in.retry = monotonic() + inputRetry
	}
	if waits == in.watched {
		return
	}
	in.watched = waits
	switch {
	case in.tty && waits:
		s.rewatch(in.fd, unix.EPOLLIN|unix.EPOLLOUT)
	case in.tty:
		s.rewatch(in.fd, unix.EPOLLIN)
	case waits:
		s.pipes[in.fd] = pipeEnd{j, streamInput}
		s.watch(in.fd, unix.EPOLLOUT)
	default: // not even for the word that the readers are gone: it would come for ever
		delete(s.pipes, in.fd)
		s.unwatch(in.fd)
	}
}

// endInput answers a CloseInput.
func (s *server) endInput(m *CloseInput) Took {
	took := Took{Request: m.Request}
	j := s.jobs[m.Job]
	if took.Refusal = refusal(j); took.Refusal != RefusedNot {
		return took
	}
	if j.input.tty {
		took.Refusal = RefusedTTY
		return took
	}
	j.input.closing = true
	s.feed(j)
	return took
}

// closeInput lets go of an input, and of what was not read. A writer that waits for room is told to look again.
func (s *server) closeInput(j *job) {
	in := &j.input
	if in.fd < 0 {
		return
	}
	in.queue = nil
	s.awaitRoom(j)
	if !in.tty {
		unix.Close(in.fd)
	}
	in.fd = -1
	if in.starved {
		in.starved = false
		s.say(appendRoom(nil, j.id))
	}
}
