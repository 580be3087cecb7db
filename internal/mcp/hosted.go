package mcp

import (
	"context"
	"encoding/json"
	"path"
	"path/filepath"
	"sync/atomic"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/command"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// hosted runs a session's commands in one container, whatever policy they come with: nothing of it starts a process on the
// host.
type hosted struct {
	terminal.LocalBackend // computes; Open is ours
	containers            *container.Service
	org, id               string
	found                 container.Surroundings
	network               string // in the words of a report
	key                   string // before the keys of its commands: those of two sessions never meet
	restarted             atomic.Bool
}

var _ terminal.ElsewhereBackend = (*hosted)(nil)

// Select says that nothing of ours is put around a command: the container is there already.
func (*hosted) Select(sandbox.Policy, terminal.SandboxPreference) process.SandboxType {
	return process.SandboxNone
}

// Folder takes any path: whether there is such a folder in the container is for the command's start to find out.
func (*hosted) Folder(dir string) (string, error) {
	if !path.IsAbs(dir) {
		return "", fault.New(fault.Invalid, "A folder of the container is an absolute path, not %q.", dir).WithParam("cwd")
	}
	return path.Clean(dir), nil
}

// Open is the container itself.
func (h *hosted) Open(context.Context, terminal.PlaceSpec) (terminal.Place, error) { return h, nil }

// Denial is none: what a container keeps its commands from, it tells them.
func (*hosted) Denial(terminal.Place, terminal.PlaceSpec, string, int, []byte) (sandbox.Denial, bool) {
	return sandbox.Denial{}, false
}

// Start starts a command in the container, which boots it again if it must.
func (h *hosted) Start(ctx context.Context, c process.Command) (*process.Job, error) {
	c.Key = h.key + c.Key
	job, restarted, err := h.containers.LiveTold(ctx, h.org, h.id, c)
	if restarted {
		h.restarted.Store(true)
	}
	return job, err
}

// news is what is to be told of the container's end, once.
func (h *hosted) news() *terminal.Reset {
	if !h.restarted.Swap(false) {
		return nil
	}
	return &terminal.Reset{Reason: resetContainer, Message: "Container " + h.id + " was restarted before this command: its files are there, the processes of earlier commands are gone."}
}

// Report is how strong the container is.
func (h *hosted) Report() sandbox.Report {
	i := h.found.Isolation
	return sandbox.Report{Asked: sandbox.Rung(i.Asked), Got: sandbox.Rung(i.Got), Mode: "container " + h.id, Network: h.network, Missing: i.Missing}
}

// Done is never: a container that loses its box gets another one.
func (*hosted) Done() <-chan struct{} { return nil }

// Close leaves the container to its idle time: its files can be fetched until then.
func (*hosted) Close() error { return nil }

// session is what a client's session in the container is opened with. Nobody is asked: there is nothing to leave the
// container for.
func (h *hosted) session(facts container.Facts, observer terminal.Observer) terminal.SessionConfig {
	return terminal.SessionConfig{Cwd: container.Workdir, Backend: h, Environ: h.found.Environ, DisableLogin: true, Shells: h.shell,
		SandboxPolicy:  sandbox.Policy{Mode: sandbox.ExternalSandbox, Network: sandbox.NetworkFull}, // the container's own is what holds
		ApprovalPolicy: terminal.AskFor(approval.Policy{Ask: approval.Never}), MaxTimeout: facts.MaxTimeout, Observer: observer}
}

// shell is the container's, whichever is asked for by its name.
func (h *hosted) shell(name string) (terminal.Shell, error) {
	if own := h.found.Shell; name != "" && name != own && name != filepath.Base(own) {
		return nil, fault.New(fault.Invalid, "The container's shell is %s, not %s.", own, name).WithParam("shell").
			WithTry("leave shell out, or start %s in the command", name)
	}
	kind := shell.Sh
	if filepath.Base(h.found.Shell) == "bash" {
		kind = shell.Bash
	}
	return hostedShell{shell.Shell{Type: kind, Path: h.found.Shell}}, nil
}

type hostedShell struct{ shell.Shell }

// Name is its path in the container.
func (s hostedShell) Name() string { return s.Path }

// Grammar is that of its name.
func (s hostedShell) Grammar() (command.Dialect, bool) { return command.DialectOf(s.Path) }

const hostedInstructions = `exec_command runs a command line in a container on the server, not on the user's machine: it starts in /mnt/data, whose files last
between calls. What still runs after a while is a session, which write_stdin types into, waits for and looks at. No call takes
longer than 45 seconds: go on with write_stdin and the session_id that it gave. For builds and tests, wait_for: {"exit": true}.
restart starts a session's command again. Nobody is asked anything and nobody can type a password; nothing leaves the container.`

// hostedDescriptions replace what is said of a person's machine.
var hostedDescriptions = map[string]string{
	terminal.ToolExecCommand: "Runs a command line in a container on the server, from /mnt/data, and answers with its output, or with a session ID while it still runs. With tty it runs in a terminal and write_stdin can type into it.",
}

// hostedSpecs are the tools that a container can serve, without the arguments that mean nothing there.
func hostedSpecs() []terminal.ToolSpec {
	specs := terminal.Specs(false)
	for i := range specs {
		if text, ok := hostedDescriptions[specs[i].Name]; ok {
			specs[i].Description = text
		}
		var schema map[string]any
		if json.Unmarshal(specs[i].Parameters, &schema) != nil {
			continue
		}
		if properties, ok := schema["properties"].(map[string]any); ok {
			for _, name := range []string{"sandbox_permissions", "justification", "prefix_rule", "login", "shell"} {
				delete(properties, name)
			}
		}
		specs[i].Parameters, _ = json.Marshal(schema) // it came from JSON
	}
	return specs
}
