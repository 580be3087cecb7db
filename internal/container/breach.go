package container

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// The ways in which a container's files were too much.
const (
	BreachDisk = "disk_limit" // the container's own limit
	BreachFull = "disk_full"  // the machine's disk was about to be full, and this container was filling it
)

// breach is why the service stopped a command, or a whole box.
type breach struct{ reason, sentence string }

// stopFor kills a command's processes because of a breach. It answers false when that was done before.
func (e *Execution) stopFor(why *breach) bool {
	first := e.breach.CompareAndSwap(nil, why)
	if first {
		e.Cancel()
	}
	return first
}

// stoppedFor is the breach for which the command was stopped, by itself or with its box. It is nil where none was.
func (e *Execution) stoppedFor() *breach {
	if why := e.breach.Load(); why != nil {
		return why
	}
	if e.boot != nil {
		return e.boot.breach.Load()
	}
	return nil
}

// breach stops the commands of a container that ran when it was counted before, or its box when there are none: then
// it is something that a command left behind. It needs mu.
func (d *disk) breach(p *place, sp *space, why *breach) {
	fresh := 0
	for e, seen := range sp.calls {
		if seen && e.stopFor(why) {
			fresh++
		}
	}
	d.service.log.Warn("a container takes too much of the disk and is stopped", "container", p.id, "reason", why.reason,
		"bytes", sp.used, "commands", fresh)
	switch {
	case fresh > 0:
		sp.struck = time.Now()
	case sp.alone || time.Since(sp.struck) > dyingTime:
		p.mu.Lock()
		b := p.boot
		p.mu.Unlock()
		// From here on nobody gets this box, and whoever is in it is told why it went. One that is on its way has taken nothing.
		if b != nil && b.settled() && b.breach.CompareAndSwap(nil, why) {
			d.service.wg.Go(func() { d.service.endBox(p, b) })
		}
	}
}

// endBox ends a box, and everything in it. The next command boots another one.
func (s *Service) endBox(p *place, b *boot) {
	ctx, cancel := context.WithTimeout(s.ctx, closeTimeout)
	defer cancel()
	select {
	case <-b.done:
	case <-ctx.Done():
		return
	}
	if b.box == nil {
		return
	}
	if err := b.box.Close(ctx); err != nil {
		s.log.Error("a box that takes too much of the disk could not be ended", "container", p.id, "error", err)
	}
}

// afterwards says what became of a command whose start failed because its box was ended. One that was never started,
// and never can be, is to be started in the next box; of one that was, what is left of it is found.
func (s *Service) afterwards(ctx context.Context, p *place, b *boot, c process.Command) (found Found, again bool) {
	adopter, ok := s.runtime.(Adopter)
	if !ok || b.breach.Load() == nil && !b.over() {
		return Found{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	select {
	case <-b.box.Done(): // before that, nothing is known
	case <-ctx.Done():
		return Found{}, false
	}
	if b.box.Close(ctx) != nil || s.owned() != nil {
		return Found{}, false // something may live, or be another server's
	}
	p.mu.Lock()
	spec := p.spec
	p.mu.Unlock()
	found, err := adopter.Recall(ctx, spec, c)
	if err != nil {
		return Found{}, false
	}
	return found, found.State == NeverStarted
}

// startIn starts a command in the container's box, and once more in the next one if this one was ended before it could.
func (s *Service) startIn(ctx context.Context, p *place, b *boot, c process.Command) (Job, *boot, error) {
	job, err := b.box.Start(ctx, c)
	if err == nil || handedOver(err) {
		return job, b, err
	}
	found, again := s.afterwards(ctx, p, b, c)
	if !again {
		if found.Job != nil && fault.KindOf(err) == fault.Unavailable {
			return found.Job, b, nil
		}
		return nil, b, err
	}
	next, _, err := s.box(ctx, p)
	if err == nil { // there may be a newer owner by now, whom the next box does not know
		err = s.fences.raise(p.id, Command{Key: c.Key, Lease: c.Lease, Fence: c.Fence})
	}
	if err != nil {
		return nil, b, err
	}
	job, err = next.box.Start(ctx, c)
	return job, next, err
}
