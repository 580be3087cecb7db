package shellcall

import (
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Observer is told what an executor does: a view and an audit hang here. Observe is called in order for one command, from
// any goroutine, and must not wait long: a command's output waits for it. What it is given is as it is; whoever keeps it
// masks it.
type Observer interface{ Observe(Event) }

// ObserverFunc is an [Observer] as a function.
type ObserverFunc func(Event)

// Observe calls the function.
func (f ObserverFunc) Observe(e Event) { f(e) }

// Event is [Begun], [Printed], [Ended] or [Patched].
type Event interface{ event() }

// Begun is told before a command is decided about, and so before it runs.
type Begun struct {
	CallID  string
	Index   int // of the command in its call
	Command string
	Timeout time.Duration
	At      time.Time
}

// Printed is output as it comes. Data is valid during the call only, and may end within a character.
type Printed struct {
	CallID string
	Index  int
	Stream int // process.Stdout or process.Stderr
	Data   []byte
}

// Ended is told of every command, once: of those that ran, and of those that did not.
type Ended struct {
	CallID  string
	Index   int
	Command string
	Cwd     string // where it was started

	Outcome Outcome // as the model is told
	Refused string  // why it was not run; empty when it was
	Exit    process.Exit
	Report  sandbox.Report // of the sandbox that it really had
	Outside bool           // a person approved it to run outside
	Denial  *sandbox.Denial
	Notes   []string // what stands at the end of stderr beside the command's own

	Stdout, Stderr string // the head and the tail, of at most [Options.AuditBytes] each
	At             time.Time
}

// Patched is told of every patch, applied or not.
type Patched struct {
	CallID    string
	Operation Operation
	Output    PatchOutput
	Added     int // lines
	Removed   int
	At        time.Time
}

func (Begun) event()   {}
func (Printed) event() {}
func (Ended) event()   {}
func (Patched) event() {}
