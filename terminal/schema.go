package terminal

import "encoding/json"

// ToolSpec is a tool as a model's tool list has it.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Strict      bool            `json:"strict"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema
}

// property is one argument in a schema.
type property struct {
	name     string
	schema   map[string]any
	required bool
}

func of(kind, description string) map[string]any {
	return map[string]any{"type": kind, "description": description}
}

// The arguments, as a model is shown them: today's spellings. The older ones are understood and not advertised.
var (
	words       = map[string]any{"type": "string"}
	propWorkdir = property{"workdir", of("string", "Folder to run in; relative ones start from the workspace."), false}
	propTimeout = property{"timeout_ms", of("integer", "Longest run time in milliseconds; the command and all it started is killed then."), false}
	propLogin   = property{"login", of("boolean", "Run with the environment of the user's login. Default true."), false}
	propShell   = property{"shell", of("string", "Shell to use, by name or path. Default: the user's."), false}
	propTokens  = property{"max_output_tokens", of("integer", "How much of the output to return, head and tail. Default 10000."), false}
	propYield   = property{"yield_time_ms", of("integer", "How long to gather output before answering, from the start or the write."), false}
	propWait    = property{"wait_for", map[string]any{"type": "object", "additionalProperties": false,
		"description": "Answer when one of these happens instead of after a time: the end, a regular expression in a line, a port listened on, silence.",
		"properties": map[string]any{"exit": of("boolean", "The end of the command."), "pattern": of("string", "A regular expression, somewhere in a line."),
			"port": of("integer", "Somebody listens on this port of the sandbox."), "quiet": of("integer", "No output for this many milliseconds."),
			"ceiling_ms": of("integer", "The longest to wait. Default 10 minutes.")}}, false}
	propAsk = []property{
		{"sandbox_permissions", map[string]any{"type": "string", "enum": []string{"use_default", "require_escalated"},
			"description": "require_escalated asks a person to run this outside the sandbox."}, false},
		{"justification", of("string", "With require_escalated: one sentence for the person who is asked."), false},
		{"prefix_rule", map[string]any{"type": "array", "items": words, "description": "The beginning of this command that a person may allow for good, such as [\"npm\", \"test\"]."}, false},
	}
)

// Specs are the tools of a new registry, for a model's tool list: exec_command and write_stdin, and the older ones if asked.
func Specs(older bool) []ToolSpec {
	list := []ToolSpec{
		spec(ToolExecCommand, "Runs a command and answers with its output, or with a session ID while it still runs. With tty it runs in a terminal and write_stdin can type into it. What it leaves running when it ends is ended too, unless it is started with background.",
			append([]property{{"cmd", of("string", "Command line, given to the shell as it is."), true}, propWorkdir, propShell, propLogin,
				{"tty", of("boolean", "Run in a terminal of 24 rows and 80 columns. Default false: pipes, and no input."), false}, propTimeout, propYield, propWait,
				{"background", of("boolean", "Start a server or another long job and answer as soon as it is ready (see wait_for), has failed, or still runs after 2 seconds."), false}, propTokens}, propAsk...)),
		spec(ToolWriteStdin, "Types characters into a session that runs in a terminal, or only looks at it when there are none, and answers with what is new.",
			[]property{{"session_id", of("integer", "The session, as exec_command named it."), true},
				{"chars", of("string", "Characters to type; \\u0003 is Ctrl-C. Empty only looks."), false}, propYield, propWait, propTokens}),
	}
	if !older {
		return list
	}
	list = append(list, spec(ToolShellCommand, "Runs a command line in the user's shell and answers with its output. Nothing is kept between calls.",
		append([]property{{"command", of("string", "Command line, given to the shell as it is."), true}, propWorkdir, propLogin, propTimeout}, propAsk...)))
	for _, name := range []string{ToolShell, ToolContainer} {
		list = append(list, spec(name, "Runs a program with arguments and answers with its output. Nothing is kept between calls.",
			append([]property{{"command", map[string]any{"type": "array", "items": words, "description": "Program and arguments."}, true}, propWorkdir, propTimeout}, propAsk...)))
	}
	return list
}

func spec(name, description string, properties []property) ToolSpec {
	schema := map[string]any{"type": "object", "additionalProperties": false}
	all, required := map[string]any{}, []string{}
	for _, p := range properties {
		all[p.name] = p.schema
		if p.required {
			required = append(required, p.name)
		}
	}
	schema["properties"], schema["required"] = all, required
	text, _ := json.Marshal(schema) // plain values: it cannot fail
	return ToolSpec{Name: name, Description: description, Parameters: text}
}
