package resident

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper returns a process whose limit has a soft value.
func sleeper(t *testing.T, limit int, soft uint64) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if err := unix.Prlimit(c.Process.Pid, limit, &unix.Rlimit{Cur: soft, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// The watchdog sees a box's processes also where their tag is the other limit: in a box of ours.
func TestTheCensusGoesByTheTagInUse(t *testing.T) {
	usual := tagLimit
	defer func() { tagLimit = usual }()
	const base = 1<<61 + 777
	s := &server{tags: &tagger{base: base, next: 1}}
	for _, tagLimit = range []int{unix.RLIMIT_RTTIME, unix.RLIMIT_LOCKS} {
		mine, other := sleeper(t, tagLimit, base+1).Process.Pid, sleeper(t, tagLimit, base+2).Process.Pid
		seen := map[int]uint64{}
		s.census(func(pid int, tag uint64) { seen[pid] = tag })
		if _, ok := seen[other]; ok || seen[mine] != base+1 {
			t.Errorf("limit %d: %v, with %d and without %d is wanted", tagLimit, seen, mine, other)
		}
	}
}

// What took too much may be gone before it is ended. A stranger without a tag is not ended in its place.
func TestNoTagIsNotStopped(t *testing.T) {
	stranger := sleeper(t, tagLimit, 0)
	s := &server{}
	s.stop(mostOf(nil, nil), LimitDisk)
	stranger.Process.Signal(unix.SIGTERM)
	state, err := stranger.Process.Wait()
	if err != nil || state.Sys().(syscall.WaitStatus).Signal() != unix.SIGTERM {
		t.Errorf("a process without a tag was killed: %v, %v", state, err)
	}
}

// A box names its limit where it has set it, and not where a command has set one for itself.
func TestALimitOfItsOwnIsNotTheBoxes(t *testing.T) {
	for sized, want := range map[bool]string{true: LimitDisk, false: ""} {
		j := newJob(1, &Start{}, -1)
		j.sized, j.status = sized, unix.WaitStatus(unix.SIGXFSZ)
		if j.finish(false); j.exit.Signal != "SIGXFSZ" || j.exit.Limit != want {
			t.Errorf("sized %v: %+v", sized, j.exit)
		}
	}
}

// Where nothing but the number of processes is watched, a box with few of them, which stay the same, is soon left alone;
// memory and disks can be taken without a process more.
func TestFewProcessesAreLeftAlone(t *testing.T) {
	for _, c := range []struct {
		plan  Plan
		tasks int
		calm  int
		want  time.Duration
	}{
		{Plan{WatchPids: 100}, 1, calmFew, calmLook},
		{Plan{WatchPids: 100}, 1, calmFew - 1, lookMax},
		{Plan{WatchPids: 100}, 50, calmFew, lookMax},
		{Plan{WatchPids: 100, WatchMemory: 1 << 40}, 1, calmFew, lookMax},
		{Plan{WatchPids: 100, WatchDisk: 1 << 40}, 1, calmFew, lookMax},
	} {
		s := &server{plan: &c.plan, dog: watchdog{seen: usage{tasks: c.tasks}, calm: c.calm}}
		s.disk.bar = c.plan.WatchDisk
		if wait := s.pause(false); wait != c.want {
			t.Errorf("%+v: %d tasks: the next look comes in %v", c.plan, c.tasks, wait)
		}
	}
}
