// Package runtimetest is the suite that every container runtime must pass; a runtime's own test is a factory.
//
// It holds the law of container.Runtime, Box and Job against a real runtime, with real commands of a POSIX system. It
// does not measure, and it does not try to break out: the escape list is package sandbox's.
package runtimetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// patience bounds every wait of the suite. Nothing takes a hundredth of it on an idle machine.
const patience = 60 * time.Second

// Run holds a runtime to the contract. factory makes a fresh one; where it is not supported, the suite is skipped
// under the runtime's name.
func Run(t *testing.T, factory func(t testing.TB) container.Runtime) {
	r := factory(t)
	require.Feature(t, r.Name(), r.Supported(t.Context()))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, newPlace(t, factory(t)))
		})
	}
	if _, ok := r.(container.Adopter); ok {
		t.Run("reattach", func(t *testing.T) { runReattach(t, factory) })
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, p *place)
}

var cases = []testCase{
	{"exit codes", exitCodes},
	{"signals", signals},
	{"a time-out is not an exit of 124", timeouts},
	{"output keeps its order and is live", order},
	{"large output", largeOutput},
	{"binary output", binaryOutput},
	{"the standard input", stdin},
	{"the environment is what was given", environment},
	{"a program that does not exist", missingProgram},
	{"the longest argument", longArgument},
	{"one run per key", oneRunPerKey},
	{"concurrent calls", concurrentCalls},
	{"a cancel kills that call only", cancelKillsThatCallOnly},
	{"a time-out kills orphans too", timeoutKillsOrphans},
	{"a process survives its call", backgroundSurvives},
	{"a process that keeps the output open does not hold the call", backgroundHoldsOutput},
	{"where and who a command is", whereAndWho},
	{"the workspace is live both ways", workspaceIsLive},
	{"the root is read-only", readOnlyRoot},
	{"no network", noNetwork},
	{"containers do not see each other", neighbours},
	{"close ends everything", closeEndsEverything},
	{"a container is opened again", openedAgain},
	{"prepare and remove may be repeated", prepareAndRemove},
}

// place is one container of the runtime under test.
type place struct {
	runtime container.Runtime
	spec    container.Spec
	ws      container.Workspace
	box     container.Box
	calls   atomic.Int64
	again   func() container.Runtime // another process's, for the cases of reattach
}

var slots atomic.Int64 // each container of a test run has its own

func newPlace(t testing.TB, r container.Runtime) *place { return newLeased(t, r, 0) }

func newLeased(t testing.TB, r container.Runtime, lease time.Duration) *place {
	t.Helper()
	name := id.New(id.Container)
	p := &place{runtime: r, spec: container.Spec{ID: name, Dir: filepath.Join(t.TempDir(), name), Slot: int(slots.Add(1)), Pids: 256,
		Lease: lease, Fence: 1}}
	var err error
	if p.ws, err = r.Prepare(wait(t), p.spec); err != nil {
		t.Fatalf("prepare: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if p.box != nil {
			if err := p.box.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		if err := p.runtime.Remove(ctx, p.spec); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	p.open(t)
	return p
}

func (p *place) open(t testing.TB) {
	t.Helper()
	var err error
	if p.box, err = p.runtime.Open(wait(t), p.spec); err != nil {
		t.Fatalf("open: %v", err)
	}
}

func wait(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

var plainEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + container.HomeDir, "LANG=C.UTF-8"}

func (p *place) command(script string) process.Command {
	return process.Command{Key: fmt.Sprintf("call_%d", p.calls.Add(1)), Argv: []string{p.ws.Shell, "-c", "--", script, "sh"},
		Env: plainEnv, Dir: container.Workdir}
}

func (p *place) start(t testing.TB, c process.Command) container.Job {
	t.Helper()
	job, err := p.box.Start(wait(t), c)
	if err != nil {
		t.Fatalf("start %.80q: %v", c.Argv, err)
	}
	return job
}

// outcome is what a call did.
type outcome struct {
	process.Exit
	out, err string
}

func (p *place) end(t testing.TB, job container.Job) outcome {
	t.Helper()
	exit, err := job.Wait(wait(t))
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	o := outcome{Exit: exit}
	for stream, text := range map[int]*string{process.Stdout: &o.out, process.Stderr: &o.err} {
		v, err := job.View(stream, 0)
		if err != nil {
			t.Fatalf("view: %v", err)
		}
		*text = v.Text
	}
	return o
}

func (p *place) run(t testing.TB, script string) outcome {
	t.Helper()
	return p.end(t, p.start(t, p.command(script)))
}

// want fails unless a script exits with 0 and prints exactly this.
func (p *place) want(t testing.TB, script, out string) {
	t.Helper()
	if o := p.run(t, script); o.Code != 0 || o.out != out {
		t.Errorf("%s: exit %d, printed %q, want %q; stderr %q", script, o.Code, o.out, out, o.err)
	}
}

// put writes a file of the workspace from the host, readable for the container.
func (p *place) put(t testing.TB, name string, data []byte) {
	t.Helper()
	at := filepath.Join(p.ws.Dir, name)
	err := os.WriteFile(at, data, 0o644)
	if err == nil {
		err = os.Chmod(at, 0o644)
	}
	if err == nil && p.ws.UID != 0 {
		err = os.Chown(at, p.ws.UID, p.ws.UID)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// until polls a file of the workspace from the host.
func (p *place) until(t testing.TB, name, text string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got, err := os.ReadFile(filepath.Join(p.ws.Dir, name))
		if err == nil && strings.TrimSpace(string(got)) == text {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the file %s never held %q, but %q", name, text, got)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
