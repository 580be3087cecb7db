package terminal

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/screen"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// oneShot runs commands that keep nothing: when the call returns, all that they started is gone.
type oneShot struct{ commandRuntime }

// Run makes one attempt.
func (oneShot) Run(ctx context.Context, r *execRequest, attempt SandboxAttempt, t ToolCtx) (*ExecResult, error) {
	result := r.result(attempt, t)
	place, release, err := r.place(ctx, attempt)
	if err != nil {
		return result, err
	}
	defer release()
	env, err := attempt.EnvFor(r.params)
	if err != nil {
		return result, ioError("sandbox", err)
	}
	cmd, err := env.At(t.Session.nextKey(), 0)
	if err != nil {
		return result, err
	}
	cmd.Whole = true
	began := time.Now()
	result.Sandbox, result.Timeout = place.Report(), cmd.Timeout
	r.begin(attempt, t, place)
	job, err := session.Spawn(ctx, nil, place, cmd)
	if err != nil {
		if unanswered(err) {
			t.Session.places.distrust(place)
		}
		err = failedAt(ctx, "start", err)
		r.end(t, result, nil, err)
		return result, err
	}
	told := newDeltas(t.Session.config.Observer, t.CallID)
	lasting, over := outlasting(ctx, job, cmd.Timeout) // the end of a killed job is waited for: the box says when
	defer over(nil)
	shown := screen.New(screen.Options{})
	var sniffed screen.Sniffer
	var next [3]int64
	var gone int64 // bytes that nobody has any more
	for chunk, lost := range job.Follow(lasting) {
		if lost != nil {
			break // Output below meets it too
		}
		if gap := chunk.Offset - next[chunk.Stream]; gap > 0 {
			gone += gap
		}
		next[chunk.Stream] = chunk.Offset + int64(len(chunk.Data))
		shown.Write(chunk.Data)
		sniffed.Write(chunk.Stream, chunk.Data)
		told.write(chunk.Stream, chunk.Data)
		if r.sink != nil {
			r.sink(chunk.Stream, chunk.Data)
		}
	}
	out, err := job.Output(lasting, r.keep)
	out.Timeout = cmd.Timeout
	result.output = out
	result.WallTime = time.Since(began)
	shown.End()
	sniffed.End()
	text := shown.Take()
	result.Head, result.Tail, result.Omitted = text.Head, text.Tail, text.Omitted+gone
	if data, binary := sniffed.Binary(); binary {
		result.Data, result.Head, result.Tail, result.Omitted = data, data.String(), "", 0
	}
	result.Stdout, result.Stderr, result.Replaced = out.Stdout.Bytes, out.Stderr.Bytes, sniffed.Replaced()
	if err != nil {
		if unanswered(err) {
			t.Session.places.distrust(place)
		}
		err = failedAt(ctx, "output", err)
	} else {
		code := out.ExitCode
		result.ExitCode, result.Signal, result.TimedOut, result.WallTime = &code, out.Signal, out.TimedOut, out.Duration
		err = r.outcome(ctx, result, attempt, place)
	}
	r.end(t, result, told, err)
	return result, err
}

// overdue is how long after its time-out a command's sandbox is asked whether it is still there.
const overdue = 2 * time.Second

// outlasting is a context for the end of a job: it outlives the call's own, with which the job is killed, and ends when
// the job ought to have ended and its sandbox says nothing at all.
func outlasting(ctx context.Context, job *process.Job, timeout time.Duration) (context.Context, context.CancelCauseFunc) {
	lasting, over := context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		var due <-chan time.Time
		if timeout > 0 {
			timer := time.NewTimer(timeout + overdue)
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-lasting.Done():
			return
		case <-ctx.Done():
			job.Kill()
		case <-due:
		}
		for lasting.Err() == nil {
			if err := session.Unanswered(job); err != nil {
				over(err)
				return
			}
			select {
			case <-lasting.Done():
			case <-time.After(overdue):
			}
		}
	}()
	return lasting, over
}

// outcome is the typed error of a command that ended in another way than by itself.
func (r *execRequest) outcome(ctx context.Context, result *ExecResult, attempt SandboxAttempt, place Place) error {
	out := result.output
	result.endedBy(process.Exit{Error: out.Error, OutOfMemory: out.OutOfMemory, Limit: out.Limit, StdoutLost: out.AggregatedOutput.LostBytes})
	switch {
	case out.Cancelled && context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case out.TimedOut:
		return &TimeoutError{Output: out}
	case out.ExitCode == 0:
		return nil
	}
	denial, ok := r.denial(attempt, place, out.ExitCode, out.Stderr.Text)
	if !ok || denial.Evidence == sandbox.ByWords {
		// Errors come by stdout too ("2>&1"), beside much that is none: there only the name of a path that is closed counts.
		if other, found := r.denial(attempt, place, out.ExitCode, out.Stdout.Text); found && (other.Evidence == sandbox.ByMounts || other.Evidence == sandbox.ByKernel) {
			denial, ok = other, true
		}
	}
	if ok && denial.Evidence != sandbox.ByWords {
		return &DeniedError{Output: out, Denial: denial}
	} else if ok {
		result.Notices = append(result.Notices, suspicion(denial))
	}
	if out.Signal != "" {
		return &SignalError{Signal: out.ExitCode - process.ExitCodeSignalBase, Name: out.Signal, Output: out}
	}
	return nil
}

// result is the beginning of an attempt's result.
func (r *execRequest) result(attempt SandboxAttempt, t ToolCtx) *ExecResult {
	return &ExecResult{Tool: t.ToolName, MaxTokens: DefaultMaxTokens, CwdBefore: r.params.Cwd, Outside: attempt.Outside, Retried: attempt.Retry, Profile: r.call.Profile, Notices: r.notices()}
}

func (r *execRequest) notices() []string {
	if r.note == "" {
		return nil
	}
	return []string{r.note}
}

// place opens the attempt's sandbox and holds what runs against what was decided.
func (r *execRequest) place(ctx context.Context, attempt SandboxAttempt) (Place, func(), error) {
	if seal(r.params) != r.sealed {
		return nil, nil, &RejectedError{Reason: "What would run is not what was approved.", By: "policy"}
	}
	place, release, err := attempt.Place(ctx)
	if err != nil { // an invalid one is a policy that cannot be had as it is written
		return nil, nil, failedAt(ctx, "sandbox", err)
	}
	return place, release, nil
}

// decided sums the decision up for events.
func (r *execRequest) decided(attempt SandboxAttempt) Decided {
	d := Decided{Outside: attempt.Outside, Digest: digestOf(r.decision), By: "policy"}
	var parts []approval.Judged
	switch decision := r.decision.(type) {
	case approval.Allow:
		parts, d.Grant = decision.Parts, decision.Grant
		if d.Grant != "" {
			d.By = "grant"
		}
	case approval.Question:
		parts, d.Outcome, d.By = decision.Parts, approval.Asked, "person"
	case approval.Forbid:
		parts, d.Outcome, d.Why = decision.Parts, approval.Forbidden, decision.Why
	}
	if attempt.Retry {
		d.By = "person"
	}
	for _, p := range parts {
		if p.Rule != nil {
			text := p.Rule.String()
			if p.Rule.File != "" {
				text += " (" + p.Rule.File + ")"
			}
			d.Rules = append(d.Rules, text)
			if d.By == "policy" {
				d.By = "rule"
			}
		}
	}
	return d
}

func (r *execRequest) begin(attempt SandboxAttempt, t ToolCtx, place Place) {
	n := 1
	if attempt.Retry {
		n = 2
	}
	t.Session.config.Observer.Observe(ExecCommandBegin{CallID: t.CallID, Tool: t.ToolName, Command: r.params.Command, Lines: r.lines, Cwd: r.params.Cwd,
		Source: FromAgent, Freeform: r.freeform, Attempt: n, Sandbox: attempt.Sandbox.String(), Report: place.Report(), Decision: r.decided(attempt),
		Profile: r.call.Profile, Timeout: r.params.Expiration.Duration, At: t.Session.config.Now()})
}

// end tells of the end of a command that does not live on, or that never ran.
func (r *execRequest) end(t ToolCtx, result *ExecResult, told *deltas, err error) {
	end := ExecCommandEnd{CallID: t.CallID, Tool: t.ToolName, Session: result.SessionID, Signal: result.Signal, TimedOut: result.TimedOut, Stdout: result.Stdout, Stderr: result.Stderr,
		Duration: result.WallTime, Decision: r.decided(SandboxAttempt{Outside: result.Outside, Retry: result.Retried}), Cwd: r.params.Cwd, At: t.Session.config.Now()}
	if result.ExitCode != nil {
		end.ExitCode = *result.ExitCode
	}
	var failed ExecResult
	if err != nil && failed.fail(err) == nil {
		end.Error, end.Message, end.Denial = failed.Failure, failed.Message, failed.Denial
	} else if err != nil {
		end.Error, end.Message = "io", err.Error()
	}
	if told != nil {
		end.Preview, end.Digest = told.sum()
	}
	t.Session.config.Observer.Observe(end)
}
