package resident

import (
	"bytes"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The limits of a box that may end a call, as [Exit] names them.
const (
	LimitMemory    = "memory"
	LimitProcesses = "processes"
	LimitDisk      = "disk"
)

// watchdog looks from time to time at what a box takes, and ends the call that takes most when that is too much. It is
// soft: between two looks a box may take more. It holds the memory of a box that has no control group for it, and the
// number of its processes where no limit of the kernel's counts for the box alone; and everywhere it ends what keeps
// the box's table of processes full, so that nothing else can be started. What it cannot see is memory that belongs to
// no process: files in a tmpfs, which have limits of their own, and memory files that are not mapped.
//
// It looks only while something of the box lives, and rarely while nothing changes.
type watchdog struct {
	next  time.Duration // of the next look; 0: nothing lives
	last  time.Duration // of the last one
	seen  usage         // at the last look
	calm  int           // looks since that changed
	full  time.Duration // for how long nothing could be forked
	doubt time.Duration // no exact count of memory before
	over  int           // exact counts in a row that were too much
}

// usage is what processes take.
type usage struct {
	tasks  int
	memory int64
	disk   int64 // of all together: what the box's disks have lost
}

const (
	lookMin = 20 * time.Millisecond
	lookMax = 500 * time.Millisecond
	// lookFull is the pause while nothing can be forked.
	lookFull = 100 * time.Millisecond
	// calmLook is the pause when nothing has changed for some looks and no call goes on, or for two looks when nothing but
	// processes is watched and there are few: a full table is still seen soon enough. It is lookMax otherwise. A look costs most of a millisecond, by what it wakes in
	// our runtime; the kernel would tell of a full table by pids.events, but newer ones do not in the older hierarchy.
	calmLook = 4 * time.Second
	calmRuns = 20
	calmFew  = 2
	// fastest is more memory, or disk, than a box takes in a second: the next look comes before that could pass the limit.
	fastest = 4 << 30
	// fullTime is how long nothing can be forked before what fills the table is ended. Moments of room in between, as
	// a bomb leaves them, do not begin it anew.
	fullTime = 2 * time.Second
)

func (p *Plan) watched() bool { return p.WatchMemory > 0 || p.WatchPids > 0 || p.WatchDisk > 0 }

// rouse begins to look, or to look soon again, because something was started.
func (s *server) rouse() {
	if !s.plan.watched() {
		return
	}
	soon := lookMax
	if s.plan.WatchMemory > 0 {
		soon = untilFull(s.plan.WatchMemory - s.dog.seen.memory)
	}
	if s.plan.WatchDisk > 0 {
		soon = min(soon, s.disk.untilPassed())
	}
	s.dog.calm = 0
	if t := monotonic() + soon; s.dog.next == 0 || t < s.dog.next {
		s.dog.next = t
	}
}

// look is one look.
func (s *server) look(now time.Duration) {
	w := &s.dog
	calls := map[uint64]usage{}
	s.census(func(pid int, tag uint64) {
		u, add := calls[tag], statusOf(pid)
		calls[tag] = usage{tasks: u.tasks + add.tasks, memory: u.memory + add.memory}
	})
	var all usage
	for _, u := range calls {
		all.tasks += u.tasks
		all.memory += u.memory
	}
	if all.tasks == 0 {
		*w = watchdog{}
		return
	}
	if s.plan.WatchDisk > 0 {
		own, shared := s.disk.grown()
		all.disk = own + shared
	}
	if w.calm++; w.seen != all {
		w.calm = 0
	}
	w.seen = all
	again := false
	if max := s.plan.WatchMemory; all.memory <= max {
		w.over = 0
	} else if max > 0 && now >= w.doubt {
		again = s.overMemory(max)
	}
	if max := s.plan.WatchPids; max > 0 && !again {
		since := time.Duration(0)
		if w.last > 0 {
			since = min(now-w.last, lookMax)
		}
		again = s.overPids(calls, all, max, since)
	}
	if s.plan.WatchDisk > 0 && !again {
		var over bool
		if over, again = s.overDisk(now); over {
			s.stop(s.heaviest(), LimitDisk)
		}
	}
	w.last = now
	w.next = monotonic() + s.pause(again)
}

// pause is the time until the next look.
func (s *server) pause(again bool) time.Duration {
	wait := lookMax
	switch calm := s.dog.calm >= calmRuns; {
	case again:
		return lookMin
	case s.dog.full > 0:
		return lookFull
	case calm && len(s.keys) == 0, s.dog.calm >= calmFew && s.plan.WatchMemory == 0 && s.plan.WatchDisk == 0 && s.dog.seen.tasks < s.plan.WatchPids/2:
		wait = calmLook
	case !calm && s.plan.WatchMemory > 0 && s.dog.doubt == 0:
		wait = untilFull(s.plan.WatchMemory - s.dog.seen.memory)
	}
	if s.plan.WatchDisk > 0 && s.dog.calm < calmRuns {
		wait = min(wait, s.disk.untilPassed())
	}
	return wait
}

// untilFull is the time in which so much room cannot be used up.
func untilFull(room int64) time.Duration {
	return min(max(time.Duration(float64(max(room, 0))/fastest*float64(time.Second)), lookMin), lookMax)
}

// overMemory counts exactly, shared pages once, before it ends anything.
func (s *server) overMemory(max int64) bool {
	began, calls, all := monotonic(), map[uint64]usage{}, int64(0)
	s.census(func(pid int, tag uint64) {
		memory := exactMemory(pid)
		calls[tag] = usage{tasks: calls[tag].tasks + 1, memory: calls[tag].memory + memory}
		all += memory
	})
	s.dog.doubt = 0
	if all <= max {
		s.dog.over = 0
		s.dog.doubt = monotonic() + lookMax + 20*(monotonic()-began) // what is shared makes it look like more
		return false
	}
	// Processes that end while they are counted leave their share to the others, so that it is counted again.
	if s.dog.over++; s.dog.over > 1 {
		s.dog.over = 0
		s.stop(mostOf(calls, func(u usage) int64 { return u.memory }), LimitMemory)
	}
	return true
}

// overPids ends what has more processes than the box may have, or what has kept its table full.
func (s *server) overPids(calls map[uint64]usage, all usage, most int, since time.Duration) bool {
	biggest := func() uint64 { return mostOf(calls, func(u usage) int64 { return int64(u.tasks) }) }
	if all.tasks > most+PidsReserve { // no limit of the kernel's holds it
		s.stop(biggest(), LimitProcesses)
		return true
	}
	w := &s.dog
	switch {
	case all.tasks < most/2:
		w.full = 0
	case all.tasks < most-most/8 || canFork():
		w.full = max(w.full-since/4, 0)
	default:
		w.full += since
	}
	if w.full < fullTime {
		return false
	}
	w.full = 0
	s.stop(biggest(), LimitProcesses)
	return true
}

// canFork tries it, with a program that does not exist.
func canFork() bool {
	_, err := syscall.ForkExec("/dev/null/none", []string{"none"}, nil)
	return err != syscall.EAGAIN && err != syscall.ENOMEM
}

// stop ends a call because of a limit. If it has ended, what it left behind is killed, and its later output says so.
func (s *server) stop(tag uint64, limit string) {
	if tag == 0 { // whose it was is gone, and strangers may bear none
		return
	}
	for _, j := range s.keys {
		if j.tag == tag {
			if !j.killing {
				j.limit = limit
				s.kill(j, monotonic())
			}
			return
		}
	}
	killTagged(func(seen uint64) bool { return seen == tag }, os.Getpid())
	for _, j := range s.jobs {
		if j.tag == tag && j.limit == "" {
			j.limit = limit
			stream := Stderr
			if j.tty {
				stream = Stdout
			}
			text := "hardshell: what this command left running was killed: the box's limit of " + limit + " was reached\n"
			j.note(stream, j.streams[stream-1].keep(j.dir, spoolNames[stream-1], []byte(text)))
		}
	}
}

func mostOf(calls map[uint64]usage, by func(usage) int64) (tag uint64) {
	top := int64(-1)
	for t, u := range calls {
		if by(u) > top {
			tag, top = t, by(u)
		}
	}
	return tag
}

// census visits every process of the box but ourselves.
func (s *server) census(visit func(pid int, tag uint64)) {
	self := os.Getpid()
	eachProcess(func(pid int) bool {
		if tag, ok := tagOf(pid); ok && pid != self && s.tags.ours(tag) {
			visit(pid, tag)
		}
		return true
	})
}

// statusOf reads a process's threads and the memory that is not a file's. Pages that processes share count for each.
func statusOf(pid int) usage {
	var b [4096]byte
	text := readProc(pid, "status", b[:])
	return usage{tasks: int(amount(text, "\nThreads:")), memory: (amount(text, "\nRssAnon:") + amount(text, "\nRssShmem:") + amount(text, "\nVmSwap:")) << 10}
}

// exactMemory is a process's share of it: a page that n processes share counts for an n-th. Where that is not ours to
// see the pages count whole.
func exactMemory(pid int) int64 {
	var b [4096]byte
	text := readProc(pid, "smaps_rollup", b[:])
	if len(text) == 0 {
		return statusOf(pid).memory
	}
	return (amount(text, "\nPss_Anon:") + amount(text, "\nPss_Shmem:") + amount(text, "\nSwapPss:")) << 10
}

func readProc(pid int, name string, b []byte) []byte {
	fd, err := unix.Open("/proc/"+decimal(int64(pid))+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, b)
	if err != nil {
		return nil
	}
	return b[:n]
}

// amount reads the number after a name.
func amount(text []byte, name string) (n int64) {
	at := bytes.Index(text, []byte(name))
	if at < 0 {
		return 0
	}
	for _, c := range text[at+len(name):] {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + int64(c-'0')
		case c != ' ' && c != '\t':
			return n
		}
	}
	return n
}
