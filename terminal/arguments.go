package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// argumentError is a sentence for the model about what it sent.
type argumentError struct{ error }

func wrong(format string, args ...any) error { return argumentError{fmt.Errorf(format, args...)} }

// The bounds of waits. What is asked beyond is brought to the bound, and the result says so.
const (
	DefaultYield     = 10 * time.Second       // of exec_command
	DefaultWriteWait = 250 * time.Millisecond // of write_stdin with characters
	DefaultPoll      = 5 * time.Second        // of write_stdin without any
	MinYield         = 250 * time.Millisecond
	MaxYield         = 10 * time.Minute
	minTimeout       = time.Millisecond
)

// toolArguments are all the arguments that any command tool knows, in every spelling. A model may send what its own
// version of the tool had; what no tool has is refused, so that nothing it asked for is silently not so.
type toolArguments struct {
	Command     json.RawMessage `json:"command"`
	Cmd         json.RawMessage `json:"cmd"`
	Workdir     *string         `json:"workdir"`
	Shell       *string         `json:"shell"`
	Login       *bool           `json:"login"`
	TTY         *bool           `json:"tty"`
	TimeoutMS   json.RawMessage `json:"timeout_ms"`
	YieldTimeMS json.RawMessage `json:"yield_time_ms"`
	MaxTokens   json.RawMessage `json:"max_output_tokens"`
	SessionID   json.RawMessage `json:"session_id"`
	ProcessID   json.RawMessage `json:"process_id"`
	Chars       *string         `json:"chars"`
	Input       *string         `json:"input"`
	WaitFor     json.RawMessage `json:"wait_for"`
	Background  *bool           `json:"background"`
	Permissions *string         `json:"sandbox_permissions"`
	Reason      *string         `json:"justification"`
	PrefixRule  []string        `json:"prefix_rule"`
}

// readArguments reads a call's arguments and refuses those that are not allowed for the tool.
func readArguments(text string, allowed []string) (a toolArguments, err error) {
	var names map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &names); err != nil || names == nil {
		return a, wrong("the arguments are not a JSON object: %s", jsonTrouble(err))
	}
	for name := range names {
		if !slices.Contains(allowed, name) {
			return a, wrong("unknown field `%s`, expected one of %s", name, strings.Join(allowed, ", "))
		}
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return a, wrong("%s", jsonTrouble(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, wrong("there is text after the JSON object")
	}
	return a, nil
}

func jsonTrouble(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return "null"
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("`%s` cannot be a %s", kind.Field, kind.Value)
	}
	return err.Error()
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// command is the call's, in either spelling, as an argument list or as a script.
func (a toolArguments) command() (argv []string, script string, freeform bool, err error) {
	raw := a.Cmd
	if given(a.Command) {
		if given(a.Cmd) && !bytes.Equal(a.Cmd, a.Command) {
			return nil, "", false, wrong("`cmd` and `command` say different things")
		}
		raw = a.Command
	}
	if !given(raw) {
		return nil, "", false, wrong("missing field `command`")
	}
	if json.Unmarshal(raw, &script) == nil {
		return nil, script, true, nil
	}
	if json.Unmarshal(raw, &argv) != nil {
		return nil, "", false, wrong("`command` is neither text nor a list of texts")
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, "", false, wrong("`command` is empty")
	}
	return argv, "", false, nil
}

// whole reads a whole number; ok is false when it was not given. Too large a one is the largest.
func whole(name string, raw json.RawMessage) (n int64, ok bool, err error) {
	if !given(raw) {
		return 0, false, nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case raw[0] == '"' || err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, false, wrong("`%s` is a whole number, not %s", name, raw)
	case f < 0:
		return 0, false, wrong("`%s` cannot be negative", name)
	case f > math.MaxInt32:
		return math.MaxInt32, true, nil
	case f != math.Trunc(f):
		return 0, false, wrong("`%s` is a whole number, not %s", name, raw)
	}
	return int64(f), true, nil
}

// bounded reads a number of milliseconds and brings it within bounds. note says so.
func bounded(name string, raw json.RawMessage, by, least, most time.Duration) (d time.Duration, note string, err error) {
	n, ok, err := whole(name, raw)
	if err != nil || !ok {
		return min(by, most), "", err
	}
	d = time.Duration(n) * time.Millisecond
	switch {
	case d < least:
		return least, fmt.Sprintf("%s was raised from %d to %d, the least.", name, n, least.Milliseconds()), nil
	case d > most:
		return most, fmt.Sprintf("%s was lowered from %d to %d, the most.", name, n, most.Milliseconds()), nil
	}
	return d, "", nil
}

// expiration is the time-out of a call. Without one it is the default, or none for a command that lives on.
func (a toolArguments) expiration(lives bool, most time.Duration) (e process.ExecExpiration, note string, err error) {
	if !given(a.TimeoutMS) {
		if lives {
			return process.Cancellation(neverEnds), "", nil
		}
		return process.DefaultTimeout(), "", nil
	}
	d, note, err := bounded("timeout_ms", a.TimeoutMS, process.DefaultExecTimeout, minTimeout, most)
	return process.Timeout(d), note, err
}

// permissions are what the call asks for. What is neither is refused by name.
func (a toolArguments) permissions() (p process.SandboxPermissions, err error) {
	if a.Permissions != nil {
		if err := p.UnmarshalText([]byte(*a.Permissions)); err != nil {
			return 0, wrong("`sandbox_permissions` is use_default or require_escalated, not %q", *a.Permissions)
		}
	}
	return p, nil
}

// named is the session that a call means, in digits or as its caller named it. Both spellings and both types count.
func (a toolArguments) named() (string, error) {
	var names []string
	for _, raw := range []json.RawMessage{a.SessionID, a.ProcessID} {
		if !given(raw) {
			continue
		}
		var text string
		var number json.Number
		if json.Unmarshal(raw, &text) != nil {
			if json.Unmarshal(raw, &number) != nil {
				return "", wrong("a session is named by a number or a text, not by %s", raw)
			}
			text = number.String()
		}
		if text == "" || len(text) > 200 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "", wrong("a session's name is 1 to 200 printable characters")
		}
		names = append(names, text)
	}
	if len(names) == 2 && names[0] != names[1] {
		return "", wrong("`session_id` and `process_id` name different sessions")
	}
	if len(names) == 0 {
		return "", nil
	}
	return names[0], nil
}

// typed is what to write, in either spelling.
func (a toolArguments) typed() (string, error) {
	switch {
	case a.Chars != nil && a.Input != nil && *a.Chars != *a.Input:
		return "", wrong("`chars` and `input` say different things")
	case a.Chars != nil:
		return *a.Chars, nil
	case a.Input != nil:
		return *a.Input, nil
	}
	return "", nil
}

// waitFor is what a call waits for beside time, and how long at most.
func (a toolArguments) waitFor() (u session.Until, ceiling time.Duration, err error) {
	if !given(a.WaitFor) {
		return u, 0, nil
	}
	var w struct {
		Exit      bool            `json:"exit"`
		Pattern   string          `json:"pattern"`
		Port      json.RawMessage `json:"port"`
		Quiet     json.RawMessage `json:"quiet"`
		CeilingMS json.RawMessage `json:"ceiling_ms"`
	}
	var word string
	if json.Unmarshal(a.WaitFor, &word) == nil && word == "exit" {
		return session.Until{Exit: true}, 0, nil
	}
	d := json.NewDecoder(bytes.NewReader(a.WaitFor))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return u, 0, wrong("`wait_for` has exit, pattern, port, quiet and ceiling_ms: %s", jsonTrouble(err))
	}
	u.Exit = w.Exit
	if w.Pattern != "" {
		if u.Pattern, err = regexp.Compile(w.Pattern); err != nil {
			return u, 0, wrong("`wait_for.pattern` is not a regular expression: %v", err)
		}
	}
	port, ok, err := whole("wait_for.port", w.Port)
	if err != nil || ok && (port < 1 || port > 65535) {
		return u, 0, wrong("`wait_for.port` is a number from 1 to 65535")
	}
	u.Port = uint16(port)
	quiet, _, err := whole("wait_for.quiet", w.Quiet)
	if err != nil {
		return u, 0, err
	}
	u.Quiet = time.Duration(quiet) * time.Millisecond
	most, _, err := whole("wait_for.ceiling_ms", w.CeilingMS)
	if err != nil {
		return u, 0, err
	}
	if !u.Exit && u.Pattern == nil && u.Port == 0 && u.Quiet == 0 {
		return u, 0, wrong("`wait_for` names nothing: exit, pattern, port or quiet")
	}
	return u, time.Duration(most) * time.Millisecond, nil
}

// tokens is how much of the output the model wants.
func (a toolArguments) tokens() (int, error) {
	n, ok, err := whole("max_output_tokens", a.MaxTokens)
	if err != nil || !ok {
		return DefaultMaxTokens, err
	}
	return int(n), nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
