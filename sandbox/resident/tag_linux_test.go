package resident

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A process whose number was given to another between two looks is not killed; the one that bears the tag is.
func TestANumberGivenToAnotherIsNotKilled(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	const tag = 1<<61 + 12345
	if err := unix.Prlimit(child.Process.Pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: tag, Max: unix.RLIM_INFINITY}, nil); err != nil {
		t.Fatal(err)
	}
	looks := 0
	first := func(seen uint64) bool {
		if seen == tag {
			looks++
		}
		return seen == tag && looks == 1
	}
	if alive := killTagged(first, os.Getpid()); alive != 0 || looks != 2 {
		t.Errorf("%d killed after %d looks", alive, looks)
	}
	if isZombie(child.Process.Pid) {
		t.Error("another's process was killed")
	}
	if alive := killTagged(func(seen uint64) bool { return seen == tag }, os.Getpid()); alive != 1 {
		t.Errorf("%d killed, want 1", alive)
	}
	if state, err := child.Process.Wait(); err != nil || state.Sys().(interface{ Signaled() bool }).Signaled() == false {
		t.Errorf("%v, %v", state, err)
	}
}
