package process

import (
	"bytes"
	"context"
	"time"
)

// The exit codes that are not a program's own.
const (
	ExecTimeoutExitCode = 124 // comes with TimedOut; a program may exit with it too
	ExitCodeSignalBase  = 128 // n more for death by signal n; 9 more for a call that was cancelled
)

// ExecToolCallOutput is the result of a command.
type ExecToolCallOutput struct {
	ExitCode         int
	Stdout           StreamOutput
	Stderr           StreamOutput
	AggregatedOutput StreamOutput // both, in the order of their arrival
	Duration         time.Duration
	TimedOut         bool

	Timeout     time.Duration // the one that was applied; 0 is none
	Cancelled   bool
	Signal      string // such as "SIGKILL"; empty when the command exited
	OutOfMemory bool   // as of [Exit]
	Limit       string // as of [Exit]
	Error       string // why the command could not be started
}

// StreamOutput is what a stream gave: all of it, or its head and its tail with one line between that counts what it
// stands for.
type StreamOutput struct {
	Text                string // valid UTF-8
	Truncated           bool   // something was left out
	TruncatedAfterLines int    // whole lines before that
	Bytes               int64  // of the whole stream
	OmittedBytes        int64  // of them, those that Text does not show
	ReplacedBytes       int64  // of them, those that are not UTF-8: each run of them is a U+FFFD in Text
	LostBytes           int64  // beyond Bytes: what the disk, being full, did not take
}

// Output waits for the call's end and returns its result, with at most max bytes of each stream (0 or less:
// [HeadTailMax]). The error is the context's, or says that the end will never be known; the result then has what was
// written until now.
func (j *Job) Output(ctx context.Context, max int) (ExecToolCallOutput, error) {
	var next [3]int64
	both := NewHeadTailBuffer(max)
	streams := [3]*HeadTailBuffer{Stdout: NewHeadTailBuffer(max), Stderr: NewHeadTailBuffer(max)}
	var err error
	for chunk, failed := range j.Follow(ctx) {
		if err = failed; err != nil {
			break
		}
		if gap := chunk.Offset - next[chunk.Stream]; gap > 0 {
			streams[chunk.Stream].Skip(gap)
			both.Skip(gap)
		}
		next[chunk.Stream] = chunk.Offset + int64(len(chunk.Data))
		streams[chunk.Stream].Write(chunk.Data)
		both.Write(chunk.Data)
	}
	out := ExecToolCallOutput{Stdout: streams[Stdout].output(), Stderr: streams[Stderr].output(), AggregatedOutput: both.output()}
	if err != nil {
		return out, err
	}
	exit, err := j.Wait(ctx)
	if err != nil {
		return out, err
	}
	out.ExitCode, out.Signal, out.Error = exit.Code, exit.Signal, exit.Error
	out.TimedOut, out.Cancelled, out.OutOfMemory = exit.TimedOut, exit.Cancelled, exit.OutOfMemory
	out.Limit = exit.Limit
	out.Duration = exit.Ended.Sub(exit.Started)
	out.Stdout.LostBytes, out.Stderr.LostBytes = exit.StdoutLost, exit.StderrLost
	out.AggregatedOutput.LostBytes = exit.StdoutLost + exit.StderrLost
	return out, nil
}

// output is what the buffer holds, as a result shows it.
func (b *HeadTailBuffer) output() StreamOutput {
	v := b.View()
	out := StreamOutput{Text: v.Text, Bytes: v.Bytes, OmittedBytes: v.LostBytes, ReplacedBytes: v.Replaced}
	if v.LostBytes > 0 {
		out.Truncated, out.TruncatedAfterLines = true, bytes.Count(b.head, []byte{'\n'})
	}
	return out
}
