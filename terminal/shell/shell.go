// Package shell knows the user's shell: which it is, how a command line becomes its argument vector, what environment a
// login would give, and which part of an environment a command may see.
//
// It runs nothing. The one thing that needs a process, the capture of the login environment, goes through a [Runner] of
// the caller, so that it happens where all commands happen; and it does not confine: a filtered environment keeps
// secrets from commands that ask for them, the sandbox keeps commands from taking them.
//
// What holds: the script reaches the shell byte for byte. Nothing a start-up file does can fail a command or hold it up
// for longer than the capture's limit; the worst is a warning. Secret-looking names are not passed unless somebody says
// so. No value of an environment is ever written to disk or printed by a type of this package.
package shell

import (
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// Type classes a shell by how it takes a command line.
type Type int

// The types. Sh is the zero value: what nobody knows is addressed as POSIX says.
const (
	Sh Type = iota
	Bash
	Zsh
	PowerShell
	Cmd
)

var typeNames = [...]string{"Sh", "Bash", "Zsh", "PowerShell", "Cmd"}

// String returns the type's name, such as "PowerShell".
func (t Type) String() string {
	if t < 0 || int(t) >= len(typeNames) {
		return "Sh"
	}
	return typeNames[t]
}

// TypeOf classes a shell by the base name of its path, of either operating system's form. Not ok means that the name
// is none we know; the type is then Sh.
func TypeOf(path string) (t Type, ok bool) {
	switch baseName(path) {
	case "bash":
		return Bash, true
	case "zsh", "zsh5":
		return Zsh, true
	case "sh", "dash", "ash", "ksh", "ksh93", "mksh", "oksh", "yash":
		return Sh, true
	case "pwsh", "powershell":
		return PowerShell, true
	case "cmd":
		return Cmd, true
	}
	return Sh, false
}

// Shell is a shell that commands can be given to.
type Shell struct {
	Type Type
	Path string // absolute

	// Login is the user's own shell where commands go to another one, because models write POSIX and it is not (fish).
	// The login environment is still the one that it makes. Empty otherwise.
	Login string

	// Note is one sentence on why Path is not the shell that the user's account names. Empty when it is.
	Note string
}

// DeriveExecArgs is the argument vector that has the shell run the command line, with the start-up files of a login or
// without. The command is one argument, untouched.
func (s Shell) DeriveExecArgs(command string, login bool) []string {
	switch s.Type {
	case PowerShell:
		args := []string{s.Path}
		if !login {
			args = append(args, "-NoProfile")
		}
		return append(args, "-Command", command)
	case Cmd:
		return []string{s.Path, "/c", command}
	}
	flag := "-c"
	if login {
		flag = "-lc"
	}
	if strings.HasPrefix(command, "-") || strings.HasPrefix(command, "+") {
		// POSIX has the command follow the options, so a script that looks like one would be taken for one: bash -c -o
		// lists its options and exits 0.
		return []string{s.Path, flag, "--", command}
	}
	return []string{s.Path, flag, command}
}

// Find returns the shell that a caller names, by bare name ("zsh") or absolute path. A shell that is not there is an
// error and never another shell.
func Find(h Host, name string) (Shell, error) {
	t, known := TypeOf(name)
	if !known {
		return Shell{}, fault.New(fault.Invalid, "%q is no shell that commands can be given to", name).
			WithParam("shell").WithTry("bash, zsh, sh, pwsh or cmd")
	}
	if strings.ContainsAny(name, h.separators()) {
		if !h.absolute(name) {
			return Shell{}, fault.New(fault.Invalid, "the shell %q is neither a name nor an absolute path", name).WithParam("shell")
		}
		if h.Executable(name) {
			return Shell{Type: t, Path: name}, nil
		}
	} else if path := h.search(baseName(name)); path != "" {
		return Shell{Type: t, Path: path}, nil
	}
	return Shell{}, fault.New(fault.NotFound, "the shell %q is not installed here", name).
		WithParam("shell").WithTry("leave shell out to use the user's own")
}

// baseName is the file's name in lower case without ".exe", whichever system the path is of.
func baseName(path string) string {
	name := strings.ToLower(path[strings.LastIndexAny(path, `/\`)+1:])
	return strings.TrimSuffix(name, ".exe")
}
