package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
)

func unconfined(t *testing.T) (*sandbox.Box, string) {
	t.Helper()
	base := t.TempDir()
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: base,
		Policy: sandbox.Policy{Mode: sandbox.DangerFullAccess, Network: sandbox.NetworkFull}})
	must(t, err)
	t.Cleanup(func() { box.Close() })
	return box, base
}

func TestWithoutABoxItSaysSo(t *testing.T) {
	box, base := unconfined(t)
	if r := box.Report(); r.Asked != sandbox.RungNone || r.Got != sandbox.RungNone {
		t.Errorf("report %+v", r)
	}
	if got := run(t, box, bash("pwd; id -u >uid; exit 4")); got.Code != 4 || got.out != base+"\n" {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(filepath.Join(base, "uid")); err != nil {
		t.Error(err)
	}
}

func TestWithoutABoxACallStillDiesWhole(t *testing.T) {
	box, base := unconfined(t)
	mark := "HARDSHELL_MARK=" + base
	server := bash("setsid sleep 1000 >/dev/null 2>&1 & echo up")
	server.Env = append([]string{mark + "/server"}, server.Env...)
	run(t, box, server)
	c := bash("setsid setsid sleep 1000 & (sleep 1000 &); sleep 1000")
	c.Env = append([]string{mark + "/call"}, c.Env...)
	c.Timeout = 500 * time.Millisecond
	if got := run(t, box, c); !got.TimedOut {
		t.Errorf("got %+v", got)
	}
	if n := len(marked(mark + "/call")); n != 0 {
		t.Errorf("%d processes of the call live on", n)
	}
	if n := len(marked(mark + "/server")); n != 1 {
		t.Errorf("%d of the earlier call's server live, want 1", n)
	}
	must(t, box.Close())
	eventually(t, "nothing left", func() bool { return len(marked(mark)) == 0 })
}

func TestSpecsThatNoBoxCanBeMadeOf(t *testing.T) {
	dir := t.TempDir()
	for name, spec := range map[string]sandbox.Spec{
		"relative folder":            {Dir: "box", Cwd: dir},
		"no working folder":          {Dir: dir},
		"unknown mode":               {Dir: dir, Cwd: dir, Policy: sandbox.Policy{Mode: 9}},
		"hosted and unconfined":      {Dir: dir, Hosted: &sandbox.Hosted{}, Policy: sandbox.Policy{Mode: sandbox.DangerFullAccess}},
		"negative limit":             {Dir: dir, Cwd: dir, Limits: sandbox.Limits{Pids: -1}},
		"roots of a read-only box":   {Dir: dir, Cwd: dir, Policy: sandbox.Policy{WritableRoots: []string{dir}}},
		"the whole system to write":  {Dir: dir, Cwd: dir, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite, WritableRoots: []string{"/"}}},
		"a folder that is not there": {Dir: dir, Cwd: dir, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite, WritableRoots: []string{dir + "/no"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := sandbox.Open(t.Context(), spec); fault.KindOf(err) != fault.Invalid {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestModesHaveNames(t *testing.T) {
	for _, m := range []sandbox.Mode{sandbox.ReadOnly, sandbox.WorkspaceWrite, sandbox.DangerFullAccess, sandbox.ExternalSandbox} {
		if got, err := sandbox.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := sandbox.ParseMode("workspace"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}

func TestProbeNamesEveryLayer(t *testing.T) {
	for _, l := range sandbox.Probe(t.Context()) {
		if l.Name == "" || l.State != sandbox.Working && l.State != sandbox.Degraded && l.State != sandbox.Missing {
			t.Errorf("layer %+v", l)
		}
		if l.State != sandbox.Working && (l.Remedy == "" || strings.Contains(l.Remedy, "hardshell doctor")) {
			t.Errorf("doctor shows no remedy: %+v", l)
		}
		t.Logf("%-16s %-8s %8v %s", l.Name, l.State, l.Cost.Round(time.Microsecond), l.Detail)
	}
}
