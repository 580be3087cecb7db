package shellcall

import (
	"encoding/json"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
)

// The items that this package reads and writes.
const (
	TypeCall        = "shell_call"
	TypeCallOutput  = "shell_call_output"
	TypePatch       = "apply_patch_call"
	TypePatchOutput = "apply_patch_call_output"
)

// Call is a shell_call item: commands that a model wants run.
type Call struct {
	Type        string       `json:"type"` // "shell_call"
	ID          string       `json:"id,omitempty"`
	CallID      string       `json:"call_id"`
	Action      Action       `json:"action"`
	Status      string       `json:"status,omitempty"`
	Environment *Environment `json:"environment,omitempty"`
}

// Action is what a call asks for.
type Action struct {
	Commands        []string `json:"commands"`
	TimeoutMS       *int64   `json:"timeout_ms,omitempty"`        // of each command
	MaxOutputLength *int64   `json:"max_output_length,omitempty"` // the endpoint's business: it cuts, and wants it back
}

// Environment says who runs a call.
type Environment struct {
	Type string `json:"type"`
}

// ours says whether a call is left to the client.
func (c Call) ours() bool {
	return (c.Environment == nil || c.Environment.Type == "" || c.Environment.Type == "local") && c.Status != "incomplete"
}

// CallOutput is a shell_call_output item: what became of a call, one result for each of its commands, in their order.
type CallOutput struct {
	Type            string   `json:"type"` // "shell_call_output"
	CallID          string   `json:"call_id"`
	MaxOutputLength *int64   `json:"max_output_length,omitempty"`
	Output          []Result `json:"output"`
}

// Result is what became of one command.
type Result struct {
	Stdout  string  `json:"stdout"`
	Stderr  string  `json:"stderr"`
	Outcome Outcome `json:"outcome"`
}

// Outcome is how a command ended. A time-out has no exit code.
type Outcome struct {
	Type     string `json:"type"` // "exit" or "timeout"
	ExitCode *int   `json:"exit_code,omitempty"`
}

// The kinds of outcome.
const (
	OutcomeExit    = "exit"
	OutcomeTimeout = "timeout"
)

// The exit codes of commands that did not end by themselves. A command that could not be started has 126 or 127 too,
// as in a shell, and says so.
const (
	ExitNotRun    = 125 // the sandbox could not run it
	ExitDenied    = 126 // it was not allowed to run; stderr says why
	ExitCancelled = 130 // the caller's context ended, as by Ctrl-C
)

func exited(code int) Outcome { return Outcome{Type: OutcomeExit, ExitCode: &code} }

// PatchCall is an apply_patch_call item: one file that a model wants changed.
type PatchCall struct {
	Type      string    `json:"type"` // "apply_patch_call"
	ID        string    `json:"id,omitempty"`
	CallID    string    `json:"call_id"`
	Operation Operation `json:"operation"`
	Status    string    `json:"status,omitempty"`
}

// Operation is a change to one file.
type Operation struct {
	Type string `json:"type"` // "create_file", "update_file" or "delete_file"
	Path string `json:"path"`
	Diff string `json:"diff,omitempty"` // V4A; none to delete
}

// The kinds of operation.
const (
	CreateFile = "create_file"
	UpdateFile = "update_file"
	DeleteFile = "delete_file"
)

// PatchOutput is an apply_patch_call_output item.
type PatchOutput struct {
	Type   string `json:"type"` // "apply_patch_call_output"
	CallID string `json:"call_id"`
	Status string `json:"status"` // "completed" or "failed"
	Output string `json:"output,omitempty"`
}

// The states of a patch.
const (
	PatchCompleted = "completed"
	PatchFailed    = "failed"
)

// task is one item that waits for us: a call or a patch.
type task struct {
	call  *Call
	patch *PatchCall
}

// Pending counts the items of a response's output that are for the client to run and that no output beside them answers.
func Pending(output []json.RawMessage) (int, error) {
	tasks, err := pending(output)
	return len(tasks), err
}

// pending finds what waits for us in a response's output, in its order. Calls that the endpoint runs in a container of its
// own are not ours, nor are those that it cut off.
func pending(output []json.RawMessage) (tasks []task, err error) {
	type head struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
	}
	heads := make([]head, len(output))
	for i, raw := range output {
		if err := json.Unmarshal(raw, &heads[i]); err != nil {
			return nil, fault.Wrap(fault.Upstream, err, "Item %d of the response is no object.", i)
		}
	}
	answered := func(typ, callID string) bool { return slices.Contains(heads, head{typ, callID}) }
	for i, raw := range output {
		switch h := heads[i]; {
		case h.Type == TypeCall && !answered(TypeCallOutput, h.CallID):
			var c Call
			if err := json.Unmarshal(raw, &c); err != nil {
				return nil, fault.Wrap(fault.Upstream, err, "The call %s cannot be read.", h.CallID)
			}
			if c.ours() {
				tasks = append(tasks, task{call: &c})
			}
		case h.Type == TypePatch && !answered(TypePatchOutput, h.CallID):
			var p PatchCall
			if err := json.Unmarshal(raw, &p); err != nil {
				return nil, fault.Wrap(fault.Upstream, err, "The patch %s cannot be read.", h.CallID)
			}
			if p.Status != "incomplete" {
				tasks = append(tasks, task{patch: &p})
			}
		}
	}
	return tasks, nil
}
