package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
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
	case last.Turn != nil:
		t := l.turnOf(last)
		was := progress{}
		for _, c := range t.ownCalls() {
			told := seen.calls.of(c.outputIndex)
			told.taken, told.closed = true, seen.done[c.index]
			told.noteEnds(l.resumed.ends[c.outputIndex], last.Ends)
			was[c.outputIndex] = told
			if !seen.opened[c.outputIndex] {
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

// told is what the log has of one call of ours.
type told struct {
	taken   bool // it may have been started
	closed  bool // the end of the shell_call was sent
	entries map[int]openai.ShellOutput
	ends    map[int]endNote // of the commands in entries
	tails   map[int]*tail
	item    *shellOutput // its output, if that has ended
}

// progress is what the log has of calls, by the place of their outputs.
type progress map[int]*told

func (p progress) of(index int) *told {
	if t := p[index]; t != nil {
		return t
	}
	return &told{}
}

func (p progress) at(index int) *told {
	if p[index] == nil {
		p[index] = &told{entries: map[int]openai.ShellOutput{}, tails: map[int]*tail{}}
	}
	return p[index]
}

// heard is what was told of a command's output.
func (t *told) heard(command int) tail {
	if h := t.tails[command]; h != nil {
		return *h
	}
	return tail{}
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

// seen is what a stretch of the log says.
type seen struct {
	opened map[int]bool // by place in the output
	done   map[int]bool
	open   map[int]*openItem // without shell_calls and their outputs
	shells []*shellItem
	calls  progress
	ends   map[endOf]bool
}

// endOf names an event that ends a piece of an item.
type endOf struct {
	typ            string
	index, content int
}

// openItem is an item that nobody goes on writing.
type openItem struct {
	item      openai.Item
	parts     []*part // done and closed say which of their ends were sent
	texted    map[int]bool
	arguments strings.Builder
}

// shellItem is a shell_call.
type shellItem struct {
	item     openai.Item
	index    int
	commands []string // as far as they were written
	whole    int      // how many of them were ended
	done     bool
	output   *openai.Item // as it was announced
	at       int          // the output's place
}

func (s *seen) shell(match func(*shellItem) bool) *shellItem {
	if at := slices.IndexFunc(s.shells, match); at >= 0 {
		return s.shells[at]
	}
	return nil
}

// replay reads the log from a number on.
func (l *loop) replay(ctx context.Context, from int64) (*seen, error) {
	s := &seen{opened: map[int]bool{}, done: map[int]bool{}, open: map[int]*openItem{}, calls: progress{}, ends: map[endOf]bool{}}
	for f, err := range l.agent.responses.Replay(context.WithoutCancel(ctx), l.run.ID(), from) {
		if err == nil {
			err = s.take(f, l.plan.maxOutput)
		}
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "The response's log can't be read.")
		}
	}
	return s, nil
}

// take reads one event.
func (s *seen) take(f response.Frame, keep int) error {
	var ev struct {
		OutputIndex  int                  `json:"output_index"`
		ContentIndex int                  `json:"content_index"`
		CommandIndex int                  `json:"command_index"`
		Item         openai.Item          `json:"item"`
		Part         openai.Part          `json:"part"`
		Delta        json.RawMessage      `json:"delta"`
		Output       []openai.ShellOutput `json:"output"`
	}
	switch f.Type {
	case openai.EventCreated, openai.EventQueued, openai.EventInProgress:
		return nil
	}
	if err := json.Unmarshal(f.Data, &ev); err != nil {
		return fmt.Errorf("event %d: %w", f.Seq, err)
	}
	i := s.open[ev.OutputIndex]
	switch f.Type {
	case openai.EventItemAdded:
		s.opened[ev.OutputIndex] = true
		switch ev.Item.Type {
		case openai.TypeShellCall:
			s.shells = append(s.shells, &shellItem{item: ev.Item, index: ev.OutputIndex})
		case openai.TypeShellCallOutput:
			if c := s.shell(func(c *shellItem) bool { return c.item.CallID == ev.Item.CallID }); c != nil {
				c.output, c.at = &ev.Item, ev.OutputIndex
			}
		default:
			s.open[ev.OutputIndex] = &openItem{item: ev.Item, texted: map[int]bool{}}
		}
		return nil
	case openai.EventItemDone:
		s.done[ev.OutputIndex] = true
		delete(s.open, ev.OutputIndex)
		if c := s.shell(func(c *shellItem) bool { return c.index == ev.OutputIndex }); c != nil {
			c.item, c.done = ev.Item, true
		}
		if ev.Item.Type == openai.TypeShellCallOutput {
			var o shellOutput
			if err := ev.Item.Decode(&o); err != nil {
				return fmt.Errorf("event %d: %w", f.Seq, err)
			}
			s.calls.at(ev.OutputIndex).item = &o
		}
		return nil
	case openai.EventOutputDelta:
		var d openai.OutputDelta
		if err := json.Unmarshal(ev.Delta, &d); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		c := s.calls.at(ev.OutputIndex)
		if c.tails[ev.CommandIndex] == nil {
			c.tails[ev.CommandIndex] = &tail{}
		}
		c.tails[ev.CommandIndex].add(container.Delta(d), keep)
		return nil
	case openai.EventOutputDone:
		if len(ev.Output) > 0 {
			s.calls.at(ev.OutputIndex).entries[ev.CommandIndex] = ev.Output[0]
		}
		return nil
	}
	if c := s.shell(func(c *shellItem) bool { return c.index == ev.OutputIndex }); c != nil {
		return c.take(f, ev.CommandIndex, ev.Delta)
	}
	s.ends[endOf{f.Type, ev.OutputIndex, ev.ContentIndex}] = true
	if i == nil {
		return nil
	}
	n := entry{parts: i.parts}
	switch f.Type {
	case openai.EventPartAdded:
		n.partAt(ev.ContentIndex, ev.Part.Type).opened = true
	case openai.EventPartDone:
		n.partAt(ev.ContentIndex, ev.Part.Type).closed = true
	case openai.EventTextDelta, openai.EventRefusalDelta, openai.EventReasonDelta:
		var text string
		if err := json.Unmarshal(ev.Delta, &text); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		n.partAt(ev.ContentIndex, partOf[f.Type]).text.WriteString(text)
	case openai.EventTextDone, openai.EventRefusalDone, openai.EventReasonDone:
		i.texted[ev.ContentIndex] = true
	case openai.EventArgumentsDelta:
		var text string
		if err := json.Unmarshal(ev.Delta, &text); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		i.arguments.WriteString(text)
	}
	i.parts = n.parts
	return nil
}

// take reads one event of a shell_call.
func (c *shellItem) take(f response.Frame, command int, delta json.RawMessage) error {
	switch f.Type {
	case openai.EventCommandAdded:
		c.commands = append(c.commands, "")
	case openai.EventCommandDelta:
		var text string
		if err := json.Unmarshal(delta, &text); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		if command >= len(c.commands) {
			return fmt.Errorf("event %d: command %d of %d", f.Seq, command, len(c.commands))
		}
		c.commands[command] += text
	case openai.EventCommandDone:
		c.whole++
	}
	return nil
}

// errNotWhole is why a call is not run that the model had not finished when its server stopped.
var errNotWhole = fault.New(fault.Unavailable, "The server stopped before the call was complete; it was not run.")

// closeOpen ends an item that a dead owner left open, as incomplete, with what there is of it.
func (l *loop) closeOpen(index int, i *openItem) {
	switch i.item.Type {
	case openai.TypeMessage, openai.TypeReasoning:
		l.wire.emit(i.closers(index)...)
	case openai.TypeFunctionCall:
		var c openai.FunctionCall
		if err := i.item.Decode(&c); err != nil {
			break
		}
		c.Arguments, c.Status = i.arguments.String(), openai.Incomplete
		l.wire.emit(openai.NewItemEvent(openai.EventItemDone, index, openai.NewItem(c)))
		return
	}
	l.wire.emit(openai.NewItemEvent(openai.EventItemDone, index, i.closed()))
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

// content is what there is of a message or reasoning.
func (i *openItem) content() openai.Content {
	content := openai.Content{}
	for _, p := range i.parts {
		content = append(content, p.whole())
	}
	return content
}

// whole is a part as far as it was written.
func (p *part) whole() openai.Part {
	if p.kind == "refusal" {
		return openai.Part{Type: p.kind, Refusal: p.text.String()}
	}
	return openai.Part{Type: p.kind, Text: p.text.String()}
}

// closed is the item as it ends.
func (i *openItem) closed() openai.Item {
	if i.item.Type == openai.TypeReasoning {
		return openai.NewItem(openai.Reasoning{Type: i.item.Type, ID: i.item.ID, Summary: []openai.Part{}, Content: i.content(),
			Status: openai.Incomplete})
	}
	if i.item.Type == openai.TypeMessage {
		return openai.NewItem(openai.Message{Type: i.item.Type, ID: i.item.ID, Role: "assistant", Status: openai.Incomplete,
			Content: i.content()})
	}
	return withStatus(i.item, openai.Incomplete)
}

// closers are the events that end the parts of an item and were not sent.
func (i *openItem) closers(index int) (events []openai.Event) {
	for _, p := range i.parts {
		if p.closed {
			continue
		}
		if !i.texted[p.index] {
			events = append(events, openai.NewDone(doneOf[p.kind], i.item.ID, index, p.index, p.text.String()))
		}
		if p.opened {
			events = append(events, openai.NewPartEvent(openai.EventPartDone, i.item.ID, index, p.index, p.whole()))
		}
	}
	return events
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
