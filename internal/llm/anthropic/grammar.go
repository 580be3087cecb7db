package anthropic

import (
	"encoding/json"
	"slices"

	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// grammar writes the API's blocks. The calls of one turn of the model's stand in one message; their results stand in the
// user's message behind it, all of them and before anything else.
type grammar struct {
	dialect Dialect
	names   *dialect.Names
}

var _ dialect.Grammar[wire.Block] = (*grammar)(nil)
var _ dialect.Placer = (*grammar)(nil)

// Places implements [dialect.Placer].
func (g *grammar) Places() bool { return g.dialect.SystemRole }

// Call implements [dialect.Grammar].
func (g *grammar) Call(c dialect.Call) []wire.Block {
	return []wire.Block{block(wire.TypeToolUse, wire.ToolUse{Type: wire.TypeToolUse, ID: g.names.Portable(c.CallID), Name: g.names.Sent(c.Name),
		Input: c.Input, CacheControl: marked(c.CacheControl)})}
}

// Result implements [dialect.Grammar].
func (g *grammar) Result(c dialect.Call, content []wire.Block, failed bool, cache json.RawMessage) []wire.Block {
	return []wire.Block{block(wire.TypeToolResult, wire.ToolResult{Type: wire.TypeToolResult, ToolUseID: g.names.Portable(c.CallID), IsError: failed,
		Content: content, CacheControl: marked(cache)})}
}

// Thoughts implements [dialect.Grammar].
func (g *grammar) Thoughts(item openai.Item) ([]wire.Block, error) {
	raw, err := g.dialect.seal().OpenItem(item)
	if err != nil {
		return nil, err
	}
	return thoughts(raw), nil
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

// Thinks implements [dialect.Grammar].
func (g *grammar) Thinks(b wire.Block) bool { return thinks(b) }

func thinks(b wire.Block) bool {
	return b.Type == wire.TypeThinking || b.Type == wire.TypeRedactedThinking
}

// openWithoutThinking says whether a tool turn is under way that did not begin with thinking. A model that thinks by
// budget is refused then if it is to think: thinking cannot begin in the middle of a turn.
func openWithoutThinking(messages []wire.Message) bool {
	first := -1 // the first assistant message of the turn
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role == dialect.Model {
			first = i
			continue
		}
		if m.Role == dialect.User && slices.ContainsFunc(m.Content, func(b wire.Block) bool { return b.Type != wire.TypeToolResult }) {
			break
		}
	}
	return first >= 0 && !thinks(messages[first].Content[0])
}
