package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// surroundings are the facts that the shell's description tells the model. All of them are true of this request.
type surroundings struct {
	workdir        string
	network        string // none | what the container may reach
	isolation      string
	unavailable    string // why no command can run here now, with the remedy; empty when one can
	defaultTimeout time.Duration
	maxTimeout     time.Duration
	maxOutput      int    // characters a stream
	memory         string // as people write it; empty when there is no limit
	skills         []string
	inOrder        bool   // the commands of a call run one after the other
	operator       string // the operator's words
}

// shellSchema is the schema of our function's arguments.
const shellSchema = `{"type":"object","properties":{` +
	`"commands":{"type":"array","items":{"type":"string"},"minItems":1,` +
	`"description":"Bash scripts. Each runs by itself and all run at the same time; put steps that depend on each other into one."},` +
	`"timeout_ms":{"type":"integer","minimum":1,"description":"Time limit for each command, in milliseconds."},` +
	`"max_output_length":{"type":"integer","minimum":1,"description":"Characters of each stream to return."},` +
	`"working_directory":{"type":"string","description":"Where the commands start; relative to the working directory."},` +
	`"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Variables for the commands."},` +
	`"stdin":{"type":"string","description":"Standard input of each command."}},` +
	`"required":["commands"],"additionalProperties":false}`

// shellNames are the names that our function may go by; a client's function of that name keeps it and ours moves on.
var shellNames = []string{"shell", "shell_run", "hosted_shell", "hosted_shell_run"}

// shellName picks the first name that no function of the client's has.
func shellName(taken map[string]bool) string {
	for _, n := range shellNames {
		if !taken[n] {
			return n
		}
	}
	for i := 2; ; i++ {
		if n := fmt.Sprintf("shell_run_%d", i); !taken[n] {
			return n
		}
	}
}

// shellFunction declares our shell as a function.
func shellFunction(name string, s surroundings) openai.Tool {
	return openai.Tool{Type: "function", Name: name, Description: describe(s), Parameters: json.RawMessage(shellSchema)}
}

// describe writes the shell's description for the model.
func describe(s surroundings) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Runs bash commands in a Linux container and returns what each printed, one JSON object per command.")
	if s.unavailable != "" {
		line("- NOT AVAILABLE NOW: %s", s.unavailable)
	}
	line("- Working directory: %s. Every command starts there; it is where to read input files and write results.", s.workdir)
	line("- Files under %s are kept between calls and turns, and the user can download them. Files elsewhere are not for the user.",
		s.workdir)
	line("- The container lives on between calls: files stay, and so do background processes (start them with their output in a file). " +
		"Each command is a new shell: cd and variables are not carried over.")
	if s.inOrder {
		line("- The commands of one call run one after the other, whatever became of the one before; calls made together run at the same time.")
	} else {
		line("- The commands of one call, and calls made together, run at the same time. Join steps that need an order with && in one command.")
	}
	if s.network == "" || s.network == "none" {
		line("- Network: none. Nothing can be downloaded; work with what is installed.")
	} else {
		line("- Network: %s.", s.network)
	}
	if s.isolation != "" {
		line("- Isolation: %s; not root, and nothing outside the container can be read or changed.", s.isolation)
	}
	line("- Time limit per command: %s unless timeout_ms asks for another, at most %s. At the limit the command and all its processes are killed; what was printed is returned.",
		seconds(s.defaultTimeout), seconds(s.maxTimeout))
	if s.memory != "" {
		line("- Memory: %s for the container.", s.memory)
	}
	line("- Output: stdout and stderr are each cut to %d characters, head and tail kept (max_output_length may ask for less). "+
		"The result of a cut command says where all of it can be read. Redirect long output to a file under %s, then grep or tail it.",
		s.maxOutput, s.workdir)
	if len(s.skills) > 0 {
		line("- Skills, read-only: folders with instructions and programs for a kind of task. When one fits the task, read its SKILL.md before you begin.")
		for _, k := range s.skills {
			line("  - %s", k)
		}
	}
	line("- There is no terminal; standard input is empty unless stdin is given.")
	if text := strings.TrimSpace(s.operator); text != "" {
		line("%s", text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func seconds(d time.Duration) string {
	if d%time.Second == 0 {
		return fmt.Sprintf("%d s", int64(d/time.Second))
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// What the model is told outside its tools. They stand in the instructions: a system message between turns is refused
// by many models.
const (
	noteFresh = "Note: the container of the earlier turns is gone, with its files and processes. " +
		"Commands now run in a fresh, empty one; make again what you need."
	noteLast = "Note: the limit of model rounds for this request is reached. No tool can be called any more: " +
		"answer now with what you have, and say what is left undone."
)

// instructed adds notes to the request's own instructions.
func instructed(own string, notes ...string) string {
	parts := make([]string, 0, 1+len(notes))
	for _, p := range append([]string{own}, notes...) {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "\n\n")
}
