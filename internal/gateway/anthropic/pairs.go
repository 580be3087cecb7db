package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// bashCall is a call of the server's bash on its way to the client: one pair of blocks a command, so that each has its
// exit code. A command is shown before it ends, its result when it has.
type bashCall struct {
	id       string
	commands []string
	entries  map[int]openai.ShellOutput
	files    []wire.BashFile
	whole    bool // the commands are known, and run
	over     bool // all results are
	restarts bool
	used     int // commands that were shown
	told     int // results that were told
}

func (c *bashCall) ended(i int, e openai.ShellOutput) {
	if c.entries == nil {
		c.entries = map[int]openai.ShellOutput{}
	}
	c.entries[i] = e
}

// called takes the whole call.
func (c *bashCall) called(item openai.Item) error {
	var call openai.ShellCall
	if err := item.Decode(&call); err != nil {
		return fault.Wrap(fault.Internal, err, "A call of the answer can't be read.")
	}
	c.commands, c.whole, c.restarts = call.Action.Commands, true, call.Action.Restart
	return nil
}

// answered takes the whole result.
func (c *bashCall) answered(item openai.Item) error {
	var o openai.ShellCallOutput
	if err := item.Decode(&o); err != nil {
		return fault.Wrap(fault.Internal, err, "A result of the answer can't be read.")
	}
	for i, e := range o.Output {
		c.ended(i, e)
	}
	for _, f := range o.OutputFiles {
		c.files = append(c.files, wire.BashFile{Type: "bash_code_execution_output", FileID: f.FileID})
	}
	c.over = true
	return nil
}

// show tells what can be told of the call by now. The files that it wrote stand in its last result.
func (c *bashCall) show(u *unit) {
	for !u.done {
		last := c.told >= max(len(c.commands), len(c.entries))-1
		entry, ended := c.entries[c.told]
		switch {
		case c.used == c.told && c.whole && (c.told < len(c.commands) || ended):
			c.use(u)
		case c.used == c.told+1 && ended && (c.over || c.whole && !last):
			var files []wire.BashFile
			if last {
				files = c.files
			}
			u.whole(wire.BashResult{Type: wire.TypeBashResult, ToolUseID: c.name(c.told), Content: resultOf(entry, files)})
			c.told++
		case c.over && c.used == c.told:
			u.done = true
		default:
			return
		}
	}
}

// name is the id of a command's pair.
func (c *bashCall) name(i int) string {
	_, rest, _ := strings.Cut(c.id, "_")
	if i > 0 {
		return fmt.Sprintf("srvtoolu_%s_%d", rest, i)
	}
	return "srvtoolu_" + rest
}

// use shows the next command.
func (c *bashCall) use(u *unit) {
	input := map[string]any{}
	if c.used < len(c.commands) {
		input["command"] = c.commands[c.used]
	}
	if c.restarts && c.used == 0 {
		input["restart"] = true
	}
	u.grow(wire.ToolUse{Type: wire.TypeServerToolUse, ID: c.name(c.used), Name: bashExecution, Input: json.RawMessage("{}"),
		Caller: json.RawMessage(`{"type":"direct"}`)}, wire.Delta{Type: wire.DeltaInput, PartialJSON: string(marshal(input))})
	u.close()
	c.used++
}

const (
	exitTimeout = 124 // as timeout(1) has it
	exitUsage   = 2   // the loop's, of a call whose arguments are wrong
)

// resultOf is a command's end. Only of one that was not run there is nothing but an error.
func resultOf(e openai.ShellOutput, files []wire.BashFile) json.RawMessage {
	code := 0
	if e.Outcome.ExitCode != nil {
		code = *e.Outcome.ExitCode
	}
	reason := ""
	if e.Receipt != nil {
		reason = e.Receipt.Reason
	}
	if reason == "not_started" && e.Stdout == "" {
		why := "unavailable"
		if code == exitUsage {
			why = "invalid_tool_input"
		}
		return marshal(wire.BashError{Type: "bash_code_execution_tool_result_error", ErrorCode: why})
	}
	stderr := e.Stderr
	if e.Outcome.Type == "timeout" {
		code = exitTimeout
		if stderr != "" && !strings.HasSuffix(stderr, "\n") {
			stderr += "\n"
		}
		stderr += "bash: timed out"
		if e.Receipt != nil && e.Receipt.TimeoutMS > 0 {
			stderr += fmt.Sprintf(" after %d ms", e.Receipt.TimeoutMS)
		}
	}
	if files == nil {
		files = []wire.BashFile{}
	}
	return marshal(wire.BashOutput{Type: "bash_code_execution_result", Stdout: e.Stdout, Stderr: stderr, ReturnCode: code, Content: files})
}
