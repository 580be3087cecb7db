package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/sse"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// decoder turns the events of an answer into the events of one turn. An answer that pauses goes on in a further one,
// so that a decoder may read several, one after the other.
type decoder struct {
	turn    *llm.Turn
	seal    llm.Seal
	names   *dialect.Names
	server  *upstream.Server
	scratch []byte

	content []*piece     // of all answers so far, in order
	total   openai.Usage // of the answers before this one
	counted bool         // an answer told its usage

	// Of the answer that is being read:
	open    map[int]*piece
	usage   wire.Usage
	stop    string
	details json.RawMessage
	done    bool // message_stop was seen
	frames  int
	said    bool // something of it has reached the turn
}

// piece is a content block as it grows.
type piece struct {
	start     wire.Block
	text      []byte // of text or thinking
	input     []byte // arguments, as the deltas say them
	signature []byte
	call      *llm.Call
	ended     bool
}

// Begin readies the decoder for an answer.
func (d *decoder) Begin() {
	d.turn.Drop()
	d.open = map[int]*piece{}
	d.usage, d.stop, d.details, d.done, d.frames, d.said = wire.Usage{}, "", nil, false, 0, false
}

// Said implements [upstream.Answer].
func (d *decoder) Said() bool { return d.said }

// Late says that the model has ended; only message_stop may still come.
func (d *decoder) Late() bool { return d.stop != "" }

// Over implements [upstream.Answer].
func (d *decoder) Over() bool { return d.done || d.turn.Gone() }

// Gone implements [upstream.Answer].
func (d *decoder) Gone() bool { return d.turn.Gone() }

// Frame implements [upstream.Answer].
func (d *decoder) Frame(f sse.Event, more bool) error {
	err := d.frame(f.Name, f.Data)
	if err == nil {
		d.turn.Flush(more)
	}
	return err
}

func (d *decoder) frame(name string, data []byte) error {
	if index, kind, text, ok := fastDelta(data, &d.scratch); ok {
		d.frames++
		if p := d.open[index]; p != nil {
			return d.grow(p, kind, text)
		}
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "[DONE]" { // some gateways add it
		return nil
	}
	d.frames++
	var ev wire.Event
	if err := json.Unmarshal(data, &ev); err != nil {
		if name == wire.EventError {
			return d.server.Told(upstream.ReadError(data))
		}
		return d.server.Unreadable("an event", err)
	}
	if ev.Type == "" {
		ev.Type = name
	}
	return d.event(&ev, data)
}

func (d *decoder) event(ev *wire.Event, data []byte) error {
	switch ev.Type {
	case wire.EventMessageStart:
		if ev.Message != nil {
			d.usage, d.counted = ev.Message.Usage, true
		}
	case wire.EventBlockStart:
		if ev.ContentBlock == nil {
			return d.server.Broken("sent a content block without a content block in it")
		}
		return d.start(ev.Index, *ev.ContentBlock)
	case wire.EventBlockDelta:
		return d.delta(ev)
	case wire.EventBlockStop:
		if p := d.open[ev.Index]; p != nil {
			delete(d.open, ev.Index)
			return d.end(p)
		}
	case wire.EventMessageDelta:
		if ev.Delta.StopReason != nil {
			d.stop = *ev.Delta.StopReason
		}
		d.details = ev.Delta.StopDetails
		if ev.Usage != nil {
			d.counted = true
			ev.Usage.Apply(&d.usage)
		}
	case wire.EventMessageStop:
		d.done = true
	case wire.EventError:
		return d.server.Told(upstream.ReadError(data))
	}
	return nil // ping, and what is new to us: the API may add events
}

// start opens a block, with whatever it holds already: a whole answer's blocks come so.
func (d *decoder) start(index int, b wire.Block) error {
	if old := d.open[index]; old != nil {
		if b.Type == wire.TypeToolUse && b.ID != "" && old.start.ID == b.ID {
			return nil // it is told twice
		}
		if err := d.end(old); err != nil { // its stop was forgotten
			return err
		}
	}
	p := &piece{start: b}
	d.open[index] = p
	d.content = append(d.content, p)
	switch b.Type {
	case wire.TypeText:
		var t wire.Text
		if err := b.Decode(&t); err != nil {
			return d.server.Broken("sent a text block of an unknown form")
		}
		return d.grow(p, wire.DeltaText, []byte(t.Text))
	case wire.TypeThinking:
		var t wire.Thinking
		if err := b.Decode(&t); err != nil {
			return d.server.Broken("sent a thinking block of an unknown form")
		}
		p.signature = []byte(t.Signature)
		return d.grow(p, wire.DeltaThinking, []byte(t.Thinking))
	case wire.TypeToolUse:
		if b.Name == "" {
			return d.server.Broken("sent a call of a tool without a name")
		}
		d.said = true
		p.call = d.turn.Call(d.names.Original(b.Name))
	}
	return nil
}

// delta grows the block that it names. Some servers send text without having opened a block.
func (d *decoder) delta(ev *wire.Event) error {
	p := d.open[ev.Index]
	if p == nil {
		switch ev.Delta.Type {
		case wire.DeltaText:
			p = &piece{start: wire.Block{Type: wire.TypeText}}
		case wire.DeltaThinking:
			p = &piece{start: wire.Block{Type: wire.TypeThinking}}
		case wire.DeltaInput:
			return d.server.Broken("sent arguments of a call that it had not begun")
		default:
			return nil
		}
		d.open[ev.Index] = p
		d.content = append(d.content, p)
	}
	switch ev.Delta.Type {
	case wire.DeltaText:
		return d.grow(p, ev.Delta.Type, []byte(ev.Delta.Text))
	case wire.DeltaThinking:
		return d.grow(p, ev.Delta.Type, []byte(ev.Delta.Thinking))
	case wire.DeltaInput:
		return d.grow(p, ev.Delta.Type, []byte(ev.Delta.PartialJSON))
	case wire.DeltaSignature:
		p.signature = append(p.signature, ev.Delta.Signature...)
	}
	return nil
}

// grow adds to a block what a delta says.
func (d *decoder) grow(p *piece, kind string, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	switch kind {
	case wire.DeltaText:
		if p.start.Type != wire.TypeText {
			return nil // of a block that is not for us
		}
		d.said = true
		p.text = append(p.text, text...)
		d.turn.Hold(text)
	case wire.DeltaThinking:
		if p.start.Type != wire.TypeThinking {
			return nil
		}
		d.said = true
		if len(p.text) == 0 && d.turn.Thinking() {
			d.turn.Reasoning([]byte("\n\n")) // thoughts of two blocks in one item
		}
		p.text = append(p.text, text...)
		d.turn.Reasoning(text)
	case wire.DeltaInput:
		p.input = append(p.input, text...)
		if p.call != nil {
			p.call.Write(string(text))
		}
	}
	return nil
}

// end closes a block. Thinking is sealed if it is whole: without its signature nobody takes it back.
func (d *decoder) end(p *piece) error {
	p.ended = true
	switch p.start.Type {
	case wire.TypeThinking, wire.TypeRedactedThinking:
		if b, ok := p.block(); ok {
			d.said = true
			d.turn.Keep(d.seal, b.Raw)
		}
	case wire.TypeToolUse:
		if len(p.input) == 0 {
			var t wire.ToolUse
			if err := p.start.Decode(&t); err == nil && dialect.Present(t.Input) && string(bytes.TrimSpace(t.Input)) != "{}" {
				p.input = t.Input
				p.call.Write(string(t.Input))
			}
		}
	}
	return nil
}

// block is the block as it is to go back; false for one that is not whole, or has nothing in it.
func (p *piece) block() (wire.Block, bool) {
	switch p.start.Type {
	case wire.TypeText:
		return textBlock(string(p.text), nil), strings.TrimSpace(string(p.text)) != ""
	case wire.TypeThinking:
		if len(p.signature) == 0 || !p.ended {
			return wire.Block{}, false
		}
		return block(wire.TypeThinking, wire.Thinking{Type: wire.TypeThinking, Thinking: string(p.text), Signature: string(p.signature)}), true
	case wire.TypeServerToolUse:
		if len(p.input) > 0 && json.Valid(p.input) {
			var all map[string]json.RawMessage
			if p.start.Decode(&all) != nil {
				return wire.Block{}, false
			}
			all["input"] = json.RawMessage(p.input)
			return block(p.start.Type, all), true
		}
	}
	return p.start, len(p.start.Raw) > 0
}

// End closes the answer when its stream has ended. Whether the model has ended too, or only pauses, stands in stop.
func (d *decoder) End() error {
	d.turn.Flush(false) // a further answer may follow
	switch {
	case d.frames == 0:
		return d.server.Broken("answered with an empty stream")
	case !d.done && d.stop == "":
		return d.server.CutShort()
	}
	for _, p := range d.content {
		if p.ended { // else its stop was forgotten
			continue
		}
		if err := d.end(p); err != nil {
			return err
		}
	}
	if d.counted {
		d.total.Add(usageOf(d.usage))
	}
	return nil
}

// finish ends the turn as the last answer ended.
func (d *decoder) finish() {
	var usage *openai.Usage
	if d.counted {
		usage = &d.total
	}
	switch d.stop {
	case wire.StopMaxTokens, wire.StopContextWindow:
		d.turn.Stop(openai.ReasonMaxOutputTokens, usage)
	case wire.StopRefusal:
		var details struct {
			Explanation string `json:"explanation"`
		}
		if dialect.Present(d.details) && json.Unmarshal(d.details, &details) == nil {
			d.turn.Refusal([]byte(details.Explanation))
		}
		d.turn.Stop(openai.ReasonContentFilter, usage)
	default: // end_turn, stop_sequence, tool_use, and whatever is new
		d.turn.Complete(usage)
	}
}

// usageOf is a count in the words of the Responses API, whose input counts what the cache gave and took.
func usageOf(u wire.Usage) openai.Usage {
	var r openai.Usage
	if u.CacheReadTokens != nil {
		r.InputTokensDetails.CachedTokens = *u.CacheReadTokens
	}
	if u.CacheCreationTokens != nil {
		r.InputTokensDetails.CacheWriteTokens = *u.CacheCreationTokens
	}
	if u.OutputDetails != nil {
		r.OutputTokensDetails.ReasoningTokens = u.OutputDetails.ThinkingTokens
	}
	r.InputTokens = u.InputTokens + r.InputTokensDetails.CachedTokens + r.InputTokensDetails.CacheWriteTokens
	r.OutputTokens = u.OutputTokens
	r.TotalTokens = r.InputTokens + r.OutputTokens
	return r
}

// Whole reads an answer that came in one piece: a message, or an error under status 200.
func (d *decoder) Whole(raw []byte) error {
	var m wire.Response
	if err := json.Unmarshal(raw, &m); err != nil {
		return d.server.Unreadable("an answer", err)
	}
	if m.Type == "error" || m.Type != "message" && m.Content == nil {
		e := upstream.ReadError(raw)
		if e.Message == "" {
			e.Message = "the answer is JSON and no message"
		}
		return d.server.Told(e)
	}
	d.frames++
	d.usage, d.counted, d.done, d.details = m.Usage, true, true, m.StopDetails
	for i, b := range m.Content {
		if err := d.start(i, b); err != nil {
			return err
		}
		p := d.open[i]
		delete(d.open, i)
		if err := d.end(p); err != nil {
			return err
		}
	}
	if m.StopReason != nil {
		d.stop = *m.StopReason
	}
	return nil
}
