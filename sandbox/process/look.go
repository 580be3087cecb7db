package process

import (
	"context"
	"syscall"

	"github.com/hardshell-dev/hardshell/fault"
)

// Look is how a running command stands, as the kernel tells. "In front" are, with a terminal, the processes of its
// foreground group, else all of the call's.
type Look struct {
	Reads   bool   // one in front is blocked reading the command's input, and nothing waits there to be read
	Polls   bool   // one in front is blocked waiting for events, of which input may be one
	Unread  bool   // input was given that nobody has read
	Echoes  bool   // the terminal shows what is typed
	Lines   bool   // the terminal gives whole lines: no program edits them itself
	Leads   bool   // the command itself is in front of its terminal, and not one of its children
	Listens bool   // somebody in the command's network listens on the port that was asked for
	Clear   bool   // the kernel let us see what those in front wait for; without it Reads and Polls say nothing
	Dir     string // where the command itself stands; empty is not known
}

// Attendant is a [Control] that can also signal its command and look at it.
type Attendant interface {
	Control
	// Signal sends a signal to the processes in front.
	Signal(ctx context.Context, sig syscall.Signal) error
	// Look tells how the command stands, and whether a port is listened on, if one is given.
	Look(ctx context.Context, port uint16) (Look, error)
}

// Signal sends a signal to the process group in front of the command's terminal; without a terminal, to the command's
// own group. The error is a [fault.Conflict] when the call has ended.
func (j *Job) Signal(ctx context.Context, sig syscall.Signal) error {
	a, err := j.attendant(ctx)
	if err != nil {
		return err
	}
	return a.Signal(ctx, sig)
}

// Look tells how the command stands now, and whether a port of its network is listened on, if one is given. The error is
// a [fault.Conflict] when the call has ended, a [fault.Unsupported] where nobody can look.
func (j *Job) Look(ctx context.Context, port uint16) (Look, error) {
	a, err := j.attendant(ctx)
	if err != nil {
		return Look{}, err
	}
	return a.Look(ctx, port)
}

func (j *Job) attendant(ctx context.Context) (Attendant, error) {
	if err := j.over(ctx); err != nil {
		return nil, err
	}
	a, ok := j.ctl.(Attendant)
	if !ok {
		return nil, fault.New(fault.Unsupported, "the command can be neither signalled nor looked at")
	}
	return a, nil
}
