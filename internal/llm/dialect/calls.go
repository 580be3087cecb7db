package dialect

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// NoOutput answers a call that the conversation leaves open: servers refuse a call without an answer.
const NoOutput = "No output was recorded for this call."

// maxQuote bounds how much of malformed arguments is shown to the model again, in bytes.
const maxQuote = 2000

// Outputs are the answers of a conversation by call id, wherever they stand in it. Every dialect puts the answers of a
// turn's calls right behind them, all together: that is the only order that every server takes.
type Outputs map[string]Output

// Output is the answer to one call, and where it stands.
type Output struct {
	Item openai.Item
	At   string
}

// Pair matches calls and answers. It refuses two calls or two answers of one id, and an answer without a call.
func Pair(items []openai.Item) (Outputs, error) {
	outputs, calls := Outputs{}, map[string]bool{}
	for i, item := range items {
		switch item.Type {
		case openai.TypeFunctionCall:
			if calls[item.CallID] {
				return nil, Invalid(fmt.Sprintf("input[%d].call_id", i), "two function calls have the call_id %q", item.CallID)
			}
			calls[item.CallID] = true
		case openai.TypeFunctionCallOutput:
			if _, twice := outputs[item.CallID]; twice {
				return nil, Invalid(fmt.Sprintf("input[%d].call_id", i), "two outputs answer the function call %q", item.CallID)
			}
			outputs[item.CallID] = Output{item, fmt.Sprintf("input[%d]", i)}
		}
	}
	for i, item := range items {
		if item.Type == openai.TypeFunctionCallOutput && !calls[item.CallID] {
			return nil, Invalid(fmt.Sprintf("input[%d].call_id", i), "no function call has the call_id %q", item.CallID)
		}
	}
	return outputs, nil
}

// Parts reads an answer's content, with what else a dialect passes on of it.
func (o Output) Parts() (Parts, json.RawMessage, error) {
	var out struct {
		Output       Parts           `json:"output"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if err := o.Item.Decode(&out); err != nil {
		return nil, nil, Malformed(o.At, o.Item.Type, err)
	}
	return out.Output, out.CacheControl, nil
}

// Call is a function call of the conversation, read.
type Call struct {
	openai.FunctionCall
	CacheControl json.RawMessage `json:"cache_control"`

	// Input is the arguments as an object, which most servers demand; Wrong is what stood there where that was none,
	// bounded. A conversation with such a call would else be refused for ever.
	Input json.RawMessage `json:"-"`
	Wrong string          `json:"-"`
}

// ReadCall reads a function call.
func ReadCall(item openai.Item, at string) (Call, error) {
	var c Call
	if err := item.Decode(&c); err != nil {
		return c, Malformed(at, item.Type, err)
	}
	if c.CallID == "" || c.Name == "" {
		return c, Invalid(at, "a function_call needs a call_id and a name")
	}
	c.Input = json.RawMessage(strings.TrimSpace(c.Arguments))
	switch {
	case len(c.Input) == 0:
		c.Input = json.RawMessage("{}")
	case c.Input[0] != '{' || !json.Valid(c.Input):
		c.Wrong = quote(c.Arguments)
		c.Input = json.RawMessage("{}")
	}
	return c, nil
}

// WrongArguments tells the model what became of arguments that were no object.
func (c Call) WrongArguments() string {
	return "The arguments of this call were no JSON object, so that it is shown with none. They were: " + c.Wrong
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
