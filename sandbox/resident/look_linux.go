package resident

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bounds of one look, so that a crowd of processes holds up nobody's output.
const (
	mostLooked  = 128 // processes that bear the call's tag
	mostThreads = 64  // of each
)

// signal answers a Signal.
func (s *server) signal(m *Signal) Took {
	took := Took{Request: m.Request}
	j := s.jobs[m.Job]
	if j == nil || j.ended || j.pid == 0 {
		took.Refusal = RefusedEnded
		return took
	}
	group := j.pid // it leads a session of its own
	if j.tty {
		if front := j.front(); front > 0 {
			group = front
		}
	}
	if m.Number == 0 || m.Number > 64 || unix.Kill(-group, unix.Signal(m.Number)) != nil {
		took.Refusal = RefusedClosed
	}
	return took
}

// front is the process group in front of a job's terminal; 0 is none.
func (j *job) front() int {
	if j.streams[0].pipe < 0 {
		return 0
	}
	group, err := unix.IoctlGetInt(j.streams[0].pipe, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return int(int32(group))
}

// see answers a Look.
func (s *server) see(m *Look) Seen {
	seen := Seen{Request: m.Request}
	j := s.jobs[m.Job]
	if j == nil || j.ended || j.pid == 0 {
		seen.Refusal = RefusedEnded
		return seen
	}
	if m.Port != 0 && listens(uint16(m.Port)) {
		seen.Bits |= SeenListens
	}
	seen.Dir, _ = os.Readlink("/proc/" + decimal(int64(j.pid)) + "/cwd")
	front, unread := 0, len(j.input.queue) > 0
	var mouth unix.Stat_t // what a reader of our input has open
	switch {
	case j.tty && j.slave >= 0:
		if t, err := unix.IoctlGetTermios(j.slave, unix.TCGETS); err == nil {
			seen.Bits |= bit(SeenEchoes, t.Lflag&unix.ECHO != 0) | bit(SeenLines, t.Lflag&unix.ICANON != 0)
		}
		if front = j.front(); front <= 0 {
			return seen
		}
		seen.Bits |= bit(SeenLeads, front == j.pid)
		if n, err := unix.IoctlGetInt(j.slave, unix.TIOCINQ); err == nil && n > 0 {
			unread = true
		}
		if unix.Fstat(j.slave, &mouth) != nil {
			return seen
		}
	case j.input.fd >= 0:
		if n, err := unix.IoctlGetInt(j.input.fd, unix.TIOCINQ); err == nil && n > 0 {
			unread = true
		}
		if unix.Fstat(j.input.fd, &mouth) != nil {
			return seen
		}
	default:
		return seen
	}
	seen.Bits |= bit(SeenUnread, unread)
	w := onlooker{mouth: mouth, tty: j.tty, front: front}
	eachProcess(func(pid int) bool {
		if bears(pid, func(tag uint64) bool { return tag == j.tag }) {
			w.looked++
			w.watch(pid)
		}
		return w.looked < mostLooked && !w.reads
	})
	seen.Bits |= bit(SeenReads, w.reads && !unread) | bit(SeenPolls, w.polls) | bit(SeenClearly, w.clear)
	return seen
}

func bit(b uint32, on bool) uint32 {
	if on {
		return b
	}
	return 0
}

// onlooker sees what the processes of a call wait for.
type onlooker struct {
	mouth  unix.Stat_t
	tty    bool
	front  int
	looked int
	reads  bool
	polls  bool
	clear  bool
}

func (w *onlooker) watch(pid int) {
	base := "/proc/" + decimal(int64(pid))
	if w.tty && groupOf(base) != w.front {
		return
	}
	threads := 0
	eachNumber(base+"/task", func(tid int) bool {
		threads++
		w.thread(base, tid)
		return threads < mostThreads && !w.reads
	})
}

// thread reads which call a thread is blocked in.
func (w *onlooker) thread(base string, tid int) {
	at := base + "/task/" + decimal(int64(tid))
	text := slurp(at+"/syscall", 64)
	if text == nil { // not ours to see, by a rule for debuggers: the name of the place in the kernel may be told all the same
		switch string(bytes.TrimSpace(slurp(at+"/wchan", 64))) {
		case "n_tty_read", "wait_woken":
			w.reads = w.reads || w.tty
			w.clear = true
		case "pipe_read", "anon_pipe_read":
			w.reads = w.reads || !w.tty
			w.clear = true
		case "poll_schedule_timeout", "ep_poll", "do_select", "do_poll", "do_sys_poll", "do_epoll_wait":
			w.polls, w.clear = true, true
		}
		return
	}
	w.clear = true
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return // it runs
	}
	call, err := strconv.ParseUint(string(fields[0]), 10, 32)
	if err != nil {
		return
	}
	switch what := waits[uintptr(call)]; what {
	case waitsForEvents:
		w.polls = true
	case waitsForBytes:
		fd, err := strconv.ParseUint(string(fields[1]), 0, 64)
		if err == nil && w.isMouth(base+"/fd/"+decimal(int64(int32(fd)))) {
			w.reads = true
		}
	}
}

// isMouth says whether a descriptor is the command's terminal, also under its general name, or its input pipe.
func (w *onlooker) isMouth(path string) bool {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return false
	}
	if !w.tty {
		return st.Ino == w.mouth.Ino && st.Dev == w.mouth.Dev
	}
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && (st.Rdev == w.mouth.Rdev || st.Rdev == unix.Mkdev(5, 0))
}

type waitKind uint8

const (
	waitsForBytes waitKind = iota + 1
	waitsForEvents
)

// groupOf is a process's group; 0 is not known.
func groupOf(base string) int {
	b := slurp(base+"/stat", 512)
	i := bytes.LastIndexByte(b, ')') // the name may hold anything
	if i < 0 {
		return 0
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(string(f[2]))
	return n
}

// listens says whether a port is listened on in this network.
func listens(port uint16) bool {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text := slurp(name, 1<<20)
		for line := range bytes.Lines(text) {
			f := bytes.Fields(line)
			if len(f) < 4 || string(f[3]) != "0A" {
				continue
			}
			if i := bytes.LastIndexByte(f[1], ':'); i >= 0 {
				if n, err := strconv.ParseUint(string(f[1][i+1:]), 16, 16); err == nil && uint16(n) == port {
					return true
				}
			}
		}
	}
	return false
}

// slurp reads a small file of /proc; nil is one that cannot be read.
func slurp(path string, most int) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	out, buf := []byte{}, make([]byte, min(most, 8<<10))
	for len(out) < most {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil
		}
		if n == 0 {
			break
		}
		out = append(out, buf[:n]...)
	}
	return out
}
