package compact

import (
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// unit is what stays or goes together: a message; or the calls of one turn of the model's, with the thinking before them
// and their outputs.
type unit struct {
	items []int
	calls bool // of calls and thinking
	kept  bool // it stays
	gone  bool
}

// side is what an item is to a unit.
type side int

const (
	other side = iota
	thought
	call
	output
	spoken // by the model
)

// sideOf says what an item is, and the name by which a call and its output know each other; empty where it has none.
func sideOf(i openai.Item) (side, string) {
	switch {
	case i.Type == openai.TypeReasoning:
		return thought, ""
	case i.Type == openai.TypeMessage && i.Role == "assistant":
		return spoken, ""
	case i.Type == openai.TypeMessage:
		return other, ""
	case i.Type == "mcp_approval_request":
		return call, "approval " + i.ID
	case i.Type == "mcp_approval_response":
		var r struct {
			Request string `json:"approval_request_id"`
		}
		_ = i.Decode(&r) // without one it answers nothing
		return output, "approval " + r.Request
	case strings.HasSuffix(i.Type, "_call_output"):
		return output, i.CallID
	case strings.HasSuffix(i.Type, "_call"):
		return call, i.CallID
	}
	return other, ""
}

// group finds the units of a conversation: which one each item belongs to.
func group(list []openai.Item) (of []int, units []*unit) {
	of = make([]int, len(list))
	begin := func(calls bool) int {
		units = append(units, &unit{calls: calls})
		return len(units) - 1
	}
	callers := map[string]int{} // by the name of a call
	open := -1                  // the unit of the model's turn
	for i, item := range list {
		switch s, name := sideOf(item); s {
		case thought, call:
			if at, seen := callers[name]; s == call && name != "" && seen { // told twice
				of[i] = at
				continue
			}
			if open < 0 {
				open = begin(true)
			}
			if of[i] = open; s == call && name != "" {
				callers[name] = open
			}
		case output:
			of[i], open = -1, -1
		case spoken:
			of[i] = begin(false)
		default:
			of[i], open = begin(false), -1
		}
	}
	for i, item := range list { // an output may stand before its call
		if of[i] < 0 {
			_, name := sideOf(item)
			at, ok := callers[name]
			if !ok || name == "" {
				at = begin(true)
				callers[name] = at
			}
			of[i] = at
		}
		units[of[i]].items = append(units[of[i]].items, i)
	}
	return of, units
}
