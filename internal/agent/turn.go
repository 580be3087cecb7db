package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// fate is what becomes of an item of the model's turn.
type fate int

const (
	forwarded   fate = iota // a message or reasoning: goes to the client as it comes
	toClient                // a call of the client's function: goes to the client, which answers it
	ours                    // a call of our shell: becomes a shell_call, and is run after the turn
	refused                 // a call that nobody runs: the model is told why, the client doesn't see it
	dropped                 // a call beyond the one that the request allows: neither sees it
	relayedCall             // a call of the shell that the client runs: goes to it as a shell_call, when its arguments are whole
	patchCall               // a call of apply_patch: goes to the client as an apply_patch_call, when all of it is there
)

// entry is one item of the model's turn.
type entry struct {
	fate   fate
	typ    string
	id     string
	callID string
	index  int // in the response's output; forwarded, toClient and ours only
	item   openai.Item
	done   bool

	parts   []*part        // of a message or reasoning, as far as they were written
	pending []openai.Event // a message's closing events, held back until it is known whether it is the answer

	name      string          // of a call
	arguments strings.Builder // of a call, as far as they were written
	why       string          // refused: what the model is told
	said      bool            // of a message that was taken from the journal: it says something
	call      *call           // ours
	lent      *lentState      // of an item that the upstream runs
}

// part is one part of an item's content.
type part struct {
	kind   string // output_text, refusal, reasoning_text
	index  int
	text   strings.Builder
	opened bool // content_part.added was sent
	closed bool // its end was sent or is pending
}

// turn is one model turn on its way to the client. It takes the provider's events, which go by indexes of the
// provider's own, and writes them under the response's indexes.
type turn struct {
	loop    *loop
	last    bool           // the last round: no call is run any more
	open    map[int]*entry // by the provider's index
	entries []*entry
	held    *entry // the finished message whose closing events wait
	end     *openai.Lifecycle
}

func newTurn(l *loop, last bool) *turn { return &turn{loop: l, last: last, open: map[int]*entry{}} }

// take handles one event of the provider's.
func (t *turn) take(ctx context.Context, ev openai.Event) error {
	switch e := ev.(type) {
	case *openai.ItemEvent:
		if e.Type == openai.EventItemAdded {
			return t.added(ctx, e)
		}
		return t.with(e.OutputIndex, func(n *entry) error { return t.closed(n, e) })
	case *openai.PartEvent:
		return t.with(e.OutputIndex, func(n *entry) error { t.part(n, e); return nil })
	case *openai.DeltaEvent:
		return t.with(e.OutputIndex, func(n *entry) error { t.delta(n, e); return nil })
	case *openai.DoneEvent:
		return t.with(e.OutputIndex, func(n *entry) error { t.done(n, e); return nil })
	case *openai.AnnotationEvent:
		return t.with(e.OutputIndex, func(n *entry) error {
			if n.fate == forwarded {
				e.OutputIndex = n.index
				t.loop.wire.emit(e)
			}
			return nil
		})
	case *openai.CommandEvent:
		return t.with(e.OutputIndex, func(n *entry) error { t.forward(n, e); return nil })
	case *openai.OutputDeltaEvent:
		return t.with(e.OutputIndex, func(n *entry) error { t.forward(n, e); return nil })
	case *openai.OutputDoneEvent:
		return t.with(e.OutputIndex, func(n *entry) error { t.forward(n, e); return nil })
	case *openai.Lifecycle:
		t.end = e
	}
	return nil
}

func (t *turn) with(index int, do func(*entry) error) error {
	n, ok := t.open[index]
	if !ok {
		return fault.New(fault.Upstream, "The model's stream wrote to an item that it had not begun.")
	}
	return do(n)
}

// added begins an item: a message or reasoning is forwarded, a call is sent where it belongs.
func (t *turn) added(ctx context.Context, e *openai.ItemEvent) error {
	n := &entry{typ: e.Item.Type, id: e.Item.ID, item: e.Item}
	switch e.Item.Type {
	case openai.TypeMessage, openai.TypeReasoning:
		t.release(nil)
		n.index = t.loop.wire.open(e.Item)
	case openai.TypeFunctionCall:
		var c openai.FunctionCall
		if err := e.Item.Decode(&c); err != nil {
			return fault.Wrap(fault.Upstream, err, "The model's call can't be read.")
		}
		t.release(nil)
		n.name, n.callID = c.Name, t.loop.uniqueCallID(c.CallID)
		if err := t.begin(ctx, n); err != nil {
			return err
		}
	case openai.TypeShellCall, openai.TypeShellCallOutput, openai.TypeFunctionCallOutput, "":
		if t.loop.plan.lent == nil || !lentItem(e.Item.Type) {
			return fault.New(fault.Upstream, "The model's stream has an item of type %q, which is not served here.", e.Item.Type)
		}
		t.release(nil)
		n.index = t.loop.wire.open(e.Item)
	default: // of a tool that the upstream ran: it goes to the client as it is
		if strings.HasSuffix(e.Item.Type, "_call") {
			t.loop.calls++
		}
		t.release(nil)
		n.index = t.loop.wire.open(e.Item)
	}
	t.open[e.OutputIndex] = n
	t.entries = append(t.entries, n)
	return nil
}

// begin decides a call's fate and announces it where it goes to the client.
func (t *turn) begin(ctx context.Context, n *entry) error {
	l := t.loop
	n.fate, n.why = l.fate(n.name, t.calls(), t.last)
	switch n.fate {
	case ours:
		l.calls++
		environment := l.environment(ctx)
		n.id = id.New(id.ShellCall)
		n.call = &call{item: openai.ShellCall{Type: openai.TypeShellCall, ID: n.id, CallID: n.callID,
			Status: openai.InProgress, Action: openai.ShellAction{Commands: []string{}}, Environment: environment}}
		n.index = l.wire.open(openai.NewItem(n.call.item))
		n.call.index = n.index
	case patchCall:
		l.calls++
	case relayedCall:
		l.calls++
		n.call = &call{item: openai.ShellCall{Type: openai.TypeShellCall, CallID: n.callID, Status: openai.InProgress,
			Environment: &openai.ItemEnvironment{Type: envLocal}}}
	case toClient:
		item, err := withKeys(n.item, map[string]any{"call_id": n.callID})
		if err != nil {
			return fault.Wrap(fault.Upstream, err, "The model's call can't be read.")
		}
		n.item = item
		n.index = l.wire.open(item)
	}
	return nil
}

// calls counts the turn's calls so far, leaving out those that were dropped.
func (t *turn) calls() int {
	n := 0
	for _, e := range t.entries {
		if e.typ == openai.TypeFunctionCall && e.fate != dropped {
			n++
		}
	}
	return n
}

func (n *entry) partAt(index int, kind string) *part {
	for _, p := range n.parts {
		if p.index == index {
			return p
		}
	}
	p := &part{kind: kind, index: index}
	n.parts = append(n.parts, p)
	return p
}

func (t *turn) part(n *entry, e *openai.PartEvent) {
	if n.fate != forwarded {
		return
	}
	e.OutputIndex = n.index
	p := n.partAt(e.ContentIndex, e.Part.Type)
	if e.Type == openai.EventPartAdded {
		p.opened = true
		t.loop.wire.emit(e)
		return
	}
	p.closed = true
	t.close(n, e)
}

// partOf says which kind of part an event builds.
var partOf = map[string]string{
	openai.EventTextDelta: "output_text", openai.EventTextDone: "output_text",
	openai.EventRefusalDelta: "refusal", openai.EventRefusalDone: "refusal",
	openai.EventReasonDelta: "reasoning_text", openai.EventReasonDone: "reasoning_text",
}

func (t *turn) delta(n *entry, e *openai.DeltaEvent) {
	e.OutputIndex = n.index
	switch {
	case n.fate == forwarded:
		n.partAt(e.ContentIndex, partOf[e.Type]).text.WriteString(e.Delta)
		t.loop.wire.emit(e)
	case e.Type == openai.EventArgumentsDelta:
		n.arguments.WriteString(e.Delta)
		if n.fate == toClient {
			t.loop.wire.emit(e)
		}
	}
}

func (t *turn) done(n *entry, e *openai.DoneEvent) {
	e.OutputIndex = n.index
	switch n.fate {
	case forwarded:
		p := n.partAt(e.ContentIndex, partOf[e.Type])
		if p.text.Len() == 0 {
			p.text.WriteString(e.Text)
		}
		p.closed = e.Type == openai.EventReasonDone
		t.close(n, e)
	case toClient:
		t.loop.wire.emit(e)
	case ours, relayedCall:
		t.arguments(n, e.Text)
	}
}

// close ends a piece of an item. A message's ends are held back: its citations come before them, and whether it is
// the answer is known only when the turn goes on or is over.
func (t *turn) close(n *entry, ev openai.Event) {
	if n.typ == openai.TypeMessage {
		n.pending = append(n.pending, ev)
		return
	}
	t.loop.wire.emit(ev)
}

// closed ends an item.
func (t *turn) closed(n *entry, e *openai.ItemEvent) error {
	n.done = true
	e.OutputIndex = n.index
	switch n.fate {
	case forwarded:
		n.item = e.Item
		t.close(n, e)
		if n.typ == openai.TypeMessage {
			t.held = n
		}
		return nil
	case dropped:
		return nil
	}
	var c openai.FunctionCall
	if err := e.Item.Decode(&c); err != nil {
		return fault.Wrap(fault.Upstream, err, "The model's call can't be read.")
	}
	if n.fate == ours || n.fate == relayedCall {
		t.arguments(n, c.Arguments)
	}
	if n.fate == patchCall {
		t.patch(n, c.Arguments, e.Item.Status != openai.Incomplete)
	}
	switch n.fate {
	case relayedCall:
		t.loop.closeCall(n.call, true)
		n.item = openai.NewItem(n.call.item)
	case toClient, refused:
		item, err := withKeys(e.Item, map[string]any{"call_id": n.callID})
		if err != nil {
			return fault.Wrap(fault.Upstream, err, "The model's call can't be read.")
		}
		n.item, e.Item = item, item
		if n.fate == toClient {
			t.loop.wire.emit(e)
		}
	}
	return nil
}

// arguments reads the complete arguments of a call of ours and shows its commands. It does so once: they come with
// the end of the arguments and again with the end of the item.
func (t *turn) arguments(n *entry, raw string) {
	c := n.call
	if c.read {
		return
	}
	c.read = true
	c.item.Action, c.problem = t.loop.plan.arguments(raw)
	if c.problem != nil {
		c.problem = fmt.Errorf("%w; got: %s", c.problem, shorten(raw, maxCommandEcho))
	}
	if n.fate == relayedCall {
		t.relay(n)
	}
	if n.fate == refused {
		return
	}
	events := make([]openai.Event, 0, 3*len(c.item.Action.Commands))
	for i, command := range c.item.Action.Commands {
		events = append(events, openai.NewCommand(openai.EventCommandAdded, n.index, i, ""),
			openai.NewCommand(openai.EventCommandDelta, n.index, i, command),
			openai.NewCommand(openai.EventCommandDone, n.index, i, command))
	}
	t.loop.wire.emit(events...)
}
