package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// opening stands before a conversation that begins with the model's words, and goOn behind one that ends with
	// them: strict servers want a user first, and take last words of the model's as the beginning of the answer.
	opening = "(The beginning of this conversation is not shown.)"
	goOn    = "Continue."
)

// A Grammar writes the blocks of a vendor whose messages are blocks and whose roles alternate.
type Grammar[B any] interface {
	// Blocks translates content. cache is a mark on the whole of it, nil if there is none.
	Blocks(content Parts, cache json.RawMessage, at string) ([]B, error)
	// Call translates a call.
	Call(c Call) []B
	// Result translates the answer to a call; failed says that there was none, or that the call was no good.
	Result(c Call, content []B, failed bool, cache json.RawMessage) []B
	// Thoughts opens a reasoning item; it returns none for what is another provider's.
	Thoughts(item openai.Item) ([]B, error)
	// Thinks says whether a block is one of thinking.
	Thinks(b B) bool
}

// A Placer is a [Grammar] whose vendor may take system messages where they stand, right behind a user's turn.
type Placer interface {
	Places() bool
}

// The roles of turns.
const (
	User   = "user"
	Model  = "assistant"
	System = "system" // of a Placer
)

// Turn is what one side says at once.
type Turn[B any] struct {
	Role    string
	Content []B
}

// Conversation is a request's conversation in a vendor's blocks: a user's turn first, and last but for a system's, the
// sides alternate, the calls of a turn of the model's have their answers at the beginning of the turn behind it, in order.
type Conversation[B any] struct {
	System []B
	Turns  []Turn[B]
	Called []string // the functions that were called, by their own names
}

// Converse translates instructions and items.
func Converse[B any](r llm.Request, provider string, g Grammar[B]) (Conversation[B], error) {
	b := builder[B]{provider: provider, grammar: g}
	var err error
	if strings.TrimSpace(r.Instructions) != "" {
		if b.System, err = b.words(r.Instructions); err != nil {
			return b.Conversation, err
		}
	}
	if b.outputs, err = Pair(r.Items); err != nil {
		return b.Conversation, err
	}
	for i, item := range r.Items {
		if err := b.item(item, fmt.Sprintf("input[%d]", i)); err != nil {
			return b.Conversation, err
		}
	}
	if err := b.answer(); err != nil {
		return b.Conversation, err
	}
	b.trim()
	if len(b.Turns) == 0 {
		return b.Conversation, Invalid("input", "the input holds nothing that can be sent to provider %q", provider)
	}
	if b.last() == Model {
		more, err := b.words(goOn)
		if err != nil {
			return b.Conversation, err
		}
		b.add(User, more...)
	}
	if b.Turns[0].Role == Model {
		first, err := b.words(opening)
		if err != nil {
			return b.Conversation, err
		}
		b.Turns = slices.Insert(b.Turns, 0, Turn[B]{User, first})
	}
	return b.Conversation, nil
}

type builder[B any] struct {
	Conversation[B]
	provider string
	grammar  Grammar[B]
	open     []Call // of the model's open turn, in order
	outputs  Outputs
}

func (b *builder[B]) words(text string) ([]B, error) {
	return b.grammar.Blocks(Parts{{Type: "input_text", Text: text}}, nil, "input")
}

// last is the role of the last turn.
func (b *builder[B]) last() string {
	if len(b.Turns) == 0 {
		return ""
	}
	return b.Turns[len(b.Turns)-1].Role
}

// add adds blocks of one side; those of the same side join. A user's join those before a system's, as nobody takes a
// user's turn behind one.
func (b *builder[B]) add(role string, blocks ...B) {
	if len(blocks) == 0 {
		return
	}
	if role != Model {
		b.trim()
	}
	n := len(b.Turns) - 1
	if role == User && b.last() == System {
		n--
	}
	if n >= 0 && b.Turns[n].Role == role {
		b.Turns[n].Content = append(b.Turns[n].Content, blocks...)
		return
	}
	b.Turns = append(b.Turns, Turn[B]{role, blocks})
}

// trim drops thinking that nothing follows in the last turn, as of a turn that was cut: servers refuse it.
func (b *builder[B]) trim() {
	n := len(b.Turns) - 1
	if b.last() != Model {
		return
	}
	content := b.Turns[n].Content
	for len(content) > 0 && b.grammar.Thinks(content[len(content)-1]) {
		content = content[:len(content)-1]
	}
	if b.Turns[n].Content = content; len(content) == 0 {
		b.Turns = b.Turns[:n]
	}
}

// answer ends the model's turn: each of its calls gets its result.
func (b *builder[B]) answer() error {
	open := b.open
	b.open = nil
	for _, call := range open {
		var content []B
		var cache json.RawMessage
		out, answered := b.outputs[call.CallID]
		var err error
		if answered {
			var parts Parts
			if parts, cache, err = out.Parts(); err == nil {
				content, err = b.grammar.Blocks(parts, nil, out.At+".output")
			}
		} else {
			content, err = b.words(NoOutput)
		}
		if err != nil {
			return err
		}
		if call.Wrong != "" {
			why, err := b.words(call.WrongArguments())
			if err != nil {
				return err
			}
			content = append(why, content...)
		}
		b.add(User, b.grammar.Result(call, content, !answered || call.Wrong != "", cache)...)
	}
	return nil
}

// item adds one item of the conversation.
func (b *builder[B]) item(item openai.Item, at string) error {
	switch item.Type {
	case openai.TypeMessage:
		return b.message(item, at)
	case openai.TypeFunctionCall:
		call, err := ReadCall(item, at)
		if err != nil {
			return err
		}
		if !slices.Contains(b.Called, call.Name) {
			b.Called = append(b.Called, call.Name)
		}
		b.open = append(b.open, call)
		b.add(Model, b.grammar.Call(call)...)
		return nil
	case openai.TypeFunctionCallOutput:
		return b.answer()
	case openai.TypeReasoning:
		thoughts, err := b.grammar.Thoughts(item)
		if err != nil {
			return Malformed(at, item.Type, err)
		}
		b.add(Model, thoughts...)
		return nil
	default:
		return RefuseItem(item, at, b.provider)
	}
}

// message adds what somebody said.
func (b *builder[B]) message(item openai.Item, at string) error {
	m, err := ReadMessage(item, at)
	if err != nil {
		return err
	}
	content, err := b.grammar.Blocks(m.Content, m.CacheControl, at+".content")
	if err != nil {
		return err
	}
	if m.Role == "assistant" {
		b.add(Model, content...)
		return nil
	}
	if err := b.answer(); err != nil {
		return err
	}
	placer, ok := any(b.grammar).(Placer)
	switch {
	case m.Role == "user":
		b.add(User, content...)
	case ok && placer.Places() && (b.last() == User || b.last() == System):
		b.add(System, content...)
	default:
		b.System = append(b.System, content...)
	}
	return nil
}
