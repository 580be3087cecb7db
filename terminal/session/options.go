package session

import (
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// The bounds of a store when none are given.
const (
	DefaultMax    = 64 // sessions kept at once, ended ones included
	DefaultWarn   = 60 // from here on the first snapshot of each new session says how many there are
	DefaultRecent = 8  // the last used ones, which are never ended to make room
)

// Options bound a store. The zero value works.
type Options struct {
	Max    int // sessions; 0 is DefaultMax
	Warn   int // sessions; 0 is DefaultWarn, or Max less four if that is lower
	Recent int // sessions; 0 is DefaultRecent, or less where Max is as low

	Clock    Clock    // nil is the machine's
	Observer Observer // nil is nobody
}

func (o Options) orDefault() Options {
	if o.Max <= 0 {
		o.Max = DefaultMax
	}
	if o.Warn <= 0 {
		o.Warn = min(DefaultWarn, max(o.Max-4, 1))
	}
	if o.Recent <= 0 {
		o.Recent = DefaultRecent
	}
	o.Recent = min(o.Recent, o.Max-1)
	if o.Clock == nil {
		o.Clock = machineClock{}
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	return o
}

// Clock is where a store takes its time from.
type Clock interface {
	Now() time.Time
	// Timer returns a channel that gets one value when d has passed, and a way to call it off.
	Timer(d time.Duration) (fire <-chan time.Time, stop func())
}

type machineClock struct{}

func (machineClock) Now() time.Time { return time.Now() }

func (machineClock) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Observer is told what happens in a store, as it happens. Output and Ended are called one at a time for one session,
// and nothing must wait: a slow observer holds up the session's output.
type Observer interface {
	// Output is called with bytes as they came, passwords that a person gave masked. They are valid during the call only.
	Output(id int, stream int, data []byte)
	// Ended is called once, after the last output. err is set when the end will never be known.
	Ended(id int, exit process.Exit, err error)
	// Pruned is called when a session was ended or forgotten to make room.
	Pruned(p Pruned)
}

type nobody struct{}

func (nobody) Output(int, int, []byte)        {}
func (nobody) Ended(int, process.Exit, error) {}
func (nobody) Pruned(Pruned)                  {}
