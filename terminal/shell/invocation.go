package shell

import (
	"maps"
	"runtime"

	"github.com/hardshell-dev/hardshell/fault"
)

// Call is a command line that wants to be run, and all that decides how.
type Call struct {
	Command string
	Login   bool // as the user's login would run it
	TTY     bool // the command gets a PTY: somebody may answer it

	Environ  []string          // what to inherit from, usually os.Environ()
	Snapshot Snapshot          // the login environment; the zero value if there is none
	Policy   Policy            // what of these the command sees
	Set      map[string]string // this call's own variables, over everything else
}

// Invocation is a command as a process takes it.
type Invocation struct {
	Argv []string
	Env  []string // the whole environment: sorted NAME=value
}

// Prepare makes a command's argument vector and environment.
//
// A login with a usable snapshot runs plainly, under what the snapshot says; without one the shell is told to be a
// login shell, and then start-up files run after the policy and may bring back what it took out. Our own variables
// ([UnifiedExec], and [NoTerminal] without a PTY) go over what is inherited and under what somebody wrote: Policy.Set
// and Call.Set win.
func (s Shell) Prepare(c Call) (Invocation, error) { return s.prepare(c, runtime.GOOS) }

func (s Shell) prepare(c Call, goos string) (Invocation, error) {
	if s.Path == "" {
		return Invocation{}, fault.New(fault.Invalid, "the shell has no path")
	}
	if err := c.Policy.Validate(); err != nil {
		return Invocation{}, err
	}
	if err := checkVariables(c.Set, "env"); err != nil {
		return Invocation{}, err
	}
	login, environ := c.Login, c.Environ
	if login && c.Snapshot.Usable() {
		login, environ = false, c.Snapshot.Over(environ)
	}
	env := c.Policy.apply(environ, goos)
	ours := UnifiedExec()
	if !c.TTY {
		maps.Copy(ours, NoTerminal())
	}
	for name, value := range ours {
		if _, set := c.Policy.Set[name]; set && env.has(name) {
			continue
		}
		env.set(name, value)
	}
	for name, value := range c.Set {
		env.set(name, value)
	}
	return Invocation{Argv: s.DeriveExecArgs(c.Command, login), Env: env.entries()}, nil
}
