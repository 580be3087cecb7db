package response

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// An open response that no run of this service stands for has lost its owner and not found the next one yet. Whoever
// asks for it meanwhile waits here and is woken when it comes to life, or ends.

// arrival returns a channel that is closed when the response may have come to life. The caller gives it back by leave.
func (s *Service) arrival(id string) (arrived <-chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.arrivals[id]
	if a == nil {
		a = &arriving{done: make(chan struct{})}
		s.arrivals[id] = a
	}
	a.waiting++
	return a.done, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if a.waiting--; a.waiting == 0 && s.arrivals[id] == a {
			delete(s.arrivals, id)
		}
	}
}

type arriving struct {
	done    chan struct{}
	waiting int
}

func (s *Service) arrived(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrivedLocked(id)
}

func (s *Service) arrivedLocked(id string) {
	if a := s.arrivals[id]; a != nil {
		delete(s.arrivals, id)
		close(a.done)
	}
}

// found is what there is of a response: a run, or the number of the last event of one that has ended. It has neither
// while the response waits for an owner.
type found struct {
	run   *Run
	ended bool
	last  int64
}

// find looks a response up.
func (s *Service) find(ctx context.Context, org, id string) (found, error) {
	r, err := s.undecided(ctx, org, id)
	if err != nil || r != nil {
		return found{run: r}, err
	}
	var last sql.NullInt64
	err = s.db.Read().QueryRowContext(ctx, `SELECT last_seq FROM response WHERE id = $1 AND org = $2`, id, org).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return found{}, missing(id)
	}
	if err != nil {
		return found{}, fmt.Errorf("find response: %w", err)
	}
	return found{ended: last.Valid, last: last.Int64}, nil
}

// await is find that waits until the response has come to life or ended.
func (s *Service) await(ctx context.Context, org, id string) (found, error) {
	for {
		arrived, leave := s.arrival(id) // before the look, so that nothing is missed between the two
		f, err := s.find(ctx, org, id)
		if err != nil || f.run != nil || f.ended {
			leave()
			return f, err
		}
		// Where another service may have it, nobody here says so.
		look := time.NewTimer(s.lease / 2)
		select {
		case <-arrived:
		case <-look.C:
		case <-s.closing:
			err = errStopping
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		look.Stop()
		leave()
		if err != nil {
			return found{}, err
		}
	}
}

// expel asks for a response that waits for an owner to be claimed next, and be cancelled. The caller takes it back.
func (s *Service) expel(id string) (back func()) {
	s.mu.Lock()
	s.unwanted[id]++
	s.mu.Unlock()
	s.tellOrphans()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.unwanted[id]--; s.unwanted[id] == 0 {
			delete(s.unwanted, id)
		}
	}
}
