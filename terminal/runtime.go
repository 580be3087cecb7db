package terminal

import (
	"context"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// ToolRuntime runs one kind of request under the [Orchestrate]d sequence of approval, sandbox, execution and retry.
// A runtime of your own implements it, and any of [RequirementRuntime] and [FirstAttemptRuntime] where the defaults do
// not fit.
type ToolRuntime[Request, Output any] interface {
	// SandboxPreference says whether the request can run in a sandbox.
	SandboxPreference() SandboxPreference
	// EscalateOnFailure says whether a request that the sandbox denied something may be offered outside.
	EscalateOnFailure() bool
	// ApprovalKeys name what an approval for the session covers: it answers when all of them were approved.
	ApprovalKeys(r Request) []ApprovalKey
	// StartApproval asks a person. It is called only when nothing else has answered.
	StartApproval(ctx context.Context, r Request, a ApprovalCtx) (Review, error)
	// Run makes one attempt. It returns a *DeniedError when the sandbox kept it from something.
	Run(ctx context.Context, r Request, attempt SandboxAttempt, t ToolCtx) (Output, error)
}

// RequirementRuntime is a runtime that knows by itself what has to happen before a request may run.
type RequirementRuntime[Request any] interface {
	ExecApprovalRequirement(r Request, t ToolCtx) ExecApprovalRequirement
}

// FirstAttemptRuntime is a runtime that may take the first attempt out of the sandbox.
type FirstAttemptRuntime[Request any] interface {
	// SandboxModeForFirstAttempt is asked after the approval, and only what was approved for outside may bypass.
	SandboxModeForFirstAttempt(r Request) SandboxOverride
}

// RetryRuntime is a runtime that knows by itself whether a denied request may be offered outside.
type RetryRuntime[Request any] interface {
	WantsNoSandboxApproval(r Request, t ToolCtx) bool
}

// SandboxPreference says how a runtime stands to sandboxes.
type SandboxPreference int

// The preferences.
const (
	SandboxAuto    SandboxPreference = iota // as the policy says
	SandboxRequire                          // never without one, unless the policy restricts nothing
	SandboxForbid                           // it cannot run in one: under a policy that restricts, it is refused
)

// SandboxOverride is what a request makes of the first attempt.
type SandboxOverride int

// The overrides.
const (
	NoOverride SandboxOverride = iota
	BypassSandboxFirstAttempt
)

// ApprovalKey names something that was approved: for a command the digest of all that it is.
type ApprovalKey string

// ApprovalCtx is what a runtime is told when it has to ask.
type ApprovalCtx struct {
	ToolCtx
	Need NeedsApproval
	// RetryReason is set when the request ran in the sandbox and was denied something: the question is whether to run
	// it again outside.
	RetryReason string
}

// ToolCtx is the call that a runtime runs for.
type ToolCtx struct {
	Session  *Session
	Turn     *Turn
	CallID   string
	ToolName string
}

// SandboxAttempt is where one attempt runs.
type SandboxAttempt struct {
	Sandbox process.SandboxType
	Policy  sandbox.Policy
	Outside bool // beyond the turn's policy: a person approved it
	Retry   bool // the second attempt

	session *Session
	turn    *Turn
}

// EnvFor makes a command ready for the attempt's sandbox.
func (a SandboxAttempt) EnvFor(spec process.ExecParams) (process.ExecEnv, error) {
	return a.session.config.Backend.Transform(spec, a.Policy, a.Sandbox)
}

// Place returns the sandbox itself, made when it is first needed and shared by the calls of one policy. The caller
// lets it go when its command has ended.
func (a SandboxAttempt) Place(ctx context.Context) (place Place, release func(), err error) {
	return a.session.places.get(ctx, PlaceSpec{Cwd: a.turn.Cwd, Policy: a.Policy, Sandbox: a.Sandbox, Executable: a.turn.SandboxExe})
}
