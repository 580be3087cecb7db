package container

import (
	"context"
	"database/sql"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// The reaper comes by four times per default idle time, within these bounds. It only makes room: whoever asks for a
// container whose time is up is told so at once.
const (
	minReapEvery = time.Second
	maxReapEvery = 30 * time.Second
	reapBatch    = 200
)

func (s *Service) reapUntilClosed() {
	tick := time.NewTicker(min(max(s.limits.DefaultIdleTTL/4, minReapEvery), maxReapEvery))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if err := s.reap(s.ctx); err != nil && s.ctx.Err() == nil {
				s.log.Error("the reaper did not finish its round", "error", err)
			}
		}
	}
}

// reap stores the activity of this service's containers, expires those that were idle for too long, and removes the
// folders of those whose files have been kept for long enough, and at last their rows.
func (s *Service) reap(ctx context.Context) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	s.restIdle()
	s.sweepBlobs(ctx, "")
	rows, err := s.dueRows(ctx, reapBatch)
	if err != nil {
		return err
	}
	for _, r := range rows {
		switch r.Status {
		case Active:
			if s.seen(r).Status == Active {
				continue // flush will have moved it on by the next round
			}
			if err := s.expire(ctx, r); err != nil {
				return err
			}
		case Expired, Deleted, Lost:
			if !r.slot.Valid && r.archive == "" {
				if err := s.purge(ctx, r.ID); err != nil {
					return err
				}
				continue
			}
			if s.toArchive(r) {
				if !s.moves.moving(r.ID) {
					s.wg.Go(func() { s.capture(r) })
				}
				continue
			}
			s.clear(ctx, r)
		}
	}
	return nil
}

// toArchive says whether an expired container's files still have to be archived: a folder is there, and time is left.
func (s *Service) toArchive(r row) bool {
	return s.blobs != nil && r.Status == Expired && r.slot.Valid && s.now().Before(r.Ended.Add(s.limits.KeepExpired))
}

// seen is a row with what the service knows better: activity that is not stored yet, and an idle time that is over.
func (s *Service) seen(r row) row {
	r.DiskLimit = s.limits.DiskBytes
	if r.Status != Active {
		return r
	}
	now := s.now()
	if p := s.known(r.ID); p != nil {
		r.LastActive = p.lastActive(r.LastActive, now)
	}
	if end := r.LastActive.Add(r.IdleTTL); !now.Before(end) {
		r.Status, r.Ended = Expired, end
	}
	return r
}

// lastActive is the later of what the row and the place know; a running command is active now.
func (p *place) lastActive(stored, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.running > 0:
		return now
	case p.active.After(stored):
		return p.active
	}
	return stored
}

// expire ends an idle container: its processes go, its files stay for a while. One that turns out to be in use, or to
// have ended otherwise, is left alone.
func (s *Service) expire(ctx context.Context, r row) error {
	over := r.Container
	over.Status = Expired
	ended := usable(over)
	p := s.place(r.ID)
	p.mu.Lock()
	last := r.LastActive
	if p.active.After(last) {
		last = p.active
	}
	if p.running > 0 || s.now().Before(last.Add(r.IdleTTL)) || p.ended != nil {
		p.mu.Unlock()
		return nil
	}
	p.ended = ended
	p.mu.Unlock()
	due := s.now().Add(s.limits.KeepExpired)
	if s.blobs != nil {
		due = s.now() // to be archived
	}
	done, err := s.end(ctx, r.ID, Expired, millis(due))
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ended == ended { // and not because the server stops, by now
			p.ended = nil
		}
		return err
	}
	// Its state is decided; who asked for it may go, its processes must.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.shut(ctx, p); err != nil {
		s.log.Error("an expired container's processes could not be ended", "container", r.ID, "error", err)
		return failed(err, "The container's processes could not be ended.")
	}
	s.forget(p)
	if done {
		s.log.Info("container expired", "container", r.ID, "idle", r.IdleTTL)
	}
	return nil
}

// flush stores activity that the rows do not know yet.
func (s *Service) flush(ctx context.Context) error {
	s.mu.Lock()
	places := make([]*place, 0, len(s.places))
	for _, p := range s.places {
		places = append(places, p)
	}
	s.mu.Unlock()
	now := s.now()
	active := map[string]activity{}
	for _, p := range places {
		p.mu.Lock()
		if p.running > 0 {
			p.active = now
		}
		if p.active.After(p.stored) {
			active[p.id] = activity{at: p.active}
		}
		p.mu.Unlock()
		if a, ok := active[p.id]; ok {
			if used, counted := s.disk.used(p); counted {
				a.used = sql.NullInt64{Int64: used, Valid: true}
				active[p.id] = a
			}
		}
	}
	if err := s.touch(ctx, active); err != nil {
		if fault.KindOf(err) == fault.Internal {
			return fault.Wrap(fault.Unavailable, err, "The database could not be written.")
		}
		return err
	}
	for _, p := range places {
		if a, ok := active[p.id]; ok {
			p.mu.Lock()
			p.stored = a.at
			p.mu.Unlock()
		}
	}
	return nil
}
