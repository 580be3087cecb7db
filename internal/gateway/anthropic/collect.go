package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

// collector puts a stream together to a message.
type collector struct {
	w       http.ResponseWriter
	message wire.Response

	block     wire.Block // that is open
	text      strings.Builder
	signature string
}

func (c *collector) event(ev wire.Event) {
	switch ev.Type {
	case wire.EventBlockStart:
		c.block, c.signature = *ev.ContentBlock, ""
		c.text.Reset()
	case wire.EventBlockDelta:
		c.text.WriteString(ev.Delta.Text + ev.Delta.Thinking + ev.Delta.PartialJSON)
		c.signature += ev.Delta.Signature
	case wire.EventBlockStop:
		c.message.Content = append(c.message.Content, c.built())
	}
}

// built is the open block with what the deltas made of it.
func (c *collector) built() wire.Block {
	switch c.block.Type {
	case wire.TypeText:
		return wire.NewBlock(struct {
			wire.Text
			Citations json.RawMessage `json:"citations"`
		}{wire.Text{Type: wire.TypeText, Text: c.text.String()}, json.RawMessage("null")})
	case wire.TypeThinking:
		return wire.NewBlock(wire.Thinking{Type: wire.TypeThinking, Thinking: c.text.String(), Signature: c.signature})
	case wire.TypeToolUse, wire.TypeServerToolUse:
		var u wire.ToolUse
		if c.block.Decode(&u) != nil {
			return c.block
		}
		if input := json.RawMessage(c.text.String()); isObject(input) && json.Valid(input) { // else the model wrote no object: none can stand here
			u.Input = input
		}
		return wire.NewBlock(u)
	}
	return c.block
}

func (c *collector) flush() error { return nil }

func (c *collector) finish(end wire.Event) error {
	m := &c.message
	m.StopReason, m.StopSequence, m.Container = end.Delta.StopReason, end.Delta.StopSequence, end.Delta.Container
	end.Usage.Apply(&m.Usage)
	if u := end.Usage; u != nil && u.InputTokens != nil {
		m.Usage.InputTokens = *u.InputTokens
	}
	return writeJSON(c.w, http.StatusOK, m)
}

func (c *collector) fail(error) bool { return false }

func (c *collector) close() {}
