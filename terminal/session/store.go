package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Spec is a session to start.
type Spec struct {
	ID      int    // the caller's own number, that of a session that has ended included; 0 lets the store choose one
	Name    string // the caller's own name for it, if it has one, likewise; see [Store.Named]
	Starter process.Starter
	// Command is what runs; a Key that is empty is chosen. With a TTY it can be typed at; with OpenStdin its input is a
	// pipe; with neither it reads nothing, and can only be interrupted.
	Command process.Command
	// Background makes it a job: the first Collect returns as soon as it is known to be ready, or after Settle.
	Background bool
	Ready      Until         // of a background job: Port or Pattern
	Settle     time.Duration // 0 is DefaultSettle
	// Output and Ended are told of this session alone, as the store's [Observer] is of all, and before it. Ended is the
	// place to let go of the box. It is called once for each start, so once more for each [Store.Restart]. nil is nothing.
	Output func(stream int, data []byte)
	Ended  func(id int, exit process.Exit, err error)
	// Value is the caller's own, for [Session.Value]. Nothing here looks at it.
	Value any
}

const (
	// DefaultSettle is how long the start of a background job is watched before it counts as running.
	DefaultSettle = 2 * time.Second
	// SpawnLimit is how long a start may take. Beyond it the sandbox is at fault, and the call says so.
	SpawnLimit = 5 * time.Second
	// ProbeLimit is how long a look at a session may take, likewise.
	ProbeLimit = 2 * time.Second
	// killLimit is how long the sandbox of a killed command may say nothing at all. It is less than a restart waits.
	killLimit = 1500 * time.Millisecond
	// closeLimit is how long killed commands may take to end.
	closeLimit = 15 * time.Second
)

// CodeInfrastructure is the code of errors that are not the command's doing; their sentence names the stage.
const CodeInfrastructure = "infrastructure"

// The numbers that a store chooses from.
const (
	leastID = 1000
	mostID  = 99999
)

// A Store keeps the sessions of one client. All methods may be called from any goroutine.
type Store struct {
	o Options

	mu       sync.Mutex
	sessions map[int]*Session
	starting map[int]string // the numbers that are taken by sessions that are being started, and their names
	clock    uint64         // counts uses
	gone     map[int]Pruned
	goneIDs  []int // of gone, the oldest first
	closed   bool
}

// mostGone bounds how many sessions that are no longer kept are remembered by how they ended.
const mostGone = 256

// New returns an empty store.
func New(o Options) *Store {
	return &Store{o: o.orDefault(), sessions: map[int]*Session{}, starting: map[int]string{}, gone: map[int]Pruned{}}
}

// Start starts a session, and makes room for it if there is none. The context is that of the call, not of the session.
func (s *Store) Start(ctx context.Context, spec Spec) (*Session, error) {
	if spec.Starter == nil {
		return nil, fault.New(fault.Invalid, "a session needs something to start it")
	}
	id, pruned, err := s.reserve(spec)
	if err != nil {
		return nil, err
	}
	for _, p := range pruned {
		s.o.Observer.Pruned(p)
	}
	spec.ID = id
	out, err := s.begin(ctx, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.sessions) + len(s.starting)
	delete(s.starting, id)
	if err != nil {
		return nil, err
	}
	if s.closed {
		out.Kill()
		return nil, closedStore()
	}
	for _, p := range pruned {
		out.notices = append(out.notices, p.Why)
	}
	if n >= s.o.Warn {
		out.notices = append(out.notices, s.warning(n))
	}
	s.sessions[id] = out
	s.touch(out)
	go out.pump()
	return out, nil
}

func closedStore() error { return fault.New(fault.Conflict, "the sessions were closed") }

// warning needs the lock.
func (s *Store) warning(n int) string {
	alive := 1 // the one that is being started
	for _, other := range s.sessions {
		if !other.Over() {
			alive++
		}
	}
	return fmt.Sprintf("Warning: %d of at most %d sessions are kept, %d of them running. Beyond that the least recently used is ended. End what is no longer needed.",
		n, s.o.Max, alive)
}

// reserve finds a number and makes room.
func (s *Store) reserve(spec Spec) (id int, pruned []Pruned, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, nil, closedStore()
	}
	if spec.ID < 0 {
		return 0, nil, fault.New(fault.Invalid, "a session's number is not negative")
	}
	for id, name := range s.starting {
		if id == spec.ID || name != "" && name == spec.Name {
			return 0, nil, fault.New(fault.Conflict, "session %s is just being started", cmp.Or(spec.Name, strconv.Itoa(id))).WithTry("write to it, or choose another one")
		}
	}
	// The number and the name of a session that has ended are free again.
	if old := s.sessions[spec.ID]; old != nil {
		if !old.Over() {
			return 0, nil, fault.New(fault.Conflict, "session %d is there already", spec.ID).WithTry("write to it, or choose another number")
		}
		pruned = append(pruned, s.forget(old, "as its number is used again"))
	}
	if spec.Name != "" {
		if old := s.named(spec.Name); old != nil {
			if !old.Over() {
				return 0, nil, fault.New(fault.Conflict, "a session named %q is there already, as %d", spec.Name, old.id)
			}
			pruned = append(pruned, s.forget(old, "as its name is used again"))
		}
	}
	for id = spec.ID; id == 0; {
		id = leastID + mathrand.IntN(mostID-leastID+1)
		if _, starting := s.starting[id]; starting || s.sessions[id] != nil {
			id = 0
		} else if _, known := s.gone[id]; known && len(s.gone) < mostID-leastID {
			id = 0 // its name still means another
		}
	}
	for len(s.sessions)+len(s.starting) >= s.o.Max {
		victim := s.victim()
		if victim == nil {
			return 0, nil, fault.New(fault.Unavailable, "all %d sessions are just being started", s.o.Max)
		}
		pruned = append(pruned, s.forget(victim, "to make room"))
	}
	s.starting[id] = spec.Name
	if _, known := s.gone[id]; known {
		delete(s.gone, id)
		s.goneIDs = slices.DeleteFunc(s.goneIDs, func(other int) bool { return other == id })
	}
	return id, pruned, nil
}

// victim is the session to end when there is no room: of those outside the most recently used, the one that has ended
// and was used longest ago; if none has ended, the one that was used longest ago. It needs the lock.
func (s *Store) victim() *Session {
	all := slices.Collect(maps.Values(s.sessions))
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(b.used, a.used) })
	if len(all) <= s.o.Recent {
		return nil
	}
	old := all[s.o.Recent:]
	for i := len(old) - 1; i >= 0; i-- {
		if old[i].Over() {
			return old[i]
		}
	}
	return old[len(old)-1]
}

// forget takes a session out, and kills what still runs. It needs the lock.
func (s *Store) forget(victim *Session, why string) Pruned {
	delete(s.sessions, victim.id)
	p := Pruned{ID: victim.id, Name: victim.spec.Name}
	if exit, lost, over := victim.end(); over {
		p.Exit = exit
		p.Why = fmt.Sprintf("Session %d was forgotten %s; it had exited with code %d.", p.ID, why, exit.Code)
		if lost != nil {
			p.Why = fmt.Sprintf("Session %d was forgotten %s; how it ended is not known.", p.ID, why)
		}
	} else {
		p.Alive = true
		p.Why = fmt.Sprintf("Session %d was killed %s, with all that it had started: it was the least recently used one, and none that had exited could go.", p.ID, why)
		victim.Kill()
	}
	if len(s.goneIDs) >= mostGone {
		delete(s.gone, s.goneIDs[0])
		s.goneIDs = s.goneIDs[1:]
	}
	s.gone[p.ID] = p
	s.goneIDs = append(s.goneIDs, p.ID)
	return p
}

// begin starts the command.
func (s *Store) begin(ctx context.Context, spec Spec) (*Session, error) {
	out := newSession(s, spec)
	c := out.command()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var err error
	out.job, err = Spawn(ctx, s.o.Clock, spec.Starter, c)
	return out, err
}

// touch notes a use. It needs the lock.
func (s *Store) touch(t *Session) {
	s.clock++
	t.used, t.usedAt = s.clock, s.o.Clock.Now()
}

func (s *Store) use(t *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch(t)
}

// Get returns a session by number. Of one that is no longer kept the error says how it ended.
func (s *Store) Get(id int) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out := s.sessions[id]; out != nil {
		return out, nil
	}
	if p, ok := s.gone[id]; ok {
		return nil, fault.New(fault.Expired, "%s", strings.TrimSuffix(p.Why, ".")).WithTry("start it again")
	}
	return nil, fault.New(fault.NotFound, "there is no session %d", id).WithTry("start one with exec_command")
}

// Named returns a session by the name that its caller gave it, or by its number in digits.
func (s *Store) Named(name string) (*Session, error) {
	s.mu.Lock()
	out := s.named(name)
	s.mu.Unlock()
	if out != nil {
		return out, nil
	}
	if id, err := strconv.Atoi(name); err == nil {
		return s.Get(id)
	}
	return nil, fault.New(fault.NotFound, "there is no session named %q", name).WithTry("start one with exec_command")
}

// named needs the lock.
func (s *Store) named(name string) *Session {
	for _, other := range s.sessions {
		if other.spec.Name == name {
			return other
		}
	}
	return nil
}

// List tells of all sessions, in the order of their start. It waits for nobody: a state is as it was last seen.
func (s *Store) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Info
	for _, other := range s.sessions {
		all = append(all, other.info())
	}
	slices.SortFunc(all, func(a, b Info) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Prune forgets the sessions that have ended and tells which. Room is made by Start alone; nobody has to call it.
func (s *Store) Prune() []Pruned {
	s.mu.Lock()
	var out []Pruned
	for _, other := range s.sessions {
		if other.Over() {
			out = append(out, s.forget(other, "on request"))
		}
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Pruned) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range out {
		s.o.Observer.Pruned(p)
	}
	return out
}

// Restart ends a session, whatever it does, and starts the same command again under the same number. No other session
// is touched. It does not wait for the old command's end. The box is the same; whose box does not answer starts the
// command in another, under the number that is free once the old session is over.
func (s *Store) Restart(ctx context.Context, id int) (*Session, error) {
	old, err := s.Get(id)
	if err != nil {
		return nil, err
	}
	_, _, ended := old.end()
	old.Kill()
	s.mu.Lock()
	if s.sessions[id] != old {
		s.mu.Unlock()
		return nil, fault.New(fault.Conflict, "session %d is being restarted already", id)
	}
	delete(s.sessions, id)
	s.starting[id] = old.spec.Name
	s.mu.Unlock()
	spec := old.spec
	spec.Command.Key = "" // each start has one of its own
	out, err := s.begin(ctx, spec)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.starting, id)
	if err == nil && s.closed {
		out.Kill()
		err = closedStore()
	}
	if err != nil {
		s.sessions[id] = old // it can be read, and restarted again
		return nil, err
	}
	what := "it was running, and was killed"
	if ended {
		what = "it had ended"
	}
	out.notices = append(out.notices, fmt.Sprintf("Session %d was restarted on request (%s): directory, variables and functions are as at its start.", id, what))
	s.sessions[id] = out
	s.touch(out)
	go out.pump()
	return out, nil
}

// Close ends every session and waits for their ends.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.sessions))
	clear(s.sessions)
	s.mu.Unlock()
	for _, t := range all {
		t.Kill()
	}
	late, stop := s.o.Clock.Timer(closeLimit)
	defer stop()
	for _, t := range all {
		select {
		case <-t.done:
		case <-late:
			return fault.New(fault.Internal, "the sessions' processes did not end within %v", closeLimit)
		}
	}
	return nil
}

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
	Password   bool   // as of [Snapshot]
	Prompt     string // as of [Snapshot]
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

// newKey is a command's key: a session's number, and what tells its starts apart.
func newKey(id int) string { return "s" + strconv.Itoa(id) + "-" + strings.ToLower(rand.Text()[:16]) }
