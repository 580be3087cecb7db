package terminal

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// live runs commands that live on between calls.
type live struct{ commandRuntime }

// liveCall is the call that started a live command, kept with it: it tells of its output and end, whenever they come.
type liveCall struct {
	r        *execRequest
	t        ToolCtx
	attempt  SandboxAttempt
	place    Place
	timeout  time.Duration
	told     *deltas
	release  func() // lets go of the place
	distrust func() // no further call gets the place
}

// Run makes one attempt: it starts the command and gathers its first output.
func (live) Run(ctx context.Context, r *execRequest, attempt SandboxAttempt, t ToolCtx) (*ExecResult, error) {
	result := r.result(attempt, t)
	place, release, err := r.place(ctx, attempt)
	if err != nil {
		return result, err
	}
	env, err := attempt.EnvFor(r.params)
	var cmd process.Command
	if err == nil {
		cmd, err = env.At(t.Session.nextKey(), 0)
	}
	if err != nil {
		release()
		return result, ioError("sandbox", err)
	}
	if r.live.tty {
		cmd.TTY = &process.Size{}
	}
	cmd.Whole = !r.live.background // only what was asked to run on by itself does so after its end
	result.Sandbox, result.Timeout = place.Report(), cmd.Timeout
	id := r.live.id
	if attempt.Retry { // the first attempt had it
		id = 0
	}
	r.begin(attempt, t, place)
	c := &liveCall{r: r, t: t, attempt: attempt, place: place, timeout: cmd.Timeout, told: newDeltas(t.Session.config.Observer, t.CallID),
		release: release, distrust: func() { t.Session.places.distrust(place) }}
	s, err := t.Session.Live().Start(ctx, session.Spec{ID: id, Name: r.live.name, Starter: place, Command: cmd, Background: r.live.background, Ready: r.live.ready,
		Output: c.told.write, Ended: c.ended, Value: c})
	if err != nil {
		if fault.KindOf(err) != fault.Conflict {
			err = c.trouble(ctx, "start", err)
		}
		release()
		r.end(t, result, nil, err)
		return result, err
	}
	snapshot, err := s.Collect(ctx, r.live.wait)
	if err != nil { // nobody has heard of it: nobody could end it
		s.Kill()
		return result, c.trouble(ctx, "probe", err)
	}
	result.take(snapshot)
	if result.CwdBefore == "" {
		result.CwdBefore = r.params.Cwd
	}
	return result, c.outcome(result, snapshot)
}

// trouble is an error of the sandbox as the caller gets it. One that does not answer serves no further call.
func (c *liveCall) trouble(ctx context.Context, stage string, err error) error {
	if unanswered(err) {
		c.distrust()
	}
	return failedAt(ctx, stage, err)
}

// unanswered says whether an error is that of a sandbox that does not answer.
func unanswered(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Code == session.CodeInfrastructure
}

// outcome is the typed error of a live command that is over, and not by itself.
func (c *liveCall) outcome(result *ExecResult, s session.Snapshot) error {
	if _, ended := s.ExitCode(); !ended && s.Lost == nil {
		return nil
	}
	result.output = process.ExecToolCallOutput{AggregatedOutput: process.StreamOutput{Text: s.Text(), Bytes: s.Total}}
	err := c.ending(result, s.Exit, s.Lost)
	return err
}

// ending is outcome for an end.
func (c *liveCall) ending(result *ExecResult, exit process.Exit, lost error) error {
	if lost != nil {
		return c.trouble(context.Background(), "session", lost)
	}
	if exit.Code == 0 && !exit.TimedOut {
		return nil
	}
	out := &result.output
	out.ExitCode, out.TimedOut, out.Signal, out.Cancelled, out.Error = exit.Code, exit.TimedOut, exit.Signal, exit.Cancelled, exit.Error
	out.Timeout, out.Duration = c.timeout, exit.Ended.Sub(exit.Started)
	if exit.TimedOut {
		return &TimeoutError{Output: *out}
	}
	if denial, ok := c.r.denial(c.attempt, c.place, exit.Code, c.told.said()); ok {
		if denial.Evidence != sandbox.ByWords {
			return &DeniedError{Output: *out, Denial: denial}
		}
		result.Notices = append(result.Notices, suspicion(denial))
	}
	if exit.Signal != "" && !exit.Cancelled {
		return &SignalError{Signal: exit.Code - process.ExitCodeSignalBase, Name: exit.Signal, Output: *out}
	}
	return nil
}

// ended tells of the end, whoever has waited for it.
func (c *liveCall) ended(id int, exit process.Exit, lost error) {
	result := c.r.result(c.attempt, c.t)
	result.SessionID = id
	if lost == nil {
		result.ExitCode = &exit.Code
	}
	result.Signal, result.TimedOut, result.Timeout, result.WallTime = exit.Signal, exit.TimedOut, c.timeout, exit.Ended.Sub(exit.Started)
	result.Stdout, result.Stderr = exit.Stdout, exit.Stderr
	c.r.end(c.t, result, c.told, c.ending(result, exit, lost))
	c.release()
}

// denial asks the backend whether the place kept the command from something.
func (r *execRequest) denial(attempt SandboxAttempt, place Place, code int, said string) (sandbox.Denial, bool) {
	if attempt.Outside || !confines(attempt.Policy) {
		return sandbox.Denial{}, false
	}
	const enough = 16 << 10
	tail := []byte(said[max(0, len(said)-enough):])
	return attempt.session.config.Backend.Denial(place, PlaceSpec{Policy: attempt.Policy, Cwd: attempt.turn.Cwd, Sandbox: attempt.Sandbox}, r.params.Cwd, code, tail)
}

// suspicion is what the model is told where words alone speak for a denial: it may be one.
func suspicion(d sandbox.Denial) string { return d.Denied + "; " + d.Allow + "." }
