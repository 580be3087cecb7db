package terminal

import (
	"context"
	"math/rand/v2"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// live runs commands that live on between calls.
type live struct{ commandRuntime }

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
	result.Sandbox, result.Timeout = place.Report(), cmd.Timeout
	id := r.live.id
	if id == 0 || attempt.Retry { // the first attempt had it
		id = t.Session.freeID()
	}
	r.begin(attempt, t, place)
	t.Session.outside.Delete(id)
	if attempt.Outside {
		t.Session.outside.Store(id, true)
	}
	t.Session.events.follow(id, ExecCommandEnd{CallID: t.CallID, Tool: t.ToolName, Decision: r.decided(attempt), Cwd: r.params.Cwd})
	s, err := t.Session.Live().Start(ctx, session.Spec{ID: id, Name: r.live.name, Starter: place, Command: cmd,
		Background: r.live.background, Ready: r.live.ready, Ended: release})
	if err != nil {
		t.Session.events.forget(id)
		release()
		if fault.KindOf(err) != fault.Conflict && fault.KindOf(err) != fault.Invalid {
			err = ioError("start", err)
		}
		r.end(t, result, nil, err)
		return result, err
	}
	snapshot, err := s.Collect(ctx, r.live.wait)
	if err != nil { // nobody has heard of it: nobody could end it
		s.Kill()
		return result, err
	}
	result.take(snapshot)
	if result.CwdBefore == "" {
		result.CwdBefore = r.params.Cwd
	}
	return result, r.snapshotOutcome(result, snapshot, attempt, place)
}

// snapshotOutcome is the typed error of a live command that is over already, and not by itself.
func (r *execRequest) snapshotOutcome(result *ExecResult, s session.Snapshot, attempt SandboxAttempt, place Place) error {
	code, ended := s.ExitCode()
	switch {
	case s.Lost != nil:
		return ioError("session", s.Lost)
	case !ended || code == 0 && !s.Exit.TimedOut:
		return nil
	}
	text := s.Text()
	result.output = process.ExecToolCallOutput{ExitCode: code, TimedOut: s.Exit.TimedOut, Signal: s.Exit.Signal, Cancelled: s.Exit.Cancelled, Error: s.Exit.Error,
		Timeout: result.Timeout, Duration: s.Exit.Ended.Sub(s.Exit.Started), AggregatedOutput: process.StreamOutput{Text: text, Bytes: s.Total}}
	if s.Exit.TimedOut {
		return &TimeoutError{Output: result.output}
	}
	if denial, ok := r.denial(attempt, place, code, text); ok {
		return &DeniedError{Output: result.output, Denial: denial}
	}
	if s.Exit.Signal != "" && !s.Exit.Cancelled {
		return &SignalError{Signal: code - process.ExitCodeSignalBase, Name: s.Exit.Signal, Output: result.output}
	}
	return nil
}

// freeID is a number that no live command has.
func (s *Session) freeID() int {
	for {
		id := 1000 + rand.IntN(99_000)
		if _, err := s.Live().Get(id); err != nil {
			return id
		}
	}
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
