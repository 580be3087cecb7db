package agent

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Exit codes of calls that did not run, as shells use them.
const (
	exitUsage      = 2   // the arguments were wrong
	exitNotStarted = 126 // the command could not be run, or was denied
	exitKilled     = 137 // it was killed, or its end was not seen
)

// The reasons that a receipt gives for an end that the exit code alone does not explain.
const (
	reasonTimedOut    = "timed_out"
	reasonCancelled   = "cancelled"
	reasonMemory      = "memory_limit"
	reasonNotStarted  = "not_started"
	reasonInterrupted = "interrupted"
	reasonDenied      = "denied"      // by a person, or by the organisation's policy
	reasonOutputLost  = "output_lost" // the disk did not take all that it printed
)

// shellOutput is a shell_call_output with the keys of ours that clients may read and need not.
type shellOutput struct {
	openai.ShellCallOutput
	Environment  *openai.ItemEnvironment `json:"environment,omitempty"`          // where it ran, as in its call
	FilesMore    int                     `json:"output_files_more,omitempty"`    // changed files beyond output_files
	FilesPartial bool                    `json:"output_files_partial,omitempty"` // output_files may miss some
}

// ended is how a command ended.
type ended struct {
	entry   openai.ShellOutput
	files   []openai.OutputFile // that it made or changed
	more    int                 // changed files beyond them
	partial bool                // there may be others
	whole   bool                // it came to an end of its own or to its time limit, and all that it printed was kept
}

// entryOf is a command's result as an output entry.
func entryOf(r container.Result) openai.ShellOutput {
	e := openai.ShellOutput{Stdout: r.Stdout.Text, Stderr: r.Stderr.Text, Outcome: openai.Exit(r.ExitCode),
		Receipt: &openai.Receipt{DurationMS: r.Duration.Milliseconds(), TimeoutMS: r.Timeout.Milliseconds(),
			Rung: r.Isolation.Got, Missing: r.Isolation.Missing, StdoutBytes: r.Stdout.Bytes + r.StdoutLost,
			StderrBytes: r.Stderr.Bytes + r.StderrLost, StdoutLost: r.StdoutLost, StderrLost: r.StderrLost,
			StdoutReplaced: r.Stdout.Replaced, StderrReplaced: r.Stderr.Replaced, Restarted: r.Restarted, Signal: r.Signal}}
	if r.Stdout.OmittedChars+r.Stdout.LostBytes+r.Stderr.OmittedChars+r.Stderr.LostBytes > 0 {
		e.Receipt.OutputPath = r.Output
	}
	if r.TimedOut {
		e.Outcome = openai.Timeout()
	}
	switch {
	case r.Breach != "": // the container's own guard stopped it
		e.Receipt.Reason = r.Breach
		e.Stderr = joinLines(e.Stderr, "shell: stopped: "+r.BreachText)
	case r.Cancelled && !r.TimedOut:
		e.Receipt.Reason = reasonCancelled
	case r.OutOfMemory: // also at a time-out, of which the outcome tells
		e.Receipt.Reason = reasonMemory
	case r.TimedOut:
		e.Receipt.Reason = reasonTimedOut
	case r.Error != "":
		e.Receipt.Reason = reasonNotStarted
		e.Stderr = joinLines(e.Stderr, "shell: "+r.Error)
	case r.StdoutLost+r.StderrLost > 0:
		e.Receipt.Reason = reasonOutputLost
	}
	e.Receipt.Blocked = r.Blocked
	for i, line := range r.Blocked {
		if i == maxBlocked {
			e.Stderr = joinLines(e.Stderr, fmt.Sprintf("shell: blocked by policy: %d more", len(r.Blocked)-i))
			break
		}
		e.Stderr = joinLines(e.Stderr, "shell: blocked by policy: "+line)
	}
	if lost := lostOutput(e.Receipt); lost != "" {
		if e.Stderr != "" && !strings.HasSuffix(e.Stderr, "\n") {
			e.Stderr += "\n"
		}
		e.Stderr += lostLine(lost)
	}
	return e
}

// maxBlocked bounds the blocked connections that a model is told of one by one.
const maxBlocked = 5

// lostOutput says how much of a command's output the disk did not take, or nothing when it took all.
func lostOutput(r *openai.Receipt) string {
	var parts []string
	for _, s := range []struct {
		name string
		lost int64
	}{{"stdout", r.StdoutLost}, {"stderr", r.StderrLost}} {
		switch {
		case s.lost == 1:
			parts = append(parts, "the last byte of "+s.name)
		case s.lost > 1:
			parts = append(parts, fmt.Sprintf("the last %d bytes of %s", s.lost, s.name))
		}
	}
	return strings.Join(parts, " and ")
}

// lostLine ends a stderr after which output was lost.
func lostLine(lost string) string { return "shell: the disk is full or takes no more; lost: " + lost }

// notStarted is the entry of a command that was never run, with the reason where a shell would put it.
func notStarted(ctx context.Context, err error) openai.ShellOutput {
	e := openai.ShellOutput{Stderr: "shell: " + public(err), Outcome: openai.Exit(exitNotStarted),
		Receipt: &openai.Receipt{Reason: reasonNotStarted}}
	if ctx.Err() != nil {
		e.Stderr = "shell: cancelled before it was started"
		e.Receipt.Reason = reasonCancelled
	}
	return e
}

// interrupted is the entry of a command that was started and whose end was not seen. It has what is known of it, and
// what was heard where its spool is gone.
func interrupted(ctx context.Context, err error, r container.Result, heard tail) openai.ShellOutput {
	e := entryOf(r)
	e.Outcome = openai.Exit(exitKilled)
	e.Receipt.Reason = reasonInterrupted
	if r.Stdout.Bytes+r.Stderr.Bytes == 0 {
		e.Stdout, e.Receipt.StdoutBytes = string(heard.stdout), heard.stdoutBytes
		e.Stderr, e.Receipt.StderrBytes = string(heard.stderr), heard.stderrBytes
	}
	if ctx.Err() != nil {
		e.Receipt.Reason = reasonCancelled
		return e
	}
	e.Stderr = joinLines(e.Stderr, "shell: "+public(err))
	return e
}

// joinLines adds a line to what may already be there.
func joinLines(text, line string) string {
	if text == "" {
		return line
	}
	return strings.TrimSuffix(text, "\n") + "\n" + line
}

// tail is the last of what a command was heard to print, for the case that its spool is lost with its container.
type tail struct {
	stdout, stderr           []byte
	stdoutBytes, stderrBytes int64
}

func (t *tail) add(d container.Delta, limit int) {
	t.stdoutBytes += int64(len(d.Stdout))
	t.stderrBytes += int64(len(d.Stderr))
	t.stdout = keepLast(append(t.stdout, d.Stdout...), limit)
	t.stderr = keepLast(append(t.stderr, d.Stderr...), limit)
}

// keepLast keeps about the last limit bytes, from a whole character on. It cuts only when twice that has gathered.
func keepLast(b []byte, limit int) []byte {
	if len(b) <= 2*limit {
		return b
	}
	cut := len(b) - limit
	for cut < len(b) && !utf8.RuneStart(b[cut]) {
		cut++
	}
	return append(b[:0], b[cut:]...)
}
