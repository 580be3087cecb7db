package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// noOutput answers a call that the conversation leaves open: the API refuses a call without an answer.
	noOutput = "No output was recorded for this call."
	// opening stands before a conversation that begins with the model's words, and goOn behind one that ends with
	// them: the API wants a user first, and takes last words of the model's as the beginning of the answer.
	opening = "(The beginning of this conversation is not shown.)"
	goOn    = "Continue."
	// maxQuote bounds how much of malformed arguments is shown to the model again, in bytes.
	maxQuote = 2000
)

// conversation builds the messages of a request.
type conversation struct {
	dialect  Dialect
	names    names
	system   wire.Content
	messages []wire.Message
	called   []string          // the functions that were called, as they are sent
	open     []string          // call ids of the model's open turn, in order
	calls    map[string]string // by call id: what was wrong with the arguments, "" if nothing
	outputs  map[string]wire.ToolResult
}

// conversation translates instructions and items. The calls of one model turn stand in one assistant message; their
// results stand in the user message behind it, all of them and before anything else.
func (d Dialect) conversation(r llm.Request, n names) (*conversation, error) {
	c := &conversation{dialect: d, names: n, calls: map[string]string{}, outputs: map[string]wire.ToolResult{}}
	if strings.TrimSpace(r.Instructions) != "" {
		c.system = append(c.system, textBlock(r.Instructions, nil))
	}
	if err := c.collect(r.Items); err != nil {
		return nil, err
	}
	for i, item := range r.Items {
		if err := c.item(item, fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
	}
	c.answer()
	c.trim()
	switch n := len(c.messages); {
	case n == 0:
		return nil, invalid("input", "the input holds nothing that can be sent to provider %q", d.Provider)
	case c.messages[n-1].Role == "assistant":
		c.add("user", textBlock(goOn, nil))
	}
	if c.messages[0].Role != "user" {
		c.messages = slices.Insert(c.messages, 0, wire.Message{Role: "user", Content: wire.Content{textBlock(opening, nil)}})
	}
	return c, nil
}

// collect reads all answers, and refuses one that answers nothing.
func (c *conversation) collect(items []openai.Item) error {
	for i, item := range items {
		at := fmt.Sprintf("input[%d]", i)
		switch item.Type {
		case openai.TypeFunctionCall:
			if _, twice := c.calls[item.CallID]; twice {
				return invalid(at+".call_id", "two function calls have the call_id %q", item.CallID)
			}
			c.calls[item.CallID] = ""
		case openai.TypeFunctionCallOutput:
			if _, twice := c.outputs[item.CallID]; twice {
				return invalid(at+".call_id", "two outputs answer the function call %q", item.CallID)
			}
			out, err := c.output(item, at)
			if err != nil {
				return err
			}
			c.outputs[item.CallID] = out
		}
	}
	for i, item := range items {
		if _, ok := c.calls[item.CallID]; item.Type == openai.TypeFunctionCallOutput && !ok {
			return invalid(fmt.Sprintf("input[%d].call_id", i), "no function call has the call_id %q", item.CallID)
		}
	}
	return nil
}

// output reads an answer.
func (c *conversation) output(item openai.Item, at string) (wire.ToolResult, error) {
	var out struct {
		Output       parts           `json:"output"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if err := item.Decode(&out); err != nil {
		return wire.ToolResult{}, malformed(at, item.Type, err)
	}
	content, err := c.blocks(out.Output, nil, at+".output")
	return wire.ToolResult{Type: wire.TypeToolResult, ToolUseID: portable(item.CallID), Content: content,
		CacheControl: marked(out.CacheControl)}, err
}

// add adds blocks of a role; the roles alternate, so that blocks of the same role join.
func (c *conversation) add(role string, blocks ...wire.Block) {
	if len(blocks) == 0 {
		return
	}
	if role != "assistant" {
		c.trim()
	}
	if n := len(c.messages); n > 0 && c.messages[n-1].Role == role {
		c.messages[n-1].Content = append(c.messages[n-1].Content, blocks...)
		return
	}
	c.messages = append(c.messages, wire.Message{Role: role, Content: blocks})
}

// trim drops thinking that nothing follows in the last message, as of a turn that was cut: the API refuses it.
func (c *conversation) trim() {
	n := len(c.messages) - 1
	if n < 0 || c.messages[n].Role != "assistant" {
		return
	}
	m := &c.messages[n]
	for k := len(m.Content); k > 0 && thinks(m.Content[k-1]); k-- {
		m.Content = m.Content[:k-1]
	}
	if len(m.Content) == 0 {
		c.messages = c.messages[:n]
	}
}

// answer ends the model's turn: each of its calls gets its result.
func (c *conversation) answer() {
	open := c.open
	c.open = nil
	for _, id := range open {
		result, ok := c.outputs[id]
		if !ok {
			result = wire.ToolResult{Type: wire.TypeToolResult, ToolUseID: portable(id), IsError: true,
				Content: wire.Content{textBlock(noOutput, nil)}}
		}
		if bad := c.calls[id]; bad != "" {
			note := "The arguments of this call were no JSON object, so that it is shown with none. They were: " + bad
			result.IsError = true
			result.Content = append(wire.Content{textBlock(note, nil)}, result.Content...)
		}
		c.add("user", block(wire.TypeToolResult, result))
	}
}

// item adds one item of the conversation.
func (c *conversation) item(item openai.Item, at string) error {
	switch item.Type {
	case openai.TypeMessage:
		return c.message(item, at)
	case openai.TypeFunctionCall:
		return c.call(item, at)
	case openai.TypeFunctionCallOutput:
		c.answer()
		return nil
	case openai.TypeReasoning:
		var r struct {
			EncryptedContent string `json:"encrypted_content"`
		}
		if err := item.Decode(&r); err != nil {
			return malformed(at, item.Type, err)
		}
		c.add("assistant", unseal(c.dialect.Provider, r.EncryptedContent)...)
		return nil
	case openai.TypeShellCall, openai.TypeShellCallOutput:
		return fault.New(fault.Internal, "%s is a %s: it reached provider %q without having been rewritten to a function item",
			at, item.Type, c.dialect.Provider)
	default:
		return invalid(at+".type", "an input item of type %q cannot be served by provider %q", item.Type, c.dialect.Provider)
	}
}

// message adds what somebody said.
func (c *conversation) message(item openai.Item, at string) error {
	var m struct {
		Role         string          `json:"role"`
		Content      parts           `json:"content"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if err := item.Decode(&m); err != nil {
		return malformed(at, item.Type, err)
	}
	switch m.Role {
	case "assistant", "developer", "system":
		if i := slices.IndexFunc(m.Content, func(p part) bool { return !p.isText() }); i >= 0 {
			return invalid(fmt.Sprintf("%s.content[%d].type", at, i), "a message of role %q cannot hold content of type %q",
				m.Role, m.Content[i].Type)
		}
	case "user":
	default:
		return invalid(at+".role", "a message of role %q is not known", m.Role)
	}
	content, err := c.blocks(m.Content, m.CacheControl, at+".content")
	if err != nil {
		return err
	}
	switch m.Role {
	case "assistant":
		c.add("assistant", content...)
	case "user":
		c.answer()
		c.add("user", content...)
	default:
		c.answer()
		if n := len(c.messages); c.dialect.SystemRole && n > 0 && c.messages[n-1].Role == "user" {
			c.add("system", content...)
		} else {
			c.system = append(c.system, content...)
		}
	}
	return nil
}

// call adds a function call to the model's turn.
func (c *conversation) call(item openai.Item, at string) error {
	var f struct {
		openai.FunctionCall
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if err := item.Decode(&f); err != nil {
		return malformed(at, item.Type, err)
	}
	if f.CallID == "" || f.Name == "" {
		return invalid(at, "a function_call needs a call_id and a name")
	}
	input := json.RawMessage(strings.TrimSpace(f.Arguments))
	switch {
	case len(input) == 0:
		input = json.RawMessage("{}")
	case input[0] != '{' || !json.Valid(input):
		c.calls[f.CallID] = quote(f.Arguments)
		input = json.RawMessage("{}")
	}
	name := c.names.sent(f.Name)
	if !slices.Contains(c.called, name) {
		c.called = append(c.called, name)
	}
	c.open = append(c.open, f.CallID)
	c.add("assistant", block(wire.TypeToolUse, wire.ToolUse{Type: wire.TypeToolUse, ID: portable(f.CallID), Name: name, Input: input,
		CacheControl: marked(f.CacheControl)}))
	return nil
}

// quote shows malformed arguments, bounded.
func quote(s string) string {
	if len(s) <= maxQuote {
		return s
	}
	cut := maxQuote
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes in all)", s[:cut], len(s))
}

// openWithoutThinking says whether a tool turn is under way that did not begin with thinking. A model that thinks by
// budget is refused then if it is to think: thinking cannot begin in the middle of a turn.
func (c *conversation) openWithoutThinking() bool {
	first := -1 // the first assistant message of the turn
	for i := len(c.messages) - 1; i >= 0; i-- {
		m := c.messages[i]
		if m.Role == "assistant" {
			first = i
			continue
		}
		if m.Role == "user" && slices.ContainsFunc(m.Content, func(b wire.Block) bool { return b.Type != wire.TypeToolResult }) {
			break
		}
	}
	return first >= 0 && !thinks(c.messages[first].Content[0])
}
