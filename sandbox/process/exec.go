package process

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// ExecParams is a command before a sandbox is chosen for it.
type ExecParams struct {
	Command            []string // the program, looked up in the PATH of Env when it has no slash, and its arguments
	Cwd                string   // absolute
	Expiration         ExecExpiration
	Env                map[string]string // the whole environment; nothing is inherited
	SandboxPermissions SandboxPermissions
	Justification      string // why escalated permissions are asked for
	Arg0               string // shown to the program as its own name instead of Command[0]
}

// ExecEnv is a command ready to be started: a sandbox was chosen, and Command and Env were changed for it.
type ExecEnv struct {
	Command            []string // with the sandbox's wrapper, where it has one
	Cwd                string
	Env                map[string]string // with HARDSHELL_SANDBOX* and CODEX_SANDBOX*
	Expiration         ExecExpiration
	Sandbox            SandboxType
	SandboxPermissions SandboxPermissions
	Justification      string
	Arg0               string
}

// SandboxPermissions is what one call asks for beside the session's policy.
type SandboxPermissions int

// The permissions. The zero value asks for nothing.
const (
	UseDefault       SandboxPermissions = iota // the session's policy
	RequireEscalated                           // to run outside the sandbox, which is for a person to allow
)

// SandboxType is the mechanism that confines a command.
type SandboxType int

// The types. Which of them a machine has is for package sandbox to say.
const (
	SandboxNone SandboxType = iota
	SandboxMacosSeatbelt
	SandboxLinuxSeccomp
	SandboxWindowsRestrictedToken
)

var (
	permissionNames = []string{"use_default", "require_escalated"}
	sandboxNames    = []string{"None", "MacosSeatbelt", "LinuxSeccomp", "WindowsRestrictedToken"}
)

// String returns the name that a tool call uses.
func (p SandboxPermissions) String() string { return nameOf(permissionNames, int(p)) }

// MarshalText is String, and refuses what has no name.
func (p SandboxPermissions) MarshalText() ([]byte, error) {
	if p < 0 || int(p) >= len(permissionNames) {
		return nil, fault.New(fault.Invalid, "%d are no sandbox permissions", int(p))
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads the name that a tool call uses; none at all is the default.
func (p *SandboxPermissions) UnmarshalText(text []byte) error {
	n := slices.Index(permissionNames, string(text))
	if len(text) == 0 {
		n = int(UseDefault)
	}
	if n < 0 {
		return fault.New(fault.Invalid, "%q are no sandbox permissions", text).WithTry("use_default or require_escalated")
	}
	*p = SandboxPermissions(n)
	return nil
}

// String returns the type's name.
func (t SandboxType) String() string { return nameOf(sandboxNames, int(t)) }

func nameOf(names []string, n int) string {
	if n < 0 || n >= len(names) {
		return "unknown"
	}
	return names[n]
}

// At is the command as a box is asked to run it: at most once under this key and index.
func (e ExecEnv) At(key string, index int) (Command, error) {
	timeout, err := e.Expiration.timeout()
	if err != nil {
		return Command{}, err
	}
	env := make([]string, 0, len(e.Env))
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		env = append(env, name+"="+e.Env[name])
	}
	c := Command{Key: key, Index: index, Argv: e.Command, Arg0: e.Arg0, Env: env, Dir: e.Cwd, Timeout: timeout}
	return c, c.Validate()
}

// A Starter runs commands. A box is one. Its error means that nothing was started.
type Starter interface {
	Start(ctx context.Context, c Command) (*Job, error)
}

// Run starts the command and returns all of its result once it has ended. When the context or the expiration's token
// ends first the command is killed, and the result says so and has what was written until then: that is no error. An
// error means that the command was not started, or that its end will never be known; then the result has the output
// that there is.
func (e ExecEnv) Run(ctx context.Context, s Starter, key string, index int) (ExecToolCallOutput, error) {
	c, err := e.At(key, index)
	if err != nil {
		return ExecToolCallOutput{}, err
	}
	token := e.Expiration.Token
	if e.Expiration.Type == ExpirationCancellation && token.Err() != nil {
		return ExecToolCallOutput{}, context.Cause(token)
	}
	job, err := s.Start(ctx, c)
	if err != nil {
		return ExecToolCallOutput{}, err
	}
	defer context.AfterFunc(ctx, job.Kill)()
	if e.Expiration.Type == ExpirationCancellation {
		defer context.AfterFunc(token, job.Kill)()
	}
	out, err := job.Output(context.WithoutCancel(ctx), 0) // its end comes within seconds of the kill, and must be told
	out.Timeout = c.Timeout
	return out, err
}

// DefaultExecTimeout is what a command gets that names no expiration.
const DefaultExecTimeout = 10 * time.Second

// ExecExpiration is what ends a command that does not end by itself. The zero value is the default time-out.
type ExecExpiration struct {
	Type     ExecExpirationType
	Duration time.Duration   // of ExpirationTimeout, more than 0
	Token    context.Context // of ExpirationCancellation, not nil; that the command is to end is told by its own end
}

// ExecExpirationType tells the kinds of expiration apart.
type ExecExpirationType int

// The kinds of expiration.
const (
	ExpirationDefaultTimeout ExecExpirationType = iota // [DefaultExecTimeout]
	ExpirationTimeout                                  // a time-out of its own
	ExpirationCancellation                             // no time-out: a token cancels it
)

// DefaultTimeout is the expiration of a command that names none.
func DefaultTimeout() ExecExpiration { return ExecExpiration{} }

// Timeout expires after a duration, of more than 0.
func Timeout(d time.Duration) ExecExpiration {
	return ExecExpiration{Type: ExpirationTimeout, Duration: d}
}

// Cancellation expires when the token ends, and at no time by itself.
func Cancellation(token context.Context) ExecExpiration {
	return ExecExpiration{Type: ExpirationCancellation, Token: token}
}

// timeout is the time-out to apply; 0 is none.
func (e ExecExpiration) timeout() (time.Duration, error) {
	switch {
	case e.Type == ExpirationDefaultTimeout:
		return DefaultExecTimeout, nil
	case e.Type == ExpirationTimeout && e.Duration > 0:
		return e.Duration, nil
	case e.Type == ExpirationTimeout:
		return 0, fault.New(fault.Invalid, "a time-out is more than 0, not %v", e.Duration)
	case e.Type == ExpirationCancellation && e.Token != nil:
		return 0, nil
	case e.Type == ExpirationCancellation:
		return 0, fault.New(fault.Invalid, "a cancellation needs a token")
	}
	return 0, fault.New(fault.Invalid, "%d is not a kind of expiration", int(e.Type))
}
