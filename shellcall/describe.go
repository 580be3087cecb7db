package shellcall

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal"
)

// Instructions tell a model where its commands run: which system and shell, in what folder, and what holds there. They are
// for a request's instructions.
func (e *Executor) Instructions() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name := "bash"
	if e.kept == nil {
		name = "the user's shell"
		find := e.options.Terminal.Shells
		if find == nil {
			find = terminal.LocalShells()
		}
		if sh, err := find(""); err == nil {
			name = sh.Name()
		}
	}
	line("You have a shell on the user's own machine: %s, by %s, in the folder %s.", system(), name, e.cwd)
	if e.kept != nil {
		line("- It is one shell that lasts: the folder, variables, functions and background jobs are there for the next command. The commands of a call run in order.")
	} else {
		line("- Each command has a shell of its own in that folder, and the commands of a call run at the same time: join steps that need an order with &&.")
	}
	line("- There is no terminal, no standard input and nobody to answer a prompt: pass what a program would ask for as options.")
	line("- A command is ended after %s unless its call has a timeout_ms (at most %d); what it has printed by then is returned.", e.timeout(nil), e.options.MaxTimeout.Milliseconds())
	policy := e.session.TurnContext().SandboxPolicy
	switch policy.Mode {
	case sandbox.ReadOnly:
		line("- Commands run in a sandbox: they can read, and write nothing that lasts.")
	case sandbox.WorkspaceWrite:
		line("- Commands run in a sandbox: they can write that folder%s and a private /tmp, and nothing else that lasts.", more(policy.WritableRoots))
	case sandbox.DangerFullAccess:
		line("- Nothing confines the commands: they can do all that the user can. Take care.")
	}
	if policy.Mode == sandbox.ReadOnly || policy.Mode == sandbox.WorkspaceWrite {
		switch policy.Network {
		case sandbox.NetworkOff:
			line("- They have no network.")
		case sandbox.NetworkProxied:
			line("- They reach the network through a proxy, and only the hosts that it allows.")
		}
	}
	line("- The user may be asked about a command and may refuse it, and some are forbidden: then it has not run, its exit code is %d, and its stderr says why. "+
		"Lines of stderr that begin with \"hardshell:\" are not the command's own.", ExitDenied)
	if len(e.options.Allow) > 0 {
		line("- Only these may run: %s.", strings.Join(e.options.Allow, "; "))
	}
	return b.String()
}

func more(roots []string) string {
	if len(roots) == 0 {
		return ""
	}
	return ", " + strings.Join(roots, ", ")
}

// system names the operating system and the processor.
func system() string {
	name := map[string]string{"linux": "Linux", "darwin": "macOS", "windows": "Windows"}[runtime.GOOS]
	if name == "" {
		name = runtime.GOOS
	}
	if text, err := os.ReadFile("/etc/os-release"); err == nil && runtime.GOOS == "linux" {
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
				name += " (" + strings.Trim(value, `"'`) + ")"
			}
		}
	}
	return name + " on " + runtime.GOARCH
}
