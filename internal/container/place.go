package container

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// place is what this service knows of a container beyond its row: its folders, its box, what runs. It exists from the
// first use until the container's end.
type place struct {
	id string

	catching  catching
	narrowing narrowing

	mu      sync.Mutex
	spec    Spec
	ws      *Workspace // nil until prepared
	boot    *boot      // the last one
	tree    *tree      // watched from the first boot on
	running int        // commands
	active  time.Time  // the last start or end of one; zero is never here
	stored  time.Time  // what the row knows of active
	ended   error      // why no command may start and no file be written any more
	gone    error      // why nothing may be done any more: the folders are being removed
}

// boot is one attempt at a box. Everyone who needs the box waits for the same attempt.
type boot struct {
	done   chan struct{} // closed when box and err are set
	box    Box
	err    error                  // box may be one that is to be closed, all the same
	told   atomic.Bool            // a command has heard that the box before this one is gone
	breach atomic.Pointer[breach] // why the service ends it; nobody gets it any more
}

// restarted says, once, that this box stands for one that is gone with its processes.
func (b *boot) restarted() bool {
	keeper, ok := b.box.(Keeper)
	return ok && keeper.Restarted() && !b.told.Swap(true)
}

// settled says whether the attempt has ended.
func (b *boot) settled() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// over says whether a new attempt is needed: this one failed, or its box is gone.
func (b *boot) over() bool {
	if !b.settled() {
		return false
	}
	if b.err != nil {
		return true
	}
	select {
	case <-b.box.Done():
		return true
	default:
		return false
	}
}

// bootTimeout bounds a boot, which takes milliseconds where all is well.
const bootTimeout = 30 * time.Second

// place returns the container's place, a new one if need be. A new place trusts the row only: see prepare.
func (s *Service) place(id string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[id]
	if p == nil {
		p = &place{id: id}
		if s.closed {
			p.ended = fault.New(fault.Unavailable, "The server is stopping.")
		}
		s.places[id] = p
	}
	return p
}

func (s *Service) known(id string) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.places[id]
}

func (s *Service) forget(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places[p.id] == p {
		delete(s.places, p.id)
	}
}

// refuse makes the place turn away new commands and writes with ended and, unless gone is nil, everything else with
// gone. The returned function takes that back.
func (p *place) refuse(ended, gone error) (undo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wasEnded, wasGone := p.ended, p.gone
	p.ended = ended
	if gone != nil {
		p.gone = gone
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ended == ended { // else somebody has refused for a reason of his own since
			p.ended = wasEnded
		}
		if gone != nil && p.gone == gone {
			p.gone = wasGone
		}
	}
}

// prepare returns the place of a container with its folders made. It reads the row after the place is registered: a
// container that is deleted before that is seen here, one that is deleted later finds the place and closes it.
func (s *Service) prepare(ctx context.Context, id string) (*place, Workspace, error) {
	p := s.place(id)
	p.mu.Lock()
	for s.known(id) != p { // it was forgotten while we waited, and nobody would find what lives in it
		p.mu.Unlock()
		p = s.place(id)
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if p.gone != nil {
		return nil, Workspace{}, p.gone
	}
	if p.ws != nil {
		return p, *p.ws, nil
	}
	r, err := s.row(ctx, "", id)
	if err == nil && !r.slot.Valid {
		err = usable(r.Container)
	}
	if err != nil {
		s.forget(p)
		return nil, Workspace{}, err
	}
	if err := usable(r.Container); err != nil && p.ended == nil {
		p.ended = err
	}
	spec := s.spec(r)
	ws, err := s.runtime.Prepare(ctx, spec)
	if err != nil {
		return nil, Workspace{}, failed(err, "The container's folders could not be made.")
	}
	p.spec, p.ws = spec, &ws
	return p, ws, nil
}

// alive says whether a box of the place lives or is being made.
func (p *place) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.boot != nil && !p.boot.over()
}

// Alive is how many containers have a box that lives or is being made.
func (s *Service) Alive() int {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.places))
	s.mu.Unlock()
	n := 0
	for _, p := range all {
		if p.alive() {
			n++
		}
	}
	return n
}

// failed gives an error of a runtime that has no kind one: the machine cannot do it now.
func failed(err error, sentence string) error {
	if _, ok := fault.As(err); ok {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "%s", sentence)
}

// begin counts a command in, or says why none may start. Close refuses before it waits, so that nothing is counted in
// while it does.
func (s *Service) begin(p *place) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != nil {
		return p.ended
	}
	s.wg.Add(1)
	p.running++
	p.active = s.now()
	return nil
}

// leave counts a command out: idle time begins here.
func (s *Service) leave(p *place) {
	defer s.wg.Done()
	s.uncount(p)
}

func (s *Service) uncount(p *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.active = s.now()
}

// used notes an activity that is no command, or says why it may not be.
func (p *place) used(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.active = now
	}
	return p.ended
}

// box returns the container's box and boots it if there is none.
func (s *Service) box(ctx context.Context, p *place) (*boot, *tree, error) {
	p.mu.Lock()
	if p.ended != nil {
		defer p.mu.Unlock()
		return nil, nil, p.ended
	}
	b := p.boot
	if b == nil || b.over() || b.breach.Load() != nil {
		old := b
		b = &boot{done: make(chan struct{})}
		p.boot = b
		if p.tree == nil {
			p.tree = s.watch.add(p.ws.Dir)
		}
		s.wg.Go(func() { s.open(p, p.spec, b, old) })
	}
	tree := p.tree
	p.mu.Unlock()
	late := time.NewTimer(bootTimeout + time.Second)
	defer late.Stop()
	select {
	case <-b.done:
		return b, tree, b.err
	case <-late.C:
		return nil, nil, fault.New(fault.Unavailable, "The container did not start within %s.", bootTimeout)
	case <-ctx.Done():
		return nil, nil, fault.Wrap(fault.Cancelled, context.Cause(ctx), "Stopped while the container was starting.")
	}
}

// open is the boot itself. It belongs to nobody's request: whoever waits for it may go.
func (s *Service) open(p *place, spec Spec, b, old *boot) {
	defer close(b.done)
	if old != nil {
		<-old.done // before that its box may come to be, in the same folders
	}
	ctx, cancel := context.WithTimeout(s.ctx, bootTimeout)
	defer cancel()
	if old != nil && old.box != nil {
		if err := old.box.Close(ctx); err != nil {
			b.box = old.box // the next attempt begins with it
			b.err = failed(err, "The container's old processes could not be ended.")
			s.log.Error("a box could not be closed, so that no other takes its place", "container", spec.ID, "error", err)
			return
		}
	}
	begun := s.now()
	defer func() { s.observe.Booted(s.now().Sub(begun), b.err) }()
	if b.err = s.owned(); b.err == nil {
		b.err = spec.refused
	}
	if b.err != nil {
		return
	}
	b.box, b.err = s.runtime.Open(ctx, spec)
	if b.err == nil {
		if b.err = p.narrowing.entered(b.box); b.err != nil {
			b.box.Close(ctx) // and once more at the next attempt
		}
	}
	if b.err != nil {
		b.err = failed(b.err, "The container could not be started.")
		s.log.Error("a container could not be started", "container", spec.ID, "error", b.err)
		return
	}
	isolation := b.box.Isolation()
	s.seenBox.Store(&isolation)
	s.log.Info("container started", "container", spec.ID, "runtime", s.runtime.Name(), "isolation", isolation.Got,
		"took", s.now().Sub(begun))
}

// shut ends the place's box, if there is one. New boots must be refused already.
func (s *Service) shut(ctx context.Context, p *place) error {
	p.mu.Lock()
	b, tree := p.boot, p.tree
	p.tree = nil
	p.mu.Unlock()
	defer s.watch.remove(tree)
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if b.box == nil {
		return nil
	}
	return b.box.Close(ctx)
}
