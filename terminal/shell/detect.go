package shell

import (
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
)

// Detect finds the user's shell: the one in the account's passwd entry, else $SHELL, else what the system has, the most
// capable first. On Windows it is PowerShell, else cmd. A shell that is named and missing is looked for elsewhere under
// its name before another one is taken, and [Shell.Note] tells of every such change.
func Detect(h Host) (Shell, error) {
	if h.windows() {
		return detectWindows(h)
	}
	var found Shell
	asked := ""
	for _, want := range []string{passwdShell(h), h.Getenv("SHELL")} {
		if !h.absolute(want) {
			continue
		}
		if asked == "" {
			asked = want
		}
		name := baseName(want)
		if noShell[name] {
			continue
		}
		path := want
		if !h.Executable(path) {
			path = h.search(name)
		}
		if path == "" {
			continue
		}
		if foreign[name] {
			if found.Login == "" {
				found.Login = path
			}
			continue
		}
		found.Type, _ = TypeOf(path)
		found.Path = path
		break
	}
	if found.Path == "" {
		for _, name := range fallbacks(h.GOOS) {
			if path := h.search(name); path != "" {
				found.Type, _ = TypeOf(path)
				found.Path = path
				break
			}
		}
	}
	if found.Path == "" {
		return Shell{}, fault.New(fault.Unsupported, "there is no shell on this machine").
			WithTry("install bash, or give the command as an argument list")
	}
	found.Note = note(asked, found)
	return found, nil
}

// note says why commands go to another shell than the one asked for.
func note(asked string, got Shell) string {
	switch {
	case asked == "" || asked == got.Path:
		return ""
	case got.Login != "":
		return fmt.Sprintf("the user's shell %s does not speak POSIX: commands run in %s, in the environment that %s makes", asked, got.Path, got.Login)
	case noShell[baseName(asked)]:
		return fmt.Sprintf("the account's shell %s runs no commands: they run in %s", asked, got.Path)
	}
	return fmt.Sprintf("the user's shell %s is not there: commands run in %s", asked, got.Path)
}

func detectWindows(h Host) (Shell, error) {
	for _, name := range []string{"pwsh", "powershell"} {
		if path := h.search(name); path != "" {
			return Shell{Type: PowerShell, Path: path}, nil
		}
	}
	const note = "PowerShell is not there: commands run in cmd"
	if path := h.Getenv("ComSpec"); h.absolute(path) && baseName(path) == "cmd" && h.Executable(path) {
		return Shell{Type: Cmd, Path: path, Note: note}, nil
	}
	if path := h.search("cmd"); path != "" {
		return Shell{Type: Cmd, Path: path, Note: note}, nil
	}
	return Shell{}, fault.New(fault.Unsupported, "there is neither PowerShell nor cmd on this machine")
}

// fallbacks are the shells to try when the account names none that works.
func fallbacks(goos string) []string {
	if goos == "darwin" {
		return []string{"zsh", "bash", "sh"}
	}
	return []string{"bash", "sh", "zsh"}
}

// foreign are shells that people live in and models do not write.
var foreign = map[string]bool{
	"fish": true, "csh": true, "tcsh": true, "nu": true, "elvish": true, "xonsh": true, "ion": true, "rc": true, "es": true,
}

// noShell are programs that stand in a passwd entry so that nobody gets a shell.
var noShell = map[string]bool{
	"nologin": true, "false": true, "true": true, "sync": true, "halt": true, "shutdown": true, "git-shell": true,
	"rssh": true, "scponly": true,
}
