package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"golang.org/x/sys/unix"
)

// An attempt is one row of the escape list: something that a command tries, by direct system call, so that a missing
// tool cannot look like a refusal. The rows are in the attack_ files. Those that are judged from the host are tests
// of their own, in the escape_ files.
type attempt struct {
	item int    // its number in the list; 0 is beyond the list
	what string // with the number, its name
	try  func(v *victims) error
	// harmless says why it cannot succeed on a machine without any sandbox either. Of every other attempt that is proven:
	// see TestAttemptsSucceedWithoutABox.
	harmless string
	// below is what a box of the restricted rung says in its report, where it cannot stop the attempt: that takes mounts
	// and namespaces. On that rung the attempt must either fail or be named so.
	below string
	// limit says where it is written that no box stops it on this kernel.
	limit string
	// online says that a box with the host's network may do it.
	online bool
}

func (a attempt) name() string {
	if a.item == 0 {
		return "beyond: " + a.what
	}
	return strconv.Itoa(a.item) + " " + a.what
}

func attempts() []attempt {
	return slices.Concat(fileAttempts, kernelAttempts, processAttempts, networkAttempts)
}

// errNothing is the answer of an attempt that finds nothing to be tried on.
var errNothing = errors.New("nothing to try it on")

// probeArg makes this test binary, started again inside a box, try to get out of it.
const probeArg = "try-to-escape"

// verdict is a line of the probe's output.
type verdict struct {
	Name   string
	Answer string // "" is an escape
}

// tryEscapes makes every attempt and says how each was answered.
func tryEscapes(args []string) int {
	var v victims
	if err := json.Unmarshal([]byte(args[0]), &v); err != nil {
		fmt.Println(err)
		return 99
	}
	v.Resident = os.Getppid()
	sibling := exec.Command("/proc/self/exe", sleepArg)
	sibling.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := sibling.Start(); err != nil {
		fmt.Println(err)
		return 99
	}
	defer sibling.Process.Kill()
	v.Sibling = sibling.Process.Pid
	out := json.NewEncoder(os.Stdout)
	for _, a := range attempts() {
		line := verdict{Name: a.name()}
		if err := a.try(&v); err != nil {
			line.Answer = err.Error()
		}
		out.Encode(line)
	}
	return 0
}

// probe is how this binary is run where the attempts are to be made.
type probe func(t *testing.T, args ...string) (out string)

// verdicts runs the attempts and returns the answer to each; an absent one was not made.
func verdicts(t *testing.T, v victims, probe probe) map[string]string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	out := probe(t, probeArg, string(text))
	answers := map[string]string{}
	for line := range strings.Lines(out) {
		var one verdict
		if json.Unmarshal([]byte(line), &one) == nil {
			answers[one.Name] = one.Answer
		}
	}
	if len(answers) != len(attempts()) {
		t.Errorf("%d answers to %d attempts:\n%s", len(answers), len(attempts()), out)
	}
	return answers
}

// cage is a kind of box that must hold.
type cage struct {
	name   string
	rung   sandbox.Rung
	online bool
	tty    bool // the probe runs in a terminal of the box's
	spec   func(t *testing.T, w world) sandbox.Spec
}

func local(mode sandbox.Mode, network sandbox.Network) func(t *testing.T, w world) sandbox.Spec {
	return func(t *testing.T, w world) sandbox.Spec {
		return sandbox.Spec{Dir: w.at("state/box"), Cwd: w.folder(t, "work"), Policy: sandbox.Policy{Mode: mode, Network: network}}
	}
}

// cages are the boxes of the jail.
var cages = []cage{
	{name: "hosted", rung: sandbox.RungJail, spec: func(t *testing.T, w world) sandbox.Spec {
		h := &sandbox.Hosted{Workspace: w.folder(t, "data"), Tmp: w.folder(t, "tmp"), Home: w.folder(t, "home"), ReadOnlyBinds: []string{w.folder(t, "shown")}}
		if os.Geteuid() == 0 {
			h.UID = w.uid
		}
		return sandbox.Spec{Dir: w.at("state/box"), Hosted: h}
	}},
	{name: "read-only", rung: sandbox.RungJail, spec: local(sandbox.ReadOnly, sandbox.NetworkOff)},
	{name: "workspace-write", rung: sandbox.RungJail, spec: local(sandbox.WorkspaceWrite, sandbox.NetworkOff)},
	{name: "read-only online", rung: sandbox.RungJail, online: true, spec: local(sandbox.ReadOnly, sandbox.NetworkFull)},
	{name: "workspace-write proxied", rung: sandbox.RungJail, spec: local(sandbox.WorkspaceWrite, sandbox.NetworkProxied)},
	{name: "workspace-write in a terminal", rung: sandbox.RungJail, tty: true, spec: local(sandbox.WorkspaceWrite, sandbox.NetworkOff)},
	{name: "workspace-write online", rung: sandbox.RungJail, online: true, spec: local(sandbox.WorkspaceWrite, sandbox.NetworkFull)},
}

// weakCages are the boxes of the rung below.
var weakCages = []cage{
	{name: "read-only", rung: sandbox.RungRestricted, spec: local(sandbox.ReadOnly, sandbox.NetworkOff)},
	{name: "workspace-write", rung: sandbox.RungRestricted, spec: local(sandbox.WorkspaceWrite, sandbox.NetworkOff)},
	{name: "read-only online", rung: sandbox.RungRestricted, online: true, spec: local(sandbox.ReadOnly, sandbox.NetworkFull)},
	{name: "workspace-write in a terminal", rung: sandbox.RungRestricted, tty: true, spec: local(sandbox.WorkspaceWrite, sandbox.NetworkOff)},
	{name: "workspace-write online", rung: sandbox.RungRestricted, online: true, spec: local(sandbox.WorkspaceWrite, sandbox.NetworkFull)},
}

// inBox puts the probe into a box's workspace, and runs it there.
func inBox(box *sandbox.Box, spec sandbox.Spec) probe { return inBoxWith(box, spec, nil) }

func inBoxWith(box *sandbox.Box, spec sandbox.Spec, tty *process.Size) probe {
	return func(t *testing.T, args ...string) string {
		t.Helper()
		host, seen := spec.Cwd, spec.Cwd
		if spec.Hosted != nil {
			host, seen = spec.Hosted.Workspace, "/mnt/data"
		}
		copyOfUs(t, filepath.Join(host, "probe"), 0o755)
		got := run(t, box, process.Command{Key: newKey(), Argv: append([]string{filepath.Join(seen, "probe")}, args...), Dir: seen, Env: environment, TTY: tty, Timeout: time.Minute})
		if got.Code != 0 {
			t.Errorf("the probe ended with %+v\n%s%s", got.Exit, got.out, got.err)
		}
		return got.out
	}
}

// copyOfUs writes this binary to a file.
func copyOfUs(t testing.TB, path string, mode os.FileMode) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(path, self, 0o755))
	must(t, os.Chmod(path, mode))
}

func TestNoWayOut(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	onStage(t, plainStage, func(t *testing.T) {
		for _, c := range cages {
			t.Run(c.name, func(t *testing.T) { holds(t, c) })
		}
	})
}

// TestNoWayOutWithoutAJail holds the weaker rung to its word: what it cannot stop is in its report, and nothing else is
// open. What the list says of it is true of at least one such box.
func TestNoWayOutWithoutAJail(t *testing.T) {
	landlock(t)
	onStage(t, plainStage, func(t *testing.T) {
		succeeded := map[string]bool{}
		for _, c := range weakCages {
			t.Run(c.name, func(t *testing.T) {
				for name, answer := range holds(t, c) {
					succeeded[name] = succeeded[name] || answer == ""
				}
			})
		}
		for _, a := range attempts() {
			if a.below != "" && a.harmless == "" && !succeeded[a.name()] {
				t.Errorf("%s: nothing lets it through; the list says %q", a.name(), a.below)
			}
		}
	})
}

// holds opens a cage and makes every attempt in it, each as a part of the test by its name.
func holds(t *testing.T, c cage) (answers map[string]string) {
	w := newWorld(t)
	v := hostVictims(t, w)
	spec := c.spec(t, w)
	box, err := sandbox.OpenRung(t.Context(), spec, c.rung)
	must(t, err)
	defer box.Close()
	report := box.Report()
	if report.Got != c.rung {
		t.Fatalf("report %+v", report)
	}
	v.afterOpen(t, w, spec)
	var tty *process.Size
	if c.tty {
		tty = &process.Size{}
	}
	answers = verdicts(t, v, inBoxWith(box, spec, tty))
	missing := strings.Join(report.Missing, "; ")
	for _, a := range attempts() {
		t.Run(a.name(), func(t *testing.T) {
			answer, made := answers[a.name()]
			switch {
			case !made:
				t.Error("not made")
			case a.online && c.online:
			case c.rung == sandbox.RungRestricted && answer == "" && a.below != "":
				if !strings.Contains(missing, a.below) {
					t.Errorf("it succeeded, and the report does not name %q among %s", a.below, missing)
				}
			case c.rung == sandbox.RungJail && a.limit != "":
				if answer != "" {
					t.Errorf("stopped (%s), although %s says that nothing does", answer, a.limit)
				}
			case answer == "":
				t.Error("it succeeded")
			}
		})
	}
	v.unharmed(t)
	return answers
}

// TestAttemptsSucceedWithoutABox keeps the list honest: an attempt that always fails proves nothing. Each is made as
// the user that boxes run as, and again with every capability over namespaces of its own, and must succeed once.
func TestAttemptsSucceedWithoutABox(t *testing.T) {
	onStage(t, plainStage, func(t *testing.T) {
		w := newWorld(t)
		v := hostVictims(t, w)
		v.afterOpen(t, w, sandbox.Spec{Dir: w.at("state/box"), Cwd: w.folder(t, "work")})
		v.withoutBox(t, w)
		plain := verdicts(t, v, unboxed(w, &syscall.SysProcAttr{}))
		strong := verdicts(t, v, unboxed(w, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWUTS,
			UidMappings: []syscall.SysProcIDMap{{HostID: w.uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: w.uid, Size: 1}}}))
		for _, a := range attempts() {
			t.Run(a.name(), func(t *testing.T) {
				succeeds := plain[a.name()] == "" || strong[a.name()] == ""
				if !succeeds && a.harmless == "" {
					t.Errorf("refused without a box: %q, and with capabilities: %q", plain[a.name()], strong[a.name()])
				}
				if succeeds && a.harmless != "" {
					t.Logf("it succeeds here, although %s", a.harmless)
				}
			})
		}
	})
}

// unboxed runs the probe as the boxes' uid, without a box.
func unboxed(w world, attr *syscall.SysProcAttr) probe {
	return func(t *testing.T, args ...string) string {
		dir := w.folder(t, "free")
		copyOfUs(t, filepath.Join(dir, "probe"), 0o755)
		// A shell between us, so that nothing done to its parent is done to the test.
		cmd := exec.Command("/bin/sh", append([]string{"-c", `"$0" "$@"; true`, filepath.Join(dir, "probe")}, args...)...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, environment, attr
		attr.Setsid = true
		switch {
		case attr.Cloneflags != 0:
			attr.Credential = &syscall.Credential{NoSetGroups: os.Geteuid() != 0}
			attr.GidMappingsEnableSetgroups = os.Geteuid() == 0
		case os.Geteuid() == 0:
			attr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
}
