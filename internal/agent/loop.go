package agent

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// loop is one response's life: model turns and the calls between them.
type loop struct {
	agent *Agent
	run   run
	plan  *plan
	wire  *wire

	added   []openai.Item   // what this response has added to the conversation
	callIDs map[string]bool // of the whole conversation
	noted   int             // how many of them are in the journal
	rounds  int             // model calls so far
	calls   int             // calls of the shell, and of tools that the upstream runs, so far
	tokens  int64           // output tokens so far

	truncated int // turns that are left out from the beginning of the conversation

	usage   *openai.Usage // of all model calls
	resumed *resumption   // of a response that another owner began

	weight  int // of the conversation that the model is asked with, where room may have to be made
	besides int // and of what stands beside it; 0 until it is known

	bash     bash                // of a request that has one
	finished []container.Command // commands whose ends are told and not acknowledged

	mu        sync.Mutex // guards finished
	container string     // where commands run; empty until the row is made
	staged    bool       // the request's files are in the workspace
	files     []openai.OutputFile
	recent    []openai.OutputFile // what the last round of calls wrote
	trouble   error               // why no command of the last round could be started
}

func newLoop(a *Agent, r run, p *plan) *loop {
	l := &loop{agent: a, run: r, plan: p, wire: &wire{run: r}, callIDs: map[string]bool{}, container: p.place.id}
	if p.lent != nil {
		p.lent.met = func(id string) { l.container = id; r.SetContainer(id) }
	}
	for _, items := range [][]openai.Item{p.history, p.input} {
		for _, i := range items {
			if i.CallID != "" {
				l.callIDs[i.CallID] = true
			}
		}
	}
	for _, sealed := range p.compaction.known {
		l.callIDs[sealed] = true
	}
	return l
}

// uniqueCallID keeps the model's own id of a call where no other call of the conversation has it. Some upstreams count
// from call_0 in every turn.
func (l *loop) uniqueCallID(callID string) string {
	if callID == "" || l.callIDs[callID] {
		callID = id.New(id.Call)
	}
	l.callIDs[callID] = true
	return callID
}

// fate decides what becomes of a call. before is how many calls the turn already has.
func (l *loop) fate(name string, before int, last bool) (fate, string) {
	p := l.plan
	limit := p.request.MaxToolCalls
	shell := p.shell != nil && name == p.shell.Name
	switch {
	case !p.parallel && before > 0:
		return dropped, ""
	case p.names[name]:
		return toClient, ""
	case p.patch != nil && name == p.patch.Name:
		return l.patchFate(last)
	case shell && p.lent != nil: // the upstream calls its own
		return refused, "There is no function named " + name + ". Call the shell that you have."
	case shell && last:
		return refused, "No more commands can be run for this request. Answer now with what you have."
	case shell && limit != nil && int64(l.calls) >= *limit:
		return refused, "The request allows no more tool calls. Answer now with what you have."
	case shell && (p.choice.mode == "none" || !p.choice.permits(shellChoice)):
		return refused, "The request does not allow calls of this function."
	case shell && p.place.local:
		return relayedCall, ""
	case shell:
		return ours, ""
	default:
		return refused, "There is no function named " + name + ". Call only the functions that were declared."
	}
}

// live runs the response and says how it ends. When it returns, every item that it opened is closed.
func (l *loop) live(ctx context.Context) response.End {
	if l.container != "" {
		l.run.SetContainer(l.container)
	}
	if err := l.announceLent(ctx); err != nil {
		return l.ending(ctx, err)
	}
	if isFalse(l.plan.request.Generate) {
		return response.End{Status: openai.Completed} // it was checked, and others go on from it
	}
	if l.resumed != nil && l.resumed.broken != nil {
		return l.giveUp(ctx)
	} else if l.resumed != nil {
		if end, over := l.resume(ctx); over {
			return end
		}
	}
	for {
		l.rounds++
		last := l.rounds >= l.agent.options.MaxIterations && l.plan.request.Bash == nil // a bash pauses instead
		t, err := l.ask(ctx, l.rounds == 1, last)
		if err != nil {
			t.abandon(ctx)
			return l.ending(ctx, err)
		}
		if end, over := l.after(ctx, t); over {
			return end
		}
	}
}

// ask lets the model take one turn and forwards it.
func (l *loop) ask(ctx context.Context, first, last bool) (*turn, error) {
	t := newTurn(l, last)
	if err := l.makeRoom(ctx); err != nil {
		return t, err
	}
	var req llm.Request
	if made := l.plan.first; first && !last && made != nil {
		req, l.plan.first = *made, nil
	} else {
		var err error
		if req, err = l.plan.ask(first, last, l.added); err != nil {
			return t, err
		}
		l.fittedTo(&req)
	}
	if limit := l.plan.request.MaxOutputTokens; limit != nil {
		left := *limit - l.tokens
		if left < 1 { // the earlier turns have used them up
			t.end = openai.NewLifecycle(openai.EventIncomplete, openai.Response{Status: openai.Incomplete,
				IncompleteDetails: &openai.IncompleteDetails{Reason: openai.ReasonMaxOutputTokens}})
			return t, nil
		}
		req.MaxOutputTokens = &left
	}
	l.withoutSpent(&req)
	err := l.take(ctx, t, req)
	for l.shorter(t, err, &req) {
		err = l.take(ctx, t, req)
	}
	if err != nil {
		return t, err
	}
	if t.end == nil {
		return t, fault.New(fault.Upstream, "The model's stream ended before its turn was complete.")
	}
	if u := t.end.Response.Usage; u != nil {
		l.spend(*u)
		l.learn(*u)
		l.tokens += u.OutputTokens
	}
	return t, nil
}

// withoutSpent takes the tools that the upstream runs away, once the request allows no more calls. A call of the shell is
// answered instead.
func (l *loop) withoutSpent(req *llm.Request) {
	if limit := l.plan.request.MaxToolCalls; limit == nil || int64(l.calls) < *limit {
		return
	}
	req.Tools = slices.DeleteFunc(slices.Clone(req.Tools), func(t openai.Tool) bool { return t.Type != "function" })
	if len(req.Tools) == 0 {
		req.ToolChoice, req.ParallelToolCalls = nil, nil
	}
}

// take forwards what the model says.
func (l *loop) take(ctx context.Context, t *turn, req llm.Request) error {
	for ev, err := range l.plan.route.Provider.Stream(ctx, req) {
		if err == nil {
			ev, err = l.own(ev)
		}
		if err == nil {
			err = t.take(ctx, ev)
		}
		if err == nil {
			err = l.wire.ended()
		}
		if err != nil {
			return err
		}
		if t.end != nil {
			break
		}
	}
	return nil
}

// after handles a turn that the provider ended: it runs the turn's calls, and says whether the response is over.
func (l *loop) after(ctx context.Context, t *turn) (end response.End, over bool) {
	switch r := t.end.Response; {
	case r.Status == openai.Incomplete:
		reason := openai.ReasonMaxOutputTokens
		if r.IncompleteDetails != nil && r.IncompleteDetails.Reason != "" {
			reason = r.IncompleteDetails.Reason
		}
		t.abandon(ctx)
		return response.End{Status: openai.Incomplete, Reason: reason}, true
	case r.Status != openai.Completed:
		t.abandon(ctx)
		if r.Error == nil {
			return l.ending(ctx, fault.New(fault.Upstream, "The model's provider failed.")), true
		}
		return response.End{Status: openai.Failed, Error: r.Error}, true
	case t.unfinished():
		t.abandon(ctx)
		return l.ending(ctx, fault.New(fault.Upstream, "The model's stream left an item unfinished.")), true
	}
	if !t.has(ours) {
		notes := t.notes(ctx)
		final := t.final(notes)
		l.remember(t)
		end, over := l.settle(t)
		if l.run.Recorded() {
			l.mark(func(m *mark) {
				if over {
					m.End, m.Final = &end, final
				}
			})
		}
		t.release(notes)
		return end, over
	}
	t.release(nil)
	if err := ctx.Err(); err != nil {
		t.abandon(ctx)
		return l.ending(ctx, err), true
	}
	// No command starts before the turn that asked for it is on record, and no file is put over what a command made of it:
	// that the files are there is on record before, too.
	unready := l.stage(ctx)
	if unready == nil {
		l.judge(ctx, t)
	}
	l.announceCalls(t)
	if err := l.run.Sync(ctx); err != nil {
		l.runCalls(ctx, t, err, nil)
		return l.ending(ctx, err), true
	}
	l.acknowledge()
	return l.call(ctx, t, unready, nil)
}

// call runs the calls of a turn that is on record, and says whether the response is over.
func (l *loop) call(ctx context.Context, t *turn, unready error, done progress) (end response.End, over bool) {
	if parked, err := l.hold(ctx, t); parked {
		return response.End{}, true // it does not end here
	} else if err != nil {
		l.runCalls(ctx, t, err, done)
		return l.ending(ctx, err), true
	}
	l.runCalls(ctx, t, unready, done)
	err := context.Cause(ctx)
	if err == nil {
		err = l.wire.ended()
	}
	if err != nil {
		return l.ending(ctx, err), true
	}
	l.remember(t)
	end, over = l.settle(t)
	l.mark(func(m *mark) {
		if over {
			m.End = &end
		}
	})
	return end, over
}

// remember adds a turn to the conversation: its items, then the outputs of its calls.
func (l *loop) remember(t *turn) {
	var outputs []openai.Item
	for _, n := range t.entries {
		switch n.fate {
		case dropped:
			continue
		case ours:
			n.item = openai.NewItem(n.call.item)
			outputs = append(outputs, openai.NewItem(n.call.output))
		case refused:
			outputs = append(outputs, functionOutput(n.callID, errorText(n.why)))
		}
		l.added = append(l.added, n.item)
	}
	l.added = append(l.added, outputs...)
}

// settle decides whether the model is asked again.
func (l *loop) settle(t *turn) (end response.End, over bool) {
	called := t.has(ours) || t.has(refused)
	switch {
	case t.has(toClient), t.has(relayedCall), t.has(patchCall): // the client answers its calls; ours of the same turn are done
		return response.End{Status: openai.Completed}, true
	case called && l.pauses():
		return response.End{Status: openai.Incomplete, Reason: openai.ReasonMaxMessages}, true
	case called && !t.last:
		return response.End{}, false
	case !t.answered() && l.trouble != nil:
		return response.End{Status: openai.Failed, Error: failure(l.trouble)}, true
	case called, t.last && !t.answered():
		return response.End{Status: openai.Incomplete, Reason: openai.ReasonMaxMessages}, true
	default:
		return response.End{Status: openai.Completed}, true
	}
}

// ending is how a response ends that was cancelled or broke. Its context ends also when its log cannot be written any
// more: then that is why it failed.
func (l *loop) ending(ctx context.Context, err error) response.End {
	if cause := context.Cause(ctx); fault.KindOf(cause) == fault.Cancelled || errors.Is(cause, context.Canceled) {
		return response.End{Status: openai.Cancelled}
	} else if cause != nil {
		err = cause
	}
	if response.Left(err) {
		return response.End{} // it does not end here
	}
	l.agent.options.Logger.Warn("response failed", "response", l.run.ID(), "error", err)
	return response.End{Status: openai.Failed, Error: failure(err)}
}
