package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// assistant reads a turn of the model's. A call of the server's own tool becomes a call with its answer behind it, which
// every upstream takes; nothing of it runs again.
func (c *conversation) assistant(at string, content wire.Content) error {
	results := map[string]wire.Block{}
	for _, b := range content {
		if b.ToolUseID != "" && strings.HasSuffix(b.Type, wire.ResultSuffix) {
			results[b.ToolUseID] = b
		}
	}
	var said []part
	flush := func() {
		c.say("assistant", said)
		said = nil
	}
	for i, b := range content {
		at := fmt.Sprintf("%s.%d", at, i)
		if b.Type != wire.TypeText {
			flush()
		}
		switch {
		case b.Type == wire.TypeText:
			p, err := wordsOf(b, at)
			if err != nil {
				return err
			}
			said = append(said, textPart(outputText, *p.Text, p.CacheControl))
		case b.Type == wire.TypeThinking:
			var t wire.Thinking
			if err := b.Decode(&t); err != nil {
				return malformed(at, b)
			}
			c.thought(t.Thinking, t.Signature)
		case b.Type == wire.TypeRedactedThinking:
			var t wire.RedactedThinking
			if err := b.Decode(&t); err != nil {
				return malformed(at, b)
			}
			c.thought("", t.Data)
		case b.Type == wire.TypeToolUse:
			if err := c.call(b, at, b.Name); err != nil {
				return err
			}
		case b.Type == wire.TypeServerToolUse:
			name := b.Name
			if name == bashExecution {
				name = bashName
			}
			if err := c.call(b, at, name); err != nil {
				return err
			}
			c.answer(b.ID, outcome(b, results), nil)
		case results[b.ToolUseID].Type != "": // stands with its call
		default:
			return invalid(at+".type", "a block of type %q can't be served in an assistant's turn", clip(b.Type))
		}
	}
	flush()
	return nil
}

const (
	bashExecution = "bash_code_execution" // the name under which clients see the server's bash
	bashName      = "bash"                // and the model
)

// thought adds what the model thought. The signature means something to the provider that made it alone.
func (c *conversation) thought(text, signature string) {
	r := openai.Reasoning{Type: openai.TypeReasoning, Summary: []openai.Part{}, EncryptedContent: signature}
	if text != "" {
		r.Content = []openai.Part{{Type: "reasoning_text", Text: text}}
	}
	c.add(r)
}

// call adds a call of the past.
func (c *conversation) call(b wire.Block, at, name string) error {
	var u wire.ToolUse
	if err := b.Decode(&u); err != nil {
		return malformed(at, b)
	}
	if u.ID == "" || name == "" {
		return invalid(at, "a %s block needs an id and a name", b.Type)
	}
	input := string(u.Input)
	if !present(u.Input) {
		input = "{}"
	}
	c.add(struct {
		Type         string          `json:"type"`
		CallID       string          `json:"call_id"`
		Name         string          `json:"name"`
		Arguments    string          `json:"arguments"`
		Status       string          `json:"status"`
		CacheControl json.RawMessage `json:"cache_control,omitempty"`
	}{openai.TypeFunctionCall, u.ID, name, input, openai.Completed, marked(u.CacheControl)})
	return nil
}

// ran is one command's result as the model reads it.
type ran struct {
	Command  string `json:"command"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exitCode"`
}

// outcome is the answer to a call of the server's own tool, as the client gives it back.
func outcome(call wire.Block, results map[string]wire.Block) string {
	b, ok := results[call.ID]
	if !ok {
		return "This call was broken off; whether it was run is unknown."
	}
	var r struct {
		Content json.RawMessage `json:"content"`
	}
	if b.Decode(&r) != nil {
		return "The result of this call can't be read."
	}
	var out wire.BashOutput
	var in struct {
		Input struct {
			Command string `json:"command"`
		} `json:"input"`
	}
	if b.Type != wire.TypeBashResult || json.Unmarshal(r.Content, &out) != nil || out.Type != "bash_code_execution_result" || call.Decode(&in) != nil {
		return string(r.Content)
	}
	return string(marshal(ran{in.Input.Command, out.Stdout, out.Stderr, out.ReturnCode}))
}
