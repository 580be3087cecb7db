package shellcall

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal"
)

// record keeps what an executor tells.
type record struct {
	mu   sync.Mutex
	list []Event
	told chan Event // if it is not nil, each event too
}

func (r *record) Observe(e Event) {
	if p, ok := e.(Printed); ok {
		p.Data = slices.Clone(p.Data)
		e = p
	}
	r.mu.Lock()
	r.list = append(r.list, e)
	r.mu.Unlock()
	if r.told != nil {
		r.told <- e
	}
}

func eventsOf[E Event](r *record) (out []E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// rig is an executor in a workspace of its own.
type rig struct {
	t    testing.TB
	e    *Executor
	work string
	seen *record
}

// newRig makes an executor whose commands run in real sandboxes.
func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	return bareRig(t, change)
}

// bareRig makes an executor without asking whether there are sandboxes.
func bareRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, work: work, seen: &record{}}
	o := Options{Observer: r.seen, Terminal: terminal.SessionConfig{Cwd: work, SandboxPolicy: terminal.DefaultSandbox(), DisableLogin: true,
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + work}, Shells: bashOnly}}
	if change != nil {
		change(&o)
	}
	if r.e, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// bashOnly finds bash whatever shell the user of the tests has.
func bashOnly(name string) (terminal.Shell, error) {
	if name == "" {
		name = "bash"
	}
	return terminal.LocalShells()(name)
}

func callOf(commands ...string) Call {
	return Call{Type: TypeCall, CallID: "call_1", Action: Action{Commands: commands}}
}

// run runs one call; it fails the test when the call could not be run.
func (r *rig) run(commands ...string) []Result {
	r.t.Helper()
	out, err := r.e.Run(r.t.Context(), callOf(commands...))
	if err != nil {
		r.t.Fatalf("%q: %v", commands, err)
	}
	return out[0].Output
}

func (r *rig) one(command string) Result { return r.run(command)[0] }

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.work, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) read(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.work, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func (r *rig) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(r.work, name))
	return err == nil
}

func code(r Result) int {
	if r.Outcome.ExitCode == nil {
		return -1
	}
	return *r.Outcome.ExitCode
}

// person answers every question alike, and remembers them.
type person struct {
	mu     sync.Mutex
	review terminal.Review
	asked  []terminal.ApprovalRequest
}

func (p *person) Approve(_ context.Context, r terminal.ApprovalRequest) (terminal.Review, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r)
	return p.review, nil
}

func raw(t testing.TB, items ...string) (out []json.RawMessage) {
	t.Helper()
	for _, item := range items {
		if !json.Valid([]byte(item)) {
			t.Fatalf("no JSON: %s", item)
		}
		out = append(out, json.RawMessage(item))
	}
	return out
}

func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q has no %q", text, part)
		}
	}
}

// TestMain skips the examples by name where no box can be made: an example cannot skip itself.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := sandbox.Supported(context.Background()); err != nil {
		if require.Demanded("jail") {
			log.Fatalf("required feature \"jail\" is not to be had: %v", err)
		}
		fmt.Println("SKIPPED feature=jail: the examples:", err)
		flag.Set("test.skip", "^Example")
	}
	os.Exit(m.Run())
}

// say is a result as tests compare it.
func say(r Result) string {
	text, _ := json.Marshal(r) // plain values: it cannot fail
	return string(text)
}

// terminalRecord keeps what the terminal's observer is told.
type terminalRecord struct {
	mu   sync.Mutex
	list []terminal.ExecCommandEnd
}

func (r *terminalRecord) Observe(e terminal.Event) {
	if e, ok := e.(terminal.ExecCommandEnd); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, e)
	}
}

func (r *terminalRecord) ends() []terminal.ExecCommandEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// lookForSleep prints what is left of programs that sleep, in a sandbox's own /proc.
const lookForSleep = "for p in /proc/[0-9]*/comm; do read -r c <$p && [ \"$c\" = sleep ] && echo $p; done 2>/dev/null; true"
