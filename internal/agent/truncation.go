package agent

import (
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// truncation auto: what does not fit into the model's context is left out from the beginning of the conversation, and the
// model is asked again. Whole turns go, each from a user's message to the next, so that no call loses its output; what a
// system or a developer said stays, and so does the last turn. Where that alone is too long, the request has failed.

// codeTooLong is what every dialect calls a conversation that does not fit.
const codeTooLong = "context_length_exceeded"

const noteTruncated = "The beginning of this conversation is too long to be shown and was left out."

// shorter leaves more out of a request that was too long for the model, if the client wants that and the turn has brought
// nothing yet. It says whether there is anything to ask again. The loop remembers it for its further turns.
func (l *loop) shorter(t *turn, err error, req *llm.Request) bool {
	if mode := l.plan.request.Truncation; mode == nil || *mode != "auto" || len(t.entries) > 0 {
		return false
	}
	var code string
	if e, ok := fault.As(err); ok {
		code = e.Code
	} else if t.end != nil && t.end.Response.Error != nil {
		code = t.end.Response.Error.Code
	}
	if code != codeTooLong {
		return false
	}
	turns := turnsOf(req.Items)
	if len(turns) < 2 {
		return false
	}
	// A quarter at a time: few questions for a conversation that is far too long, little lost by one that is nearly short
	// enough.
	gone := max(1, (len(turns)-1)/4)
	l.truncated += gone
	t.end = nil
	req.Items = withoutTurns(req.Items, gone)
	if l.truncated == gone {
		req.Instructions = instructed(req.Instructions, noteTruncated)
	}
	return true
}

// fittedTo leaves out of a later turn's request what an earlier one could not have.
func (l *loop) fittedTo(req *llm.Request) {
	if l.truncated > 0 {
		req.Items = withoutTurns(req.Items, l.truncated)
		req.Instructions = instructed(req.Instructions, noteTruncated)
	}
}

// turnsOf finds where the user's turns begin. Messages that follow one another are one turn's.
func turnsOf(items []openai.Item) (starts []int) {
	before := false
	for n, i := range items {
		user := i.Type == openai.TypeMessage && i.Role == "user"
		if user && !before {
			starts = append(starts, n)
		}
		before = user
	}
	return starts
}

// withoutTurns leaves out the first turns of a conversation, and what stands before them, but for what the system or a
// developer says.
func withoutTurns(items []openai.Item, turns int) []openai.Item {
	starts := turnsOf(items)
	if turns >= len(starts) {
		turns = len(starts) - 1
	}
	if turns < 1 {
		return items
	}
	from := starts[turns]
	kept := slices.DeleteFunc(slices.Clone(items[:from]), func(i openai.Item) bool {
		return i.Type != openai.TypeMessage || i.Role != "system" && i.Role != "developer"
	})
	return append(kept, items[from:]...)
}
