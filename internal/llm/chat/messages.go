package chat

import (
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// conversation builds the messages of a request.
type conversation struct {
	dialect  Dialect
	messages []openai.ChatMessage
	turn     int // index of the assistant message that further calls join, or -1
	outputs  dialect.Outputs
}

// messages translates the conversation. The calls of one model turn go into one assistant message and their answers
// follow it at once, in the order of the calls: that is the only order that every server takes.
func (d Dialect) messages(instructions string, items []openai.Item) ([]openai.ChatMessage, error) {
	c := &conversation{dialect: d, turn: -1, messages: make([]openai.ChatMessage, 0, len(items)+1)}
	if instructions != "" {
		c.add(openai.ChatMessage{Role: "system", Content: openai.ChatText(instructions)})
	}
	var err error
	if c.outputs, err = dialect.Pair(items); err != nil {
		return nil, err
	}
	for i, item := range items {
		if err := c.item(item, fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
	}
	if err := c.answer(); err != nil {
		return nil, err
	}
	if !d.KeepRoles {
		c.mergeSystem()
	}
	return c.messages, nil
}

// outputText reads an answer. A tool message holds text only, so other parts are refused.
func outputText(o dialect.Output) (string, error) {
	var out struct {
		Output openai.Content `json:"output"`
	}
	if err := o.Item.Decode(&out); err != nil {
		return "", dialect.Malformed(o.At, o.Item.Type, err)
	}
	var b strings.Builder
	for _, p := range out.Output {
		switch p.Type {
		case "input_text", "output_text", "text":
			b.WriteString(p.Text)
		default:
			return "", dialect.Invalid(o.At+".output", "a function's output of type %q cannot be sent to a Chat Completions server", p.Type)
		}
	}
	return b.String(), nil
}

func (c *conversation) add(m openai.ChatMessage) { c.messages = append(c.messages, m) }

// answer ends the model's turn: each of its calls gets its tool message.
func (c *conversation) answer() error {
	if c.turn < 0 {
		return nil
	}
	calls := c.messages[c.turn].ToolCalls
	c.turn = -1
	for _, call := range calls {
		text := dialect.NoOutput
		if o, ok := c.outputs[call.ID]; ok {
			var err error
			if text, err = outputText(o); err != nil {
				return err
			}
		}
		c.add(openai.ChatMessage{Role: "tool", ToolCallID: call.ID, Content: openai.ChatText(text)})
	}
	return nil
}

// item adds one item of the conversation.
func (c *conversation) item(item openai.Item, param string) error {
	switch item.Type {
	case openai.TypeMessage:
		return c.message(item, param)
	case openai.TypeFunctionCall:
		return c.call(item, param)
	case openai.TypeFunctionCallOutput:
		return c.answer()
	case openai.TypeReasoning:
		return nil // opaque to us, and no field of this API takes it back
	default:
		return dialect.RefuseItem(item, param, c.dialect.Provider)
	}
}

// message adds a message. An assistant's text joins the turn that is open, unless that has calls already.
func (c *conversation) message(item openai.Item, param string) error {
	var m openai.Message
	if err := item.Decode(&m); err != nil {
		return dialect.Malformed(param, item.Type, err)
	}
	switch m.Role {
	case "assistant":
		return c.assistant(m, param)
	case "developer", "system":
		if m.Role == "developer" && !c.dialect.KeepRoles {
			m.Role = "system"
		}
	case "user":
	default:
		return dialect.Invalid(param+".role", "a message of role %q is not known", m.Role)
	}
	content, err := c.content(m.Content, param+".content")
	if err != nil {
		return err
	}
	if err := c.answer(); err != nil {
		return err
	}
	c.add(openai.ChatMessage{Role: m.Role, Content: content})
	return nil
}

// assistant adds what the model said. A refusal is words too.
func (c *conversation) assistant(m openai.Message, param string) error {
	for i, p := range m.Content {
		switch p.Type {
		case "output_text", "input_text", "text", "refusal":
		default:
			return dialect.Invalid(fmt.Sprintf("%s.content[%d].type", param, i), "an assistant's content part of type %q is not known", p.Type)
		}
	}
	text := m.Content.Text()
	if c.turn >= 0 && len(c.messages[c.turn].ToolCalls) == 0 {
		joined := joinTexts(c.messages[c.turn].Content.String(), text)
		c.messages[c.turn].Content = openai.ChatText(joined)
		return nil
	}
	if err := c.answer(); err != nil {
		return err
	}
	c.add(openai.ChatMessage{Role: "assistant", Content: openai.ChatText(text)})
	c.turn = len(c.messages) - 1
	return nil
}

// call adds a function call to the open turn.
func (c *conversation) call(item openai.Item, param string) error {
	f, err := dialect.ReadCall(item, param)
	if err != nil {
		return err
	}
	arguments := f.Arguments
	switch {
	case f.Wrong != "": // the model still sees what it wrote
		wrapped, _ := openai.Marshal(map[string]string{"invalid_json": arguments}) // a map of strings always marshals
		arguments = string(wrapped)
	case strings.TrimSpace(arguments) == "":
		arguments = "{}"
	}
	if c.turn < 0 {
		c.add(openai.ChatMessage{Role: "assistant"})
		c.turn = len(c.messages) - 1
	}
	m := &c.messages[c.turn]
	if m.Content.Text != nil && *m.Content.Text == "" {
		m.Content.Text = nil
	}
	m.ToolCalls = append(m.ToolCalls, openai.ChatToolCall{ID: f.CallID, Type: "function",
		Function: openai.ChatFunctionCall{Name: f.Name, Arguments: openai.ChatArguments(arguments)}})
	return nil
}

// content translates a message's parts: plain text as one string, which every server takes, else as parts.
func (c *conversation) content(content openai.Content, param string) (openai.ChatContent, error) {
	parts := make([]openai.ChatPart, 0, len(content))
	var texts []string
	for i, p := range content {
		at := fmt.Sprintf("%s[%d]", param, i)
		switch p.Type {
		case "input_text", "output_text", "text":
			texts = append(texts, p.Text)
			parts = append(parts, openai.ChatPart{Type: "text", Text: p.Text})
		case "input_image":
			if p.ImageURL == "" {
				return openai.ChatContent{}, dialect.Unserved(at, c.dialect.Provider, "an image without image_url")
			}
			detail := p.Detail
			if detail == "original" {
				detail = "high" // the best that this API knows
			}
			parts = append(parts, openai.ChatPart{Type: "image_url", ImageURL: &openai.ChatImage{URL: p.ImageURL, Detail: detail}})
		case "input_file":
			if p.FileData == "" {
				return openai.ChatContent{}, dialect.Unserved(at, c.dialect.Provider, "a file without file_data")
			}
			parts = append(parts, openai.ChatPart{Type: "file", File: &openai.ChatFile{Filename: p.Filename, FileData: p.FileData}})
		default:
			return openai.ChatContent{}, dialect.Unserved(at+".type", c.dialect.Provider, "a content part of type %q", p.Type)
		}
	}
	if len(texts) == len(parts) {
		return openai.ChatText(strings.Join(texts, "\n")), nil
	}
	return openai.ChatContent{Parts: parts}, nil
}

// mergeSystem makes one message of the system messages at the start: many chat templates take one only.
func (c *conversation) mergeSystem() {
	n := 0
	var text string
	for n < len(c.messages) && c.messages[n].Role == "system" && c.messages[n].Content.Parts == nil {
		text = joinTexts(text, c.messages[n].Content.String())
		n++
	}
	if n > 1 {
		c.messages = c.messages[n-1:]
		c.messages[0].Content = openai.ChatText(text)
	}
}
