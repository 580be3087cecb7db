package bedrock

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/sse"
	wire "github.com/hardshell-dev/hardshell/internal/wire/converse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// decoder turns the events of an answer into the events of one turn.
type decoder struct {
	turn   *llm.Turn
	seal   llm.Seal
	names  *dialect.Names
	server *upstream.Server

	open   map[int]*piece // by contentBlockIndex, which may skip numbers
	usage  *wire.Usage
	stop   string
	frames int
	said   bool // something of it has reached the turn

	scratch []byte
}

// piece is a content block as it grows. Most models open no block for text: the first delta does.
type piece struct {
	call     *llm.Call
	id       string // of the call
	foreign  bool   // a tool's that the upstream runs
	thought  []byte // shown thinking
	signed   string
	redacted []byte
	thinks   bool
}

// Begin implements [upstream.Answer].
func (d *decoder) Begin() {
	d.turn.Drop()
	d.open, d.usage, d.stop, d.frames, d.said = map[int]*piece{}, nil, "", 0, false
}

// Said implements [upstream.Answer].
func (d *decoder) Said() bool { return d.said }

// Late says that the model has ended; its usage may still come.
func (d *decoder) Late() bool { return d.stop != "" }

// Over implements [upstream.Answer].
func (d *decoder) Over() bool { return d.stop != "" && d.usage != nil || d.turn.Gone() }

// Gone implements [upstream.Answer].
func (d *decoder) Gone() bool { return d.turn.Gone() }

// Frame implements [upstream.Answer].
func (d *decoder) Frame(f sse.Event, more bool) error {
	d.frames++
	if kind, ok := strings.CutPrefix(f.Name, exception); ok {
		e := upstream.ReadError(f.Data)
		if e.Message == "" && !json.Valid(f.Data) {
			e.Message = string(f.Data)
		}
		e.Type = kind
		return d.server.Told(e)
	}
	if err := d.event(f.Name, f.Data); err != nil {
		return err
	}
	d.turn.Flush(more)
	return nil
}

func (d *decoder) event(name string, data []byte) error {
	if name == wire.EventBlockDelta {
		if index, text, ok := fastText(data, &d.scratch); ok {
			return d.text(index, text)
		}
	}
	var ev wire.Event
	switch name {
	case wire.EventBlockStart, wire.EventBlockDelta, wire.EventBlockStop, wire.EventMessageStop, wire.EventMetadata:
		if err := json.Unmarshal(data, &ev); err != nil {
			return d.server.Unreadable("an event", err)
		}
	default: // messageStart, and what is new to us, of whatever form
		return nil
	}
	switch name {
	case wire.EventBlockStart:
		if use := ev.Start.ToolUse; use != nil {
			return d.start(ev.Index, use)
		}
	case wire.EventBlockDelta:
		return d.delta(ev.Index, ev.Delta)
	case wire.EventBlockStop:
		d.end(ev.Index)
	case wire.EventMessageStop:
		d.stop = ev.StopReason
		if d.stop == "" {
			d.stop = wire.StopEndTurn
		}
	case wire.EventMetadata:
		if ev.Usage != nil {
			d.usage = ev.Usage
		}
	}
	return nil
}

// start opens a call.
func (d *decoder) start(index int, use *wire.ToolUse) error {
	if p := d.open[index]; p != nil && use.ID != "" && p.id == use.ID {
		return nil // it is told twice
	}
	d.end(index) // its stop was forgotten
	p := &piece{id: use.ID, foreign: use.Type == "server_tool_use"}
	d.open[index] = p
	if p.foreign {
		return nil
	}
	if use.Name == "" {
		return d.server.Broken("sent a call of a tool without a name")
	}
	d.said = true
	p.call = d.turn.Call(d.names.Original(use.Name))
	return nil
}

// text grows a block of text.
func (d *decoder) text(index int, text []byte) error {
	p := d.open[index]
	if p == nil {
		p = &piece{}
		d.open[index] = p
	}
	if !p.foreign && len(text) > 0 {
		d.said = true
		d.turn.Hold(text)
	}
	return nil
}

// delta grows a block.
func (d *decoder) delta(index int, delta wire.Delta) error {
	if delta.Text != nil && *delta.Text != "" {
		return d.text(index, []byte(*delta.Text))
	}
	p := d.open[index]
	if p == nil {
		if delta.ToolUse != nil {
			return d.server.Broken("sent arguments of a call that it had not begun")
		}
		p = &piece{}
		d.open[index] = p
	}
	switch {
	case p.foreign:
	case delta.ToolUse != nil && p.call != nil:
		p.call.Write(delta.ToolUse.Input)
	case delta.Reasoning != nil:
		return d.think(p, *delta.Reasoning)
	}
	return nil
}

// think grows a block of thinking. What is not shown comes in pieces of base64 that are each whole.
func (d *decoder) think(p *piece, r wire.ReasoningDelta) error {
	redacted, err := base64.StdEncoding.DecodeString(r.Redacted)
	if err != nil {
		return d.server.Unreadable("thinking that is not shown", err)
	}
	p.signed += r.Signature
	p.redacted = append(p.redacted, redacted...)
	if r.Text != "" {
		d.said = true
		if !p.thinks && d.turn.Thinking() {
			d.turn.Reasoning([]byte("\n\n")) // thoughts of two blocks in one item
		}
		p.thought = append(p.thought, r.Text...)
		d.turn.Reasoning([]byte(r.Text))
	}
	p.thinks = true
	return nil
}

// end closes a block. Thinking is sealed as it is to go back, if it can.
func (d *decoder) end(index int) {
	p := d.open[index]
	delete(d.open, index)
	if p == nil || !p.thinks {
		return
	}
	thought := wire.Reasoning{Redacted: base64.StdEncoding.EncodeToString(p.redacted)}
	if thought.Redacted == "" {
		thought.Text = &wire.ReasoningText{Text: string(p.thought), Signature: p.signed}
	}
	if raw, err := openai.Marshal(thought); err == nil && whole(thought) {
		d.said = true
		d.turn.Keep(d.seal, raw)
	}
}

// End closes the answer when its stream has ended.
func (d *decoder) End() error {
	d.turn.Flush(false)
	switch {
	case d.frames == 0:
		return d.server.Broken("answered with an empty stream")
	case d.stop == "":
		return d.server.CutShort()
	case d.stop == wire.StopMalformedCall || d.stop == wire.StopMalformedOutput:
		return d.server.Broken("ended its answer as %s", d.stop)
	}
	for index := range d.open { // whose stop was forgotten; at most one of them is thinking
		d.end(index)
	}
	var usage *openai.Usage
	if d.usage != nil {
		u := usageOf(*d.usage)
		usage = &u
	}
	switch d.stop {
	case wire.StopMaxTokens, wire.StopContextWindow:
		d.turn.Stop(openai.ReasonMaxOutputTokens, usage)
	case wire.StopGuardrail, wire.StopFiltered:
		d.turn.Stop(openai.ReasonContentFilter, usage)
	default: // end_turn, stop_sequence, tool_use, and whatever is new
		d.turn.Complete(usage)
	}
	return nil
}

// usageOf is a count in the words of the Responses API, whose input counts what the cache gave and took.
func usageOf(u wire.Usage) openai.Usage {
	var r openai.Usage
	r.InputTokensDetails.CachedTokens, r.InputTokensDetails.CacheWriteTokens = u.CacheRead, u.CacheWrite
	r.InputTokens, r.OutputTokens = u.Input+u.CacheRead+u.CacheWrite, u.Output
	r.TotalTokens = r.InputTokens + r.OutputTokens
	return r
}

// Whole reads an answer that came in one piece: that of Converse, or an error under status 200.
func (d *decoder) Whole(raw []byte) error {
	var answer wire.Response
	if err := json.Unmarshal(raw, &answer); err != nil {
		return d.server.Unreadable("an answer", err)
	}
	if answer.Output.Message == nil {
		e := upstream.ReadError(raw)
		if e.Message == "" {
			e.Message = "the answer is JSON and no message"
		}
		return d.server.Told(e)
	}
	d.frames++
	for i, b := range answer.Output.Message.Content {
		if err := d.block(i, b); err != nil {
			return err
		}
	}
	d.usage = answer.Usage
	if d.stop = answer.StopReason; d.stop == "" {
		d.stop = wire.StopEndTurn
	}
	return nil
}

// block takes a block that is whole.
func (d *decoder) block(index int, b wire.Block) error {
	switch {
	case b.ToolUse != nil:
		if err := d.start(index, b.ToolUse); err != nil {
			return err
		}
		input := bytes.TrimSpace(b.ToolUse.Input)
		if p := d.open[index]; p.call != nil && dialect.Present(input) && string(input) != "{}" {
			var text string
			if json.Unmarshal(input, &text) != nil { // some models' arguments are no object, and come as a text
				text = string(input)
			}
			p.call.Write(text)
		}
	case b.Text != nil:
		return d.delta(index, wire.Delta{Text: b.Text})
	case b.Reasoning != nil:
		r := wire.ReasoningDelta{Redacted: b.Reasoning.Redacted}
		if t := b.Reasoning.Text; t != nil {
			r.Text, r.Signature = t.Text, t.Signature
		}
		if err := d.delta(index, wire.Delta{Reasoning: &r}); err != nil {
			return err
		}
	}
	d.end(index)
	return nil
}
