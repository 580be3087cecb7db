package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// bashHost is the script of the shell's keeper. Its argument is a folder of its own, where a command is announced: `ctl` is
// told the command's number and the process whose streams it is to use, and `N.end` its exit code when it is over. A shell that
// ends, by `exit` or a signal, is an end too, and the next command gets a new one. `0` is the word to go; without its folder
// it goes as well, as nobody can tell it anything.
const bashHost = `umask 077
mkdir -p "$1" || exit 1
[ -p "$1/ctl" ] || mkfifo "$1/ctl" 2>/dev/null || [ -p "$1/ctl" ] || exit 1
umask 022
while [ -p "$1/ctl" ]; do
	: >"$1/now"
	"$SHELL" -c '
		__hs=$1
		while read -r __hs_n __hs_p <&9; do
			[ "$__hs_n" = 0 ] && { : >"$__hs/gone"; exit 0; }
			echo "$__hs_n" >"$__hs/now"
			__hs_c=$(cat "$__hs/$__hs_n.cmd"; echo .)
			eval "${__hs_c%.}" >"/proc/$__hs_p/fd/1" 2>"/proc/$__hs_p/fd/2" </dev/null 9<&-
			echo $? 1<>"$__hs/$__hs_n.end"
			: >"$__hs/now"
		done 9<>"$__hs/ctl"
	' bash "$1" </dev/null
	__s=$?
	[ -e "$1/gone" ] && break
	__n=$(cat "$1/now")
	[ -n "$__n" ] && echo "$__s" 1<>"$1/$__n.end"
done
rm -rf "$1"`

// bashClient is the script of a command: it hands what it reads to the shell, lends it its streams, and ends as the command
// does. It holds both pipes open meanwhile: what is written to one that nobody has open is lost.
func bashClient(folder string, n int) string {
	return fmt.Sprintf(`cd %s 2>/dev/null || { umask 077; mkdir -p %s && cd %s; } || exit 126
[ -p ctl ] || mkfifo -m 600 ctl 2>/dev/null || [ -p ctl ] || exit 126
cat >%d.cmd && mkfifo -m 600 %d.end || exit 126
exec 7<>ctl 8<>%d.end
echo %d $$ >&7
read -r s <&8
rm -f %d.cmd %d.end
exit "$s"`, folder, folder, folder, n, n, n, n, n, n)
}

// bashQuit has the shell go.
func bashQuit(folder string) string {
	return "cd " + folder + " && exec 7<>ctl && echo 0 0 >&7 && while [ -p ctl ]; do sleep 0.02; done"
}

// bashSchema is the schema of bash's arguments.
const bashSchema = `{"type":"object","properties":{` +
	`"command":{"type":"string","description":"A bash command."},` +
	`"commands":{"type":"array","items":{"type":"string"},"description":"Bash commands to run one after the other, whatever becomes of one of them."},` +
	`"restart":{"type":"boolean","description":"Begin anew in a fresh, empty container before anything is run."},` +
	`"timeout_ms":{"type":"integer","minimum":1,"description":"Time limit for all commands of the call together, in milliseconds."},` +
	`"max_output_length":{"type":"integer","minimum":1,"description":"Characters of each stream to return."}},` +
	`"additionalProperties":false}`

// bashNames are the names that the function may go by; a client's function of that name keeps it.
var bashNames = []string{"bash", "bash_run", "hosted_bash"}

// bashFunction declares bash as a function.
func bashFunction(taken map[string]bool, s surroundings) openai.Tool {
	name := shellName(taken)
	for _, n := range bashNames {
		if !taken[n] {
			name = n
			break
		}
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Runs commands in one bash in a Linux container and returns what each printed, one JSON object per command.")
	if s.unavailable != "" {
		line("- NOT AVAILABLE NOW: %s", s.unavailable)
	}
	line("- Commands run one after the other in the same shell: cd, variables and functions hold from call to call. `exit` ends the shell, and the next command gets a new one.")
	line("- It starts in %s; files there can be downloaded by the user.", s.workdir)
	if s.network == "" || s.network == "none" {
		line("- Network: none. Nothing can be downloaded; work with what is installed.")
	} else {
		line("- Network: %s.", s.network)
	}
	if s.isolation != "" {
		line("- Isolation: %s; not root, and nothing outside the container can be read or changed.", s.isolation)
	}
	line("- Time limit for a call: %s unless timeout_ms asks for another, at most %s. At the limit the shell and all that it runs are killed; what was printed is returned.",
		seconds(s.defaultTimeout), seconds(s.maxTimeout))
	if s.memory != "" {
		line("- Memory: %s for the container.", s.memory)
	}
	line("- Output: stdout and stderr are each cut to %d characters, head and tail kept. Redirect long output to a file, then grep or tail it.", s.maxOutput)
	line("- There is no terminal, and standard input is empty.")
	if text := strings.TrimSpace(s.operator); text != "" {
		line("%s", text)
	}
	return openai.Tool{Type: "function", Name: name, Description: strings.TrimSuffix(b.String(), "\n"), Parameters: json.RawMessage(bashSchema)}
}

// bashed tells the calls of a bash, and their results, as a model made and read them.
func (p *plan) bashed(items []openai.Item) ([]openai.Item, error) {
	if p.request.Bash == nil {
		return items, nil
	}
	out := make([]openai.Item, 0, len(items))
	commands := map[string][]string{}
	for _, i := range items {
		switch i.Type {
		case openai.TypeShellCall:
			var c openai.ShellCall
			if err := i.Decode(&c); err != nil {
				return nil, err
			}
			commands[c.CallID] = c.Action.Commands
			out = append(out, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, ID: c.ID, CallID: c.CallID, Name: p.shellName(),
				Arguments: bashText(c.Action), Status: openai.Completed}))
		case openai.TypeShellCallOutput:
			var o shellOutput
			if err := i.Decode(&o); err != nil {
				return nil, err
			}
			out = append(out, functionOutput(o.CallID, bashResult(commands[o.CallID], o)))
		default:
			out = append(out, i)
		}
	}
	return out, nil
}

// bashText is an action as the arguments of a call.
func bashText(a openai.ShellAction) string {
	args := struct {
		Command         string   `json:"command,omitempty"`
		Commands        []string `json:"commands,omitempty"`
		Restart         bool     `json:"restart,omitempty"`
		TimeoutMS       *int64   `json:"timeout_ms,omitempty"`
		MaxOutputLength *int64   `json:"max_output_length,omitempty"`
	}{Restart: a.Restart, TimeoutMS: a.TimeoutMS, MaxOutputLength: a.MaxOutputLength}
	if len(a.Commands) == 1 {
		args.Command = a.Commands[0]
	} else {
		args.Commands = a.Commands
	}
	raw, err := openai.Marshal(args)
	if err != nil { // strings and numbers always marshal
		return "{}"
	}
	return string(raw)
}

// exitTimeout stands for a command that its time limit ended, as timeout(1) has it.
const exitTimeout = 124

// bashResult is a call's result for the model: one JSON object per command, a line each.
func bashResult(commands []string, o shellOutput) string {
	var lines []string
	for n, e := range o.Output {
		r := struct {
			Command  string `json:"command"`
			Stdout   string `json:"stdout"`
			Stderr   string `json:"stderr"`
			ExitCode int    `json:"exitCode"`
			Note     string `json:"note,omitempty"`
		}{Stdout: e.Stdout, Stderr: e.Stderr, ExitCode: exitTimeout, Note: note(e)}
		if n < len(commands) {
			r.Command = commands[n]
		}
		if e.Outcome.ExitCode != nil {
			r.ExitCode = *e.Outcome.ExitCode
		}
		raw, err := openai.Marshal(r)
		if err != nil { // strings and numbers always marshal
			continue
		}
		lines = append(lines, string(raw))
	}
	if len(lines) == 0 {
		return errorText("This call has no output.")
	}
	return strings.Join(lines, "\n")
}
