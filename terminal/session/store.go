package session

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Spec is a session to start.
type Spec struct {
	ID      int    // the caller's own number; 0 lets the store choose one
	Name    string // the caller's own name for it, if it has one; see [Store.Named]
	Starter process.Starter
	// Command is what runs; a Key that is empty is chosen. With a TTY it can be typed at; with OpenStdin its input is a
	// pipe; with neither it reads nothing, and can only be interrupted.
	Command process.Command
	// Background makes it a job: the first Collect returns as soon as it is known to be ready, or after Settle.
	Background bool
	Ready      Until         // of a background job: Port or Pattern
	Settle     time.Duration // 0 is DefaultSettle
	// Ended is called once, when the command has ended or the session was removed, whichever comes last: it lets go of
	// the box, for one. nil is nothing.
	Ended func()
}

// DefaultSettle is how long the start of a background job is watched before it counts as running.
const DefaultSettle = 2 * time.Second

// A Store keeps the sessions of one client. All methods may be called from any goroutine.
type Store struct{ o Options }

// New returns an empty store.
func New(o Options) *Store { return &Store{o.orDefault()} }

// Start starts a session, and makes room for it if there is none. The context is that of the call, not of the session.
func (s *Store) Start(ctx context.Context, spec Spec) (*Session, error) { panic("being written") }

// Get returns a session by number. Of one that is no longer kept the error says how it ended.
func (s *Store) Get(id int) (*Session, error) { panic("being written") }

// Named returns a session by the name that its caller gave it, or by its number in digits.
func (s *Store) Named(name string) (*Session, error) { panic("being written") }

// List tells of all sessions, in the order of their start.
func (s *Store) List() []Info { panic("being written") }

// Prune forgets the sessions that have ended and tells which. Room is made by Start alone; nobody has to call it.
func (s *Store) Prune() []Pruned { panic("being written") }

// Restart ends a session, whatever it does, and starts the same command again under the same number. No other session
// is touched. It does not wait for the old command's end.
func (s *Store) Restart(ctx context.Context, id int) (*Session, error) { panic("being written") }

// Close ends every session and waits for their ends.
func (s *Store) Close() error { panic("being written") }

// Info is what a list tells of a session.
type Info struct {
	ID         int
	Name       string
	Argv       []string
	Dir        string
	TTY        bool
	Background bool
	Ready      Readiness
	State      State
	Started    time.Time
	Used       time.Time
	Bytes      int64
	Exit       process.Exit // once Exited
}

// Pruned tells of a session that is no longer kept.
type Pruned struct {
	ID    int
	Name  string
	Alive bool         // its command was killed for it
	Exit  process.Exit // how it ended, unless Alive
	Why   string       // one sentence
}
