package process

import (
	"context"
	"io"

	"github.com/hardshell-dev/hardshell/fault"
)

// Control is what a [Job] passes on to whoever runs its command. Its methods may be called from any goroutine, and at
// any time: after the end they answer with a [fault.Conflict].
type Control interface {
	// Kill ends the call's processes. It does not wait.
	Kill()
	// Write gives bytes to the command and says how many were taken.
	Write(ctx context.Context, p []byte) (int, error)
	// CloseInput ends the command's stdin after what was given before.
	CloseInput(ctx context.Context) error
	// Resize gives the command's terminal another size.
	Resize(ctx context.Context, size Size) error
}

// Controlled returns the job of a job folder, with more ways to act on it than [New] gives.
func Controlled(dir string, c Control) *Job {
	return &Job{dir: dir, ctl: c, done: make(chan struct{})}
}

// onlyKill is the control of a job that cannot be fed.
type onlyKill func()

func (k onlyKill) Kill() {
	if k != nil {
		k()
	}
}

func (onlyKill) Write(context.Context, []byte) (int, error) { return 0, noInput() }
func (onlyKill) CloseInput(context.Context) error           { return noInput() }
func (onlyKill) Resize(context.Context, Size) error {
	return fault.New(fault.Unsupported, "the command has no terminal")
}

func noInput() error {
	return fault.New(fault.Unsupported, "the command was started without an open stdin").WithTry("start it with OpenStdin or a TTY")
}

// Write gives bytes to the command's open stdin, or types them into its terminal, where "\x03" is Ctrl-C and "\x04"
// ends a line-wise input. It returns when all were taken, by the command or by a buffer of bounded size in front of
// it; a command that does not read makes it wait, until the context ends it. The count is exact in every case. The
// pieces of calls that overlap are not mixed.
//
// The error is a [fault.Unsupported] for a command that was started with neither, a [fault.Conflict] when the input is
// closed or the call has ended.
func (j *Job) Write(ctx context.Context, p []byte) (int, error) {
	if err := j.over(ctx); err != nil {
		return 0, err
	}
	return j.ctl.Write(ctx, p)
}

// CloseInput ends the command's open stdin: it reads what was written before and then the end. The error is a
// [fault.Unsupported] for a terminal, which has no end: type "\x04".
func (j *Job) CloseInput(ctx context.Context) error {
	if err := j.over(ctx); err != nil {
		return err
	}
	return j.ctl.CloseInput(ctx)
}

// Resize gives the command's terminal another size and tells its foreground processes. The error is a
// [fault.Unsupported] for a command without one.
func (j *Job) Resize(ctx context.Context, size Size) error {
	if err := j.over(ctx); err != nil {
		return err
	}
	return j.ctl.Resize(ctx, size.OrDefault())
}

func (j *Job) over(ctx context.Context) error {
	select {
	case <-j.done:
		return fault.New(fault.Conflict, "the command has ended")
	default:
		return context.Cause(ctx)
	}
}

// Input is the command's open stdin, or its terminal, as a writer whose calls share a context.
func (j *Job) Input(ctx context.Context) io.WriteCloser { return jobInput{ctx, j} }

type jobInput struct {
	ctx context.Context
	job *Job
}

func (w jobInput) Write(p []byte) (int, error) { return w.job.Write(w.ctx, p) }
func (w jobInput) Close() error                { return w.job.CloseInput(w.ctx) }
