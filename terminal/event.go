package terminal

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// Observer is told what a session's tools do: logs, metrics and audit hang here. Observe is called in order for one
// call, from any goroutine, and must not wait. What it is given names commands and output as they are: whoever keeps
// it masks it.
type Observer interface{ Observe(Event) }

// Event is [ExecCommandBegin], [ExecCommandOutputDelta], [ExecCommandEnd], [ApprovalRequested] or [SessionPruned].
type Event interface{ event() }

// Source says who a command is from.
type Source string

// The sources.
const (
	FromAgent Source = "agent"
	FromUser  Source = "user_shell"
)

// ExecCommandBegin is told before a command starts, once for each attempt.
type ExecCommandBegin struct {
	CallID   string
	Tool     string
	Command  []string // the whole argument list
	Lines    []string // its parts, one line each, as a person reads them
	Cwd      string
	Source   Source
	Freeform bool // the model wrote a script, not an argument list
	Attempt  int  // 1, or 2 for the retry outside
	Sandbox  string
	Report   sandbox.Report // what was really got
	Decision Decided
	Profile  string // digest of all that confines it
	Timeout  time.Duration
	At       time.Time
}

// Decided says what let a command run, or kept it from running.
type Decided struct {
	Outcome approval.Verdict
	By      string // "policy", "rule", "grant", or the person
	Answer  string // the person's, as [ReviewDecision] spells it
	Why     string
	Rules   []string // the rules that decided parts of it, with file and line
	Grant   string
	Outside bool
	Digest  approval.Digest
}

// Stream names a stream in events.
type Stream string

// The streams. A terminal has one.
const (
	Stdout Stream = "Stdout"
	Stderr Stream = "Stderr"
)

// ExecCommandOutputDelta is output as it came. Chunk is valid during the call only, and ends between characters where
// the output has characters. After [MaxExecOutputDeltasPerCall] none follow; the output goes on.
type ExecCommandOutputDelta struct {
	CallID string
	Stream Stream
	Chunk  []byte
}

// MaxExecOutputDeltasPerCall bounds the deltas of one call.
const MaxExecOutputDeltasPerCall = 10_000

// ExecCommandEnd is told when a command has ended, or was refused. A command that lives on in a session ends later than
// its call.
type ExecCommandEnd struct {
	CallID   string
	Tool     string
	Session  int // of a command that could live on; 0 is none
	ExitCode int
	Signal   string
	TimedOut bool
	Error    string // "rejected", "denied", "timeout", "signal", "io", or empty
	Message  string
	Denial   *sandbox.Denial
	Preview  string // of the output: see [TelemetryPreview]
	Digest   string // of all output that was kept, sha256
	Stdout   int64  // bytes
	Stderr   int64
	Duration time.Duration
	Decision Decided
	Cwd      string
	At       time.Time
}

// ApprovalRequested is told when a question was answered, or could not be asked. It is the counter
// codex.approval.requested{tool, approved}.
type ApprovalRequested struct {
	CallID   string
	Tool     string
	Approved string // the answer, as [ReviewDecision] spells it
	By       string
	Reason   string
	Retry    bool
	Outside  bool
	Rules    []string // what "always" saved
	Digest   approval.Digest
	Waited   time.Duration
	At       time.Time
}

// SessionPruned is told when a live command was ended, or an ended one forgotten, to make room.
type SessionPruned struct {
	Session int
	Alive   bool
	Why     string
}

func (ExecCommandBegin) event()       {}
func (ExecCommandOutputDelta) event() {}
func (ExecCommandEnd) event()         {}
func (ApprovalRequested) event()      {}
func (SessionPruned) event()          {}

type unobserved struct{}

func (unobserved) Observe(Event) {}

// The bounds of what telemetry keeps of an output.
const (
	TelemetryPreviewMaxBytes         = 2048
	TelemetryPreviewMaxLines         = 50
	TelemetryPreviewTruncationNotice = "[output truncated]"
)

// TelemetryPreview is the beginning of an output: at most so many bytes and lines, whole characters, and a notice on a
// line of its own when that is not all.
func TelemetryPreview(output string) string {
	kept := output
	if len(kept) > TelemetryPreviewMaxBytes {
		cut := TelemetryPreviewMaxBytes
		for cut > 0 && !utf8.RuneStart(kept[cut]) {
			cut--
		}
		kept = kept[:cut]
	}
	lines := 0
	for i := range len(kept) {
		if kept[i] == '\n' {
			if lines++; lines == TelemetryPreviewMaxLines {
				kept = kept[:i+1]
				break
			}
		}
	}
	if len(kept) == len(output) {
		return output
	}
	if kept != "" && !strings.HasSuffix(kept, "\n") {
		kept += "\n"
	}
	return kept + TelemetryPreviewTruncationNotice
}
