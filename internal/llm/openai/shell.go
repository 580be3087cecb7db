package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// The vendor's shell and ours say the same things in two shapes. A call is {commands, timeout_ms, max_output_length} in
// both; what ours can say beyond that the vendor's has no place for. A result is one JSON object a command in ours.

// nativeAction reads our function's arguments as the vendor's action; false where they say more than that can.
func nativeAction(arguments json.RawMessage) (wire.ShellAction, bool) {
	var a struct {
		Commands        []string `json:"commands"`
		TimeoutMS       *int64   `json:"timeout_ms"`
		MaxOutputLength *int64   `json:"max_output_length"`
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	if d.Decode(&a) != nil || len(a.Commands) == 0 {
		return wire.ShellAction{}, false
	}
	return wire.ShellAction{Commands: a.Commands, TimeoutMS: a.TimeoutMS, MaxOutputLength: a.MaxOutputLength}, true
}

// ourArguments are the arguments of our function for the vendor's action.
func ourArguments(a wire.ShellAction) string {
	raw, err := wire.Marshal(struct {
		Commands        []string `json:"commands"`
		TimeoutMS       *int64   `json:"timeout_ms,omitempty"`
		MaxOutputLength *int64   `json:"max_output_length,omitempty"`
	}{a.Commands, a.TimeoutMS, a.MaxOutputLength})
	if err != nil { // strings and numbers always marshal
		return "{}"
	}
	return string(raw)
}

// nativeEntry is one command's result in the vendor's shape.
type nativeEntry struct {
	Stdout  string       `json:"stdout"`
	Stderr  string       `json:"stderr"`
	Outcome wire.Outcome `json:"outcome"`
}

// nativeOutput reads the text that the model is given for a call, one JSON object a command, and writes it as entries.
// What an entry has no field for stands at the end of its stderr, as the model must read it. A text of another form is
// one command's stdout.
func nativeOutput(text string, commands int) []nativeEntry {
	var entries []nativeEntry
	for line := range strings.Lines(text) {
		var r struct {
			Stdout   *string `json:"stdout"`
			Stderr   string  `json:"stderr"`
			ExitCode *int    `json:"exit_code"`
			TimedOut bool    `json:"timed_out"`
			Error    string  `json:"error"`
		}
		var rest map[string]json.RawMessage
		if json.Unmarshal([]byte(line), &r) != nil || json.Unmarshal([]byte(line), &rest) != nil || r.Stdout == nil && r.Error == "" {
			return []nativeEntry{{Stdout: text, Outcome: wire.Exit(0)}}
		}
		if r.Stdout == nil { // no command was run
			for range max(commands, 1) {
				entries = append(entries, nativeEntry{Stderr: r.Error, Outcome: wire.Exit(1)})
			}
			return entries
		}
		e := nativeEntry{Stdout: *r.Stdout, Stderr: r.Stderr, Outcome: wire.Timeout()}
		if !r.TimedOut {
			code := 1
			if r.ExitCode != nil {
				code = *r.ExitCode
			}
			e.Outcome = wire.Exit(code)
		}
		for _, key := range []string{"stdout", "stderr", "exit_code", "timed_out", "command", "duration_ms"} {
			delete(rest, key)
		}
		if len(rest) > 0 {
			more, err := wire.Marshal(rest)
			if err == nil {
				if e.Stderr != "" && !strings.HasSuffix(e.Stderr, "\n") {
					e.Stderr += "\n"
				}
				e.Stderr += fmt.Sprintf("[%s]\n", more)
			}
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return []nativeEntry{{Outcome: wire.Exit(0)}}
	}
	return entries
}
