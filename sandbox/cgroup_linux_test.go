package sandbox_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// TestCPULimit: a box's commands run in a group with its quota, which holds them back and goes with the box.
func TestCPULimit(t *testing.T) {
	p := newPlace(t)
	p.spec.Limits.CPUs = 0.13 // a quota that nobody else has
	box := p.open(t)
	for _, missing := range box.Report().Missing {
		if strings.HasPrefix(missing, "cpu limit") {
			require.Feature(t, "cgroup-cpu", fmt.Errorf("%s", missing))
		}
	}
	groups := groupsWithQuota()
	if len(groups) != 1 {
		t.Fatalf("groups with the quota: %q", groups)
	}
	if got := run(t, box, bash("for i in $(seq 200000); do :; done; echo done")); got.out != "done\n" {
		t.Errorf("got %+v", got)
	}
	stat, err := os.ReadFile(filepath.Join(groups[0], "cpu.stat"))
	if err != nil || !strings.Contains(string(stat), "nr_throttled") || strings.Contains(string(stat), "nr_throttled 0\n") {
		t.Errorf("a busy loop was never held back: %s, %v", stat, err)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if groups := groupsWithQuota(); len(groups) != 0 {
		t.Errorf("groups are left: %q", groups)
	}
}

// Without a jail commands are forked from a thread of their own. It lies in the box's groups, too: a report that says that
// the kernel holds the limits would not be true otherwise, and nobody else would hold them.
func TestARestrictedBoxIsHeldToItsLimits(t *testing.T) {
	landlock(t)
	for limit, script := range map[string]string{
		"memory":    `push @a, "x" x (1 << 20) for 1 .. 400; sleep 60; print "over"`,
		"processes": `for (1 .. 200) { last unless fork } sleep 60; print "over"`,
	} {
		t.Run(limit, func(t *testing.T) {
			base, work := workplace(t)
			box, err := sandbox.OpenRung(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work,
				Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}, Limits: sandbox.Limits{MemoryBytes: memoryLimit, Pids: processLimit}}, sandbox.RungRestricted)
			must(t, err)
			defer box.Close()
			t.Logf("limits are %s", box.Report().Limits)
			c := process.Command{Key: newKey(), Argv: []string{"perl", "-e", script}, Env: environment, Timeout: 2 * time.Minute}
			if got := run(t, box, c); got.Limit != limit || got.TimedOut || strings.Contains(got.out, "over") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// groupsWithQuota lists the groups, of either version, that have the test's quota.
func groupsWithQuota() (dirs []string) {
	filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if name := e.Name(); name != "cpu.max" && name != "cpu.cfs_quota_us" {
			return nil
		}
		text, err := os.ReadFile(path)
		if f := strings.Fields(string(text)); err == nil && len(f) > 0 && f[0] == "13000" {
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	return dirs
}
