package terminal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// Approver asks a person. It may take as long as the person does; when the context ends the question is withdrawn and
// the answer no longer counts. An error means that nobody could be asked, and nothing runs.
type Approver interface {
	Approve(ctx context.Context, r ApprovalRequest) (Review, error)
}

// ApproverFunc is an [Approver] as a function.
type ApproverFunc func(ctx context.Context, r ApprovalRequest) (Review, error)

// Approve asks the function.
func (f ApproverFunc) Approve(ctx context.Context, r ApprovalRequest) (Review, error) {
	return f(ctx, r)
}

// ApprovalRequest is one question, complete: what is shown is what was judged.
type ApprovalRequest struct {
	CallID        string
	Tool          string
	Command       []string // the whole argument list
	Lines         []string // every part, whole, one line each; see [command.Script.Display]
	Cwd           string
	Reasons       []string // why it is asked
	Justification string   // the model's own words
	Effect        string   // what approving does
	Retry         string   // set when it ran in the sandbox and was denied this: the question is whether to run it again outside
	Outside       bool     // approving takes it out of the sandbox
	Proposed      []approval.Rule
	Scopes        []approval.Scope // what may be granted
	Digest        approval.Digest
}

// Offers says whether an answer is among what may be granted.
func (r ApprovalRequest) Offers(d ReviewDecision) bool {
	scope, ok := map[ReviewDecision]approval.Scope{Approved: approval.Once, ApprovedForSession: approval.Session, ApprovedAlways: approval.Always}[d]
	if !ok {
		return true // nobody has to be offered a refusal
	}
	return slices.Contains(r.Scopes, scope)
}

// Review is the answer, and whose it is.
type Review struct {
	Decision ReviewDecision
	By       string // who answered; empty is "person"
	Reason   string // in the person's own words, for the model and the record; may be empty
}

func (r Review) reason() string {
	if r.Reason != "" {
		return r.Reason
	}
	if r.Decision == Abort {
		return "The person ended the turn."
	}
	return "The person said no."
}

// put asks the session's person, and tells of the answer. It can only be one that was offered.
func (t ToolCtx) put(ctx context.Context, r ApprovalRequest) (Review, error) {
	began := time.Now()
	review, err := t.Session.config.Approver.Approve(ctx, r)
	if err == nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	if review.By == "" {
		review.By = "person"
	}
	if err != nil {
		review = Review{Decision: Denied, By: "nobody", Reason: "Nobody could be asked."}
	}
	if !r.Offers(review.Decision) {
		review.Decision = Approved // for once, which is always less
	}
	event := ApprovalRequested{CallID: t.CallID, Tool: t.ToolName, Approved: review.Decision.String(), By: review.By, Reason: review.Reason, Retry: r.Retry != "",
		Outside: r.Outside, Digest: r.Digest, Waited: time.Since(began), At: t.Session.config.Now()}
	if err == nil && review.Decision == ApprovedAlways {
		for _, rule := range r.Proposed {
			event.Rules = append(event.Rules, rule.String())
		}
		if saved := t.Session.approved.always(r.Proposed, review.By); saved != nil {
			event.Rules, event.Reason = nil, fmt.Sprintf("it could not be saved: %v", saved)
		}
	}
	t.Session.config.Observer.Observe(event)
	return review, err
}

// nobody is the approver of a session that has none.
type nobody struct{}

func (nobody) Approve(context.Context, ApprovalRequest) (Review, error) {
	return Review{Decision: Denied, By: "policy", Reason: "It needs a person's approval, and there is nobody to ask."}, nil
}
