package response

import (
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// next is every change of status that there is. A status without successors is terminal.
var next = map[string][]string{
	openai.Queued:     {openai.InProgress, openai.Failed, openai.Cancelled},
	openai.InProgress: {openai.Completed, openai.Incomplete, openai.Failed, openai.Cancelled},
	openai.Completed:  nil,
	openai.Incomplete: nil,
	openai.Failed:     nil,
	openai.Cancelled:  nil,
}

// terminalEvent is the event that ends the log, by status. No cancelled event is known to the official SDKs: a
// cancelled response ends with an incomplete event whose response says cancelled.
var terminalEvent = map[string]string{
	openai.Completed:  openai.EventCompleted,
	openai.Incomplete: openai.EventIncomplete,
	openai.Failed:     openai.EventFailed,
	openai.Cancelled:  openai.EventIncomplete,
}

// change refuses a change of status that is not in the table.
func change(id, from, to string) error {
	if slices.Contains(next[from], to) {
		return nil
	}
	return fault.New(fault.Conflict, "Response %s is %s and cannot become %s.", id, from, to)
}

// before lists the statuses from which to can be reached, for a WHERE clause that holds every replica to the table.
func before(to string) []string {
	var from []string
	for s, successors := range next {
		if slices.Contains(successors, to) {
			from = append(from, s)
		}
	}
	slices.Sort(from)
	return from
}
