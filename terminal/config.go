package terminal

import (
	"os"
	"path/filepath"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/session"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// SessionConfig is what a [Session] is opened with. Only Cwd is required.
type SessionConfig struct {
	// What each turn starts from. See [TurnContext].
	Cwd                    string
	SandboxPolicy          sandbox.Policy // the zero value reads and writes nothing; [DefaultSandbox] is what an agent works in
	ApprovalPolicy         ApprovalPolicy // nil asks on request
	ShellEnvironmentPolicy *shell.Policy  // nil is shell.DefaultPolicy
	SandboxExe             string         // the program that confines, for a backend that has one; empty is this one

	// Whom to ask, and what was answered before.
	Approver Approver        // nil is nobody: what would be asked is refused
	Rules    []approval.Rule // of the user and of the operator
	Grants   GrantStore      // what was approved for always; nil forgets it with the session

	Shells       ShellFinder // nil finds the user's shells on this machine
	DisableLogin bool        // commands never get the login environment
	Environ      []string    // what commands may inherit from; nil is os.Environ()

	Backend  SandboxBackend // nil is [LocalBackend]
	Observer Observer       // nil is nobody
	Sessions session.Options
	Form     Form   // of the text that the model gets; the zero value is [Labelled]
	Dir      string // state of sandboxes, private; empty makes one that is removed at the end

	MaxTimeout time.Duration    // the longest time-out that a call may ask for; 0 is an hour
	MaxWait    time.Duration    // the longest that one call may take to answer; 0 is no bound of the door's
	Now        func() time.Time // nil is time.Now
}

// DefaultSandbox is what an agent works in on a person's own machine: it writes the workspace, has no network, and
// takes the best rung that can be had.
func DefaultSandbox() sandbox.Policy {
	return sandbox.Policy{Mode: sandbox.WorkspaceWrite, Least: sandbox.RungRestricted}
}

func (c SessionConfig) orDefault() (SessionConfig, error) {
	if c.Backend == nil {
		c.Backend = LocalBackend{}
	}
	cwd, err := folder(c.Backend, c.Cwd)
	if err != nil {
		return c, err
	}
	c.Cwd = cwd
	if c.ApprovalPolicy == nil {
		c.ApprovalPolicy = AskFor(approval.Policy{})
	}
	if c.ShellEnvironmentPolicy == nil {
		policy := shell.DefaultPolicy()
		c.ShellEnvironmentPolicy = &policy
	}
	if err := c.ShellEnvironmentPolicy.Validate(); err != nil {
		return c, err
	}
	if c.Approver == nil {
		c.Approver = nobody{}
	}
	if c.Shells == nil {
		c.Shells = localShells(shell.ThisHost())
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	if c.MaxTimeout <= 0 {
		c.MaxTimeout = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

// realFolder is a folder with links resolved: the kernel's rules go by the real path.
func realFolder(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fault.New(fault.Invalid, "A session's folder is an absolute path, not %q.", dir).WithParam("cwd")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The folder %s cannot be used.", dir).WithParam("cwd").WithTry("a folder that exists")
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return "", fault.Wrap(fault.Invalid, err, "%s is not a folder.", dir).WithParam("cwd").WithTry("a folder that exists")
	}
	return real, nil
}
