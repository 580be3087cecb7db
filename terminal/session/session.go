package session

import (
	"context"
	"io"
	"syscall"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A Session is a command that lives on between calls. All methods may be called from any goroutine.
type Session struct{}

// ID is the session's number.
func (s *Session) ID() int { panic("being written") }

// Name is the caller's own name for it.
func (s *Session) Name() string { panic("being written") }

// Write types into the terminal, or writes to the input pipe. It returns when the command, or a buffer in front of it,
// has taken all, or the context ends. In front of a password prompt only control characters are taken: a password is a
// person's to give. Of a command without any input the error says what would give it one, of one that has ended how.
func (s *Session) Write(ctx context.Context, p []byte) error { panic("being written") }

// CloseInput ends the input pipe; in a terminal it types Ctrl-D.
func (s *Session) CloseInput(ctx context.Context) error { panic("being written") }

// Interrupt is Ctrl-C: typed in a terminal, else SIGINT for the command's process group.
func (s *Session) Interrupt(ctx context.Context) error { panic("being written") }

// Signal sends a signal to the process group in front, which without a terminal is the command's.
func (s *Session) Signal(ctx context.Context, sig syscall.Signal) error { panic("being written") }

// Resize gives the terminal another size.
func (s *Session) Resize(ctx context.Context, size process.Size) error { panic("being written") }

// Answer gives a password to the prompt that waits for one, with a line's end. It is for a person: nothing that the
// session prints later shows it, and p is wiped. The error is a fault.Conflict when nothing asks for a password.
func (s *Session) Answer(ctx context.Context, p []byte) error { panic("being written") }

// Collect waits as asked and returns what is new. The error is the context's; whatever became of the command is in
// the snapshot.
func (s *Session) Collect(ctx context.Context, w Wait) (Snapshot, error) { panic("being written") }

// State says where the session stands, as it can be told now.
func (s *Session) State(ctx context.Context) State { panic("being written") }

// Raw reads a raw stream as far as it has come, from its first byte. It is for people: passwords that a person gave are
// masked by the program that asked, or not at all.
func (s *Session) Raw(stream int) *io.SectionReader { panic("being written") }

// Kill ends the command and all that it started. It does not wait; Done is closed when it is over.
func (s *Session) Kill() { panic("being written") }

// Done is closed when the command has ended and all of its output was taken.
func (s *Session) Done() <-chan struct{} { panic("being written") }
