package anthropic

import (
	"encoding/json"
	"fmt"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// The tool types that are known here besides a client's own.
const (
	nativeBash     = "bash_20250124"
	openrouterBash = "openrouter:bash"
	ownBash        = "hardshell:bash"
)

// function is a client's tool as the loop takes it.
type function struct {
	Type         string          `json:"type"` // "function"
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Parameters   json.RawMessage `json:"parameters"`
	Strict       *bool           `json:"strict,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// readTools reads the tools and the choice among them.
func (a *asked) readTools(m *wire.Request) error {
	for i, t := range m.Tools {
		at := fmt.Sprintf("tools.%d", i)
		f := function{Type: "function", Name: t.Name, Description: t.Description, Strict: t.Strict, CacheControl: marked(t.CacheControl)}
		switch t.Type {
		case "", "custom":
			if t.Name == "" {
				return invalid(at+".name", "Field required")
			}
			if !isObject(t.InputSchema) {
				return invalid(at+".input_schema", "must be a JSON Schema object")
			}
			f.Parameters = t.InputSchema
		case nativeBash:
			if t.Name != bashName {
				return invalid(at+".name", "must be %s", bashName)
			}
			f.Description, f.Parameters = clientBash, json.RawMessage(nativeSchema)
		case openrouterBash, ownBash:
			if err := a.readBash(t, at, f); err != nil {
				return err
			}
			continue
		default:
			return invalid(at+".type", "Tools of type %q can't be served here", clip(t.Type)).WithTry("a tool of your own, %s or %s", nativeBash, ownBash)
		}
		if err := a.declare(f); err != nil {
			return err
		}
	}
	if err := a.readPlace(m); err != nil {
		return err
	}
	return a.readChoice(m.ToolChoice)
}

// declare adds a function.
func (a *asked) declare(f function) error {
	var t openai.Tool
	if err := json.Unmarshal(marshal(f), &t); err != nil {
		return err
	}
	a.request.Tools = append(a.request.Tools, t)
	return nil
}

// What a model knows of a bash that its user's application runs.
const (
	clientBash   = "Runs a command in a persistent bash session on the user's side and returns what it printed. restart begins a new session."
	nativeSchema = `{"type":"object","properties":{"command":{"type":"string","description":"The command to run."},` +
		`"restart":{"type":"boolean","description":"Begin a new session; command may be left out then."}}}`
)

// readChoice reads tool_choice.
func (a *asked) readChoice(c *wire.ToolChoice) error {
	if c == nil {
		return nil
	}
	if c.DisableParallelToolUse {
		no := false
		a.request.ParallelToolCalls = &no
	}
	switch c.Type {
	case "auto", "none":
		a.request.ToolChoice = marshal(c.Type)
	case "any":
		a.request.ToolChoice = marshal("required")
	case "tool":
		choice := map[string]string{"type": "function", "name": c.Name}
		if a.isBash(c.Name) {
			choice = map[string]string{"type": "shell"}
		}
		a.request.ToolChoice = marshal(choice)
	default:
		return invalid("tool_choice.type", "%q is not known: auto, any, tool and none are", clip(c.Type))
	}
	return nil
}
