package sandbox_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// looksLike waits until a look at a job is as wanted.
func looksLike(t testing.TB, job *process.Job, what string, ok func(process.Look) bool) {
	t.Helper()
	var last process.Look
	end := time.Now().Add(patience)
	for ; time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		got, err := job.Look(t.Context(), 0)
		must(t, err)
		if last = got; ok(got) {
			return
		}
	}
	t.Fatalf("%s: last seen %+v", what, last)
}

// everyRungAndRestricted is everyRung with the one between.
func everyRungAndRestricted(t *testing.T, test func(t *testing.T, box *sandbox.Box)) {
	everyRung(t, test)
	t.Run("restricted", func(t *testing.T) {
		box, _, _ := restricted(t, sandbox.Policy{Mode: sandbox.WorkspaceWrite})
		test(t, box)
	})
}

func TestALookTellsWhoReadsTheTerminal(t *testing.T) {
	everyRungAndRestricted(t, func(t *testing.T, box *sandbox.Box) {
		for _, c := range []struct {
			name, script string
			ok           func(process.Look) bool
		}{
			{"a line is read", "read x", func(l process.Look) bool { return l.Reads && l.Leads && l.Echoes && l.Lines }},
			{"a password is read", "read -s x", func(l process.Look) bool { return l.Reads && !l.Echoes }},
			{"a child reads /dev/tty", "head -n 1 </dev/tty; exit", func(l process.Look) bool { return l.Reads && l.Echoes }},
			{"nobody reads", "sleep 1000", func(l process.Look) bool { return l.Clear && !l.Reads && l.Echoes }},
		} {
			job := start(t, box, inTTY(bash(c.script)))
			looksLike(t, job, c.name, c.ok)
			job.Kill()
		}
		job := start(t, box, inTTY(bash("sleep 1000")))
		types(t, job, "typed ahead\n")
		looksLike(t, job, "typed ahead", func(l process.Look) bool { return l.Unread && !l.Reads })
		job.Kill()
	})
}

func TestALookTellsWhoReadsThePipe(t *testing.T) {
	everyRungAndRestricted(t, func(t *testing.T, box *sandbox.Box) {
		c := bash("cd /; cat; sleep 1000")
		c.OpenStdin = true
		job := start(t, box, c)
		looksLike(t, job, "cat reads", func(l process.Look) bool { return l.Reads && l.Dir == "/" })
		must(t, job.CloseInput(t.Context()))
		looksLike(t, job, "sleep does not", func(l process.Look) bool { return !l.Reads })
		job.Kill()
		wait(t, job)
		if _, err := job.Look(t.Context(), 0); fault.KindOf(err) != fault.Conflict {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestALookTellsAnOpenPort(t *testing.T) {
	box := newPlace(t).open(t)
	job := start(t, box, bash(`exec python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 8123)); s.listen(); time.sleep(1000)'`))
	end := time.Now().Add(patience)
	for {
		got, err := job.Look(t.Context(), 8123)
		must(t, err)
		if got.Listens {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the port was never seen")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got, err := job.Look(t.Context(), 8124); err != nil || got.Listens {
		t.Errorf("another port: %+v, %v", got, err)
	}
}

func TestASignalReachesTheGroup(t *testing.T) {
	everyRungAndRestricted(t, func(t *testing.T, box *sandbox.Box) {
		job := start(t, box, bash("trap 'echo trapped; exit 9' INT; echo up; while :; do sleep 0.02; done"))
		shows(t, job, "up")
		must(t, job.Signal(t.Context(), syscall.SIGINT))
		if got := wait(t, job); got.Code != 9 || got.out != "up\ntrapped\n" || got.Cancelled {
			t.Errorf("got %+v", got)
		}
		other := start(t, box, bash("sleep 1000"))
		if err := other.Signal(t.Context(), 99); fault.KindOf(err) != fault.Invalid {
			t.Errorf("signal 99: %v", err)
		}
		other.Kill()
		if err := job.Signal(t.Context(), syscall.SIGINT); fault.KindOf(err) != fault.Conflict {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAnOlderResidentDoesNotLook(t *testing.T) {
	p := newPlace(t)
	p.spec.Protocol = 3
	job := start(t, p.open(t), bash("sleep 1000"))
	if _, err := job.Look(t.Context(), 0); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("look: %v", err)
	}
	if err := job.Signal(t.Context(), syscall.SIGINT); fault.KindOf(err) != fault.Unsupported || err == nil {
		t.Errorf("signal: %v", err)
	}
	job.Kill()
}
