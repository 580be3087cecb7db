package session

import (
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/screen"
)

// State is where a session stands.
type State int

// The states.
const (
	Running       State = iota // its command works, or nobody can tell that it does not
	Idle                       // an interactive shell stands at its prompt
	AwaitingInput              // something in front reads the terminal, or the input pipe, and there is nothing to read
	Exited                     // its command has ended
)

var stateNames = [...]string{"running", "idle", "awaiting_input", "exited"}

// String returns "running", "idle", "awaiting_input" or "exited".
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return "unknown"
	}
	return stateNames[s]
}

// Fired says why a wait ended.
type Fired string

// The reasons.
const (
	FiredYield    Fired = "yield"          // the time that was asked for is over
	FiredCeiling  Fired = "ceiling"        // what was waited for did not come in time
	FiredExit     Fired = "exit"           // the command has ended
	FiredPattern  Fired = "pattern"        // the pattern was seen
	FiredPort     Fired = "port"           // the port is listened on
	FiredQuiet    Fired = "quiet"          // nothing was printed for as long as was asked
	FiredIdle     Fired = "idle"           // the shell is back at its prompt
	FiredAwaiting Fired = "awaiting_input" // somebody has to type
)

// Snapshot is what a [Session.Collect] found. Everything but the counts of the whole session is about what is new since
// the last one; a session that has ended tells its last snapshot again.
type Snapshot struct {
	ID   int
	Name string // the caller's own, if it gave one

	// Head is what a terminal would finally show of the new output, as text: no colours, no cursor movements, lines as
	// they stood at the end. When that is more than is kept, Head is its first part, Tail its last, and Omitted counts
	// the bytes of text between them. Text joins them.
	Head, Tail string
	Omitted    int64
	Data       screen.Data // of output that is mostly no text, in whose place Head is one line; its Type is empty for text

	Bytes     int64 // new output as it came, both streams
	TextBytes int64 // of what would be shown, before anything was left out; Tokens counts it in tokens
	Replaced  int64 // bytes of it that are no UTF-8: U+FFFD stands for each run of them
	Raw       Raw   // where the new output lies in the raw streams
	Total     int64 // bytes of output of the whole session so far

	State    State
	Password bool   // AwaitingInput with echo off: a person answers, see [Session.Answer]
	Prompt   string // the line on which input is awaited
	Command  *int   // of an idle shell that prints our marks: the exit code of its last command
	Body     string // of the same: what its last command printed, without prompt and echo; empty if that is not known

	Exit process.Exit // once Exited
	Lost error        // set when the end will never be known; Exit then says nothing

	CwdBefore string // where the session stood when the last call began, as commands see it
	CwdAfter  string // and stands now; CwdBefore where that cannot be told

	Wall   time.Duration // from the start, or the write, that this snapshot answers
	Fired  Fired
	Match  string        // of FiredPattern: what matched
	Capped time.Duration // the wait was shortened to this, which is less than was asked; 0 is not
	Ready  Readiness     // of a background job

	Notices []string // what the one who asks ought to know: sessions that were ended to make room, how many are left
}

// Raw says which bytes of the raw streams a snapshot is about.
type Raw struct {
	StdoutFrom, StdoutTo int64
	StderrFrom, StderrTo int64
}

// Readiness is what is known of a background job.
type Readiness string

// The readiness of a background job; sessions that are none have the empty one.
const (
	JobReady   Readiness = "ready"   // its port is listened on, or its pattern was seen
	JobRunning Readiness = "running" // it lives
	JobExited  Readiness = "exited"  // it has ended
)

// ExitCode is the code of a session that has ended; ok is false for one that lives or whose end is not known.
func (s Snapshot) ExitCode() (code int, ok bool) {
	if s.State != Exited || s.Lost != nil {
		return 0, false
	}
	return s.Exit.Code, true
}

// Tokens is the text's size before anything was left out, at four bytes a token, rounded up.
func (s Snapshot) Tokens() int64 { return (s.TextBytes + 3) / 4 }

// Text is Head and Tail, with one line between them that counts what is not there.
func (s Snapshot) Text() string {
	if s.Omitted == 0 {
		return s.Head + s.Tail
	}
	return s.Head + "\n" + process.LeftOut(s.Omitted) + "\n" + s.Tail
}
