package chat

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// noOutput answers a call that the conversation leaves open: servers refuse a call without an answer.
const noOutput = "No output was recorded for this call."

// conversation builds the messages of a request.
type conversation struct {
	dialect  Dialect
	messages []openai.ChatMessage
	turn     int               // index of the assistant message that further calls join, or -1
	outputs  map[string]string // answers by call id, wherever they stand
	calls    map[string]bool
}

// messages translates the conversation. The calls of one model turn go into one assistant message and their answers
// follow it at once, in the order of the calls: that is the only order that every server takes.
func (d Dialect) messages(instructions string, items []openai.Item) ([]openai.ChatMessage, error) {
	c := &conversation{dialect: d, turn: -1, outputs: make(map[string]string), calls: make(map[string]bool),
		messages: make([]openai.ChatMessage, 0, len(items)+1)}
	if instructions != "" {
		c.add(openai.ChatMessage{Role: "system", Content: openai.ChatText(instructions)})
	}
	if err := c.collect(items); err != nil {
		return nil, err
	}
	for i, item := range items {
		if err := c.item(item, fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
	}
	c.answer()
	if !d.KeepRoles {
		c.mergeSystem()
	}
	return c.messages, nil
}

// collect reads all answers, and refuses one that answers nothing.
func (c *conversation) collect(items []openai.Item) error {
	for i, item := range items {
		switch item.Type {
		case openai.TypeFunctionCall:
			if c.calls[item.CallID] {
				return invalid(fmt.Sprintf("input[%d].call_id", i), "two function calls have the call_id %q", item.CallID)
			}
			c.calls[item.CallID] = true
		case openai.TypeFunctionCallOutput:
			text, err := outputText(item, fmt.Sprintf("input[%d]", i))
			if err != nil {
				return err
			}
			if _, twice := c.outputs[item.CallID]; twice {
				return invalid(fmt.Sprintf("input[%d].call_id", i), "two outputs answer the function call %q", item.CallID)
			}
			c.outputs[item.CallID] = text
		}
	}
	for i, item := range items {
		if item.Type == openai.TypeFunctionCallOutput && !c.calls[item.CallID] {
			return invalid(fmt.Sprintf("input[%d].call_id", i), "no function call has the call_id %q", item.CallID)
		}
	}
	return nil
}

// outputText reads an answer. A tool message holds text only, so other parts are refused.
func outputText(item openai.Item, param string) (string, error) {
	var out struct {
		Output openai.Content `json:"output"`
	}
	if err := item.Decode(&out); err != nil {
		return "", malformed(param, item.Type, err)
	}
	var b strings.Builder
	for _, p := range out.Output {
		switch p.Type {
		case "input_text", "output_text", "text":
			b.WriteString(p.Text)
		default:
			return "", invalid(param+".output", "a function's output of type %q cannot be sent to a Chat Completions server", p.Type)
		}
	}
	return b.String(), nil
}

func (c *conversation) add(m openai.ChatMessage) { c.messages = append(c.messages, m) }

// answer ends the model's turn: each of its calls gets its tool message.
func (c *conversation) answer() {
	if c.turn < 0 {
		return
	}
	calls := c.messages[c.turn].ToolCalls
	c.turn = -1
	for _, call := range calls {
		text, ok := c.outputs[call.ID]
		if !ok {
			text = noOutput
		}
		c.add(openai.ChatMessage{Role: "tool", ToolCallID: call.ID, Content: openai.ChatText(text)})
	}
}

// item adds one item of the conversation.
func (c *conversation) item(item openai.Item, param string) error {
	switch item.Type {
	case openai.TypeMessage:
		return c.message(item, param)
	case openai.TypeFunctionCall:
		return c.call(item, param)
	case openai.TypeFunctionCallOutput:
		c.answer()
		return nil
	case openai.TypeReasoning:
		return nil // opaque to us, and no field of this API takes it back
	case openai.TypeShellCall, openai.TypeShellCallOutput:
		return fault.New(fault.Internal, "%s is a %s: it reached provider %q without having been rewritten to a function item",
			param, item.Type, c.dialect.Provider)
	default:
		return invalid(param+".type", "an input item of type %q cannot be served by provider %q", item.Type, c.dialect.Provider)
	}
}

// message adds a message. An assistant's text joins the turn that is open, unless that has calls already.
func (c *conversation) message(item openai.Item, param string) error {
	var m openai.Message
	if err := item.Decode(&m); err != nil {
		return malformed(param, item.Type, err)
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
		return invalid(param+".role", "a message of role %q is not known", m.Role)
	}
	content, err := c.content(m.Content, param+".content")
	if err != nil {
		return err
	}
	c.answer()
	c.add(openai.ChatMessage{Role: m.Role, Content: content})
	return nil
}

// assistant adds what the model said. A refusal is words too.
func (c *conversation) assistant(m openai.Message, param string) error {
	for i, p := range m.Content {
		switch p.Type {
		case "output_text", "input_text", "text", "refusal":
		default:
			return invalid(fmt.Sprintf("%s.content[%d].type", param, i), "an assistant's content part of type %q is not known", p.Type)
		}
	}
	text := m.Content.Text()
	if c.turn >= 0 && len(c.messages[c.turn].ToolCalls) == 0 {
		joined := joinTexts(c.messages[c.turn].Content.String(), text)
		c.messages[c.turn].Content = openai.ChatText(joined)
		return nil
	}
	c.answer()
	c.add(openai.ChatMessage{Role: "assistant", Content: openai.ChatText(text)})
	c.turn = len(c.messages) - 1
	return nil
}

// call adds a function call to the open turn.
func (c *conversation) call(item openai.Item, param string) error {
	var f openai.FunctionCall
	if err := item.Decode(&f); err != nil {
		return malformed(param, item.Type, err)
	}
	if f.CallID == "" || f.Name == "" {
		return invalid(param, "a function_call needs a call_id and a name")
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
		Function: openai.ChatFunctionCall{Name: f.Name, Arguments: openai.ChatArguments(object(f.Arguments))}})
	return nil
}

// object makes arguments that a model got wrong harmless: many servers parse the history and refuse the whole
// conversation for ever when one call's arguments are not an object. The model still sees what it wrote.
func object(arguments string) string {
	trimmed := strings.TrimSpace(arguments)
	if trimmed == "" {
		return "{}"
	}
	if trimmed[0] == '{' && json.Valid([]byte(trimmed)) {
		return arguments
	}
	wrapped, _ := openai.Marshal(map[string]string{"invalid_json": arguments}) // a map of strings always marshals
	return string(wrapped)
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
				return openai.ChatContent{}, invalid(at, "an image without image_url cannot be served by provider %q", c.dialect.Provider)
			}
			detail := p.Detail
			if detail == "original" {
				detail = "high" // the best that this API knows
			}
			parts = append(parts, openai.ChatPart{Type: "image_url", ImageURL: &openai.ChatImage{URL: p.ImageURL, Detail: detail}})
		case "input_file":
			if p.FileData == "" {
				return openai.ChatContent{}, invalid(at, "a file without file_data cannot be served by provider %q", c.dialect.Provider)
			}
			parts = append(parts, openai.ChatPart{Type: "file", File: &openai.ChatFile{Filename: p.Filename, FileData: p.FileData}})
		default:
			return openai.ChatContent{}, invalid(at+".type", "a content part of type %q cannot be served by provider %q", p.Type, c.dialect.Provider)
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
