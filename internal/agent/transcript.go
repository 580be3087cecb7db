package agent

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// forModel is a conversation as a provider gets it: messages, reasoning, function calls and their outputs only. The
// shell appears as calls of one function, an input file as a note of where it lies, and a call that was broken off
// gets an output that says so, because every upstream refuses a call without one. most is how many characters the model
// reads of a stream that a client has sent.
func forModel(items []openai.Item, shell string, most int) ([]openai.Item, error) {
	answered := map[string]bool{}
	commands := map[string][]string{} // by call id, for the outputs
	for _, i := range items {
		if answers[i.Type] != "" {
			answered[i.CallID] = true
		}
	}
	out := make([]openai.Item, 0, len(items))
	for _, i := range items {
		switch i.Type {
		case openai.TypeMessage:
			m, err := readable(i)
			if err != nil {
				return nil, err
			}
			out = append(out, m)
		case openai.TypeFunctionCall:
			if answered[i.CallID] {
				out = append(out, i)
			}
		case openai.TypeShellCall:
			var c openai.ShellCall
			if err := i.Decode(&c); err != nil {
				return nil, err
			}
			commands[c.CallID] = c.Action.Commands
			out = append(out, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, ID: c.ID,
				CallID: c.CallID, Name: shell, Arguments: argumentsText(c.Action), Status: openai.Completed}))
			if !answered[c.CallID] {
				out = append(out, functionOutput(c.CallID, errorText("This call was broken off; whether its commands ran is unknown.")))
			}
		case openai.TypeShellCallOutput:
			var o shellOutput
			if err := i.Decode(&o); err != nil {
				return nil, err
			}
			out = append(out, functionOutput(o.CallID, resultText(commands[o.CallID], o, most)))
		default:
			out = append(out, i)
		}
	}
	return out, nil
}

func functionOutput(callID, text string) openai.Item {
	return openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: callID,
		Output: openai.OutputText(text), Status: openai.Completed})
}

// errorText is what the model reads when one of its calls was not run.
func errorText(sentence string) string {
	raw, err := openai.Marshal(map[string]string{"error": sentence})
	if err != nil { // a string always marshals
		return sentence
	}
	return string(raw)
}

// readable replaces a message's input_file parts by text: a note of where the file lies, or the text that it holds.
func readable(i openai.Item) (openai.Item, error) {
	if !strings.Contains(string(i.Raw), `"input_file"`) {
		return i, nil
	}
	var m struct{ Content []object }
	if err := i.Decode(&m); err != nil {
		return i, err
	}
	for n, o := range m.Content {
		var p struct {
			Type     string `json:"type"`
			Filename string `json:"filename"`
			FileData string `json:"file_data"`
			Path     string `json:"path"`
			Bytes    *int64 `json:"bytes"`
		}
		if err := json.Unmarshal(o.raw(), &p); err != nil || p.Type != "input_file" {
			continue
		}
		size := ""
		if p.Bytes != nil {
			size = fmt.Sprintf(", %d bytes", *p.Bytes)
		}
		text := fmt.Sprintf("[file %s%s, is at %s]", p.Filename, size, p.Path)
		if p.Path == "" {
			_, data, err := decodeFile(p.FileData)
			if err != nil {
				return i, fmt.Errorf("read input file %s: %w", p.Filename, err)
			}
			text = fmt.Sprintf("[file %s, %d bytes]\n%s\n[end of file %s]", p.Filename, len(data), data, p.Filename)
		}
		part := object{}
		part.set("type", "input_text")
		part.set("text", text)
		m.Content[n] = part
	}
	return withKeys(i, map[string]any{"content": m.Content})
}

// result is one command's result as the model reads it.
type result struct {
	Command       string   `json:"command,omitempty"`
	Stdout        string   `json:"stdout"`
	Stderr        string   `json:"stderr"`
	ExitCode      *int     `json:"exit_code,omitempty"`
	TimedOut      bool     `json:"timed_out,omitempty"`
	DurationMS    *int64   `json:"duration_ms,omitempty"`
	StdoutOmitted int64    `json:"stdout_omitted_chars,omitempty"`
	StderrOmitted int64    `json:"stderr_omitted_chars,omitempty"`
	FilesWritten  []string `json:"files_written,omitempty"`
	FilesOfAll    []string `json:"files_written_by_all,omitempty"` // of a call with several commands: its last line has them
	FilesUnlisted int      `json:"files_unlisted,omitempty"`
	FilesPartial  bool     `json:"files_partial,omitempty"`
	Note          string   `json:"note,omitempty"`
}

// resultText is a call's result for the model: one JSON object per command, a line each. The commands of a call run at
// the same time in one place, so that the files of all stand in the last line.
func resultText(commands []string, o shellOutput, most int) string {
	var b strings.Builder
	for n, e := range o.Output {
		if e.Receipt == nil { // a client's
			e.Stdout, e.Stderr = fitted(e.Stdout, fit(o, most)), fitted(e.Stderr, fit(o, most))
		}
		r := result{Stdout: e.Stdout, Stderr: e.Stderr, ExitCode: e.Outcome.ExitCode,
			TimedOut: e.Outcome.Type == "timeout", StdoutOmitted: omitted(e.Stdout), StderrOmitted: omittedOfStderr(e),
			Note: note(e)}
		if n < len(commands) {
			r.Command = shorten(commands[n], maxCommandEcho)
		}
		if e.Receipt != nil {
			r.DurationMS = &e.Receipt.DurationMS
		}
		if n == len(o.Output)-1 {
			files, more := written(o.OutputFiles)
			r.FilesUnlisted, r.FilesPartial = more+o.FilesMore, o.FilesPartial
			if n == 0 {
				r.FilesWritten = files
			} else {
				r.FilesOfAll = files
			}
		}
		writeLine(&b, r)
	}
	if b.Len() == 0 {
		return errorText("This call has no output.")
	}
	return b.String()
}

func writeLine(b *strings.Builder, r result) {
	raw, err := openai.Marshal(r)
	if err != nil { // strings and numbers always marshal
		return
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.Write(raw)
}

const (
	maxCommandEcho  = 200 // characters of a command that its result repeats; the call has all of it
	maxFilesWritten = 50  // files that a result names to the model; the rest are counted
)

func written(files []openai.OutputFile) (names []string, unlisted int) {
	for _, f := range files {
		if len(names) == maxFilesWritten {
			return names, len(files) - len(names)
		}
		names = append(names, fmt.Sprintf("%s (%d bytes)", path.Clean(f.Path), f.Bytes))
	}
	return names, 0
}

// note says in words what the numbers of an entry do not.
func note(e openai.ShellOutput) string {
	var notes []string
	reason, limit := "", int64(0)
	if e.Receipt != nil {
		reason, limit = e.Receipt.Reason, e.Receipt.TimeoutMS
		if e.Receipt.Restarted {
			notes = append(notes, "The container was restarted before this command: its files are there, the processes of earlier commands are gone.")
		}
	}
	switch {
	case e.Outcome.Type == "timeout" && limit > 0:
		notes = append(notes, fmt.Sprintf("Stopped at its time limit of %d ms with all its processes.", limit))
	case e.Outcome.Type == "timeout" && e.Receipt == nil: // what became of its processes, who ran it knows
		notes = append(notes, "Stopped at its time limit.")
	case e.Outcome.Type == "timeout":
		notes = append(notes, "Stopped at its time limit with all its processes.")
	case reason == reasonCancelled:
		notes = append(notes, "Cancelled before it ended.")
	case reason == reasonInterrupted:
		notes = append(notes, "Interrupted: the container was lost while it ran.")
	case reason == reasonNotStarted:
		notes = append(notes, "The command was not started.")
	case reason == container.BreachDisk:
		notes = append(notes, "Stopped: the container's limit on disk space was reached. Delete files that are not needed first.")
	case reason == container.BreachProcesses:
		notes = append(notes, "Stopped: the container's limit on processes was reached. Start fewer at once.")
	case reason == container.BreachFull:
		notes = append(notes, "Stopped: it was filling the disk that all containers share. Use less space.")
	}
	killed := e.Outcome.ExitCode != nil && *e.Outcome.ExitCode == exitKilled
	switch {
	case reason == reasonMemory && killed:
		notes = append(notes, "Killed: the memory limit was reached.")
	case reason == reasonMemory:
		notes = append(notes, "While it ran, a process of the container was killed because the memory limit was reached, so that "+
			"the result may be incomplete.")
	}
	if e.Receipt != nil {
		if lost := lostOutput(e.Receipt); lost != "" {
			notes = append(notes, "The disk is full or takes no more, so that output was lost: "+lost+
				". Free space, then run it again if the output matters.")
		}
	}
	cut := omitted(e.Stdout)+omittedOfStderr(e) > 0
	if cut && e.Receipt != nil && e.Receipt.OutputPath != "" {
		notes = append(notes, "Output was cut in the middle; all of it is in "+e.Receipt.OutputPath+"/stdout and /stderr, to be read with grep, sed or tail.")
	} else if cut && e.Receipt == nil {
		notes = append(notes, "Output was cut in the middle; redirect long output to a file, then grep or tail it.")
	} else if cut {
		notes = append(notes, "Output was cut in the middle; redirect long output to a file under "+workspace+
			", then grep or tail it.")
	}
	return strings.Join(notes, " ")
}

// omittedOfStderr reads how many characters an entry's stderr leaves out. A line of ours about lost output stands after
// the view, on a line of its own, and is no part of the view's second half.
func omittedOfStderr(e openai.ShellOutput) int64 {
	if e.Receipt == nil || e.Receipt.StdoutLost+e.Receipt.StderrLost == 0 {
		return omitted(e.Stderr)
	}
	view := strings.TrimSuffix(e.Stderr, lostLine(lostOutput(e.Receipt)))
	if n := omitted(view); n > 0 {
		return n
	}
	return omitted(strings.TrimSuffix(view, "\n"))
}

// omission is the line that a view has where it leaves characters out.
var omission = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\n\[… ([0-9,]+) characters? left out(?: …\]|` + regexp.QuoteMeta(process.NotableMark) + `)\n`)
})

// omitted reads how many characters a view leaves out. The line counts only where a view puts it, between two halves,
// so that a program that prints such a line does not pass for one.
func omitted(view string) int64 {
	for _, m := range omission().FindAllStringSubmatchIndex(view, -1) {
		rest := view[m[1]:]
		if strings.HasSuffix(view[:m[1]], process.NotableMark+"\n") {
			end := "\n" + process.NotableEnd + "\n"
			i := strings.LastIndex(rest, end)
			if i < 0 {
				continue
			}
			rest = rest[i+len(end):]
		}
		head, tail := utf8.RuneCountInString(view[:m[0]]), utf8.RuneCountInString(rest)
		if tail-head != 0 && tail-head != 1 {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(view[m[2]:m[3]], ",", ""), 10, 64)
		if err == nil {
			return n
		}
	}
	return 0
}

// shorten keeps the first characters of s.
func shorten(s string, chars int) string {
	n := 0
	for i := range s {
		if n == chars {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
