package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/screen"
)

// A Session is a command that lives on between calls. All methods may be called from any goroutine.
type Session struct {
	store   *Store
	id      int
	spec    Spec
	shell   bool // an interactive shell
	marks   *marks
	job     *process.Job
	started time.Time
	done    chan struct{}
	grew    chan struct{}   // holds a word after new output, a mark or a match
	calling chan struct{}   // filled while somebody collects
	life    context.Context // ends when the sandbox has been given up
	giveUp  context.CancelCauseFunc
	dying   sync.Once

	used   uint64 // store.mu guards it, and usedAt
	usedAt time.Time

	mu      sync.Mutex
	screen  *screen.Screen
	masks   masker
	sniff   screen.Sniffer // of what is new
	total   int64          // bytes of output
	next    [3]int64
	newest  time.Time // when output came last
	asked   time.Time // of the start or the write that no snapshot answers yet
	deaf    bool      // something was written, and nothing shows yet that the command has taken it
	stand   stand     // as last seen
	dir     string    // where the command stands, as last seen
	wanted  *match    // of the Collect that goes on
	ready   Readiness
	first   bool // nobody has collected yet
	notices []string

	ended bool
	exit  process.Exit
	lost  error
	last  *Snapshot // of a session that has ended
	from  cursor    // where the next snapshot begins
	body  string    // what the last command of a marking shell printed
	code  *int      // and its exit code
}

// cursor is a place in a session's output.
type cursor struct {
	total int64
	raw   [3]int64
}

func newSession(store *Store, spec Spec) *Session {
	now := store.o.Clock.Now()
	s := &Session{store: store, id: spec.ID, spec: spec, started: now, asked: now, newest: now, first: true,
		done: make(chan struct{}), grew: make(chan struct{}, 1), calling: make(chan struct{}, 1), dir: spec.Command.Dir}
	s.life, s.giveUp = context.WithCancelCause(context.Background())
	o := screen.Options{Line: s.lineLeft}
	if size := spec.Command.TTY; size != nil {
		full := size.OrDefault()
		o.Rows, o.Cols, o.Raw = int(full.Rows), int(full.Cols), true
		kind := shellOf(spec.Command.Argv)
		s.shell = kind != ""
		if kind == "bash" {
			s.marks = newMarks()
			o.OSC = s.heard
		}
	}
	s.screen = screen.New(o)
	if spec.Background {
		s.ready = JobRunning
	}
	return s
}

// command is the one to start: with a key, and where the shell prints marks, with the variables that make it.
func (s *Session) command() process.Command {
	c := s.spec.Command
	if c.Key == "" {
		c.Key = newKey(s.id)
	}
	if s.marks != nil {
		c.Env = s.marks.environment(c.Env)
	}
	return c
}

// ID is the session's number.
func (s *Session) ID() int { return s.id }

// Name is the caller's own name for it.
func (s *Session) Name() string { return s.spec.Name }

// Value is what the caller gave with [Spec.Value].
func (s *Session) Value() any { return s.spec.Value }

// Started is when it was started.
func (s *Session) Started() time.Time { return s.started }

// Info is what [Store.List] tells of it.
func (s *Session) Info() Info {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.info()
}

// info needs the store's lock.
func (s *Session) info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := Info{ID: s.id, Name: s.spec.Name, Argv: s.spec.Command.Argv, Dir: s.dir, TTY: s.spec.Command.TTY != nil,
		Background: s.spec.Background, Ready: s.ready, State: s.stand.state, Password: s.stand.password, Started: s.started,
		Used: s.usedAt, Bytes: s.total, Exit: s.exit}
	if s.ended {
		i.State, i.Password = Exited, false
	}
	if i.State == AwaitingInput {
		i.Prompt = s.screen.Line()
	}
	return i
}

// end is how the command ended, once it has.
func (s *Session) end() (exit process.Exit, lost error, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exit, s.lost, s.ended
}

// Over says whether the command has ended, and all that it wrote was taken.
func (s *Session) Over() bool { _, _, over := s.end(); return over }

// writeLimit is how long a command may leave what is written to it unread before the call returns.
const writeLimit = 5 * time.Second

// Write types into the terminal, or writes to the input pipe. It returns when the command, or a buffer in front of it,
// has taken all, the context ends, or the command has not read for five seconds. In front of a password prompt only
// control characters are taken: a password is a person's to give. Of a command without any input the error says what
// would give it one, of one that has ended how.
func (s *Session) Write(ctx context.Context, p []byte) error {
	s.store.use(s)
	if err := s.open(); err != nil {
		return err
	}
	if s.spec.Command.TTY != nil && !onlyControls(p) {
		if now, err := s.look(ctx, 0); err != nil {
			return err
		} else if now.password {
			return s.asksPerson()
		}
	}
	return s.write(ctx, p)
}

// CodeAwaitingPerson is the code of the error of a write in front of a password prompt.
const CodeAwaitingPerson = "awaiting_person"

func (s *Session) asksPerson() error {
	return fault.New(fault.Conflict, "session %d asks for a password, which a person gives", s.id).
		WithCode(CodeAwaitingPerson).WithTry("hardshell answer %d", s.id)
}

func (s *Session) write(ctx context.Context, p []byte) error {
	s.mu.Lock()
	if s.asked.IsZero() {
		s.asked = s.store.o.Clock.Now()
	}
	s.deaf = len(p) > 0
	s.stand = stand{}
	s.mu.Unlock()
	if len(p) == 0 {
		return nil
	}
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late, stop := s.store.o.Clock.Timer(writeLimit)
	defer stop()
	written := make(chan struct{})
	defer close(written)
	go func() {
		select {
		case <-late:
			cancel(errNotRead)
		case <-written:
		}
	}()
	n, err := s.job.Write(limited, p)
	if err == nil {
		return nil
	}
	if context.Cause(limited) == errNotRead {
		return fault.New(fault.Unavailable, "session %d does not read its input: %d of %d bytes were taken", s.id, n, len(p)).
			WithTry("wait until it does, or interrupt it")
	}
	if fault.KindOf(err) == fault.Conflict && s.job.HasExited() {
		return s.hasEnded()
	}
	return err
}

var errNotRead = fault.New(fault.Unavailable, "the command does not read")

// open says why nothing can be written.
func (s *Session) open() error {
	if s.job.HasExited() || s.Over() {
		return s.hasEnded()
	}
	if s.spec.Command.TTY == nil && !s.spec.Command.OpenStdin {
		return fault.New(fault.Unsupported, "session %d was started without an input", s.id).WithTry("start it with tty: true; Ctrl-C alone is taken without")
	}
	return nil
}

func (s *Session) hasEnded() error {
	exit, err, over := s.end()
	if !over {
		exit, err = s.job.Wait(s.life)
	}
	if err != nil {
		return fault.Wrap(fault.Conflict, err, "session %d has ended, and how is not known", s.id)
	}
	return fault.New(fault.Conflict, "session %d has ended: %s", s.id, told(exit))
}

// told is an exit in words.
func told(e process.Exit) string {
	text := fmt.Sprintf("exit code %d", e.Code)
	switch {
	case e.TimedOut:
		text += ", timed out"
	case e.Signal != "":
		text += ", " + e.Signal
	}
	return text
}

// onlyControls says whether nothing of it is text: what ends, stops or interrupts a program.
func onlyControls(p []byte) bool {
	return len(bytes.TrimLeft(p, "\x03\x04\x1a\x1c")) == 0
}

// CloseInput ends the input pipe; in a terminal it types Ctrl-D.
func (s *Session) CloseInput(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	if s.spec.Command.TTY != nil {
		return s.write(ctx, []byte{4})
	}
	return s.job.CloseInput(ctx)
}

// Interrupt is Ctrl-C: typed in a terminal, else SIGINT for the command's process group.
func (s *Session) Interrupt(ctx context.Context) error {
	s.store.use(s)
	if s.spec.Command.TTY != nil {
		if err := s.open(); err != nil {
			return err
		}
		return s.write(ctx, []byte{3})
	}
	return s.Signal(ctx, syscall.SIGINT)
}

// Signal sends a signal to the process group in front, which without a terminal is the command's.
func (s *Session) Signal(ctx context.Context, sig syscall.Signal) error {
	if s.job.HasExited() || s.Over() {
		return s.hasEnded()
	}
	s.mu.Lock()
	if s.asked.IsZero() {
		s.asked = s.store.o.Clock.Now()
	}
	s.stand = stand{}
	s.mu.Unlock()
	return s.job.Signal(ctx, sig)
}

// Resize gives the terminal another size.
func (s *Session) Resize(ctx context.Context, size process.Size) error {
	if err := s.job.Resize(ctx, size); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	full := size.OrDefault()
	s.screen.Resize(int(full.Rows), int(full.Cols))
	return nil
}

// Answer gives a password to the prompt that waits for one, with a line's end. It is for a person: nothing that the
// session prints later shows it, and p is wiped. The error is a fault.Conflict when nothing asks for a password.
func (s *Session) Answer(ctx context.Context, p []byte) error {
	defer clear(p)
	if bytes.ContainsAny(p, "\n\r\x03\x04") {
		return fault.New(fault.Invalid, "a password is one line")
	}
	if s.job.HasExited() || s.Over() {
		return s.hasEnded()
	}
	now, err := s.look(ctx, 0)
	if err != nil {
		return err
	}
	if !now.password {
		return fault.New(fault.Conflict, "session %d does not ask for a password now", s.id)
	}
	s.mu.Lock()
	s.masks.add(p)
	s.mu.Unlock()
	line := append(append(make([]byte, 0, len(p)+1), p...), '\n')
	defer clear(line)
	return s.write(ctx, line)
}

// State says where the session stands, as it can be told now.
func (s *Session) State(ctx context.Context) State {
	if s.Over() {
		return Exited
	}
	now, err := s.look(ctx, 0)
	if err != nil {
		return Running
	}
	return now.state
}

// Raw reads a raw stream as far as it has come, from its first byte. It is for people: what a program prints of a
// password, against all custom, is here as it printed it.
func (s *Session) Raw(stream int) *io.SectionReader { return s.job.Reader(stream) }

// Kill ends the command and all that it started. It does not wait; Done is closed when it is over. A sandbox that does
// not answer any more is given up: the end is then not known.
func (s *Session) Kill() {
	s.job.Kill()
	s.dying.Do(func() {
		go func() {
			if err := Unanswered(s.job); err != nil {
				s.giveUp(err)
			}
		}()
	})
}

// Done is closed when the command has ended and all of its output was taken.
func (s *Session) Done() <-chan struct{} { return s.done }

// promptLine is the line that a person sees in front of the cursor, bounded.
func promptLine(line string) string {
	const most = 500
	if len(line) > most {
		line = strings.ToValidUTF8(line[len(line)-most:], "")
	}
	return line
}
