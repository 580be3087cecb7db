package sandbox_test

import (
	"strings"
	"testing"
)

// TestAWholeCallLeavesNothing starts what outlives its shell in every way that the shell knows, in a call of which
// nothing may be left, and looks for it from the next.
func TestAWholeCallLeavesNothing(t *testing.T) {
	box := newPlace(t).open(t)
	look := bash("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep '^sleep 360'")
	for name, script := range map[string]string{
		"background": "sleep 3601 & echo done", "no hang-up": "nohup sleep 3601 >/dev/null 2>&1 & echo done", "own session": "setsid sleep 3601 & echo done",
		"orphan": "(sleep 3601 &) ; echo done", "closed": "sleep 3601 <&- >&- 2>&- & echo done",
	} {
		t.Run(name, func(t *testing.T) {
			c := bash(script)
			c.Whole = true
			if r := run(t, box, c); r.Code != 0 || r.Cancelled || r.TimedOut || strings.TrimSpace(r.out) != "done" {
				t.Fatalf("%+v", r)
			}
			look.Key = newKey()
			if r := run(t, box, look); r.out != "" {
				t.Errorf("left behind: %s", r.out)
			}
		})
	}
	t.Run("otherwise it stays", func(t *testing.T) {
		run(t, box, bash("setsid sleep 3602 >/dev/null 2>&1 & echo done"))
		eventually(t, "what an ordinary call left is there", func() bool {
			look.Key = newKey()
			return strings.Contains(run(t, box, look).out, "sleep 3602")
		})
	})
}
