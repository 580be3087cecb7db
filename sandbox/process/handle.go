package process

import (
	"context"
	"io"
	"iter"
)

// Handle is a running process as the one who spawned it holds it. A [Job] is one.
type Handle interface {
	// Input is the process's stdin or terminal.
	Input(ctx context.Context) io.WriteCloser
	// Follow is one subscription to its output, from the start; any number may be had.
	Follow(ctx context.Context) iter.Seq2[Chunk, error]
	// HasExited says whether the process has ended.
	HasExited() bool
	// ExitCode is the process's, once there is one.
	ExitCode() (code int, ok bool)
	// Terminate kills the process and all that it started. It does not wait.
	Terminate()
}

var _ Handle = (*Job)(nil)

// Spawned is what starting a process gives: its handle, a first subscription to its output, and its end.
type Spawned struct {
	Session Handle
	Output  iter.Seq2[Chunk, error]
	Exit    <-chan int // gives the exit code once, then is closed; closed without one when the end was lost
}

// Spawned returns the job with a first subscription. The context ends the subscription and the wait for the exit, not
// the process.
func (j *Job) Spawned(ctx context.Context) Spawned {
	exit := make(chan int, 1)
	go func() {
		defer close(exit)
		if e, err := j.Wait(ctx); err == nil {
			exit <- e.Code
		}
	}()
	return Spawned{Session: j, Output: j.Follow(ctx), Exit: exit}
}

// HasExited says whether the call has ended, or is lost.
func (j *Job) HasExited() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// ExitCode returns the code of a call that has ended. A running one, and one that is lost, has none.
func (j *Job) ExitCode() (code int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended || j.lost != nil {
		return 0, false
	}
	return j.exit.Code, true
}

// Terminate is [Job.Kill] under the name that a [Handle] gives it.
func (j *Job) Terminate() { j.Kill() }
