package sandbox_test

import "testing"

// What a process ignores its children ignore: the resident's own armour must not reach the commands, or Ctrl-Z, a
// background job that reads the terminal and "kill -CONT" would do nothing in them.
func TestCommandsStartWithPlainSignals(t *testing.T) {
	box := newPlace(t).open(t)
	got := run(t, box, bash("grep -E '^Sig(Blk|Ign):' /proc/self/status"))
	want := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
	if got.out != want {
		t.Errorf("signals = %q, want %q", got.out, want)
	}
}
