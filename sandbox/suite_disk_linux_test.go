package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"golang.org/x/sys/unix"
)

const diskLimit = 48 << 20

func perl(script string) process.Command {
	return process.Command{Key: newKey(), Argv: []string{"perl", "-e", script}, Env: environment, Timeout: 2 * time.Minute}
}

// fillers write for ever, in the folder where they stand, each in a way of its own.
var fillers = map[string]string{
	"one file":            `open F, ">", "big"; print F "x" x (1 << 20) for 1 .. 100_000`,
	"many files":          `for (1 .. 100_000) { open F, ">", "f$_"; print F "x" x (1 << 20) }`,
	"files with no name":  `for (1 .. 100_000) { open $f[$_], ">", "f"; unlink "f"; { my $h = $f[$_]; print $h "x" x (4 << 20) } }`,
	"a closed folder":     `mkdir "d"; for (1 .. 100_000) { chmod 0700, "d"; open F, ">", "d/f$_"; chmod 0, "d"; print F "x" x (1 << 20) }`,
	"many short programs": `for (1 .. 100_000) { if (!fork) { open F, ">", "f$_"; print F "x" x (1 << 20); exit } wait }`,
}

// A command that fills the disk is ended, and the limit named. What was there, and what cleans up, is left alone.
func TestADiskIsNotFilled(t *testing.T) {
	t.Parallel()
	for name, script := range fillers {
		for where, in := range map[string]func(t *testing.T) (*sandbox.Box, string){"hosted": diskHosted, "workspace": diskLocal, "private tmp": diskTmp, "restricted": diskRestricted} {
			t.Run(name+", "+where, func(t *testing.T) {
				box, dir := in(t)
				command := perl(script)
				command.Dir = dir
				if got := run(t, box, command); got.Limit != "disk" || got.TimedOut || got.Code != 137 && got.Signal != "SIGXFSZ" {
					t.Errorf("got %+v", got)
				}
				clean := bash("chmod 700 d; rm -rf big d f*; echo x >after && cat after")
				clean.Dir = dir
				if got := run(t, box, clean); got.out != "x\n" || got.Limit != "" {
					t.Errorf("after it: %+v", got)
				}
			})
		}
	}
}

func diskHosted(t *testing.T) (*sandbox.Box, string) {
	p := newPlace(t)
	p.spec.Limits.DiskBytes = diskLimit
	return diskSaid(t, p.open(t)), "/mnt/data"
}

func diskLocal(t *testing.T) (*sandbox.Box, string) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := workplace(t)
	takeDisk(t, filepath.Join(work, "old")) // it is not the box's
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work,
		Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}, Limits: sandbox.Limits{DiskBytes: diskLimit}})
	must(t, err)
	t.Cleanup(func() { box.Close() })
	return diskSaid(t, box), work
}

func diskRestricted(t *testing.T) (*sandbox.Box, string) {
	landlock(t)
	base, work := workplace(t)
	box, err := sandbox.OpenRung(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work,
		Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}, Limits: sandbox.Limits{DiskBytes: diskLimit}}, sandbox.RungRestricted)
	must(t, err)
	t.Cleanup(func() { box.Close() })
	return diskSaid(t, box), work
}

func diskTmp(t *testing.T) (*sandbox.Box, string) {
	box, _ := diskLocal(t)
	return box, "/tmp"
}

func diskSaid(t *testing.T, box *sandbox.Box) *sandbox.Box {
	if r := box.Report(); r.Limits != "soft" || !strings.Contains(strings.Join(r.Missing, ";"), "disk limit: watched") {
		t.Errorf("the report says %q, %v", r.Limits, r.Missing)
	}
	return box
}

// takeDisk makes a file that takes twice the limit.
func takeDisk(t *testing.T, path string) {
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, unix.Fallocate(int(f.Fd()), 0, 0, 2*diskLimit))
}

// What others write on the same disk ends nobody's call.
func TestADiskThatOthersFill(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.spec.Limits.DiskBytes = diskLimit
	box := p.open(t)
	c := bash("echo x >own; touch up; until [ -e go ]; do sleep 0.05; done; echo fine")
	c.Dir = "/mnt/data"
	job := start(t, box, c)
	eventually(t, "the command is up", func() bool { _, err := os.Stat(p.data("up")); return err == nil })
	takeDisk(t, filepath.Join(p.base, "others"))
	time.Sleep(1200 * time.Millisecond) // more than two looks, in which it must not be ended: there is nothing to wait for
	must(t, os.WriteFile(p.data("go"), nil, 0o644))
	if got := wait(t, job); got.out != "fine\n" || got.Limit != "" {
		t.Errorf("got %+v", got)
	}
}
