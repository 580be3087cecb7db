package terminal

import (
	"cmp"
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Command is a command line for a caller that wants its raw result, and not a text for a model.
type Command struct {
	CallID    string
	Tool      string // the name in questions and events; empty is shell_command
	Script    string
	Workdir   string        // from the turn's folder
	Shell     string        // by name or path; empty is the user's
	Timeout   time.Duration // 0 is the default
	MaxOutput int           // bytes that the result keeps of each stream; 0 is process.HeadTailMax

	// Output is told what comes, of each attempt, as it comes. It must not keep data, and not wait.
	Output func(stream int, data []byte)
}

// Exec runs a command to its end on the way of every request: the decision, the question, the sandbox, and where policy
// and person allow it a second attempt outside. The result has what there is, whatever the error: [ExecResult.Raw] are
// the streams, and Failure says how the command failed to be what was asked. The error is not the command's: it is the
// context's, [ErrTurnAborted] or that of a command that cannot be read.
func (s *Session) Exec(ctx context.Context, t *Turn, c Command) (*ExecResult, error) {
	result := &ExecResult{Tool: cmp.Or(c.Tool, ToolShellCommand)}
	ctx, done := t.within(ctx)
	defer done()
	if t.Aborted() {
		return result, ErrTurnAborted
	}
	if err := context.Cause(ctx); err != nil {
		return result, err
	}
	w := wanted{script: c.Script, freeform: true, workdir: c.Workdir, shell: c.Shell, expiration: process.DefaultTimeout()}
	if c.Timeout > 0 {
		w.expiration = process.Timeout(c.Timeout)
	}
	call := ToolCtx{Session: s, Turn: t, CallID: c.CallID, ToolName: result.Tool}
	r, err := call.request(ctx, w)
	if err != nil {
		return result, err
	}
	r.keep, r.sink = c.MaxOutput, c.Output
	ran, err := Orchestrate(ctx, ToolRuntime[*execRequest, *ExecResult](oneShot{}), r, call)
	if ran != nil {
		result = ran
	} else {
		result.CwdBefore, result.Profile = r.params.Cwd, r.call.Profile
	}
	if err == nil {
		return result, nil
	}
	if result.ExitCode == nil {
		r.neverBegan(call, result, err)
	}
	err = result.fail(err)
	if result.Aborted || t.Aborted() {
		return result, ErrTurnAborted
	}
	return result, err
}

// Raw are the command's streams as they came, each bounded by itself, and how it ended. It is empty when nothing ran.
func (r ExecResult) Raw() process.ExecToolCallOutput { return r.output }
