package container

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// CallState is what became of a command that may have been started by an earlier owner.
type CallState int

// The states. Of a command that is Gone it is known, or cannot be ruled out, that it was started; its end will never be
// known.
const (
	NeverStarted CallState = iota
	Started                // it runs or has ended
	Gone
)

// String returns the state in words.
func (s CallState) String() string {
	switch s {
	case Started:
		return "started"
	case Gone:
		return "gone"
	}
	return "never started"
}

// Reattach finds a command again that this owner, or one before it, has or may have started: of c it reads Key, Index,
// Lease, Fence, MaxOutput, Network and Timeout, the last as it was given to Exec. It starts nothing and boots nothing. The lease's
// fence is raised first, so that after NeverStarted no earlier owner can start the command.
//
// The Execution is that of Exec: its output from the first byte, its end, its cancel; when ctx ends, the command is
// cancelled. It is nil of a command that never started, and of one that is Gone without leaving any output.
func (s *Service) Reattach(ctx context.Context, org, containerID string, c Command) (*Execution, CallState, error) {
	r, err := s.settled(ctx, org, containerID)
	if err != nil {
		return nil, NeverStarted, err
	}
	if err := s.fences.raise(containerID, c); err != nil {
		return nil, NeverStarted, err
	}
	if !r.slot.Valid {
		return nil, Gone, nil // its folder has been removed
	}
	p, ws, err := s.prepare(ctx, containerID)
	if err != nil {
		return nil, NeverStarted, err
	}
	found, isolation, err := s.look(ctx, p, process.Command{Key: c.Key, Index: c.Index, Lease: c.Lease, Fence: c.Fence})
	if err != nil || found.Job == nil {
		return nil, found.State, err
	}
	if err := s.enter(p); err != nil {
		return nil, NeverStarted, err
	}
	p.mu.Lock()
	tree, b := p.tree, p.boot
	p.mu.Unlock()
	if found.State != Started {
		b = nil // it went with another box
	}
	e := &Execution{service: s, place: p, boot: b, tree: tree, job: found.Job, script: scriptName(c), workspace: ws, isolation: isolation,
		timeout: s.limits.timeout(c.Timeout), chars: s.limits.output(c.MaxOutput), begun: found.Begun, done: make(chan struct{})}
	e.output = c.output(ws)
	e.widen, err = s.narrow(p, c.Key, c.Network)
	if handedOver(err) {
		s.leave(p)
		return nil, found.State, err
	}
	if err != nil {
		s.log.Error("a command's network policy can't be held any more", "container", containerID, "error", err)
		e.widen = func() {}
		defer e.Cancel()
	}
	e.span = tree.openSince(found.Begun)
	s.watchOver(ctx, e)
	return e, found.State, nil
}

// look asks the box for a command, or the folder where no box lives.
func (s *Service) look(ctx context.Context, p *place, c process.Command) (Found, Isolation, error) {
	p.mu.Lock()
	b, spec := p.boot, p.spec
	p.mu.Unlock()
	isolation := Isolation{}
	if b != nil {
		select {
		case <-b.done:
		case <-ctx.Done():
			return Found{}, isolation, context.Cause(ctx)
		}
		if b.box != nil {
			isolation = b.box.Isolation()
		}
		if keeper, ok := b.box.(Keeper); ok && !b.over() {
			found, err := keeper.Reattach(ctx, c)
			if err == nil && found.State == NeverStarted && s.rebooted {
				found.State = Gone // its folder may have been lost with the machine
			}
			if err == nil || !b.over() || fault.KindOf(err) == fault.Conflict {
				return found, isolation, err
			}
		}
	}
	adopter, ok := s.runtime.(Adopter)
	if !ok {
		return Found{State: Gone}, isolation, nil
	}
	if err := s.owned(); err != nil {
		return Found{}, isolation, err
	}
	found, err := adopter.Recall(ctx, spec, c)
	if err == nil && found.State == NeverStarted && s.rebooted {
		found.State = Gone
	}
	return found, isolation, err
}

// Acknowledge says that a command's end is journaled. It is never asked for again; what is kept of it may go when room
// is needed, the oldest first.
func (s *Service) Acknowledge(ctx context.Context, org, containerID, key string, index int) error {
	r, err := s.row(ctx, org, containerID)
	if err != nil {
		return err
	}
	adopter, ok := s.runtime.(Adopter)
	if !ok || !r.slot.Valid {
		return nil
	}
	return adopter.Settle(ctx, s.spec(r), key, index)
}

// enter counts a command in that was started before, also into a container in which none may start any more.
func (s *Service) enter(p *place) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.wg.Add(1)
	}
	s.mu.Unlock()
	if closed {
		return fault.New(fault.Unavailable, "The server is stopping.")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running++
	return nil
}

// openSince begins a span that has begun before it was watched. What changed between is looked for, in the background
// where it is much.
func (t *tree) openSince(begun time.Time) *span {
	p := t.open()
	if t == nil {
		return p
	}
	t.n.mu.Lock()
	defer t.n.mu.Unlock()
	p.begun = begun.Add(-clockGrain)
	t.missing = true
	t.todo = append(t.todo, scan{rel: ".", since: p.begun})
	t.n.queue(t)
	return p
}
