package container

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Result is what a command did. With an error of Wait it holds what is known all the same.
type Result struct {
	ExitCode       int    // 124 with TimedOut, 128+n for signal n
	Error          string // why the command could not be run at all; ExitCode is 126 or 127
	Signal         string
	TimedOut       bool
	Cancelled      bool
	OutOfMemory    bool         // while it ran, a process of the container was killed for memory; any exit code
	Stdout, Stderr process.View // what was kept
	StdoutLost     int64        // bytes that came after those in the view and that the disk did not take
	StderrLost     int64
	Duration       time.Duration
	Timeout        time.Duration // what the command was given
	Isolation      Isolation
	Restarted      bool     // the container's box was lost before this command, with every process; told once
	Changed        []File   // files of the workspace that were made or changed meanwhile and exist; at most 64
	ChangedMore    int      // how many more there are
	ChangedPartial bool     // the watch missed something: there may be others
	Breach         string   // BreachDisk | BreachFull: why the service itself stopped it, Cancelled is set too; BreachProcesses
	Output         string   // where later commands find its whole streams, stdout and stderr; empty: nowhere
	BreachText     string   // the same as a sentence
	Blocked        []string // what the network policy kept from the container's commands meanwhile, with what would allow it
}

// BreachProcesses is the breach of a command whose processes kept the container's limit used up.
const BreachProcesses = "process_limit"

// limitProcesses is how the box tells of it.
const limitProcesses = "processes"

// Execution is a command that was started in a container.
type Execution struct {
	service   *Service
	place     *place
	boot      *boot // whose box it is in; nil where none lived
	job       Job
	tree      *tree
	span      *span
	workspace Workspace
	output    string // where later commands find its streams
	script    string // a file in /tmp that holds a long script
	isolation Isolation
	restarted bool
	timeout   time.Duration
	chars     int
	begun     time.Time
	detach    func() bool
	blocker   Blocker // nil without a network policy
	widen     func()  // ends the hold of its own network policy
	breach    atomic.Pointer[breach]

	done   chan struct{} // closed when result and err are set
	result Result
	err    error
}

// Cancel kills the command's processes, and nobody else's. It does not wait: the end arrives as usual.
func (e *Execution) Cancel() { e.job.Kill() }

// Release lets the command run on when the context of Exec or Reattach ends: its next owner will care for it.
func (e *Execution) Release() { e.detach() }

// Done is closed when Wait has its answer.
func (e *Execution) Done() <-chan struct{} { return e.done }

// Wait returns what the command did. An error says that its end could not be seen: the box is gone, the container was
// deleted, or ctx ended. A command that went with its box because the service ended that for a breach has a result.
func (e *Execution) Wait(ctx context.Context) (Result, error) {
	select {
	case <-e.done:
		return e.result, e.err
	default:
	}
	select {
	case <-e.done:
		return e.result, e.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// finish waits for the end and gathers the result. The command's own time limit and the box's end bound it, so it
// needs no context.
func (e *Execution) finish() {
	ctx := context.Background()
	defer close(e.done)
	defer func() { e.service.observe.CommandEnded(&e.result, e.err) }()
	exit, err := e.job.Wait(ctx)
	e.detach()
	if !handedOver(err) {
		e.widen()
	}
	e.service.disk.left(e)
	ended := e.service.now()
	defer e.service.leave(e.place)
	if !handedOver(err) {
		e.removeScript()
	}
	e.result = Result{ExitCode: exit.Code, Error: exit.Error, Signal: exit.Signal, TimedOut: exit.TimedOut,
		Cancelled: exit.Cancelled, OutOfMemory: exit.OutOfMemory, StdoutLost: exit.StdoutLost, StderrLost: exit.StderrLost,
		Duration: exit.Ended.Sub(exit.Started), Timeout: e.timeout, Isolation: e.isolation, Restarted: e.restarted, Output: e.output}
	if exit.Started.IsZero() || exit.Ended.IsZero() {
		e.result.Duration = ended.Sub(e.begun)
	}
	if why := e.stoppedFor(); why != nil && (exit.Cancelled || err != nil) {
		e.result.Breach, e.result.BreachText = why.reason, why.sentence
	}
	switch {
	case err != nil && e.result.Breach != "" && !handedOver(err): // with its box, which the service ended: that is its end
		e.result.ExitCode, e.result.Signal, e.result.Cancelled = 137, "SIGKILL", true
	case err != nil:
		e.err = e.lost(err)
	}
	if exit.Limit == limitProcesses {
		e.result.Breach, e.result.BreachText = BreachProcesses, "The container had as many processes as it may have, for so long that nothing else could be started."
	}
	for stream, view := range map[int]*process.View{process.Stdout: &e.result.Stdout, process.Stderr: &e.result.Stderr} {
		if *view, err = e.job.View(stream, e.chars); err != nil && e.err == nil {
			e.err = failed(err, "The command's output could not be read.")
		}
	}
	if e.blocker != nil {
		e.result.Blocked = e.blocker.Blocked(e.begun.UnixNano())
	}
	changes := e.span.close()
	e.result.ChangedPartial = changes.partial
	e.result.Changed, e.result.ChangedMore, err = e.service.changed(ctx, e.place.id, e.workspace, changes.paths)
	if err != nil {
		e.result.ChangedPartial = true
		e.service.log.Error("changed files could not be listed", "container", e.place.id, "error", err)
	}
}

// lost says why the end was not seen.
func (e *Execution) lost(err error) error {
	if handedOver(err) {
		return fault.Wrap(fault.Conflict, err, "Another server follows the command now.").WithCode(CodeHandedOver)
	}
	e.place.mu.Lock()
	ended, gone := e.place.ended, e.place.gone
	e.place.mu.Unlock()
	switch {
	case gone != nil:
		return fault.Wrap(fault.Cancelled, err, "The container was deleted while the command ran.")
	case ended != nil:
		return fault.Wrap(fault.Cancelled, err, "The command was stopped: %s", message(ended))
	}
	return failed(err, "The container's sandbox ended while the command ran.")
}

// handedOver says that a command goes on, with another owner.
func handedOver(err error) bool {
	e, ok := fault.As(err)
	return ok && e.Code == CodeHandedOver
}

func message(err error) string {
	if e, ok := fault.As(err); ok {
		return e.Message
	}
	return "the container has ended."
}

func (e *Execution) removeScript() {
	if e.script == "" {
		return
	}
	if root, err := os.OpenRoot(e.workspace.Tmp); err == nil {
		root.Remove(e.script) // the command may have done it
		root.Close()
	}
}
