package sandbox

import (
	"context"
	"syscall"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

var _ process.Attendant = (*call)(nil)

// attends says whether the resident has words for signals and looks: one that was adopted may be older.
func (b *Box) attends() error {
	if b.version < 4 {
		return fault.New(fault.Unsupported, "the sandbox was started by an older hardshell, which sends no signals and does not look")
	}
	return nil
}

// Signal sends a signal to the processes in front.
func (c *call) Signal(_ context.Context, sig syscall.Signal) error {
	if err := c.box.attends(); err != nil {
		return err
	}
	took, err := c.box.tell(func(request uint32) []byte {
		return resident.Signal{Request: request, Job: c.number, Number: uint32(sig)}.Append(nil)
	})
	if took.Refusal == resident.RefusedClosed {
		return fault.New(fault.Invalid, "signal %d cannot be sent", int(sig))
	}
	return err
}

// Look asks the resident how the command stands.
func (c *call) Look(ctx context.Context, port uint16) (process.Look, error) {
	b := c.box
	if err := b.attends(); err != nil {
		return process.Look{}, err
	}
	b.mu.Lock()
	if b.gone != nil {
		defer b.mu.Unlock()
		return process.Look{}, b.gone
	}
	b.request++
	number, answer := b.request, make(chan resident.Seen, 1)
	b.looks[number] = answer
	text := resident.Look{Request: number, Job: c.number, Port: uint32(port)}.Append(nil)
	b.mu.Unlock()
	forget := func() {
		b.mu.Lock()
		delete(b.looks, number)
		b.mu.Unlock()
	}
	if err := b.send(text, nil); err != nil {
		forget()
		return process.Look{}, err
	}
	select {
	case <-ctx.Done():
		forget()
		return process.Look{}, context.Cause(ctx)
	case m, ok := <-answer:
		if !ok {
			return process.Look{}, fault.New(fault.Unavailable, "the sandbox ended")
		}
		has := func(bit uint32) bool { return m.Bits&bit != 0 }
		return process.Look{Reads: has(resident.SeenReads), Polls: has(resident.SeenPolls), Echoes: has(resident.SeenEchoes),
			Lines: has(resident.SeenLines), Leads: has(resident.SeenLeads), Listens: has(resident.SeenListens),
			Clear: has(resident.SeenClearly), Unread: has(resident.SeenUnread), Dir: m.Dir}, refused(m.Refusal)
	}
}

func (b *Box) seen(m resident.Seen) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer, ok := b.looks[m.Request]; ok {
		delete(b.looks, m.Request)
		answer <- m
	}
}
