package terminal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// TurnContext is what holds for the calls of one turn. [Session.TurnContext] gives the session's own, to change.
type TurnContext struct {
	Cwd                    string // the workspace; a call's workdir moves the command and never the workspace
	SandboxPolicy          sandbox.Policy
	ApprovalPolicy         ApprovalPolicy
	ShellEnvironmentPolicy shell.Policy
	SandboxExe             string
}

// ErrTurnAborted is why the calls of a turn end after a person has ended it.
var ErrTurnAborted = errors.New("the turn was ended by a person")

// Turn is one turn of a conversation. Its calls end with it.
type Turn struct {
	TurnContext
	Tracker *TurnDiffTracker // nil tracks nothing

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Abort ends the turn: its running calls are killed, and further ones are refused.
func (t *Turn) Abort() { t.cancel(ErrTurnAborted) }

// Aborted says whether a person ended the turn.
func (t *Turn) Aborted() bool { return errors.Is(context.Cause(t.ctx), ErrTurnAborted) }

// End ends the turn as planned. Sessions that its calls started live on.
func (t *Turn) End() { t.cancel(context.Canceled) }

// within is a call's context that ends with the turn too.
func (t *Turn) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.ctx.Err() != nil { // at once: AfterFunc would take a moment
		cancel(context.Cause(t.ctx))
	}
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// Profile is the digest of all that confines the turn's commands. An approval counts for the profile that it was given
// under.
func (t *Turn) Profile() string {
	text, _ := json.Marshal(struct {
		Cwd, Asks, Exe string
		Sandbox        sandbox.Policy
		Environment    shell.Policy
	}{t.Cwd, t.ApprovalPolicy.Name(), t.SandboxExe, t.SandboxPolicy, t.ShellEnvironmentPolicy}) // plain values: it cannot fail
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
