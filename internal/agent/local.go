package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A shell call with the environment local is the client's to run: it gets a shell_call, the response ends, and the
// client's shell_call_output (or function_call_output) in the next request continues. Nothing of it ever runs here, and
// nothing here is known of where it runs.

// localSkill is a skill that lies where the client's commands run.
type localSkill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"path"`
}

// maxLocalSkills bounds the skills that a request may name: each stands in the description of the tool.
const maxLocalSkills = 200

// localPlace reads an environment whose calls the client runs. What only a container has is refused: to leave it out in
// silence would be to say that it holds.
func localPlace(env *openai.Environment, param string) (place, error) {
	for _, f := range []struct {
		key   string
		given bool
	}{{"container_id", env.ContainerID != ""}, {"memory_limit", env.MemoryLimit != nil}, {"network_policy", env.NetworkPolicy != nil},
		{"expires_after", env.ExpiresAfter != nil}} {
		if f.given {
			return place{}, rejected(param+"."+f.key, "%s is for a container; the calls of this shell are run by the client.", f.key).
				WithTry(`{"type":"container_auto"} to run commands in a container here`)
		}
	}
	p := place{local: true, param: param}
	if !present(env.Skills) {
		return p, nil
	}
	if err := json.Unmarshal(env.Skills, &p.localSkills); err != nil {
		return place{}, invalid(param+".skills", "Skills of a local environment are a list of {name, description, path}.")
	}
	if len(p.localSkills) > maxLocalSkills {
		return place{}, invalid(param+".skills", "%d skills; at most %d are allowed.", len(p.localSkills), maxLocalSkills)
	}
	for i, s := range p.localSkills {
		if s.Name == "" || s.Path == "" {
			return place{}, invalid(fmt.Sprintf("%s.skills[%d]", param, i), "A skill of a local environment needs a name and a path.").
				WithCode("missing_required_parameter")
		}
	}
	return p, nil
}

// relayed is an environment as a server reads it that runs nothing itself (client_passthrough): a container of its own
// accord is the client's machine, as long as nothing is asked of the container.
func relayed(env openai.Environment, param string) (*openai.Environment, error) {
	switch {
	case env.Type == envReference:
		return nil, rejected(param+".type", "This server has no containers: the client runs the calls of the shell.").WithTry(`{"type":"local"}`)
	case env.Type == envAuto && (len(env.FileIDs) > 0 || present(env.Skills)):
		return nil, rejected(param, "Files and skills can't be put where the client runs its calls.").WithTry(`{"type":"local"}`)
	case env.Type == envAuto:
		env.Type = envLocal // localPlace refuses the rest of what a container has
	}
	return &env, nil
}

// localSchema is shellSchema without what a client need not know how to do.
const localSchema = `{"type":"object","properties":{` +
	`"commands":{"type":"array","items":{"type":"string"},"minItems":1,` +
	`"description":"Command lines. Each may be run by itself and all at the same time; put steps that depend on each other into one."},` +
	`"timeout_ms":{"type":"integer","minimum":1,"description":"Time limit for each command, in milliseconds."},` +
	`"max_output_length":{"type":"integer","minimum":1,"description":"Characters of each stream to return."}},` +
	`"required":["commands"],"additionalProperties":false}`

// localFunction declares the client's shell as a function.
func localFunction(name string, p place, maxOutput int) openai.Tool {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Runs commands in a shell of the user's application and returns what each printed, one JSON object per command.")
	line("- The commands run on the user's side. The user may be asked first and may refuse; a command that is refused has an exit code and says why.")
	line("- The commands of one call may run at the same time. Join steps that need an order with && in one command. " +
		"Don't rely on cd or variables of an earlier command.")
	line("- Output: stdout and stderr are each cut to %d characters, head and tail kept (max_output_length may ask for less). "+
		"Redirect long output to a file, then grep or tail it.", maxOutput)
	if len(p.localSkills) > 0 {
		line("- Skills: folders with instructions and programs for a kind of task. When one fits the task, read its SKILL.md before you begin.")
		for _, s := range p.localSkills {
			line("  - %s: %s (%s)", s.Name, s.Description, s.Path)
		}
	}
	line("- There is no terminal and no standard input.")
	return openai.Tool{Type: "function", Name: name, Description: strings.TrimSuffix(b.String(), "\n"), Parameters: json.RawMessage(localSchema)}
}

// relay shows the client a call that it is to run, now that its arguments are read. One whose arguments are wrong it never
// sees: the model is told.
func (t *turn) relay(n *entry) {
	c := n.call
	if a := c.item.Action; c.problem == nil && (a.WorkingDirectory != "" || len(a.Env) > 0 || a.Stdin != "") {
		c.problem = errors.New("only commands, timeout_ms and max_output_length can be given here: write the folder, variables or input into the command")
	}
	if c.problem != nil {
		n.fate, n.why = refused, c.problem.Error()
		return
	}
	t.release(nil)
	n.id = id.New(id.ShellCall)
	opened := c.item
	opened.ID, opened.Action = n.id, openai.ShellAction{Commands: []string{}}
	c.item.ID = n.id
	n.index = t.loop.wire.open(openai.NewItem(opened))
	c.index = n.index
}

// ofClient says whether a shell_call is one that the client runs.
func ofClient(i openai.Item) bool {
	if i.Type != openai.TypeShellCall {
		return false
	}
	var c openai.ShellCall
	return i.Decode(&c) == nil && c.Environment != nil && c.Environment.Type == envLocal
}

// slack is how much a text may be longer than the limit and stays as it is: one that was cut here before, and comes back
// from a client that keeps no receipts, has a line more in its middle.
const slack = 256

// fitted cuts what a client's command printed to what the model reads of it. The item keeps all of it.
func fitted(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit+slack {
		return text
	}
	v, err := process.ReadView(strings.NewReader(text), limit)
	if err != nil { // a string can be read
		return text[:limit]
	}
	return v.Text
}

// fit is how much of a stream of a client's the model reads.
func fit(o shellOutput, most int) int {
	if most <= 0 {
		most = lastView
	}
	if n := o.MaxOutputLength; n != nil && *n < int64(most) {
		most = int(max(*n, minView))
	}
	return most
}
