package resident

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process belongs to the call that its tag names. The tag is the soft value of RLIMIT_RTTIME, a limit that matters
// to nobody here (no command runs in real time): the resident sets it on itself before each fork, children inherit
// it through any number of forks, sessions and orphanages, and the filter lets no command change it. So a call's
// processes can be found, and no others, with no cgroup and on every machine. In a box of ours that tag is the outer
// resident's, and its filter keeps us from it; then RLIMIT_LOCKS serves, which no kernel since 2.4 has looked at.
type tagger struct {
	base uint64
	max  uint64 // the hard limit, kept as it is
	next uint64
	sec  Secret
}

// tagLimit is the limit that is the tag: of this process, as limits are.
var tagLimit = unix.RLIMIT_RTTIME

func newTagger(sec Secret) (*tagger, error) {
	var l unix.Rlimit
	if err := unix.Prlimit(0, tagLimit, nil, &l); err != nil {
		return nil, failed("read the tag", err)
	}
	if unix.Prlimit(0, tagLimit, &l, nil) == unix.EPERM {
		tagLimit = unix.RLIMIT_LOCKS
		if err := unix.Prlimit(0, tagLimit, nil, &l); err != nil {
			return nil, failed("read the tag", err)
		}
	}
	t := &tagger{max: l.Max, sec: sec}
	// Without a pid namespace other residents' calls are in sight too: a random base keeps them apart.
	var b [8]byte
	if _, err := unix.Getrandom(b[:], 0); err != nil {
		return nil, failed("choose the tags", err)
	}
	if t.base = 1<<62 | binary.LittleEndian.Uint64(b[:])>>26<<24; t.base >= l.Max {
		t.base = l.Max / 2
	}
	return t, nil
}

// set tags what is forked from now on, with a new tag.
func (t *tagger) set() (uint64, error) {
	t.next++
	tag := t.base + t.next
	l := unix.Rlimit{Cur: tag, Max: t.max}
	_, _, e := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(tagLimit), uintptr(unsafe.Pointer(&l)), 0, uintptr(t.sec[0]), uintptr(t.sec[1]))
	if e != 0 {
		return 0, failed("set the tag", e)
	}
	return tag, nil
}

// ours says whether a tag was given out by this tagger.
func (t *tagger) ours(tag uint64) bool { return tag > t.base && tag <= t.base+t.next }

// killTagged sends SIGKILL to every process whose tag is one of those asked for, and says how many of them still
// lived. The caller repeats it until none does: what was forked in the middle of a scan is found by the next.
func killTagged(which func(tag uint64) bool, self int) (alive int) {
	eachProcess(func(pid int) bool {
		if pid != self && bears(pid, which) && killExactly(pid, which) {
			alive++
		}
		return true
	})
	return alive
}

// tagOf reads a process's tag, or what else its limit is.
func tagOf(pid int) (tag uint64, ok bool) {
	var l unix.Rlimit
	err := unix.Prlimit(pid, tagLimit, nil, &l)
	return l.Cur, err == nil
}

func bears(pid int, which func(uint64) bool) bool {
	tag, ok := tagOf(pid)
	return ok && which(tag)
}

// killExactly looks again with the process held by a descriptor, so that a number given to another in between
// harms nobody.
func killExactly(pid int, which func(uint64) bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if !bears(pid, which) || isZombie(pid) {
		return false
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err == unix.ENOSYS { // in a box of ours without a jail, whose filter has not that call
		err = unix.Kill(pid, unix.SIGKILL)
	}
	return err == nil
}

// isZombie says whether a process is dead and only waits to be reaped, by us or by its own parent.
func isZombie(pid int) bool {
	fd, err := unix.Open("/proc/"+decimal(int64(pid))+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	var b [512]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return true
	}
	for i := n - 1; i > 0; i-- { // the name may hold anything; the state follows its last bracket
		if b[i] == ')' {
			return i+2 >= n || b[i+2] == 'Z' || b[i+2] == 'X'
		}
	}
	return true
}

// monotonic is the clock of every deadline here; it does not jump.
func monotonic() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
