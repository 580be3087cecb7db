package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// maxCommands bounds the commands of one call: all of them run at the same time. A call with more is answered with
// exit 2, and the model may split it.
const maxCommands = 32

// readArguments reads the arguments of a call of our shell. An error is a sentence for the model, which may repair
// its call.
func readArguments(raw string) (openai.ShellAction, error) {
	none := openai.ShellAction{Commands: []string{}}
	var a struct {
		Commands        json.RawMessage `json:"commands"`
		TimeoutMS       *float64        `json:"timeout_ms"`
		MaxOutputLength *float64        `json:"max_output_length"`

		WorkingDirectory *string                    `json:"working_directory"`
		Env              map[string]json.RawMessage `json:"env"`
		Stdin            *string                    `json:"stdin"`
	}
	d := json.NewDecoder(strings.NewReader(raw))
	if err := d.Decode(&a); err != nil {
		return none, fmt.Errorf("the arguments are not a JSON object of this function's schema (%s)", plain(err))
	}
	if d.More() {
		return none, fmt.Errorf("the arguments hold more than one JSON object")
	}
	action := openai.ShellAction{TimeoutMS: whole(a.TimeoutMS), MaxOutputLength: whole(a.MaxOutputLength)}
	var one string
	switch {
	case !present(a.Commands):
		return none, fmt.Errorf(`"commands" is missing: it must be an array of strings`)
	case json.Unmarshal(a.Commands, &one) == nil: // models write a lone command so; it can mean one thing only
		action.Commands = []string{one}
	case json.Unmarshal(a.Commands, &action.Commands) != nil:
		return none, fmt.Errorf(`"commands" must be an array of strings`)
	}
	if err := surroundingsOf(&action, a.WorkingDirectory, a.Env, a.Stdin); err != nil {
		return none, err
	}
	blank := true
	for i, c := range action.Commands {
		blank = blank && strings.TrimSpace(c) == ""
		if strings.ContainsRune(c, 0) {
			return none, fmt.Errorf("commands[%d] holds a NUL character", i)
		}
	}
	switch {
	case blank:
		return none, fmt.Errorf(`"commands" is empty: give at least one command`)
	case len(action.Commands) > maxCommands:
		return none, fmt.Errorf("%d commands in one call; at most %d are run at once", len(action.Commands), maxCommands)
	}
	return action, nil
}

// surroundingsOf reads what the commands of a call start with. A model may write a variable's value as a number.
func surroundingsOf(action *openai.ShellAction, dir *string, env map[string]json.RawMessage, stdin *string) error {
	if dir != nil {
		action.WorkingDirectory = *dir
	}
	if stdin != nil {
		action.Stdin = *stdin
	}
	for name, raw := range env {
		var value string
		if err := json.Unmarshal(raw, &value); err != nil {
			if !json.Valid(raw) || len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
				return fmt.Errorf("the variable %q in \"env\" must be a string", name)
			}
			value = string(raw)
		}
		if err := container.CheckVariable(name, value); err != nil {
			return errors.New(public(err))
		}
		if action.Env == nil {
			action.Env = map[string]string{}
		}
		action.Env[name] = value
	}
	if strings.ContainsRune(action.WorkingDirectory, 0) {
		return errors.New(`"working_directory" holds a NUL character`)
	}
	return nil
}

// whole reads a number that a model may have written with a fraction; what is no useful number is left out.
func whole(v *float64) *int64 {
	if v == nil || math.IsNaN(*v) || *v <= 0 || *v > 1<<50 {
		return nil
	}
	n := int64(*v)
	return &n
}

// plain is a JSON error without Go's words for its types.
func plain(err error) string {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		return fmt.Sprintf("%s where it does not belong, at %q", withArticle(typed.Value), typed.Field)
	}
	return err.Error()
}

// withArticle puts an article before a kind of JSON value.
func withArticle(kind string) string {
	if strings.HasPrefix(kind, "a") || strings.HasPrefix(kind, "o") { // array, object
		return "an " + kind
	}
	return "a " + kind
}

// argumentsText is an action as the arguments of a function call. A model that reads its own history sees the form
// that it is asked to write.
func argumentsText(a openai.ShellAction) string {
	commands := a.Commands
	if commands == nil {
		commands = []string{}
	}
	raw, err := openai.Marshal(struct {
		Commands        []string `json:"commands"`
		TimeoutMS       *int64   `json:"timeout_ms,omitempty"`
		MaxOutputLength *int64   `json:"max_output_length,omitempty"`

		WorkingDirectory string            `json:"working_directory,omitempty"`
		Env              map[string]string `json:"env,omitempty"`
		Stdin            string            `json:"stdin,omitempty"`
	}{commands, a.TimeoutMS, a.MaxOutputLength, a.WorkingDirectory, a.Env, a.Stdin})
	if err != nil { // strings and numbers always marshal
		return "{}"
	}
	return string(raw)
}
