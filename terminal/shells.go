package terminal

import (
	"github.com/hardshell-dev/hardshell/terminal/command"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// Shell is what command lines are given to. A shell of your own implements it; those of this machine are found by
// package shell.
type Shell interface {
	// Name is the shell's path or name, as a call may give it.
	Name() string
	// Prepare makes a command line's argument vector and environment. The command line reaches the shell unchanged.
	Prepare(c shell.Call) (shell.Invocation, error)
	// Grammar says by whose grammar command lines are read before they run; false means that nobody here can read them,
	// and then nothing about them is proven.
	Grammar() (command.Dialect, bool)
}

// ShellFinder finds the shell that a call names; the empty name is the user's own. A shell that is not there is an
// error and never another shell.
type ShellFinder func(name string) (Shell, error)

// LocalShells finds the shells of this machine.
func LocalShells() ShellFinder { return localShells(shell.ThisHost()) }

func localShells(host shell.Host) ShellFinder {
	return func(name string) (Shell, error) {
		var sh shell.Shell
		var err error
		if name == "" {
			sh, err = shell.Detect(host)
		} else {
			sh, err = shell.Find(host, name)
		}
		return localShell{sh}, err
	}
}

type localShell struct{ shell.Shell }

func (l localShell) Name() string { return l.Path }

func (l localShell) Grammar() (command.Dialect, bool) { return command.DialectOf(l.Path) }
