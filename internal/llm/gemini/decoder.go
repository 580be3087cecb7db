package gemini

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/sse"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// decoder turns the pieces of an answer into the events of one turn. Parts come whole; text and thoughts are told in
// several of them.
type decoder struct {
	turn   *llm.Turn
	seal   llm.Seal
	names  *dialect.Names
	server *upstream.Server

	thought strings.Builder // shown, and not yet signed
	usage   *wire.Usage
	stop    string
	blocked bool
	frames  int
	said    bool // something of it has reached the turn

	scratch []byte
	counts  wire.Usage // where usage points, of a plain piece
}

// Begin implements [upstream.Answer].
func (d *decoder) Begin() {
	d.turn.Drop()
	d.thought.Reset()
	d.usage, d.stop, d.blocked, d.frames, d.said = nil, "", false, 0, false
}

// Said implements [upstream.Answer].
func (d *decoder) Said() bool { return d.said }

// Late says that the model has ended; a count, or a signature alone, may still come.
func (d *decoder) Late() bool { return d.stop != "" || d.blocked }

// Over implements [upstream.Answer].
func (d *decoder) Over() bool { return d.turn.Gone() }

// Gone implements [upstream.Answer].
func (d *decoder) Gone() bool { return d.turn.Gone() }

// Frame implements [upstream.Answer].
func (d *decoder) Frame(f sse.Event, more bool) error {
	if string(f.Data) == "[DONE]" { // what gateways put behind streams of any dialect
		return nil
	}
	if err := d.piece(f.Data, "an event"); err != nil {
		return err
	}
	d.turn.Flush(more)
	return nil
}

// Whole implements [upstream.Answer].
func (d *decoder) Whole(raw []byte) error { return d.piece(raw, "an answer") }

func (d *decoder) piece(raw []byte, what string) error {
	if p, ok := fastPiece(raw, &d.scratch); ok {
		d.plain(p)
		return nil
	}
	var a wire.Answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return d.server.Unreadable(what, err)
	}
	if dialect.Present(a.Error) {
		return d.server.Told(upstream.ReadError(raw))
	}
	d.frames++
	if a.Usage != nil {
		d.usage = a.Usage
	}
	if len(a.Candidates) == 0 {
		d.blocked = d.blocked || a.Feedback != nil && a.Feedback.BlockReason != ""
		return nil
	}
	c := a.Candidates[0]
	for _, p := range c.Content.Parts {
		if err := d.part(p); err != nil {
			return err
		}
	}
	d.ends(c.FinishReason)
	return nil
}

// plain takes a piece that is text.
func (d *decoder) plain(p plainPiece) {
	d.frames++
	if p.counted {
		d.counts = p.usage
		d.usage = &d.counts
	}
	d.said = d.said || len(p.text) > 0
	d.turn.Hold(p.text)
	d.ends(p.finish)
}

func (d *decoder) ends(reason string) {
	if reason != "" && reason != wire.FinishUnspecified {
		d.stop = reason
	}
}

// part takes one. What the upstream runs by itself, and pictures that a model makes, have no place here.
func (d *decoder) part(p wire.Part) error {
	switch {
	case p.FunctionCall != nil:
		return d.call(*p.FunctionCall, p.Signature)
	case p.Text == nil && p.Signature == "", p.InlineData != nil, p.FileData != nil, p.FunctionResponse != nil:
		return nil
	}
	text := ""
	if p.Text != nil {
		text = *p.Text
	}
	d.said = d.said || text != "" || p.Signature != ""
	if p.Thought {
		d.thought.WriteString(text)
		d.turn.Reasoning([]byte(text))
		if p.Signature != "" {
			keep(d.turn, d.seal, mark{On: onThought, Text: d.thought.String(), Signature: p.Signature})
			d.thought.Reset()
		}
		return nil
	}
	d.turn.Hold([]byte(text))
	if p.Signature != "" {
		keep(d.turn, d.seal, mark{On: onText, Length: len(text), Signature: p.Signature})
	}
	return nil
}

// call takes a call, which is always whole.
func (d *decoder) call(c wire.FunctionCall, signature string) error {
	if c.Name == "" {
		return d.server.Broken("sent a call of a function without a name")
	}
	var args bytes.Buffer
	if dialect.Present(c.Args) {
		if c.Args[0] != '{' {
			return d.server.Broken("sent a call whose arguments are no object")
		}
		if err := json.Compact(&args, c.Args); err != nil {
			return d.server.Unreadable("arguments", err)
		}
	}
	d.said = true
	name := d.names.Original(c.Name)
	if signature != "" {
		keep(d.turn, d.seal, mark{On: onCall, Name: name, Signature: signature})
	}
	call := d.turn.Call(name)
	if args.String() != "{}" {
		call.Write(args.String())
	}
	return nil
}

// End closes the answer when its stream has ended.
func (d *decoder) End() error {
	d.turn.Flush(false)
	var usage *openai.Usage
	if d.usage != nil {
		u := usageOf(*d.usage)
		usage = &u
	}
	switch d.stop {
	case "":
		switch {
		case d.blocked:
			d.turn.Stop(openai.ReasonContentFilter, usage)
		case d.frames == 0:
			return d.server.Broken("answered with an empty stream")
		default:
			return d.server.CutShort()
		}
	case wire.FinishMalformedCall, wire.FinishUnexpectedCall, wire.FinishTooManyCalls, wire.FinishOther:
		return d.server.Broken("ended its answer as %s", d.stop)
	case wire.FinishMaxTokens, wire.FinishContinuation:
		d.turn.Stop(openai.ReasonMaxOutputTokens, usage)
	case wire.FinishSafety, wire.FinishRecitation, wire.FinishBlocklist, wire.FinishProhibited, wire.FinishSPII, wire.FinishLanguage,
		wire.FinishImageSafety, wire.FinishImageProhibited, wire.FinishImageRecitation:
		d.turn.Stop(openai.ReasonContentFilter, usage)
	default: // STOP, and whatever is new
		d.turn.Complete(usage)
	}
	return nil
}

// usageOf is a count in the words of the Responses API, whose output counts thoughts too.
func usageOf(u wire.Usage) openai.Usage {
	var r openai.Usage
	r.InputTokens, r.OutputTokens = u.Prompt+u.ToolUse, u.Candidates+u.Thoughts
	r.InputTokensDetails.CachedTokens, r.OutputTokensDetails.ReasoningTokens = u.Cached, u.Thoughts
	r.TotalTokens = r.InputTokens + r.OutputTokens
	return r
}
