package resident

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// streamInput stands for a job's stdin where the others are indexes of streams.
	streamInput = -1
	// drainShare is how much of one stream is moved before another has its turn.
	drainShare = 1 << 20
	// giveUpAfter is how long a call's end waits for its killed processes to be gone; a process in the kernel's
	// uninterruptible sleep dies later.
	giveUpAfter = 2 * time.Second
	// killPause is the first pause between two scans, doubled up to killPauseMax.
	killPause    = time.Millisecond
	killPauseMax = 32 * time.Millisecond
)

// start answers an owner's Start.
func (s *server) start(m *Start, rights []int) {
	stdin := s.null
	if m.Stdin && len(rights) > 0 {
		stdin = rights[0]
	}
	reply := Started{Request: m.Request, State: StateNew}
	if !s.leases.raise(m.Lease, m.Key, m.Fence) {
		reply.State = StateStale
		s.say(reply.append(nil))
		return
	}
	dir, state, err := s.claim(m)
	if err != nil {
		reply.State, reply.Error = StateFailed, err.Error()
		s.say(reply.append(nil))
		return
	}
	if state != StateNew {
		s.found(reply, path(m.Key, m.Index))
		return
	}
	s.lastJob++
	j := newJob(s.lastJob, m, dir)
	if err := s.run(j, m, stdin); err != nil {
		s.release(m, j)
		reply.State, reply.Error = StateFailed, err.Error()
		s.say(reply.append(nil))
		return
	}
	reply.Job = j.id
	s.say(reply.append(nil))
	if !s.plan.Once {
		j.writeRequest(m)
	}
	if j.exited { // it could not be executed
		s.end(j)
	}
}

// claim makes the job's folder, which is what makes a command run at most once.
//
// State is StatePast for all that is there already: found looks closer.
func (s *server) claim(m *Start) (dir int, state State, err error) {
	if err := CheckKey(m.Key); err != nil {
		return -1, 0, err
	}
	if len(m.Argv) == 0 {
		return -1, 0, failed("start", unix.EINVAL)
	}
	if s.plan.Once {
		return s.claimAll()
	}
	at := path(m.Key, m.Index)
	if err := unix.Mkdirat(fdJobs, m.Key, 0o700); err != nil && err != unix.EEXIST {
		return -1, 0, failed("make the job's folder", err)
	}
	err = unix.Mkdirat(fdJobs, at, 0o700)
	if err == unix.EEXIST {
		return -1, StatePast, nil
	}
	if err != nil {
		return -1, 0, failed("make the job's folder", err)
	}
	dir, err = unix.Openat(fdJobs, at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		unix.Unlinkat(fdJobs, at, unix.AT_REMOVEDIR)
		return -1, 0, failed("open the job's folder", err)
	}
	return dir, StateNew, nil
}

// claimAll is claim where there is one job.
func (s *server) claimAll() (dir int, state State, err error) {
	if s.lastJob > 0 {
		return -1, 0, failed("start another command in a box of one", unix.EBUSY)
	}
	dir, err = unix.FcntlInt(fdJobs, unix.F_DUPFD_CLOEXEC, fdFree)
	if err != nil {
		return -1, 0, failed("open the job's folder", err)
	}
	return dir, StateNew, nil
}

// release takes a claim back: nothing was started, so the key may be used again.
func (s *server) release(m *Start, j *job) {
	for i := range j.streams {
		s.silence(j, i)
	}
	s.closeInput(j)
	if !s.plan.Once {
		unix.Unlinkat(fdJobs, path(m.Key, m.Index), unix.AT_REMOVEDIR)
	}
	j.close()
}

// run forks the command of a claimed job. An error means that nothing ran; a command that cannot be executed is no
// error but a call that has ended.
func (s *server) run(j *job, m *Start, stdin int) (err error) {
	var w wiring
	defer w.close()
	if j.tty {
		err = w.terminal(j, m)
	} else {
		err = w.pipes(j, m, stdin)
	}
	if err != nil {
		return err
	}
	if j.tag, err = s.tags.set(); err != nil {
		return err
	}
	if m.Timeout > 0 {
		j.deadline = monotonic() + m.Timeout
	}
	j.oomAt = s.oomCount()
	pid, fault := s.forks.execute(m, s.plan.Home, w.files[:])
	s.jobs[j.id], s.keys[path(j.key, j.index)] = j, j
	if fault != nil {
		text := fault.text[:min(len(fault.text), maxFault)]
		unix.Write(int(w.files[2]), append([]byte(text), '\n'))
		j.exit.Code, j.exit.Error = fault.code, text
		j.exited = true
	} else {
		j.pid = pid
		s.pids[pid] = j
		if max := uint64(s.plan.WatchDisk); max > 0 {
			j.sized = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: max, Max: max}, nil) == nil // in its first moment it makes no large file
		}
		s.rouse()
	}
	for i := range j.streams {
		if j.streams[i].pipe >= 0 {
			s.pipes[j.streams[i].pipe] = pipeEnd{j, i}
			s.watch(j.streams[i].pipe, unix.EPOLLIN)
		}
	}
	return nil
}

// maxFault bounds what is said of a command that cannot be executed: an argument may be long, and a pipe or a terminal
// that nobody reads yet must take it without waiting.
const maxFault = 1 << 10

// wiring is what a command gets as stdin, stdout and stderr, and which of it is ours to close after the fork.
type wiring struct {
	files [3]uintptr
	owned []int
}

func (w *wiring) close() { closeAll(w.owned) }

// pipes makes the pipes of a job.
func (w *wiring) pipes(j *job, m *Start, stdin int) error {
	w.files[0] = uintptr(stdin)
	for i := range j.streams {
		ours, theirs, err := w.pipe()
		if err != nil {
			return err
		}
		j.streams[i].pipe, w.files[i+1] = ours, uintptr(theirs)
		w.owned = append(w.owned, theirs)
	}
	if !m.Open {
		return nil
	}
	theirs, ours, err := w.pipe()
	if err != nil {
		return err
	}
	unix.SetNonblock(ours, true)
	j.input.fd, j.input.given, w.files[0] = ours, true, uintptr(theirs)
	w.owned = append(w.owned, theirs)
	return nil
}

func (w *wiring) pipe() (reads, writes int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, failed("make a pipe", err)
	}
	return p[0], p[1], nil
}

// terminal makes the pair of a job. We hold the slave too, until the command has exited: a command may close its
// terminal and open it again, which must not look like a hang-up.
func (w *wiring) terminal(j *job, m *Start) (err error) {
	if j.streams[0].pipe, j.slave, err = openTTY(m.Rows, m.Cols); err != nil {
		j.streams[0].pipe, j.slave = -1, -1
		return err
	}
	j.input = input{fd: j.streams[0].pipe, tty: true, given: true}
	for i := range w.files {
		w.files[i] = uintptr(j.slave)
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// drain moves bytes of one stream, at most limit.
func (s *server) drain(end pipeEnd, limit int64) {
	st := &end.job.streams[end.stream]
	if end.job.tty {
		s.drainTTY(end, limit)
		return
	}
	if st.file < 0 && st.waiting() == 0 { // an empty stream has no file
		s.silence(end.job, end.stream)
		return
	}
	n, over := st.drain(end.job.dir, spoolNames[end.stream], limit, s.discard)
	if n > 0 {
		end.job.note(end.stream+1, n)
	}
	if over {
		s.silence(end.job, end.stream)
		return
	}
	s.pace(end, n)
}

// drainTTY is drain for a terminal.
func (s *server) drainTTY(end pipeEnd, limit int64) {
	if s.ttyBuf == nil {
		s.ttyBuf = make([]byte, ttyShare)
	}
	n, over := end.job.streams[end.stream].drainTTY(end.job.dir, spoolNames[end.stream], limit, s.ttyBuf)
	if n > 0 {
		end.job.note(end.stream+1, n)
	}
	if over {
		s.silence(end.job, end.stream)
	}
}

// share is how much of a stream is read to have all that lies in it now.
func (s *server) share(j *job, i int) int64 {
	if j.tty {
		return ttyShare
	}
	return j.streams[i].waiting()
}

// silence closes a stream that nobody can write to any more.
func (s *server) silence(j *job, i int) {
	st := &j.streams[i]
	if st.pipe < 0 {
		return
	}
	if j.input.tty {
		s.closeInput(j)
	}
	s.unwatch(st.pipe)
	delete(s.pipes, st.pipe)
	delete(s.resting, st.pipe)
	st.rest = 0
	unix.Close(st.pipe)
	st.pipe = -1
	s.forget(j)
}

// forget lets go of a job that has ended and is silent.
func (s *server) forget(j *job) {
	if !j.ended || j.streams[0].pipe >= 0 || j.streams[1].pipe >= 0 || s.jobs[j.id] == nil {
		return
	}
	if !j.said {
		j.record()
		s.tellOne(j)
		s.say(appendSilent(nil, j.id))
	}
	delete(s.jobs, j.id)
	j.close()
}

// reap takes every dead child: commands of ours, and orphans that came to us.
func (s *server) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
		j := s.pids[pid]
		if j == nil {
			continue
		}
		delete(s.pids, pid)
		j.pid, j.exited, j.status = 0, true, status
		if j.killing || j.whole {
			s.kill(j, monotonic())
		} else {
			s.end(j)
		}
	}
}

// kill sends SIGKILL to all processes of a call until none is left; then the call ends.
func (s *server) kill(j *job, now time.Duration) {
	if !j.killing {
		j.killing, j.giveUp, j.pause = true, now+giveUpAfter, killPause
	}
	alive := killTagged(func(tag uint64) bool { return tag == j.tag }, os.Getpid())
	if alive > 0 && now >= j.giveUp {
		s.remains.add(j.tag, now)
	}
	if (alive == 0 && j.exited) || now >= j.giveUp {
		s.end(j)
		return
	}
	j.nextKill = now + j.pause
	j.pause = min(2*j.pause, killPauseMax)
}

// end closes the call: what lies in its pipes now is its own, later bytes are what it left behind.
func (s *server) end(j *job) {
	if j.ended {
		return
	}
	s.closeInput(j)
	if j.slave >= 0 {
		unix.Close(j.slave)
		j.slave = -1
	}
	for i := range j.streams {
		if st := &j.streams[i]; st.pipe >= 0 {
			if n := s.share(j, i); n > 0 {
				s.drain(pipeEnd{j, i}, n)
			}
		}
	}
	for i := range j.streams { // a stream that nobody holds closes now, not at the next turn
		if j.streams[i].pipe >= 0 && !j.tty {
			s.hangUp(j, i)
		}
	}
	if !j.finish(s.oomCount() > j.oomAt) {
		s.leases.keep(path(j.key, j.index), j.exit)
	}
	j.dirty = false
	delete(s.keys, path(j.key, j.index))
	s.count()
	s.lastEnd = j.exit.Ended
	if s.owner == nil {
		s.graceEnd = monotonic() + s.plan.Grace // it begins anew after each call
	}
	j.said = j.streams[0].pipe < 0 && j.streams[1].pipe < 0
	s.say(appendEnded(nil, j.id, j.exit, j.said, s.version))
	s.forget(j)
	s.over = s.plan.Once
}

// hangUp closes a stream if no process holds its other end.
func (s *server) hangUp(j *job, i int) {
	poll := []unix.PollFd{{Fd: int32(j.streams[i].pipe)}}
	if n, _ := unix.Poll(poll, 0); n > 0 && poll[0].Revents&unix.POLLHUP != 0 && j.streams[i].waiting() == 0 {
		s.silence(j, i)
	}
}
