package terminal

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// person answers questions as told, and remembers them.
type person struct {
	mu       sync.Mutex
	answer   ReviewDecision
	err      error
	asked    []ApprovalRequest
	whenever func(ApprovalRequest)
}

func (p *person) Approve(_ context.Context, r ApprovalRequest) (Review, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r)
	if p.whenever != nil {
		p.whenever(r)
	}
	return Review{Decision: p.answer, By: "ann"}, p.err
}

func (p *person) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// recorder keeps events.
type recorder struct {
	mu   sync.Mutex
	list []Event
}

func (r *recorder) Observe(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d, ok := e.(ExecCommandOutputDelta); ok {
		d.Chunk = slices.Clone(d.Chunk)
		e = d
	}
	r.list = append(r.list, e)
}

func eventsOf[E Event](r *recorder) (out []E) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e, ok := e.(E); ok {
			out = append(out, e)
		}
	}
	return out
}

// rig is a session with one turn in a workspace of its own.
type rig struct {
	t       testing.TB
	session *Session
	turn    *Turn
	tools   *Registry
	work    string
	calls   int
}

// newRig opens a session in real sandboxes; ask is the approval policy.
func newRig(t testing.TB, ask approval.Ask, change func(*SessionConfig)) *rig {
	t.Helper()
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	work := t.TempDir()
	config := SessionConfig{Cwd: work, SandboxPolicy: DefaultSandbox(), ApprovalPolicy: AskFor(approval.Policy{Ask: ask}), DisableLogin: true,
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + work}, Shells: bashOnly}
	if change != nil {
		change(&config)
	}
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	turn, err := s.Begin(t.Context(), s.TurnContext())
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, session: s, turn: turn, tools: NewRegistry(), work: work}
}

// bashOnly finds bash whatever shell the user of the tests has.
func bashOnly(name string) (Shell, error) {
	if name == "" {
		name = "bash"
	}
	return LocalShells()(name)
}

func (r *rig) invocation(tool, arguments string) ToolInvocation {
	r.calls++
	return ToolInvocation{Session: r.session, Turn: r.turn, CallID: "call_" + strconv.Itoa(r.calls), ToolName: tool, Payload: FunctionPayload{arguments}}
}

// call calls a tool and returns its result; a test that gets none fails.
func (r *rig) call(tool, arguments string) *ExecResult {
	r.t.Helper()
	out, err := r.tools.Dispatch(r.t.Context(), r.invocation(tool, arguments))
	if err != nil {
		r.t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	f := out.(FunctionOutput)
	if f.Result == nil {
		r.t.Fatalf("%s %s: %s", tool, arguments, f.Content)
	}
	return f.Result
}

// text calls a tool and returns what the model reads.
func (r *rig) text(tool, arguments string) string {
	r.t.Helper()
	out, err := r.tools.Dispatch(r.t.Context(), r.invocation(tool, arguments))
	if err != nil {
		r.t.Fatalf("%s %s: %v", tool, arguments, err)
	}
	return out.Text()
}

func (r *rig) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(r.work, name))
	return err == nil
}

func code(r *ExecResult) int {
	if r.ExitCode == nil {
		return -1
	}
	return *r.ExitCode
}
