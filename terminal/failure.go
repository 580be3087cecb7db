package terminal

import (
	"context"
	"errors"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// ExecError is how a command failed to be what was asked: one of [TimeoutError], [DeniedError], [SignalError],
// [IoError] and [RejectedError]. A command that ran and exited with a code of its own is no error.
type ExecError interface {
	error
	execError()
}

// TimeoutError is a command that was ended because its time ran out. Its exit code is 124.
type TimeoutError struct{ Output process.ExecToolCallOutput }

// DeniedError is a command that failed because the sandbox kept it from something.
type DeniedError struct {
	Output process.ExecToolCallOutput
	Denial sandbox.Denial
}

// SignalError is a command that a signal ended: not ours, for a time-out or a cancel.
type SignalError struct {
	Signal int
	Name   string
	Output process.ExecToolCallOutput
}

// IoError is a command that could not be started, or whose end will never be known. Stage says where: "sandbox",
// "start", "probe" (it runs, and its sandbox does not answer), "session" or "output". The session can always be started
// again: a sandbox that did not answer is not used for it.
type IoError struct {
	Stage   string
	Message string
	Cause   error
}

// RejectedError is a command that was not allowed to run, or not outside the sandbox. Nothing ran, unless Output says so.
type RejectedError struct {
	Reason string
	By     string // who refused: "policy", or the person
	// Abort is set when the person ended the turn with the refusal.
	Abort bool
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("command timed out after %d milliseconds", e.Output.Timeout.Milliseconds())
}
func (e *DeniedError) Error() string { return e.Denial.String() }
func (e *SignalError) Error() string { return fmt.Sprintf("command was ended by %s", e.Name) }
func (e *IoError) Error() string     { return "infrastructure: " + e.Stage + ": " + e.Message }

func (e *RejectedError) Error() string { return "rejected: " + e.Reason }

// Unwrap returns the cause, for the operator.
func (e *IoError) Unwrap() error { return e.Cause }

func (*TimeoutError) execError()  {}
func (*DeniedError) execError()   {}
func (*SignalError) execError()   {}
func (*IoError) execError()       {}
func (*RejectedError) execError() {}

// failedAt is an error of the machinery as the caller gets it: the end of the call itself, and what the caller got wrong,
// stay what they are.
func failedAt(ctx context.Context, stage string, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) || fault.KindOf(err) == fault.Invalid {
		return err
	}
	return ioError(stage, err)
}

// ioError classes an error of the machinery by the stage where it came up; its message is the public one.
func ioError(stage string, err error) error {
	if err == nil {
		return nil
	}
	message := err.Error()
	if f, ok := fault.As(err); ok {
		message = f.Public()
	}
	return &IoError{Stage: stage, Message: message, Cause: err}
}
