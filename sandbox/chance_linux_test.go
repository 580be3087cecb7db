package sandbox_test

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox"
)

// When memory is short the kernel ends a command, and not the resident with all of them.
func TestCommandsEndBeforeTheirResident(t *testing.T) {
	confined := newPlace(t).open(t)
	free, _, _ := restricted(t, sandbox.Policy{})
	for name, box := range map[string]*sandbox.Box{"jail": confined, "restricted": free} {
		got := run(t, box, bash("cat /proc/self/oom_score_adj; until grep -q ^0 /proc/$PPID/oom_score_adj; do sleep 0.01; done; cat /proc/$PPID/oom_score_adj"))
		own, theirs, ok := strings.Cut(strings.TrimSpace(got.out), "\n")
		if !ok || own != "500" || theirs != "0" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
