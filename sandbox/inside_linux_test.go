package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// nestArg makes this test binary, started in a box, open a box itself and run a script in it.
const nestArg = "open-a-box-in-a-box"

// nesting is what it is told, and what it answers.
type nesting struct {
	Spec    sandbox.Spec
	Hosted  bool
	Script  string
	Timeout time.Duration

	Inside sandbox.Rung
	Report sandbox.Report
	Exit   process.Exit
	Out    string
	Error  string
}

func nest(text string) int {
	var n nesting
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		fmt.Println(err)
		return 1
	}
	n.Inside, _ = sandbox.Inside()
	if err := n.run(); err != nil {
		n.Error = err.Error()
	}
	answer, _ := json.Marshal(n)
	fmt.Println(string(answer))
	return 0
}

func (n *nesting) run() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "nest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n.Spec.Dir = filepath.Join(dir, "box")
	if n.Hosted {
		n.Spec.Hosted = &sandbox.Hosted{Workspace: dir, Tmp: dir, Home: dir}
	}
	box, err := sandbox.Open(ctx, n.Spec)
	if err != nil {
		return err
	}
	defer box.Close()
	n.Report = box.Report()
	job, err := box.Start(ctx, process.Command{Key: "k", Argv: []string{"bash", "-c", n.Script}, Env: environment, Timeout: n.Timeout})
	if err != nil {
		return err
	}
	if n.Exit, err = job.Wait(ctx); err != nil {
		return err
	}
	out, err := io.ReadAll(job.Reader(process.Stdout))
	n.Out = string(out)
	return err
}

// within runs a nesting in a box.
func within(t *testing.T, box *sandbox.Box, work string, n nesting) nesting {
	t.Helper()
	text, err := json.Marshal(n)
	must(t, err)
	c := process.Command{Key: newKey(), Argv: []string{filepath.Join(work, "probe"), nestArg, string(text)}, Env: environment, Dir: work, Timeout: time.Minute}
	got := run(t, box, c)
	var answer nesting
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	return answer
}

func TestABoxInABox(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	landlock(t)
	const ro, ww, off, full = sandbox.ReadOnly, sandbox.WorkspaceWrite, sandbox.NetworkOff, sandbox.NetworkFull
	for _, rung := range []sandbox.Rung{sandbox.RungJail, sandbox.RungRestricted} {
		for _, c := range []struct {
			name    string
			outer   sandbox.Policy
			inner   sandbox.Policy
			hosted  bool
			got     sandbox.Rung // "" is refused
			refusal string
		}{
			{"the same", sandbox.Policy{Mode: ww}, sandbox.Policy{Mode: ww}, false, sandbox.RungExternal, ""},
			{"a looser one", sandbox.Policy{Mode: ww}, sandbox.Policy{Mode: ww, Network: full}, false, sandbox.RungExternal, ""},
			{"a tighter one", sandbox.Policy{Mode: ww}, sandbox.Policy{Mode: ro}, false, "", "lets commands write"},
			{"a tighter one, if need be restricted", sandbox.Policy{Mode: ww}, sandbox.Policy{Mode: ro, Least: sandbox.RungRestricted}, false, sandbox.RungRestricted, ""},
			{"without the network that is around", sandbox.Policy{Mode: ww, Network: full}, sandbox.Policy{Mode: ww, Network: off}, false, "", "use the network"},
			{"a hosted one", sandbox.Policy{Mode: ww}, sandbox.Policy{Mode: ww}, true, "", "no jail can be made"},
			{"without restrictions", sandbox.Policy{Mode: ww}, sandbox.Policy{Mode: sandbox.ExternalSandbox}, false, sandbox.RungNone, ""},
		} {
			t.Run(string(rung)+"/"+c.name, func(t *testing.T) {
				base, work := workplace(t)
				copyOfUs(t, filepath.Join(work, "probe"), 0o755)
				box, err := sandbox.OpenRung(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: c.outer}, rung)
				must(t, err)
				defer box.Close()
				n := within(t, box, work, nesting{Spec: sandbox.Spec{Cwd: work, Policy: c.inner}, Hosted: c.hosted, Script: "echo x >made; echo $HARDSHELL_SANDBOX; exec 2>&1; touch /etc/x"})
				if n.Inside != rung {
					t.Errorf("it took itself to be inside %q", n.Inside)
				}
				if c.got == "" {
					if !strings.Contains(n.Error, c.refusal) {
						t.Errorf("got %+v", n)
					}
					return
				}
				if n.Error != "" || n.Report.Got != c.got || n.Exit.Code == 0 {
					t.Fatalf("got %+v", n)
				}
				said := string(c.got)
				if c.got == sandbox.RungNone {
					said = ""
				}
				if !strings.HasPrefix(n.Out, said+"\n") {
					t.Errorf("said %q", n.Out)
				}
				if c.got == sandbox.RungExternal && (len(n.Report.Missing) == 0 || n.Report.Asked != sandbox.RungJail) {
					t.Errorf("report %+v", n.Report)
				}
				if _, err := os.Stat(filepath.Join(work, "made")); (err == nil) != (c.inner.Mode != ro) {
					t.Errorf("written in the workspace: %v", err == nil)
				}
			})
		}
	}
}

func TestACallOfABoxInABoxDiesWhole(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	landlock(t)
	for _, rung := range []sandbox.Rung{sandbox.RungJail, sandbox.RungRestricted} {
		t.Run(string(rung), func(t *testing.T) {
			base, work := workplace(t)
			copyOfUs(t, filepath.Join(work, "probe"), 0o755)
			box, err := sandbox.OpenRung(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}}, rung)
			must(t, err)
			defer box.Close()
			mark := base + "-sleeper"
			n := within(t, box, work, nesting{Spec: sandbox.Spec{Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}}, Timeout: time.Second,
				Script: "export HARDSHELL_MARK=" + mark + "; setsid setsid sleep 1000 & (sleep 1000 &); sleep 1000"})
			if !n.Exit.TimedOut || n.Error != "" {
				t.Errorf("got %+v", n)
			}
			if left := marked("HARDSHELL_MARK=" + mark); len(left) != 0 {
				t.Errorf("%v live on", left)
			}
		})
	}
}

// What anybody can set, or a filter that is not ours, proves nothing.
func TestInsideIsProvenByTheKernelAlone(t *testing.T) {
	for _, name := range []string{sandbox.EnvSandbox, sandbox.EnvSeedSandbox, sandbox.EnvNetworkOff} {
		t.Setenv(name, "jail")
	}
	if rung, ok := sandbox.Inside(); ok {
		t.Errorf("inside %q, by a variable", rung)
	}
	for _, s := range []stage{plainStage, filteredClone, engineContainer} {
		t.Run(s.name, func(t *testing.T) {
			onStage(t, s, func(t *testing.T) {
				if rung, ok := sandbox.Inside(); ok {
					t.Errorf("inside %q, without a box", rung)
				}
			})
		})
	}
	base := t.TempDir()
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: base, Policy: sandbox.Policy{Mode: sandbox.DangerFullAccess}})
	must(t, err)
	defer box.Close()
	copyOfUs(t, filepath.Join(base, "probe"), 0o755)
	if n := within(t, box, base, nesting{Spec: sandbox.Spec{Cwd: base, Policy: sandbox.Policy{Mode: sandbox.ExternalSandbox}}, Script: "true"}); n.Inside != "" || n.Error != "" {
		t.Errorf("inside an unconfined box: %+v", n)
	}
	if i := slices.Index(box.Report().Missing, ""); i >= 0 {
		t.Error("an empty line in the report")
	}
}
