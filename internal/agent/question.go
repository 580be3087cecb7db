package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A turn whose calls ask a person stands in the journal as one of which nothing may be started. Its response is parked:
// it has no owner, no worker and no goroutine until the questions are answered, and what is decided of every call is in
// the journal, under the owner's fence, before the first of them is started.

// ruling is what was decided about a call. Without one it runs.
type ruling struct {
	Verdict  approvals.Verdict `json:"verdict"`
	Digest   string            `json:"digest"`             // exactly what it is about
	Approval string            `json:"approval,omitempty"` // the question's id
	Why      []string          `json:"why,omitempty"`      // of one that is refused, for each command
	about    approvals.Ruling
}

func (r *ruling) refuses() bool { return r != nil && r.Verdict == approvals.Refuse }

func (r *ruling) asks() bool { return r != nil && r.Verdict == approvals.Asks }

// asks says whether a call of the turn waits for a person.
func (t *turn) asks() bool {
	for _, c := range t.ownCalls() {
		if c.ruling.asks() {
			return true
		}
	}
	return false
}

// judge decides about the calls of a turn, where the organisation has a policy.
func (l *loop) judge(ctx context.Context, t *turn) {
	if l.quiet() {
		return
	}
	for _, c := range t.ownCalls() {
		c.ruling = l.rule(ctx, c)
	}
}

// quiet says that every call may run.
func (l *loop) quiet() bool {
	q := l.agent.options.Approvals
	return q == nil || q.Policy(l.plan.principal.Org).Quiet()
}

// rule decides about one call.
func (l *loop) rule(ctx context.Context, c *call) *ruling {
	if c.problem != nil || l.container == "" || l.quiet() { // there is nothing to run, or nothing to ask
		return nil
	}
	q, org := l.agent.options.Approvals, l.plan.principal.Org
	granted, err := q.Granted(ctx, org, l.container)
	if err != nil { // then it is asked again
		l.agent.options.Logger.Error("read approvals", "response", l.run.ID(), "error", err)
	}
	network, err := openai.Marshal(l.plan.place.network)
	if err != nil {
		network = []byte(err.Error())
	}
	action := c.item.Action
	about := q.Policy(org).Judge(approvals.Call{Container: l.container, Workdir: workdir, Commands: action.Commands,
		Dir: action.WorkingDirectory, Env: action.Env, Stdin: action.Stdin, Network: string(network), Shell: l.plan.request.Bash != nil,
		Granted: granted, Now: q.Now()})
	r := &ruling{Verdict: about.Verdict, Digest: about.Digest, about: about}
	switch {
	case about.Verdict == approvals.Refuse:
		for _, why := range about.Why {
			r.Why = append(r.Why, "the policy of this organisation refuses it: "+why)
		}
	case about.Verdict == approvals.Asks && l.resumed == nil && !l.plan.template.Store:
		r.refuse(len(action.Commands), "it needs a person's approval, and a response that is not stored cannot wait for one (store: true can).")
	case about.Verdict == approvals.Asks:
		r.Approval = id.At(id.Approval, q.Now())
	}
	return r
}

func (r *ruling) refuse(commands int, why string) {
	r.Verdict, r.Why = approvals.Refuse, nil
	for range commands {
		r.Why = append(r.Why, why)
	}
}

// workdir is where commands start that do not say.
const workdir = "/mnt/data"

// hold settles the questions of a turn. While one is open the response is parked. Otherwise every call may run or is
// refused when it returns, and that is on record.
func (l *loop) hold(ctx context.Context, t *turn) (parked bool, err error) {
	q := l.agent.options.Approvals
	if !t.asks() {
		l.noteAnswers(ctx, t)
		return false, nil
	}
	if q == nil { // they were asked under another configuration
		return false, errNobodyAsks
	}
	defer func() {
		if !parked && err != nil && !response.Left(context.Cause(ctx)) {
			l.withdraw(ctx)
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	answers, err := q.Answers(ctx, l.run.ID())
	if err != nil {
		return false, err
	}
	var open []approvals.Approval
	shown := map[int]openai.Item{}
	anew := false
	for _, c := range t.ownCalls() {
		before := c.ruling
		c.ruling = l.settled(ctx, c, answers)
		if r := c.ruling; r.asks() {
			anew = anew || r != before
			c.item.Approval = &openai.ItemApproval{ID: r.Approval, Status: string(approvals.Pending)}
			open = append(open, approvals.Approval{ID: r.Approval, Org: l.plan.principal.Org, KeyID: l.plan.principal.KeyID, Item: c.item.ID,
				Call: c.item.CallID, Container: l.container, Digest: r.Digest, Parts: r.about.Parts, Question: r.about.Question})
		}
		if c.item.Approval != nil {
			shown[c.index] = openai.NewItem(c.item)
		}
	}
	if len(open) == 0 || anew {
		l.mark(func(m *mark) { m.turn(t); m.Told = true })
	}
	if len(open) > 0 {
		if err := q.Ask(ctx, l.run.ID(), open); err != nil { // before anybody hears of it
			return false, err
		}
	}
	if err := l.run.Show(shown); err != nil {
		return false, err
	}
	if len(open) == 0 {
		// No command starts before what was decided of it is on record, under our fence.
		if err := l.run.Sync(ctx); err != nil {
			return false, err
		}
		l.noteAnswers(ctx, t)
		return false, nil
	}
	resting, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishPatience)
	defer cancel()
	err = l.run.Park(resting)
	if err != nil && !response.Left(context.Cause(ctx)) { // it is to be cancelled
		return false, err
	}
	if err != nil {
		l.agent.options.Logger.Error("park response", "response", l.run.ID(), "error", err)
	}
	q.Nudge() // an answer may have come before it was parked
	return true, nil
}

// settled is what becomes of a call of a turn that asks, by the answers that there are and the policy as it is now. An
// answer counts for what was asked and nothing else; what is stricter by now holds.
func (l *loop) settled(ctx context.Context, c *call, answers map[string]approvals.Approval) *ruling {
	was := c.ruling
	if was.refuses() {
		return was
	}
	if was.asks() {
		status := approvals.Pending
		a, asked := answers[was.Approval]
		if asked {
			status = a.Status
		}
		switch status {
		case approvals.Withdrawn: // by an owner who asked something else and died
			return l.rule(ctx, c)
		case approvals.Denied, approvals.Expired:
			out := &ruling{Digest: was.Digest, Approval: was.Approval}
			out.refuse(len(c.item.Action.Commands), denial(a))
			c.item.Approval = &openai.ItemApproval{ID: was.Approval, Status: string(status)}
			return out
		case approvals.Approved:
			now := l.rule(ctx, c)
			same := a.Digest == was.Digest && (now == nil || now.Digest == was.Digest)
			if same && !now.refuses() {
				c.item.Approval = &openai.ItemApproval{ID: was.Approval, Status: string(status)}
				return &ruling{Verdict: approvals.Run, Digest: was.Digest, Approval: was.Approval}
			}
			return now
		}
	}
	now := l.rule(ctx, c)
	if was.asks() && now.asks() && now.Digest == was.Digest { // the question stands
		now.Approval = was.Approval
		was.about = now.about
		return was
	}
	if was.asks() { // it is asked no more
		c.item.Approval = &openai.ItemApproval{ID: was.Approval, Status: string(approvals.Withdrawn)}
	}
	return now
}

// denial is what the model reads of a no.
func denial(a approvals.Approval) string {
	switch {
	case a.Status == approvals.Expired:
		return fmt.Sprintf("it needed a person's approval, and nobody gave it in %s.", a.Expires.Sub(a.Created))
	case a.Reason == "":
		return "a person denied it."
	}
	return "a person denied it: " + a.Reason
}

// errNobodyAsks is why the calls of a parked turn are not run by a server that keeps no approvals.
var errNobodyAsks = fmt.Errorf("the calls wait for approvals, and this server keeps none")

// noteAnswers says that the answers to a turn's questions are on record.
func (l *loop) noteAnswers(ctx context.Context, t *turn) {
	for _, c := range t.ownCalls() {
		if c.ruling != nil && c.ruling.Approval != "" && l.agent.options.Approvals != nil {
			if err := l.agent.options.Approvals.Withdraw(context.WithoutCancel(ctx), l.run.ID()); err != nil {
				l.agent.options.Logger.Error("settle approvals", "response", l.run.ID(), "error", err) // it is tried when somebody looks again
			}
			return
		}
	}
}

// withdraw ends the open questions of a response that ends.
func (l *loop) withdraw(ctx context.Context) {
	if err := l.agent.options.Approvals.Withdraw(context.WithoutCancel(ctx), l.run.ID()); err != nil {
		l.agent.options.Logger.Error("withdraw approvals", "response", l.run.ID(), "error", err) // they expire
	}
}

// denyOutput ends the output of a call that was refused: the model reads why, and the response goes on.
func (l *loop) denyOutput(c *call, was *told) {
	for i := range c.item.Action.Commands {
		entry, known := was.entries[i]
		if !known {
			why := "it was refused."
			if i < len(c.ruling.Why) {
				why = c.ruling.Why[i]
			}
			entry = openai.ShellOutput{Stderr: "shell: not run: " + why, Outcome: openai.Exit(exitNotStarted), Receipt: &openai.Receipt{Reason: reasonDenied}}
			l.entryDone(c, i, entry)
		}
		c.output.Output = append(c.output.Output, entry)
	}
	c.output.Status = openai.Completed
}

// approvalTick is how often answers are looked for that were given elsewhere, and questions whose time is over.
const approvalTick = 2 * time.Second

// attend wakes the responses whose questions are answered, until ctx ends.
func (a *Agent) attend(ctx context.Context) {
	tick := time.NewTicker(approvalTick)
	defer tick.Stop()
	for {
		if err := a.wakeAnswered(ctx); err != nil && ctx.Err() == nil {
			a.options.Logger.Error("look for answers", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.options.Approvals.News():
		}
	}
}

func (a *Agent) wakeAnswered(ctx context.Context) error {
	q := a.options.Approvals
	if err := q.Expire(ctx); err != nil {
		return err
	}
	answered, err := q.Answered(ctx)
	if err != nil {
		return err
	}
	for _, response := range answered {
		open, err := a.responses.Wake(ctx, response)
		if err == nil && !open { // it has ended otherwise: there is nobody to take note
			err = q.Withdraw(ctx, response)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
