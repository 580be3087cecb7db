package scripted

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// tool is the shell-like function that the client declared.
type tool struct {
	name   string
	schema schema
}

// schema is the part of a function's parameters that is needed to fill them.
type schema struct {
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type    any               `json:"type"` // a word, or a list of words
	Enum    []json.RawMessage `json:"enum"`
	Default json.RawMessage   `json:"default"`
	Minimum json.RawMessage   `json:"minimum"`
}

// is says whether the property may have a type.
func (p property) is(typ string) bool {
	switch t := p.Type.(type) {
	case string:
		return t == typ
	case []any:
		return slices.Contains(t, any(typ))
	}
	return false
}

// commandKeys are the properties that may hold what to run, the best first.
var commandKeys = []string{"commands", "command", "cmd", "script", "code"}

// shellNames are the names by which clients call such a function.
var shellNames = []string{"shell", "bash", "shell_command", "exec_command", "run_shell_command", "local_shell", "execute_command",
	"run_command", "terminal"}

// pick finds the shell-like function among those declared, nil if there is none or the caller wants none called.
func pick(tools []openai.Tool, choice json.RawMessage) *tool {
	if string(choice) == `"none"` {
		return nil
	}
	var best *tool
	bestRank := len(shellNames) + 2
	for _, t := range tools {
		candidate := tool{name: t.Name}
		if t.Type != "function" {
			continue
		}
		// A schema that cannot be read is a schema without properties.
		_ = json.Unmarshal(t.Parameters, &candidate.schema)
		lower := strings.ToLower(t.Name)
		rank := slices.Index(shellNames, lower)
		switch {
		case rank >= 0:
		case strings.Contains(lower, "shell") || strings.Contains(lower, "bash"):
			rank = len(shellNames)
		case candidate.key() != "" && strings.Contains(lower, "exec"):
			rank = len(shellNames) + 1
		default:
			continue
		}
		if rank < bestRank {
			best, bestRank = &candidate, rank
		}
	}
	return best
}

// key is the property that takes what to run, "" if there is none.
func (t *tool) key() string {
	for _, k := range commandKeys {
		if _, ok := t.schema.Properties[k]; ok {
			return k
		}
	}
	return ""
}

// arguments fills the function's parameters: what to run, and a plausible value for whatever else is demanded.
func (t *tool) arguments(commands []string) string {
	args := map[string]any{}
	key := t.key()
	p := t.schema.Properties[key]
	switch {
	case key == "commands" && !p.is("string"):
		args[key] = commands
	case key == "":
		args["command"] = strings.Join(commands, "\n")
	case p.is("array"):
		args[key] = []string{"bash", "-lc", strings.Join(commands, "\n")}
	default:
		args[key] = strings.Join(commands, "\n")
	}
	for _, name := range t.schema.Required {
		if _, ok := args[name]; !ok {
			args[name] = t.schema.Properties[name].plausible()
		}
	}
	raw, err := openai.Marshal(args)
	if err != nil {
		return "{}" // raw values of the schema that are no JSON
	}
	return string(raw)
}

// plausible is a value that the property's schema allows.
func (p property) plausible() any {
	switch {
	case len(p.Default) > 0:
		return p.Default
	case len(p.Enum) > 0:
		return p.Enum[0]
	case p.is("null"):
		return nil
	case p.is("boolean"):
		return false
	case len(p.Minimum) > 0:
		return p.Minimum
	case p.is("integer"), p.is("number"):
		return 0
	case p.is("array"):
		return []string{}
	case p.is("object"):
		return struct{}{}
	}
	return "scripted call"
}
