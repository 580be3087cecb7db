package terminal

import (
	"strings"

	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// ExecApprovalRequirement says what has to happen before a command may run: [Skip], [NeedsApproval] or [Forbidden].
type ExecApprovalRequirement interface{ requirement() }

// Skip lets it run at once. BypassSandbox is reached only by full access, by a sandbox of somebody else's, and by an
// escalation that a person approved for the session.
type Skip struct{ BypassSandbox bool }

// NeedsApproval lets it run once a person has approved it.
type NeedsApproval struct {
	Reason   string
	Question approval.Question // what to show and what may be granted; empty for a runtime that is no command
}

// Forbidden refuses it. The reason is one sentence that the model may see.
type Forbidden struct{ Reason string }

func (Skip) requirement()          {}
func (NeedsApproval) requirement() {}
func (Forbidden) requirement()     {}

// RequirementOf is a decision as the orchestrator takes it.
func RequirementOf(d approval.Decision) ExecApprovalRequirement {
	switch d := d.(type) {
	case approval.Allow:
		return Skip{BypassSandbox: d.Bypass}
	case approval.Question:
		return NeedsApproval{Reason: strings.Join(d.Reasons, " "), Question: d}
	case approval.Forbid:
		return Forbidden{Reason: d.Why}
	}
	return Forbidden{Reason: "Nothing was decided about this command."}
}

// ReviewDecision is a person's answer.
type ReviewDecision int

// The answers. The zero value approves nothing.
const (
	Denied             ReviewDecision = iota // not this; the turn goes on
	Approved                                 // once
	ApprovedForSession                       // exactly this, until the session ends
	ApprovedAlways                           // with the rules that the question proposed
	Abort                                    // not this, and the turn ends
)

var reviewNames = [...]string{"denied", "approved", "approved_for_session", "approved_always", "abort"}

// String returns the answer as events and metrics spell it.
func (d ReviewDecision) String() string {
	if d < 0 || int(d) >= len(reviewNames) {
		return "denied"
	}
	return reviewNames[d]
}

func (d ReviewDecision) approves() bool {
	return d == Approved || d == ApprovedForSession || d == ApprovedAlways
}
