package shellcall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal"
)

// command is one command of a call, on its way.
type command struct {
	e       *Executor
	turn    *terminal.Turn
	callID  string
	index   int
	script  string
	timeout time.Duration
}

// ran is what became of a command, before it is told.
type ran struct {
	stdout, stderr process.StreamOutput
	timedOut       bool
	refused        string // why it was not run, when it was forbidden or a person said no
	broken         string // why the sandbox could not run it, or lost it
	started        bool
	cwd            string
	exit           process.Exit
	report         sandbox.Report
	outside        bool
	denial         *sandbox.Denial
	notes          []string
}

// toolName is how commands are called in questions and in the terminal's events.
const toolName = "shell_call"

// run runs the command, tells of it and makes its result.
func (c *command) run(ctx context.Context) Result {
	select {
	case c.e.slots <- struct{}{}:
		defer func() { <-c.e.slots }()
	case <-ctx.Done():
	}
	c.e.options.Observer.Observe(Begun{CallID: c.callID, Index: c.index, Command: c.script, Timeout: c.timeout, At: time.Now()})
	var r ran
	var err error
	switch {
	case c.turn.Aborted():
		err = terminal.ErrTurnAborted
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	case strings.IndexByte(c.script, 0) >= 0:
		r.refused = "The command holds a NUL byte."
	case c.e.kept != nil:
		r, err = c.e.kept.run(ctx, c)
	default:
		r, err = c.once(ctx)
	}
	return c.tell(r, err)
}

// once runs the command in a shell of its own.
func (c *command) once(ctx context.Context) (ran, error) {
	result, err := c.e.session.Exec(ctx, c.turn, terminal.Command{CallID: c.callID, Tool: toolName, Script: c.script, Timeout: c.timeout,
		MaxOutput: c.e.options.MaxOutput, Output: c.printed})
	out := result.Raw()
	now := time.Now()
	r := ran{stdout: out.Stdout, stderr: out.Stderr, timedOut: result.TimedOut, started: result.ExitCode != nil, cwd: result.CwdBefore,
		report: result.Sandbox, outside: result.Outside, denial: result.Denial}
	r.exit = process.Exit{Code: out.ExitCode, Error: out.Error, Signal: out.Signal, TimedOut: out.TimedOut, Cancelled: out.Cancelled, OutOfMemory: out.OutOfMemory,
		Limit: out.Limit, Started: now.Add(-result.WallTime), Ended: now, Stdout: out.Stdout.Bytes, Stderr: out.Stderr.Bytes,
		StdoutLost: out.Stdout.LostBytes, StderrLost: out.Stderr.LostBytes}
	switch {
	case result.Failure == "rejected" && !r.started:
		r.refused = result.Message
	case result.Failure == "io":
		r.broken = result.Message
	}
	return r, err
}

// printed tells of a piece of output.
func (c *command) printed(stream int, data []byte) {
	c.e.options.Observer.Observe(Printed{CallID: c.callID, Index: c.index, Stream: stream, Data: data})
}

// tell makes the command's result and tells the observer. err is that of a call that ended before the command did, or of
// a command that could not be read.
func (c *command) tell(r ran, err error) Result {
	result := Result{Stdout: r.stdout.Text, Stderr: r.stderr.Text}
	notes := r.notes
	switch {
	case r.refused != "":
		result.Outcome = exited(ExitDenied)
		notes = append(notes, r.refused)
	case r.broken != "":
		result.Outcome = exited(ExitNotRun)
		notes = append(notes, r.broken)
	case r.timedOut:
		result.Outcome = Outcome{Type: OutcomeTimeout}
	case !r.started && err == nil:
		result.Outcome = exited(ExitNotRun)
		notes = append(notes, "Nothing is known of this command.")
	case !r.started && isEnd(err):
		r.refused = "It was cancelled before it began: " + public(err) + "."
		result.Outcome = exited(ExitCancelled)
		notes = append(notes, r.refused)
	case !r.started: // it cannot be read, or there is no shell for it
		r.refused = public(err)
		result.Outcome = exited(ExitDenied)
		notes = append(notes, r.refused)
	case r.exit.Cancelled:
		result.Outcome = exited(ExitCancelled)
		why := "the call ended"
		if err != nil {
			why = public(err)
		}
		notes = append(notes, "It was cancelled: "+why+".")
	default:
		result.Outcome = exited(r.exit.Code)
	}
	if r.exit.Error != "" {
		notes = append(notes, "It could not be started: "+r.exit.Error+".")
	}
	if r.exit.OutOfMemory {
		notes = append(notes, "A process was killed because memory ran out.")
	}
	if r.exit.Limit != "" {
		notes = append(notes, "The sandbox's limit was reached: "+r.exit.Limit+".")
	}
	if lost := r.exit.StdoutLost + r.exit.StderrLost; lost > 0 {
		notes = append(notes, fmt.Sprintf("%d more bytes of output were lost: the disk is full.", lost))
	}
	if r.denial != nil {
		notes = append(notes, r.denial.String()+".")
	}
	for _, n := range notes {
		result.Stderr = note(result.Stderr, n)
	}
	if result.Outcome.ExitCode != nil {
		r.exit.Code = *result.Outcome.ExitCode
	} else {
		r.exit.Code = process.ExecTimeoutExitCode
	}
	c.e.options.Observer.Observe(Ended{CallID: c.callID, Index: c.index, Command: c.script, Cwd: r.cwd, Outcome: result.Outcome, Refused: r.refused,
		Exit: r.exit, Report: r.report, Outside: r.outside, Denial: r.denial, Notes: notes,
		Stdout: c.preview(result.Stdout), Stderr: c.preview(result.Stderr), At: time.Now()})
	return result
}

// isEnd says whether an error is that of a call that was ended from outside.
func isEnd(err error) bool {
	return errors.Is(err, terminal.ErrTurnAborted) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || !isFault(err)
}

// preview is the head and the tail of a text.
func (c *command) preview(text string) string {
	b := process.NewHeadTailBuffer(c.e.options.AuditBytes)
	b.Write([]byte(text))
	return b.View().Text
}

// note puts a sentence of ours at the end of a command's stderr, on a line of its own that says whose it is.
func note(stderr, sentence string) string {
	if stderr != "" && !strings.HasSuffix(stderr, "\n") {
		stderr += "\n"
	}
	return stderr + "hardshell: " + sentence + "\n"
}
