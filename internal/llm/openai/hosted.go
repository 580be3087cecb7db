package openai

import (
	"context"
	"encoding/json"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// The vendor's own shell: its calls are run in its own containers while it answers. Their items are written anew, field by
// field, under ids of ours, so that nothing of the vendor's gets by.

// HostsShell says whether the upstream may run a shell of its own.
func (p *Provider) HostsShell() bool { return p.dialect.NativeShell != "off" }

var _ llm.Host = (*Provider)(nil)

// hostedTool declares the vendor's shell.
func hostedTool(h *llm.Hosted) json.RawMessage {
	environment := map[string]string{"type": "container_auto"}
	if h.Container != "" {
		environment = map[string]string{"type": "container_reference", "container_id": h.Container}
	}
	raw, err := wire.Marshal(map[string]any{"type": "shell", "environment": environment})
	if err != nil { // strings always marshal
		return json.RawMessage(`{"type":"shell"}`)
	}
	return raw
}

// whereHosted is where a call of the conversation is said to have run.
func whereHosted(h *llm.Hosted) *wire.ItemEnvironment {
	if h == nil || h.Container == "" {
		return nil
	}
	return &wire.ItemEnvironment{Type: "container_reference", ContainerID: h.Container}
}

// hosting is one answer in which the vendor runs calls.
type hosting struct {
	ctx   context.Context
	ask   *llm.Hosted
	mint  func(prefix string) string
	calls map[string]string // our call ids, by the vendor's
	ours  map[string]string // our ids of containers, by the vendor's
}

// host begins one; nil where the vendor runs nothing.
func (p *Provider) host(ctx context.Context, h *llm.Hosted) *hosting {
	if h == nil {
		return nil
	}
	out := &hosting{ctx: ctx, ask: h, mint: p.mint, calls: map[string]string{}, ours: map[string]string{}}
	if out.mint == nil {
		out.mint = id.New
	}
	if h.Container != "" {
		out.ours[h.Container] = h.Own
	}
	return out
}

// hide takes the vendor's ids out of an error.
func (h *hosting) hide(err error) error {
	e, ok := fault.As(err)
	if h == nil || !ok {
		return err
	}
	clean := *e
	clean.Message = id.Foreign(e.Message, h.ours)
	return &clean
}

func (h *hosting) callID(theirs string) string {
	if h.calls[theirs] == "" {
		h.calls[theirs] = h.mint(id.Call)
	}
	return h.calls[theirs]
}

func (h *hosting) container(theirs string) (string, error) {
	if own, ok := h.ours[theirs]; ok && theirs == h.ask.Container {
		return own, nil
	}
	own, err := h.ask.Names.Container(h.ctx, theirs)
	if err == nil {
		h.ours[theirs] = own
	}
	return own, err
}

func (h *hosting) environment(e *wire.ItemEnvironment) (*wire.ItemEnvironment, error) {
	if e == nil || e.ContainerID == "" {
		return nil, nil
	}
	own, err := h.container(e.ContainerID)
	return &wire.ItemEnvironment{Type: e.Type, ContainerID: own}, err
}

// citation is a note about a file of a container.
func (h *hosting) citation(note wire.Annotation) (wire.Annotation, error) {
	theirs := note.ContainerID
	var err error
	if note.ContainerID, err = h.container(theirs); err != nil {
		return note, err
	}
	note.FileID, err = h.ask.Names.File(h.ctx, theirs, note.FileID)
	return note, err
}

// live is a shell_call or its output while the vendor is at it.
type live struct {
	*llm.Live
	typ, id, callID string
}

// begin opens an item.
func (h *hosting) begin(d *decoder, item wire.Item) (*live, error) {
	l := &live{typ: item.Type, callID: h.callID(item.CallID)}
	var opened wire.Item
	if item.Type == wire.TypeShellCall {
		var c wire.ShellCall
		if err := item.Decode(&c); err != nil {
			return nil, d.server.Unreadable("a call of the shell", err)
		}
		where, err := h.environment(c.Environment)
		if err != nil {
			return nil, err
		}
		l.id = h.mint(id.ShellCall)
		opened = l.call(wire.InProgress, wire.ShellAction{}, where)
	} else {
		l.id = h.mint(id.ShellCallOutput)
		opened = l.output(wire.ShellCallOutput{Status: wire.InProgress})
	}
	l.Live = d.turn.Live(opened)
	return l, nil
}

func (l *live) call(status string, a wire.ShellAction, where *wire.ItemEnvironment) wire.Item {
	commands := a.Commands
	if commands == nil {
		commands = []string{}
	}
	return wire.NewItem(wire.ShellCall{Type: l.typ, ID: l.id, CallID: l.callID, Status: status, Environment: where,
		Action: wire.ShellAction{Commands: commands, TimeoutMS: a.TimeoutMS, MaxOutputLength: a.MaxOutputLength}})
}

func (l *live) output(o wire.ShellCallOutput) wire.Item {
	return wire.NewItem(wire.ShellCallOutput{Type: l.typ, ID: l.id, CallID: l.callID, Status: o.Status, MaxOutputLength: o.MaxOutputLength,
		Output: bare(o.Output)})
}

// bare are entries without what only the vendor knows.
func bare(entries []wire.ShellOutput) []wire.ShellOutput {
	out := make([]wire.ShellOutput, len(entries))
	for i, e := range entries {
		out[i] = wire.ShellOutput{Stdout: e.Stdout, Stderr: e.Stderr, Outcome: e.Outcome}
	}
	return out
}

// tell says what the vendor says while a call runs. What it says in another form comes with the end of the item.
func (l *live) tell(ev *event) {
	switch {
	case l.typ == wire.TypeShellCall && ev.Type == wire.EventCommandDelta:
		l.Say(wire.NewCommand(ev.Type, l.Index(), ev.CommandIndex, word(ev.Delta)))
	case l.typ == wire.TypeShellCall:
		if ev.Type == wire.EventCommandAdded || ev.Type == wire.EventCommandDone {
			l.Say(wire.NewCommand(ev.Type, l.Index(), ev.CommandIndex, ev.Command))
		}
	case ev.Type == wire.EventOutputDelta:
		var delta wire.OutputDelta
		if json.Unmarshal(ev.Delta, &delta) == nil {
			l.Say(&wire.OutputDeltaEvent{Head: wire.Head{Type: ev.Type}, ItemID: l.id, OutputIndex: l.Index(), CommandIndex: ev.CommandIndex, Delta: delta})
		}
	case ev.Type == wire.EventOutputDone:
		var entries []wire.ShellOutput
		if json.Unmarshal(ev.Output, &entries) == nil {
			l.Say(&wire.OutputDoneEvent{Head: wire.Head{Type: ev.Type}, ItemID: l.id, OutputIndex: l.Index(), CommandIndex: ev.CommandIndex, Output: bare(entries)})
		}
	}
}

// end closes the item.
func (l *live) end(d *decoder, item wire.Item) error {
	if l.typ == wire.TypeShellCallOutput {
		var o wire.ShellCallOutput
		if err := item.Decode(&o); err != nil {
			return d.server.Unreadable("the output of a call of the shell", err)
		}
		o.Status = ended(o.Status)
		l.End(l.output(o))
		return nil
	}
	var c wire.ShellCall
	if err := item.Decode(&c); err != nil {
		return d.server.Unreadable("a call of the shell", err)
	}
	where, err := d.hosted.environment(c.Environment)
	if err != nil {
		return err
	}
	l.End(l.call(ended(c.Status), c.Action, where))
	return nil
}

// ended is the status of an item that is over.
func ended(status string) string {
	if status == wire.Incomplete {
		return status
	}
	return wire.Completed
}
