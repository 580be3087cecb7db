package chat

import (
	"bytes"
	"encoding/json"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/sse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// decoder turns the chunks of one answer into the events of one turn.
type decoder struct {
	turn    *llm.Turn
	server  *upstream.Server
	scratch []byte
	tools   []*pending
	usage   *openai.Usage
	finish  string // the finish_reason, once there was one
	done    bool   // [DONE] was seen
	chunks  int    // read so far
}

// pending is a function call being built. Its item is opened once the name is known.
type pending struct {
	index *int   // the server's, nil when it sends none
	id    string // the server's, to tell calls apart; never shown
	name  string
	early string // arguments that came before the name
	call  *llm.Call
}

var doneMark = []byte("[DONE]")

// Begin implements [upstream.Answer].
func (d *decoder) Begin() {
	d.turn.Drop()
	*d = decoder{turn: d.turn, server: d.server, scratch: d.scratch}
}

// Said implements [upstream.Answer].
func (d *decoder) Said() bool { return d.turn.Items() > 0 }

// Late says that the model has ended its turn; only usage may still come.
func (d *decoder) Late() bool { return d.finish != "" }

// Over implements [upstream.Answer].
func (d *decoder) Over() bool { return d.done || d.turn.Gone() }

// Gone implements [upstream.Answer].
func (d *decoder) Gone() bool { return d.turn.Gone() }

// Frame implements [upstream.Answer].
func (d *decoder) Frame(f sse.Event, more bool) error {
	err := d.data(f.Name, f.Data)
	if err == nil {
		d.turn.Flush(more)
	}
	return err
}

// Whole takes a completion in one piece, or an error under status 200.
func (d *decoder) Whole(raw []byte) error {
	if err := d.data("", raw); err != nil {
		return err
	}
	d.turn.Flush(false)
	if d.finish == "" && d.turn.Items() == 0 {
		e := upstream.ReadError(raw)
		if e.Message == "" {
			e.Message = "the answer is JSON and no completion"
		}
		return d.server.Told(e)
	}
	d.done = true
	return nil
}

// data takes the data of one frame.
func (d *decoder) data(name string, data []byte) error {
	if c, ok := fastChunk(data, &d.scratch); ok && name != "error" {
		d.chunks++
		d.turn.Hold(c.content)
		if c.counted {
			d.usage = c.usage.Responses()
		}
		if c.finish != "" {
			d.finish = c.finish
		}
		return nil
	}
	d.turn.Flush(false)
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil
	}
	if bytes.Equal(data, doneMark) {
		d.done = true
		return nil
	}
	d.chunks++
	var chunk openai.ChatChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		if name == "error" {
			return d.failure(data)
		}
		return d.server.Unreadable("a chunk", err)
	}
	switch {
	case dialect.Present(chunk.Error):
		return d.failure(chunk.Error)
	case name == "error":
		return d.failure(data)
	}
	return d.chunk(&chunk)
}

// failure is the error of an error object in the stream.
func (d *decoder) failure(raw json.RawMessage) error {
	return d.server.Told(upstream.ReadError(raw))
}

// chunk adds what one chunk says. Usage may come in any chunk, often in a last one without choices; the last counts.
func (d *decoder) chunk(chunk *openai.ChatChunk) error {
	if chunk.Usage != nil {
		d.usage = chunk.Usage.Responses()
	}
	for i := range chunk.Choices {
		choice := &chunk.Choices[i]
		if choice.Index != 0 {
			continue // we asked for one
		}
		if dialect.Present(choice.Error) {
			return d.failure(choice.Error)
		}
		delta := &choice.Delta
		if choice.Message != nil {
			delta = choice.Message
		}
		d.delta(delta)
		if choice.FinishReason != "" {
			d.finish = choice.FinishReason
		}
	}
	return nil
}

// delta adds text, thinking and pieces of calls.
func (d *decoder) delta(delta *openai.ChatDelta) {
	thinking := delta.ReasoningContent
	if thinking == "" {
		thinking = delta.Reasoning // servers that send both send the same
	}
	d.turn.Reasoning([]byte(thinking))
	d.turn.Text([]byte(delta.Content.String()))
	d.turn.Refusal([]byte(delta.Refusal))
	for i := range delta.ToolCalls {
		d.call(&delta.ToolCalls[i], i)
	}
}

// call adds a piece of a function call.
func (d *decoder) call(piece *openai.ChatToolCall, position int) {
	p := d.match(piece, position)
	if p == nil {
		p = &pending{index: piece.Index, id: piece.ID}
		d.tools = append(d.tools, p)
	}
	if p.id == "" {
		p.id = piece.ID
	}
	arguments := string(piece.Function.Arguments)
	if p.call == nil {
		if p.name == "" {
			p.name = piece.Function.Name
		}
		if p.name == "" {
			p.early += arguments
			return
		}
		p.call = d.turn.Call(p.name)
		arguments = p.early + arguments
	}
	p.call.Write(arguments)
}

// match finds the call that a piece belongs to, nil for a new one. The index decides where there is one; but some
// servers give every call of an answer index 0 with an id of its own, some a new id to every piece, and some no
// index at all.
func (d *decoder) match(piece *openai.ChatToolCall, position int) *pending {
	if len(d.tools) == 0 {
		return nil
	}
	if piece.Index != nil {
		for i := len(d.tools) - 1; i >= 0; i-- {
			p := d.tools[i]
			if p.index == nil || *p.index != *piece.Index {
				continue
			}
			if p.id != "" && piece.ID != "" && p.id != piece.ID && d.begins(p, piece) {
				return nil
			}
			return p
		}
		return nil
	}
	last := d.tools[len(d.tools)-1]
	if piece.ID != "" {
		for _, p := range d.tools {
			if p.id == piece.ID && !d.begins(p, piece) {
				return p
			}
		}
	}
	if piece.Function.Name != "" && (position > 0 || d.begins(last, piece)) {
		return nil
	}
	return last
}

// begins says whether a piece that names a function starts a call of its own, and does not go on with p.
func (d *decoder) begins(p *pending, piece *openai.ChatToolCall) bool {
	if piece.Function.Name == "" {
		return false
	}
	if p.call == nil || p.name != piece.Function.Name {
		return p.name != ""
	}
	return json.Valid([]byte(p.call.Arguments()))
}

// End ends the turn when the stream has ended, by [DONE] or without it.
func (d *decoder) End() error {
	for _, p := range d.tools {
		if p.call == nil {
			return d.server.Broken("sent a function call without a name")
		}
	}
	if d.chunks == 0 {
		return d.server.Broken("answered with an empty stream")
	}
	if !d.done && d.finish == "" {
		return d.server.CutShort()
	}
	switch d.finish {
	case "length", "max_tokens", "model_length":
		d.turn.Stop(openai.ReasonMaxOutputTokens, d.usage)
	case "content_filter":
		d.turn.Stop(openai.ReasonContentFilter, d.usage)
	case "error":
		return d.server.Broken("stopped with an error and did not say which")
	default: // stop, tool_calls, and whatever else servers call it
		d.turn.Complete(d.usage)
	}
	return nil
}
