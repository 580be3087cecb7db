package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// opening stands before a conversation that begins with the model's words, and goOn behind one that ends with
	// them: the API wants a user first, and takes last words of the model's as the beginning of the answer.
	opening = "(The beginning of this conversation is not shown.)"
	goOn    = "Continue."
)

// conversation builds the messages of a request.
type conversation struct {
	dialect  Dialect
	names    *dialect.Names
	system   wire.Content
	messages []wire.Message
	called   []string       // the functions that were called, as they are sent
	open     []dialect.Call // of the model's open turn, in order
	outputs  dialect.Outputs
}

// conversation translates instructions and items. The calls of one model turn stand in one assistant message; their
// results stand in the user message behind it, all of them and before anything else.
func (d Dialect) conversation(r llm.Request, n *dialect.Names) (*conversation, error) {
	c := &conversation{dialect: d, names: n}
	if strings.TrimSpace(r.Instructions) != "" {
		c.system = append(c.system, textBlock(r.Instructions, nil))
	}
	var err error
	if c.outputs, err = dialect.Pair(r.Items); err != nil {
		return nil, err
	}
	for i, item := range r.Items {
		if err := c.item(item, fmt.Sprintf("input[%d]", i)); err != nil {
			return nil, err
		}
	}
	if err := c.answer(); err != nil {
		return nil, err
	}
	c.trim()
	switch n := len(c.messages); {
	case n == 0:
		return nil, dialect.Invalid("input", "the input holds nothing that can be sent to provider %q", d.Provider)
	case c.messages[n-1].Role == "assistant":
		c.add("user", textBlock(goOn, nil))
	}
	if c.messages[0].Role != "user" {
		c.messages = slices.Insert(c.messages, 0, wire.Message{Role: "user", Content: wire.Content{textBlock(opening, nil)}})
	}
	return c, nil
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
func (c *conversation) answer() error {
	open := c.open
	c.open = nil
	for _, call := range open {
		result := wire.ToolResult{Type: wire.TypeToolResult, ToolUseID: c.names.Portable(call.CallID)}
		if out, ok := c.outputs[call.CallID]; ok {
			content, cache, err := out.Parts()
			if err == nil {
				result.Content, err = c.blocks(content, nil, out.At+".output")
			}
			if err != nil {
				return err
			}
			result.CacheControl = marked(cache)
		} else {
			result.IsError, result.Content = true, wire.Content{textBlock(dialect.NoOutput, nil)}
		}
		if call.Wrong != "" {
			result.IsError = true
			result.Content = append(wire.Content{textBlock(call.WrongArguments(), nil)}, result.Content...)
		}
		c.add("user", block(wire.TypeToolResult, result))
	}
	return nil
}

// item adds one item of the conversation.
func (c *conversation) item(item openai.Item, at string) error {
	switch item.Type {
	case openai.TypeMessage:
		return c.message(item, at)
	case openai.TypeFunctionCall:
		return c.call(item, at)
	case openai.TypeFunctionCallOutput:
		return c.answer()
	case openai.TypeReasoning:
		raw, err := c.dialect.seal().OpenItem(item)
		if err != nil {
			return dialect.Malformed(at, item.Type, err)
		}
		c.add("assistant", thoughts(raw)...)
		return nil
	default:
		return dialect.RefuseItem(item, at, c.dialect.Provider)
	}
}

// thoughts reads sealed blocks. A client may have made the seal: nothing but thinking gets into the conversation this
// way.
func thoughts(raw []json.RawMessage) []wire.Block {
	blocks := make([]wire.Block, len(raw))
	for i, r := range raw {
		if json.Unmarshal(r, &blocks[i]) != nil || !thinks(blocks[i]) {
			return nil
		}
	}
	return blocks
}

func thinks(b wire.Block) bool {
	return b.Type == wire.TypeThinking || b.Type == wire.TypeRedactedThinking
}

// message adds what somebody said.
func (c *conversation) message(item openai.Item, at string) error {
	m, err := dialect.ReadMessage(item, at)
	if err != nil {
		return err
	}
	content, err := c.blocks(m.Content, m.CacheControl, at+".content")
	if err != nil {
		return err
	}
	if m.Role == "assistant" {
		c.add("assistant", content...)
		return nil
	}
	if err := c.answer(); err != nil {
		return err
	}
	switch n := len(c.messages); {
	case m.Role == "user":
		c.add("user", content...)
	case c.dialect.SystemRole && n > 0 && c.messages[n-1].Role == "user":
		c.add("system", content...)
	default:
		c.system = append(c.system, content...)
	}
	return nil
}

// call adds a function call to the model's turn.
func (c *conversation) call(item openai.Item, at string) error {
	f, err := dialect.ReadCall(item, at)
	if err != nil {
		return err
	}
	name := c.names.Sent(f.Name)
	if !slices.Contains(c.called, name) {
		c.called = append(c.called, name)
	}
	c.open = append(c.open, f)
	c.add("assistant", block(wire.TypeToolUse, wire.ToolUse{Type: wire.TypeToolUse, ID: c.names.Portable(f.CallID), Name: name, Input: f.Input,
		CacheControl: marked(f.CacheControl)}))
	return nil
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
