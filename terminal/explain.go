package terminal

import (
	"context"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// Question is a command that nobody has run: what would become of it?
type Question struct {
	Script   string   // given to a shell; empty is Argv
	Argv     []string // a program and its arguments
	Shell    string   // of Script; empty is the user's
	Workdir  string
	TTY      bool
	Escalate bool // it asks to leave the sandbox
}

// Explain says what would be decided about a command in a turn, and by what, by the code that decides. It runs nothing.
func (s *Session) Explain(ctx context.Context, t *Turn, q Question) (approval.Explanation, error) {
	r, err := q.request(ctx, ToolCtx{Session: s, Turn: t, ToolName: "explain"})
	if err != nil {
		return approval.Explanation{}, err
	}
	policy := approval.Policy{}
	if known, ok := t.ApprovalPolicy.(knownPolicy); ok {
		policy = known.policy
	}
	e := approval.ExplainDecision(r.decision, r.call, policy)
	e.Approval = t.ApprovalPolicy.Name()
	return e, nil
}

// Clear decides about a command that the caller runs itself, and asks as for one that a tool runs. The error is a
// *RejectedError when it may not run. outside says that a person approved it to run without the turn's sandbox.
func (s *Session) Clear(ctx context.Context, t *Turn, tool string, q Question) (outside bool, err error) {
	c := ToolCtx{Session: s, Turn: t, ToolName: tool}
	r, err := q.request(ctx, c)
	if err != nil {
		return false, err
	}
	outside, err = approve(ctx, ToolRuntime[*execRequest, *ExecResult](oneShot{}), r, c)
	return outside && confines(t.SandboxPolicy), err
}

func (q Question) request(ctx context.Context, c ToolCtx) (*execRequest, error) {
	no := false
	w := wanted{argv: q.Argv, script: q.Script, freeform: len(q.Argv) == 0, workdir: q.Workdir, shell: q.Shell, login: &no, tty: q.TTY}
	if q.Escalate {
		w.permissions = process.RequireEscalated
	}
	return c.request(ctx, w)
}
