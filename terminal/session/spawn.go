package session

import (
	"context"
	"errors"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Spawn starts a command, or says in [SpawnLimit] that its sandbox did not. What starts after that, or after the call's
// end, is killed.
func Spawn(ctx context.Context, clock Clock, in process.Starter, c process.Command) (*process.Job, error) {
	if clock == nil {
		clock = machineClock{}
	}
	type started struct {
		job *process.Job
		err error
	}
	answer := make(chan started, 1)
	go func() {
		job, err := in.Start(context.WithoutCancel(ctx), c) // what was begun is to be known
		answer <- started{job, err}
	}()
	late, stop := clock.Timer(SpawnLimit)
	defer stop()
	abandon := func(err error) (*process.Job, error) {
		go func() {
			if a := <-answer; a.err == nil {
				a.job.Kill()
			}
		}()
		return nil, err
	}
	select {
	case a := <-answer:
		return a.job, a.err
	case <-ctx.Done():
		return abandon(context.Cause(ctx))
	case <-late:
		return abandon(fault.New(fault.Unavailable, "the sandbox did not start the command within %v (stage: spawn)", SpawnLimit).
			WithCode(CodeInfrastructure).WithTry("restart the session, or run hardshell doctor"))
	}
}

// Unanswered says whether the sandbox of a command that ought to have ended says nothing at all, neither that it has
// nor to a question. It takes a second and a half then, and no time else.
func Unanswered(job *process.Job) error {
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	if _, err := job.Look(ctx, 0); !errors.Is(err, context.DeadlineExceeded) || job.HasExited() {
		return nil
	}
	return fault.New(fault.Unavailable, "the sandbox of a killed command does not answer, and how that ended is not known (stage: kill)").
		WithCode(CodeInfrastructure).WithTry("start it again, in a sandbox of its own")
}
