package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// resumption is what a loop has to know that goes on with another's response.
type resumption struct {
	last  mark                     // of the journal
	since int64                    // events from here on came after it
	ends  map[int]map[int]*endNote // by the place of the output and the command
	// broken is why there is no going on: then what runs is stopped and what is open is closed.
	broken error
}

// resumedLoop makes the loop of a response that another owner began, as far as its journal goes.
func (a *Agent) resumedLoop(r run, p *plan, c *response.Claim) (*loop, error) {
	l := newLoop(a, r, p)
	l.resumed = &resumption{ends: map[int]map[int]*endNote{}}
	for _, e := range c.Journal {
		var m mark
		if err := json.Unmarshal(e.Data, &m); err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		if n := m.Ended; n != nil {
			if l.resumed.ends[n.Output] == nil {
				l.resumed.ends[n.Output] = map[int]*endNote{}
			}
			l.resumed.ends[n.Output][n.Command] = n
			continue
		}
		l.added = append(l.added, m.Added...)
		l.resumed.last, l.resumed.since = m, e.Since
	}
	m := &l.resumed.last
	l.noted, l.rounds, l.calls, l.tokens = len(l.added), m.Rounds, m.Calls, m.Tokens
	l.files, l.recent, l.trouble, l.staged = m.Files, m.Recent, m.Trouble.err(), m.Staged
	if l.usage = m.Usage; l.usage != nil {
		r.AddUsage(*l.usage)
	}
	if m.Container != "" {
		l.container = m.Container
	}
	output := r.Output()
	l.wire.next = max(m.Next, len(output))
	for _, items := range [][]openai.Item{l.added, output} {
		for _, i := range items {
			if i.CallID != "" {
				l.callIDs[i.CallID] = true
			}
		}
	}
	return l, nil
}

// resume goes on where the journal and the log end: with the calls of a turn that is on record, to an end that is, or
// with another question to the model; what that had begun to say is closed as incomplete. It says whether the response is
// over.
func (l *loop) resume(ctx context.Context) (end response.End, over bool) {
	last := l.resumed.last
	seen, err := l.replay(ctx, l.resumed.since)
	if err != nil {
		return l.ending(ctx, err), true
	}
	switch {
	case last.Turn != nil, last.Asks != nil:
		t := l.turnOf(last)
		was := progress{}
		for _, c := range t.ownCalls() {
			told := seen.calls.of(c.outputIndex)
			told.taken, told.closed = last.Turn != nil, seen.done[c.index]
			told.noteEnds(l.resumed.ends[c.outputIndex], last.Ends)
			was[c.outputIndex] = told
			if !seen.opened[c.outputIndex] && !last.Told {
				l.wire.openAt(c.outputIndex, openai.NewItem(c.output))
			}
		}
		return l.call(ctx, t, nil, was)
	case last.End != nil:
		if last.Final != nil {
			l.complete(*last.Final, seen)
		}
		return *last.End, true
	}
	for _, index := range slices.Sorted(maps.Keys(seen.open)) {
		l.closeOpen(index, seen.open[index])
	}
	if l.plan.lent != nil || last.Lent {
		if l.recall(seen); last.Lent {
			return l.ending(ctx, errLent), true
		}
		return response.End{}, false
	}
	// An owner before us may have died while it closed.
	for _, c := range seen.shells {
		l.closeCallOf(c, seen.calls)
	}
	if err := l.wire.ended(); err != nil {
		return l.ending(ctx, err), true
	}
	return response.End{}, false
}

// giveUp ends a response that cannot be gone on with: its commands are stopped and its items closed, as of one that is
// cancelled. One whose end is on record ends as it says.
func (l *loop) giveUp(ctx context.Context) response.End {
	stopped, cancel := context.WithCancelCause(ctx)
	cancel(fault.New(fault.Cancelled, "The response cannot be gone on with."))
	l.agent.options.Logger.Warn("response cannot be gone on with", "response", l.run.ID(), "error", l.resumed.broken)
	if end, over := l.resume(stopped); over && l.resumed.last.End != nil {
		return end
	}
	if ctx.Err() != nil {
		return l.ending(ctx, ctx.Err())
	}
	return response.End{Status: openai.Failed, Error: failure(l.resumed.broken)}
}

// noteEnds takes what the journal has of the ends that were told. Where an older version wrote it, which noted none, any
// command may have changed files.
func (t *told) noteEnds(notes map[int]*endNote, kept bool) {
	t.ends = map[int]endNote{}
	for i := range t.entries {
		if n := notes[i]; n != nil {
			t.ends[i] = *n
		} else {
			t.ends[i] = endNote{Partial: !kept}
		}
	}
}

// toldBefore is the end of a command that an earlier owner has told.
func toldBefore(e openai.ShellOutput, n endNote) ended {
	out := ended{entry: e, files: n.Files, more: n.More, partial: n.Partial, whole: true}
	if e.Receipt != nil {
		switch e.Receipt.Reason {
		case reasonCancelled, reasonInterrupted, reasonOutputLost, reasonNotStarted:
			out.whole = false
		}
	}
	return out
}

// errNotWhole is why a call is not run that the model had not finished when its server stopped.
var errNotWhole = fault.New(fault.Unavailable, "The server stopped before the call was complete; it was not run.")

// closeOpen ends an item that a dead owner left open, as incomplete, with what there is of it.
func (l *loop) closeOpen(index int, i *openItem) {
	item := withStatus(i.item, openai.Incomplete)
	var events []openai.Event
	switch i.item.Type {
	case openai.TypeMessage, openai.TypeReasoning:
		events, item = cut(i.item.Type, i.item.ID, index, i.parts, func(content int) bool { return i.texted[content] })
	case openai.TypeCompaction:
		item = l.closedCompaction(i.item)
	case openai.TypeFunctionCall:
		var c openai.FunctionCall
		if err := i.item.Decode(&c); err == nil {
			c.Arguments, c.Status = i.arguments.String(), openai.Incomplete
			item = openai.NewItem(c)
		}
	}
	l.wire.emit(append(events, openai.NewItemEvent(openai.EventItemDone, index, item))...)
}

// closeCallOf ends a shell_call that will not be run. It has its output all the same: every shell_call has one.
func (l *loop) closeCallOf(s *shellItem, calls progress) {
	c := &call{index: s.index, closed: s.done}
	if s.output != nil && calls.of(s.at).item != nil || s.item.Decode(&c.item) != nil {
		return
	}
	c.item.Action.Commands = append([]string{}, s.commands...)
	for n := s.whole; n < len(s.commands); n++ {
		l.wire.emit(openai.NewCommand(openai.EventCommandDone, s.index, n, s.commands[n]))
	}
	if s.output == nil && ofClient(s.item) { // the client's, which has its output
		l.closeCall(c, false)
		return
	}
	if s.output == nil {
		l.refuse(context.Background(), c, errNotWhole)
		return
	}
	l.closeCall(c, false)
	c.output, c.outputIndex = emptyOutput(c.item, s.output.ID), s.at
	l.refuseOutput(context.Background(), c, errNotWhole, calls.of(s.at))
}

func withStatus(i openai.Item, status string) openai.Item {
	out, err := withKeys(i, map[string]any{"status": status})
	if err != nil {
		return i
	}
	return out
}

// complete ends the last message of a response whose end is on record, with the ends that were not sent.
func (l *loop) complete(final openai.Item, s *seen) {
	index := slices.IndexFunc(l.run.Output(), func(i openai.Item) bool { return i.ID == final.ID })
	if index < 0 || s.done[index] {
		return
	}
	var m openai.Message
	if err := final.Decode(&m); err != nil {
		return
	}
	var events []openai.Event
	for n, p := range m.Content {
		sent := func(typ string) bool { return s.ends[endOf{typ, index, n}] }
		typ, text := doneOf[p.Type], p.Text
		if p.Type == "refusal" {
			text = p.Refusal
		}
		if !sent(typ) {
			if !sent(openai.EventAnnotation) {
				for k, a := range p.Annotations {
					events = append(events, &openai.AnnotationEvent{Head: openai.Head{Type: openai.EventAnnotation}, ItemID: m.ID,
						OutputIndex: index, ContentIndex: n, AnnotationIndex: k, Annotation: a})
				}
			}
			events = append(events, openai.NewDone(typ, m.ID, index, n, text))
		}
		if !sent(openai.EventPartDone) {
			events = append(events, openai.NewPartEvent(openai.EventPartDone, m.ID, index, n, p))
		}
	}
	l.wire.emit(append(events, openai.NewItemEvent(openai.EventItemDone, index, final))...)
}
