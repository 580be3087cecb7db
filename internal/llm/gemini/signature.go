package gemini

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/llm"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A signature is the model's own thinking, sealed by the vendor. It came on a part and means something on that part
// alone. No item of the Responses API has a place for it but reasoning, so that it travels in one that stands beside
// what it belongs to: before a call, behind a text.

// mark says on which part a signature came.
type mark struct {
	On        string `json:"on"`             // call, text or thought
	Name      string `json:"name,omitempty"` // of the function, by our name, for the call that follows
	Length    int    `json:"length"`         // of the text: the last bytes of the text before
	Text      string `json:"text,omitempty"` // of the thought
	Signature string `json:"signature"`
}

const (
	onCall    = "call"
	onText    = "text"
	onThought = "thought"
)

// unsigned is what the vendor documents to be sent on a call that another model made, or that lost its signature:
// models from Gemini 3 on refuse a first call without.
const unsigned = "skip_thought_signature_validator"

// keep keeps a mark in the turn.
func keep(t *llm.Turn, s llm.Seal, m mark) {
	if raw, err := openai.Marshal(m); err == nil {
		t.Keep(s, raw)
	}
}

// readMark reads a mark. A client may have made it: nothing but a signature and a thought gets into the conversation
// this way.
func readMark(raw json.RawMessage) (mark, bool) {
	var m mark
	if json.Unmarshal(raw, &m) != nil || m.Signature == "" || m.Length < 0 {
		return m, false
	}
	return m, m.On == onCall || m.On == onText || m.On == onThought
}

// block is a part on its way, or a mark that is to be put on one.
type block struct {
	wire.Part
	mark *mark
	name string // of a call: our name
}

// settle puts the marks of a turn of the model's on their parts. strict is for models that refuse a turn whose first
// call has no signature.
func settle(blocks []block, strict bool) []wire.Part {
	var out []wire.Part
	var next *mark // for the call that follows
	calls := 0
	for _, b := range blocks {
		if b.mark == nil {
			p := b.Part
			if p.FunctionCall != nil {
				if next != nil && next.Name == b.name {
					p.Signature = next.Signature
				} else if calls == 0 && strict {
					p.Signature = unsigned
				}
				calls++
			}
			out, next = append(out, p), nil
			continue
		}
		next = nil
		switch b.mark.On {
		case onCall:
			next = b.mark
		case onText:
			out = signText(out, *b.mark)
		case onThought:
			p := wire.Text(b.mark.Text)
			p.Thought, p.Signature = true, b.mark.Signature
			out = append(out, p)
		}
	}
	return out
}

// signText puts a signature on the text that it came on: the end of the one before, as pieces of text have been put
// together. A signature that came without text gets an empty one, as it came. It is left out where that text is gone.
func signText(parts []wire.Part, m mark) []wire.Part {
	if m.Length == 0 {
		p := wire.Text("")
		p.Signature = m.Signature
		return append(parts, p)
	}
	if len(parts) == 0 {
		return parts
	}
	last := &parts[len(parts)-1]
	if last.Text == nil || last.Thought || last.Signature != "" || len(*last.Text) < m.Length {
		return parts
	}
	text := *last.Text
	cut := len(text) - m.Length
	if cut == 0 {
		last.Signature = m.Signature
		return parts
	}
	if !utf8.RuneStart(text[cut]) {
		return parts
	}
	before, signed := text[:cut], wire.Text(text[cut:])
	last.Text, signed.Signature = &before, m.Signature
	return append(parts, signed)
}
