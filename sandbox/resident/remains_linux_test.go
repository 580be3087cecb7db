package resident

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRemainsAreKilledOn(t *testing.T) {
	const tag = 1<<61 + 54321
	child := func() *exec.Cmd {
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		if err := unix.Prlimit(c.Process.Pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: tag, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
		return c
	}
	var r remains
	r.hunt(time.Hour) // nothing
	r.add(tag, 0)
	late := child() // born behind the back of the scan before
	r.hunt(remainsPause / 2)
	if isZombie(late.Process.Pid) {
		t.Error("it was killed before its time")
	}
	r.hunt(remainsPause)
	if state, err := late.Process.Wait(); err != nil || state.Success() {
		t.Errorf("%v, %v", state, err)
	}
	if r.next == 0 {
		t.Error("what was alive a moment ago is not looked for again")
	}
	for now := 2 * remainsPause; r.next > 0 && now < remainsTime; now += remainsPause {
		r.hunt(now)
	}
	if r.next != 0 || len(r.tags) != 0 {
		t.Errorf("nothing remains: %+v", r)
	}
}
