package terminal

import (
	"context"
	"errors"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// Orchestrate runs one request the way every request runs: the approval that its policy asks for, the sandbox that its
// policy selects, the attempt, and, if that sandbox denied it something and policy and person allow it, one more
// outside. Its error is an [ExecError], the context's, or the runtime's own.
func Orchestrate[Request, Output any](ctx context.Context, rt ToolRuntime[Request, Output], r Request, t ToolCtx) (Output, error) {
	var none Output
	outside, err := approve(ctx, rt, r, t)
	if err != nil {
		return none, err
	}
	first, err := firstAttempt(rt, r, t, outside)
	if err != nil {
		return none, err
	}
	out, err := rt.Run(ctx, r, first, t)
	var denied *DeniedError
	if !errors.As(err, &denied) || first.Sandbox == process.SandboxNone || !rt.EscalateOnFailure() || !wantsRetry(rt, r, t) {
		return out, err
	}
	keys := outsideKeys(rt.ApprovalKeys(r))
	if !t.Session.approved.covers(keys) {
		review, asked := ask(ctx, rt, r, ApprovalCtx{ToolCtx: t, RetryReason: denied.Error(), Need: NeedsApproval{Reason: denied.Error()}})
		switch {
		case asked != nil:
			return out, errors.Join(asked, err)
		case review.Decision == Abort:
			t.Turn.Abort()
			return out, errors.Join(&RejectedError{Reason: review.reason(), By: review.By, Abort: true}, err)
		case !review.Decision.approves():
			return out, err // the denial, as the sandbox gave it
		case review.Decision == ApprovedForSession:
			t.Session.approved.add(keys, true, review.By)
		}
	}
	return rt.Run(ctx, r, t.attempt(process.SandboxNone, true, true), t)
}

// outsideKeys are the keys of a request's second attempt: approving the first does not approve it.
func outsideKeys(keys []ApprovalKey) []ApprovalKey {
	out := make([]ApprovalKey, len(keys))
	for i, key := range keys {
		out[i] = key + " outside"
	}
	return out
}

// approve says whether the request may run, and whether what was approved is to run outside. It is an error when not.
func approve[Request, Output any](ctx context.Context, rt ToolRuntime[Request, Output], r Request, t ToolCtx) (outside bool, err error) {
	requirement := t.defaultRequirement()
	if own, ok := rt.(RequirementRuntime[Request]); ok {
		requirement = own.ExecApprovalRequirement(r, t)
	}
	switch need := requirement.(type) {
	case Skip:
		return need.BypassSandbox, nil
	case NeedsApproval:
		keys := rt.ApprovalKeys(r)
		if t.Session.approved.covers(keys) {
			return need.Question.Outside, nil
		}
		review, err := ask(ctx, rt, r, ApprovalCtx{ToolCtx: t, Need: need})
		switch {
		case err != nil:
			return false, err
		case review.Decision == Abort:
			t.Turn.Abort()
			return false, &RejectedError{Reason: review.reason(), By: review.By, Abort: true}
		case !review.Decision.approves():
			return false, &RejectedError{Reason: review.reason(), By: review.By}
		case review.Decision == ApprovedForSession:
			t.Session.approved.add(keys, need.Question.Outside, review.By)
		}
		return need.Question.Outside, nil
	case Forbidden:
		return false, &RejectedError{Reason: need.Reason, By: "policy"}
	}
	return false, &RejectedError{Reason: "Nothing says that this may run.", By: "policy"}
}

// ask puts a question and watches the turn: whoever aborts it meanwhile has answered.
func ask[Request, Output any](ctx context.Context, rt ToolRuntime[Request, Output], r Request, a ApprovalCtx) (Review, error) {
	review, err := rt.StartApproval(ctx, r, a)
	if err == nil {
		err = context.Cause(ctx) // an answer that comes after the end counts for nothing
	}
	return review, err
}

// firstAttempt selects the sandbox of the first attempt.
func firstAttempt[Request, Output any](rt ToolRuntime[Request, Output], r Request, t ToolCtx, outside bool) (SandboxAttempt, error) {
	if own, ok := rt.(FirstAttemptRuntime[Request]); ok && outside {
		outside = own.SandboxModeForFirstAttempt(r) == BypassSandboxFirstAttempt
	}
	policy := t.Turn.SandboxPolicy
	kind := t.Session.config.Backend.Select(policy, rt.SandboxPreference())
	switch {
	case !confines(policy):
		return t.attempt(process.SandboxNone, false, false), nil
	case outside:
		return t.attempt(process.SandboxNone, true, false), nil
	case rt.SandboxPreference() == SandboxForbid:
		return SandboxAttempt{}, &RejectedError{Reason: "It cannot run in a sandbox, and the policy asks for one.", By: "policy"}
	case kind == process.SandboxNone:
		return SandboxAttempt{}, &RejectedError{Reason: "There is no sandbox for this system, and the policy asks for one.", By: "policy"}
	}
	return t.attempt(kind, false, false), nil
}

// attempt is one in a sandbox of a type. What runs outside runs under full access, whatever the turn's policy says.
func (t ToolCtx) attempt(kind process.SandboxType, outside, retry bool) SandboxAttempt {
	policy := t.Turn.SandboxPolicy
	if outside {
		policy = sandbox.Policy{Mode: sandbox.DangerFullAccess}
	}
	return SandboxAttempt{Sandbox: kind, Policy: policy, Outside: outside, Retry: retry, session: t.Session, turn: t.Turn}
}

// defaultRequirement is that of a runtime which has none of its own: nothing about it is proven.
func (t ToolCtx) defaultRequirement() ExecApprovalRequirement {
	around := confinement(t.Turn.SandboxPolicy)
	if t.Turn.ApprovalPolicy.AsksUntrusted() {
		return NeedsApproval{Reason: "It is not proven to only read."}
	}
	return Skip{BypassSandbox: around != approval.Confined}
}

// wantsRetry says whether a person may be offered to run a denied request outside.
func wantsRetry[Request, Output any](rt ToolRuntime[Request, Output], r Request, t ToolCtx) bool {
	if own, ok := rt.(RetryRuntime[Request]); ok {
		return own.WantsNoSandboxApproval(r, t)
	}
	return t.Turn.ApprovalPolicy.Retries(approval.Call{Confinement: confinement(t.Turn.SandboxPolicy)})
}

func confines(p sandbox.Policy) bool {
	return p.Mode == sandbox.ReadOnly || p.Mode == sandbox.WorkspaceWrite
}

func confinement(p sandbox.Policy) approval.Confinement {
	switch p.Mode {
	case sandbox.DangerFullAccess:
		return approval.Unconfined
	case sandbox.ExternalSandbox:
		return approval.External
	}
	return approval.Confined
}
