package resident

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// job is one command of ours: its call until it ends, and its streams until nobody holds them any more.
type job struct {
	id      uint32
	key     string
	index   uint32
	dir     int // the job folder
	pid     int // 0 once reaped
	tag     uint64
	streams [2]stream // with a terminal, the first is its master and there is no second
	tty     bool
	whole   bool // what it leaves behind is killed
	sized   bool // none of its files may be larger than the box's limit for disks
	slave   int  // the terminal's other side, ours to hold until the command has exited; -1 is none
	input   input

	exitFD  int
	orderFD int
	order   int64    // bytes of the order file
	unsaid  [2]int64 // bytes of each stream that no record names yet

	oomAt    int64         // kills for memory in the box before it began
	started  int64         // Unix nanoseconds
	deadline time.Duration // monotonic; 0 is none

	killing   bool
	timedOut  bool
	cancelled bool
	limit     string // why the watchdog ended it
	nextKill  time.Duration
	giveUp    time.Duration
	pause     time.Duration

	exited bool
	status unix.WaitStatus
	ended  bool
	exit   Exit
	said   bool          // the owner knows that the streams are over
	dirty  bool          // the owner does not know the order's length
	told   time.Duration // when it was last told of it
}

func newJob(id uint32, s *Start, dir int) *job {
	j := &job{id: id, key: s.Key, index: s.Index, dir: dir, exitFD: -1, orderFD: -1, slave: -1,
		tty: s.Rows > 0, whole: s.Whole, input: input{fd: -1}, started: time.Now().UnixNano()}
	for i := range j.streams {
		j.streams[i] = stream{pipe: -1, file: -1}
	}
	return j
}

// path is the job's folder below the jobs folder.
func path(key string, index uint32) string { return key + "/" + decimal(int64(index)) }

// orderEager is how much of the order file is written record by record. A stream of single bytes would fill eight
// times its size with records; beyond this a record waits until it names orderCoarse bytes.
const (
	orderEager  = 8 << 20
	orderCoarse = 64 << 10
)

// note records n new bytes of a stream.
func (j *job) note(stream int, n int64) {
	j.unsaid[stream-1] += n
	if j.order < orderEager || j.unsaid[stream-1] >= orderCoarse {
		j.record()
	}
}

// record writes what no record names yet.
func (j *job) record() {
	var b []byte
	for i, n := range j.unsaid {
		if n > 0 {
			b = AppendOrder(b, i+1, n)
		}
	}
	if len(b) == 0 {
		return
	}
	if j.orderFD < 0 {
		fd, err := create(j.dir, FileOrder)
		if err != nil {
			return // said later, or never on a full disk: the bytes are in the spool
		}
		j.orderFD = fd
	}
	if n, err := unix.Pwrite(j.orderFD, b, j.order); err != nil || n < len(b) {
		return
	}
	j.order += int64(len(b))
	j.unsaid = [2]int64{}
	j.dirty = true
}

// finish makes the job's Exit, writes it and says whether the disk took it. oom says that a process of the box was killed for memory while it ran;
// the kernel counts kills by box, so that of calls at the same time it is said of each.
func (j *job) finish(oom bool) (written bool) {
	j.record()
	e := Exit{TimedOut: j.timedOut, Cancelled: j.cancelled, Started: j.started, Ended: time.Now().UnixNano(), Error: j.exit.Error,
		OutOfMemory: oom, Code: j.exit.Code, Stdout: j.streams[0].size, Stderr: j.streams[1].size,
		StdoutLost: j.streams[0].lost, StderrLost: j.streams[1].lost, Order: j.order}
	switch {
	case e.Error != "":
	case j.status.Signaled():
		e.Code, e.Signal = 128+int(j.status.Signal()), unix.SignalName(j.status.Signal())
	default:
		e.Code = j.status.ExitStatus()
	}
	if j.timedOut {
		e.Code, e.Signal = 124, ""
	}
	if j.cancelled && !j.timedOut {
		e.Code, e.Signal = 128+int(unix.SIGKILL), "SIGKILL"
	}
	switch {
	case j.timedOut || j.cancelled:
	case j.limit != "":
		e.Code, e.Signal, e.Limit, e.OutOfMemory = 128+int(unix.SIGKILL), "SIGKILL", j.limit, oom || j.limit == LimitMemory
	case oom && e.Code == 128+int(unix.SIGKILL):
		e.Limit = LimitMemory
	case e.Signal == "SIGXFSZ" && j.sized: // one file alone was to be larger than the box may have
		e.Limit = LimitDisk
	}
	j.exit, j.ended = e, true
	if j.exitFD < 0 {
		return false
	}
	text := e.appendJSON(nil)
	n, err := unix.Write(j.exitFD, text)
	unix.Close(j.exitFD)
	j.exitFD = -1
	return err == nil && n == len(text)
}

// writeRequest writes the request, which is for people, and makes the exit file. The command runs already: making a
// file may cost as much as a fork, and need not be waited for.
func (j *job) writeRequest(m *Start) {
	if fd, err := create(j.dir, FileRequest); err == nil {
		unix.Write(fd, m.appendJSON(nil))
		unix.Close(fd)
	}
	if fd, err := create(j.dir, FileExit); err == nil {
		j.exitFD = fd // without it, on a full disk, the owner is told the end all the same
	}
}

// close lets go of everything the job holds.
func (j *job) close() {
	for i := range j.streams {
		j.streams[i].close()
	}
	fds := []int{j.exitFD, j.orderFD, j.slave}
	if !j.input.tty {
		fds = append(fds, j.input.fd)
	}
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	unix.Close(j.dir)
}

func create(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
}

// startError is why a command could not be started, and the code a shell would give for it.
type startError struct {
	code int
	text string
}

// execute forks the command; the tag is set already. Files are stdin, stdout and stderr; with a terminal the
// first of them becomes the one that controls the command's session.
func execute(s *Start, home string, files []uintptr) (pid int, fault *startError) {
	dir := s.Dir
	if dir == "" {
		dir = home
	}
	program, errno := lookUp(s.Argv[0], dir, s.Env)
	if errno != 0 {
		if errno == unix.ENOENT {
			return 0, &startError{127, s.Argv[0] + ": command not found"}
		}
		return 0, &startError{126, s.Argv[0] + ": " + errno.Error()}
	}
	argv := s.Argv
	if s.Arg0 != "" {
		argv = append([]string{s.Arg0}, s.Argv[1:]...)
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: s.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: s.Rows > 0}}
	pid, err := syscall.ForkExec(program, argv, attr)
	if err == syscall.ENOEXEC { // a script without a first line, as every shell reads it
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"sh", program}, s.Argv[1:]...), attr)
	}
	switch {
	case err == nil:
		return pid, nil
	case !isFolder(dir):
		return 0, &startError{126, "cannot enter " + dir}
	case err == syscall.ENOENT:
		return 0, &startError{127, s.Argv[0] + ": " + err.Error()}
	}
	return 0, &startError{126, s.Argv[0] + ": " + err.Error()}
}

// lookUp finds a program as a shell would, in the command's own PATH, from the folder that it will stand in.
func lookUp(name, dir string, env []string) (string, unix.Errno) {
	for i := range len(name) {
		if name[i] == '/' {
			return name, 0
		}
	}
	path, found := "/usr/local/bin:/usr/bin:/bin", unix.ENOENT
	for _, e := range env {
		if len(e) >= 5 && e[:5] == "PATH=" {
			path = e[5:]
		}
	}
	for len(path) > 0 {
		entry := path
		path = ""
		for i := range len(entry) {
			if entry[i] == ':' {
				entry, path = entry[:i], entry[i+1:]
				break
			}
		}
		if entry == "" {
			entry = "."
		}
		at := entry + "/" + name
		if entry[0] != '/' {
			at = dir + "/" + at
		}
		var st unix.Stat_t
		if unix.Stat(at, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if unix.Access(at, unix.X_OK) == nil {
			return at, 0
		}
		found = unix.EACCES
	}
	return "", found
}

func isFolder(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
