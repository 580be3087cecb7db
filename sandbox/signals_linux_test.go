package sandbox_test

import (
	"os/signal"
	"syscall"
	"testing"
)

// What a process ignores its children ignore: the resident's own armour must not reach the commands, or Ctrl-Z, a
// background job that reads the terminal and "kill -CONT" would do nothing in them.
func TestCommandsStartWithPlainSignals(t *testing.T) {
	// Whoever starts us may ignore anything; nohup and many service managers do.
	born := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGUSR1, 40}
	for _, sig := range born {
		signal.Ignore(sig)
		defer signal.Reset(sig)
	}
	box := newPlace(t).open(t)
	got := run(t, box, bash("grep -E '^Sig(Blk|Ign):' /proc/self/status"))
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
	if got.out != want {
		t.Errorf("signals = %q, want %q", got.out, want)
	}
}
