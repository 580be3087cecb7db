package openai

import (
	"context"
	"net/http"
	"time"

	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Approvals are the questions that hosted shell calls ask. Another organisation's look absent.
type Approvals interface {
	Get(ctx context.Context, org, id string) (approvals.Approval, error)
	List(ctx context.Context, org string, p approvals.Page) ([]approvals.Approval, bool, error)
	Answer(ctx context.Context, p tenant.Principal, id string, d approvals.Decision, reason string) (approvals.Approval, error)
}

// approvalPatience is how long a client that reads no stream waits for an approval before it is given the response as it
// stands, to poll for the rest. Many clients give a connection up after a minute.
const approvalPatience = 30 * time.Second

// attend waits for the end of a response that this request began.
func (d *Door) attend(p tenant.Principal, run Run) func(ctx context.Context) (*wire.Response, error) {
	return func(ctx context.Context) (*wire.Response, error) {
		resp, err := run.Wait(ctx)
		if !response.Parked(err) {
			return resp, err
		}
		return d.Responses.Attend(ctx, p.Org, run.ID(), d.Bell())
	}
}

// approvalObject is a question on the wire.
func approvalObject(a approvals.Approval) wire.Approval {
	o := wire.Approval{ID: a.ID, Object: "approval", Status: string(a.Status), ResponseID: a.Response, ItemID: a.Item, CallID: a.Call,
		ContainerID: a.Container, Digest: a.Digest, WorkingDirectory: a.Question.Cwd, Env: a.Question.Env, Stdin: a.Question.Stdin,
		Policy: a.Question.Policy, CreatedAt: a.Created.Unix(), ExpiresAt: a.Expires.Unix(), Commands: []wire.ApprovalCommand{}}
	if !a.Decided.IsZero() {
		at := a.Decided.Unix()
		o.DecidedAt = &at
	}
	for text, to := range map[*string]**string{&a.Scope: &o.Scope, &a.By: &o.DecidedBy, &a.Reason: &o.Reason} {
		if *text != "" {
			*to = text
		}
	}
	for _, c := range a.Question.Commands {
		command := wire.ApprovalCommand{Command: c.Command, Asks: c.Asks, Reasons: append([]string{}, c.Reasons...), Parts: []wire.ApprovalPart{}}
		for _, p := range c.Parts {
			command.Parts = append(command.Parts, wire.ApprovalPart(p))
		}
		o.Commands = append(o.Commands, command)
	}
	return o
}

func (d *Door) listApprovals(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q := r.URL.Query()
	page, err := readPage(q)
	if err != nil {
		return err
	}
	list, more, err := d.Approvals.List(r.Context(), p.Org, approvals.Page{Status: q.Get("status"),
		Page: store.Page{Limit: page.limit, After: page.after, Order: page.order}})
	if err != nil {
		return err
	}
	objects := make([]wire.Approval, len(list))
	for i, a := range list {
		objects[i] = approvalObject(a)
	}
	return writeJSON(w, http.StatusOK, wire.NewList(objects, more, func(a wire.Approval) string { return a.ID }))
}

func (d *Door) getApproval(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	a, err := d.Approvals.Get(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, approvalObject(a))
}

func (d *Door) answerApproval(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var said struct {
		Decision string `json:"decision"`
		Reason   string `json:"reason"`
	}
	if _, err := readJSON(r, &said); err != nil {
		return err
	}
	a, err := d.Approvals.Answer(r.Context(), p, r.PathValue("id"), approvals.Decision(said.Decision), said.Reason)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, approvalObject(a))
}
