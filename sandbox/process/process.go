// Package process is one running command of a box, seen from the owner's side: its streams in arrival order, its
// spool, bounded views of it, its end, and a way to kill it.
//
// It starts nothing and moves no bytes: the resident writes the job folder and package sandbox tells a [Job] how far
// it has come. What holds: no byte that reached the spool is lost or shown twice to a reader, any number of readers
// may follow from the start, nobody polls, and a character is never cut in two.
package process

import (
	"io"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// The streams of a job.
const (
	Stdout = resident.Stdout
	Stderr = resident.Stderr
)

// Command is what a box is asked to run. It is run at most once per Key and Index.
type Command struct {
	Key     string        // ours: 1 to 100 of A-Z a-z 0-9 _ . -, with no dot in front
	Index   int           // the command's place within its call
	Argv    []string      // argv[0] is looked up in the PATH of Env when it has no slash
	Arg0    string        // shown to the program as its own name; empty is Argv[0]
	Env     []string      // the whole environment, NAME=value; nothing is inherited
	Dir     string        // as the command sees it
	Stdin   io.Reader     // nil is empty; typed into the terminal, if there is one
	Timeout time.Duration // 0 is none

	Lease string // whose Fence it is, such as a response's id; empty is the Key
	Fence uint64 // the owner's: lower than one seen for the lease is refused, and nothing is started

	// Whole ends the call only when nothing of it is left: what its command left behind is killed first. Otherwise that
	// lives on, in the box.
	Whole bool

	OpenStdin bool  // stdin is a pipe that [Job.Write] feeds and [Job.CloseInput] ends
	TTY       *Size // run in a terminal of this size: all output is Stdout, and [Job.Write] types
}

// Size is a terminal's, in characters. Zero values stand for 24 rows and 80 columns.
type Size struct {
	Rows, Cols uint16
}

// OrDefault fills in what is not given.
func (s Size) OrDefault() Size {
	if s.Rows == 0 {
		s.Rows = resident.DefaultRows
	}
	if s.Cols == 0 {
		s.Cols = resident.DefaultCols
	}
	return s
}

// maxArgument is the kernel's MAX_ARG_STRLEN: one argument or variable, its NUL included. Beyond it exec fails with
// E2BIG, which reads as a missing program; we say what it is.
const maxArgument = 128 << 10

// Validate says whether the command can be written to a job folder and handed to exec as it stands.
func (c Command) Validate() error {
	if err := resident.CheckKey(c.Key); err != nil {
		return fault.Wrap(fault.Invalid, err, "%v", err)
	}
	if c.Lease != "" && resident.CheckKey(c.Lease) != nil {
		return fault.New(fault.Invalid, "a command's lease is made like a key")
	}
	if c.Index < 0 {
		return fault.New(fault.Invalid, "a command's index is not negative")
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return fault.New(fault.Invalid, "the command is empty")
	}
	if strings.IndexByte(c.Arg0, 0) >= 0 || len(c.Arg0) >= maxArgument {
		return fault.New(fault.Invalid, "a program's own name is without NUL and shorter than %d bytes", maxArgument)
	}
	for i, arg := range c.Argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return fault.New(fault.Invalid, "argument %d holds a NUL byte", i)
		}
		if len(arg) >= maxArgument {
			return fault.New(fault.TooLarge, "argument %d has %d bytes; the kernel takes %d", i, len(arg), maxArgument-1)
		}
	}
	for _, entry := range c.Env {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || strings.IndexByte(entry, 0) >= 0 {
			return fault.New(fault.Invalid, "an environment entry is NAME=value without NUL")
		}
		if len(entry) >= maxArgument {
			return fault.New(fault.TooLarge, "the variable %s has %d bytes; the kernel takes %d", name, len(entry), maxArgument-1)
		}
	}
	if strings.IndexByte(c.Dir, 0) >= 0 {
		return fault.New(fault.Invalid, "the working directory holds a NUL byte")
	}
	if c.Timeout < 0 {
		return fault.New(fault.Invalid, "a time-out is not negative")
	}
	if c.OpenStdin && c.Stdin != nil {
		return fault.New(fault.Invalid, "a command's stdin is either read from a reader or kept open")
	}
	return nil
}

// Exit is how a command ended. A time-out has Code 124 and TimedOut, so a program that exits 124 itself is told
// apart; death by signal n has Code 128+n and the signal's name; a command that could not be started has Code 126 or
// 127 and Error. OutOfMemory comes with any code: what was killed may be one part of a pipeline.
type Exit struct {
	Code        int
	Error       string // why the command could not be started
	Signal      string // such as "SIGKILL"; empty when the command exited
	TimedOut    bool
	Cancelled   bool
	OutOfMemory bool   // while the call ran, a process of its box was killed for memory: its own, or a call's beside it
	Limit       string // the limit of the box that ended it: "memory", "processes"; empty when none did
	Started     time.Time
	Ended       time.Time
	Stdout      int64 // bytes of the stream that belong to the call and reached its spool
	Stderr      int64
	StdoutLost  int64 // bytes that came after those and that the disk, being full, did not take
	StderrLost  int64
}

// Chunk is a piece of one stream. Data is valid until the next step of the iteration that gave it. An Offset beyond
// the end of the stream's chunk before means that the bytes between are no longer kept.
type Chunk struct {
	Stream int   // Stdout or Stderr
	Offset int64 // of Data's first byte in its stream
	Data   []byte
}
