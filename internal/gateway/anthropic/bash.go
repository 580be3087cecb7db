package anthropic

import (
	"encoding/json"
	"strings"

	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// bashSchema is the arguments of the call, for a bash that the client runs.
const bashSchema = `{"type":"object","properties":{` +
	`"command":{"type":"string","description":"A command to run."},` +
	`"commands":{"type":"array","items":{"type":"string"},"description":"Commands to run one after the other."},` +
	`"restart":{"type":"boolean","description":"Begin a new session first."},` +
	`"timeout_ms":{"type":"integer","minimum":1,"description":"Time limit for all commands of the call, in milliseconds."},` +
	`"max_output_length":{"type":"integer","minimum":1,"description":"Characters of each stream to return."}}}`

// readBash reads a bash that may be the server's to run: by its engine. The default hands each call to the client.
func (a *asked) readBash(t wire.Tool, at string, f function) error {
	var tool struct {
		Parameters struct {
			Engine      string              `json:"engine"`
			Environment *openai.Environment `json:"environment"`
		} `json:"parameters"`
	}
	if err := json.Unmarshal(t.Raw, &tool); err != nil {
		return invalid(at+".parameters", "must be an object with engine and environment")
	}
	env := tool.Parameters.Environment
	if env != nil && env.Type != "container_auto" && env.Type != "container_reference" {
		return invalid(at+".parameters.environment.type", "%q is not known: container_auto and container_reference are", clip(env.Type))
	}
	switch tool.Parameters.Engine {
	case "", "auto", "native":
		if f.Name == "" {
			f.Name = bashName
		}
		f.Description, f.Parameters = clientBash, json.RawMessage(bashSchema)
		return a.declare(f)
	case "openrouter", "hardshell":
	default:
		return invalid(at+".parameters.engine", "%q is not known: openrouter, auto and native are", clip(tool.Parameters.Engine))
	}
	if a.request.Bash != nil {
		return invalid(at, "Only one bash of the server's is allowed in a request")
	}
	a.request.Bash = &openai.Bash{}
	if env == nil {
		env = &openai.Environment{Type: "container_auto"}
	}
	a.request.Tools = append(a.request.Tools, openai.Tool{Type: "shell", Environment: env})
	return nil
}

// isBash says whether a choice names the server's bash.
func (a *asked) isBash(name string) bool {
	return a.request.Bash != nil && (name == bashName || name == bashExecution) && !a.declares(name)
}

func (a *asked) declares(name string) bool {
	for _, t := range a.request.Tools {
		if t.Type == "function" && t.Name == name {
			return true
		}
	}
	return false
}

// maxSession bounds a session_id.
const maxSession = 256

// readPlace reads where the server's bash runs, where its environment leaves that open: in the container that the request
// names, or in that of its session.
func (a *asked) readPlace(m *wire.Request) error {
	if raw := m.Extra["session_id"]; present(raw) {
		var session string
		if err := json.Unmarshal(raw, &session); err != nil || strings.TrimSpace(session) == "" || len(session) > maxSession {
			return invalid("session_id", "must be a string of 1 to %d bytes", maxSession)
		}
		if a.request.Bash != nil {
			a.request.Bash.SessionID = session
		}
	}
	if !present(m.Container) {
		return nil
	}
	var c struct {
		ID     string            `json:"id"`
		Skills []json.RawMessage `json:"skills"`
	}
	if json.Unmarshal(m.Container, &c.ID) != nil && json.Unmarshal(m.Container, &c) != nil {
		return invalid("container", "must be an id, or an object with an id")
	}
	if len(c.Skills) > 0 {
		return invalid("container.skills", "Skills can't be served here").WithTry("a container made with skills, by its id")
	}
	if c.ID == "" || a.request.Bash == nil {
		return nil // told by an earlier answer, and of no use now
	}
	for i, t := range a.request.Tools {
		if t.Type == "shell" && t.Environment.Type == "container_auto" {
			a.request.Tools[i].Environment = &openai.Environment{Type: "container_reference", ContainerID: c.ID}
		}
	}
	return nil
}
