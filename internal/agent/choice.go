package agent

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// choice is a request's tool_choice, read once. Allowed is nil when every tool may be called.
type choice struct {
	mode    string   // auto | none | required | function
	name    string   // the forced function; shellChoice means our shell, patchChoice apply_patch
	allowed []string // names that allowed_tools leaves, the same
}

// shellChoice stands for our shell in a choice. No function can have this name.
const shellChoice = "\x00shell"

// readChoice reads and checks tool_choice against the declared tools.
func readChoice(raw json.RawMessage, tools []openai.Tool) (choice, error) {
	if !present(raw) {
		return choice{mode: "auto"}, nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "auto", "none":
			return choice{mode: word}, nil
		case "required":
			if len(tools) == 0 {
				return choice{}, invalid("tool_choice", `tool_choice "required" needs at least one tool.`)
			}
			return choice{mode: word}, nil
		}
		return choice{}, invalid("tool_choice", "tool_choice has an unknown value %q.", word)
	}
	var c struct {
		Type  string `json:"type"`
		Name  string `json:"name"`
		Mode  string `json:"mode"`
		Tools []struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return choice{}, invalid("tool_choice", "tool_choice must be a word or an object with a type.")
	}
	if c.Type != "allowed_tools" {
		name, err := chosen(c.Type, c.Name, "tool_choice", tools)
		return choice{mode: "function", name: name}, err
	}
	if c.Mode != "auto" && c.Mode != "required" {
		return choice{}, invalid("tool_choice.mode", "tool_choice.mode has an unknown value %q.", c.Mode)
	}
	if len(c.Tools) == 0 {
		return choice{}, invalid("tool_choice.tools", "tool_choice.tools must name at least one tool.")
	}
	out := choice{mode: c.Mode, allowed: []string{}}
	for i, t := range c.Tools {
		name, err := chosen(t.Type, t.Name, fmt.Sprintf("tool_choice.tools[%d]", i), tools)
		if err != nil {
			return choice{}, err
		}
		out.allowed = append(out.allowed, name)
	}
	return out, nil
}

// chosen finds the tool that a choice names.
func chosen(typ, name, param string, tools []openai.Tool) (string, error) {
	switch typ {
	case "shell":
		if slices.ContainsFunc(tools, func(t openai.Tool) bool { return t.Type == "shell" }) {
			return shellChoice, nil
		}
		return "", invalid(param, "%s names the shell, which is not among the tools.", param)
	case openai.ToolApplyPatch:
		if slices.ContainsFunc(tools, func(t openai.Tool) bool { return t.Type == openai.ToolApplyPatch }) {
			return patchChoice, nil
		}
		return "", invalid(param, "%s names apply_patch, which is not among the tools.", param)
	case "function":
		if slices.ContainsFunc(tools, func(t openai.Tool) bool { return t.Type == "function" && t.Name == name }) {
			return name, nil
		}
		return "", invalid(param+".name", "%s names function %q, which is not among the tools.", param, name)
	default:
		return "", invalid(param+".type", "%s has an unknown or unserved type %q.", param, typ)
	}
}

// permits says whether the choice leaves a tool callable; name is shellChoice for our shell.
func (c choice) permits(name string) bool {
	return c.allowed == nil || slices.Contains(c.allowed, name)
}

// forRound is the choice as a model call carries it. A forced call is forced in the first round only: forced for
// ever, the model could never answer. shell and patch are the names that our functions go by.
func (c choice) forRound(first bool, shell, patch string) json.RawMessage {
	switch {
	case c.mode == "none":
		return json.RawMessage(`"none"`)
	case !first, c.mode == "auto":
		return json.RawMessage(`"auto"`)
	case c.mode == "required":
		return json.RawMessage(`"required"`)
	}
	name := c.name
	switch name {
	case shellChoice:
		name = shell
	case patchChoice:
		name = patch
	}
	raw, err := openai.Marshal(struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}{"function", name})
	if err != nil { // a string always marshals
		return json.RawMessage(`"required"`)
	}
	return raw
}
