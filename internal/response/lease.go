package response

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// defaultLease is how long an owner that says nothing more is believed to live.
const defaultLease = 30 * time.Second

// Ids of segments have the generation of their owner in the upper half.
const generationBits = 32

// enrol writes this service's own lease. Where no other service can be on this database, every other lease is over now.
func (s *Service) enrol(ctx context.Context) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		if !s.shared {
			if _, err := tx.Exec(`UPDATE response_owner SET lease_until = 0, heir = '' WHERE name <> $1`, s.owner); err != nil {
				return err
			}
		}
		return s.hold(tx)
	})
	if err != nil {
		return fmt.Errorf("take lease: %w", err)
	}
	return nil
}

// hold writes the lease anew. A lease that ran out and was taken meanwhile is a new one: what it held is gone, as the
// fences tell, and what is begun from now on is held again.
func (s *Service) hold(tx *sql.Tx) error {
	_, err := tx.Exec(`INSERT INTO response_owner (name, generation, lease_until, heir) VALUES ($1, $2, $3, '')
		ON CONFLICT (name) DO UPDATE SET lease_until = excluded.lease_until, heir = ''`,
		s.owner, s.log.generation, s.clock().Add(s.lease).UnixMilli())
	return err
}

// renew holds the lease for another while.
func (s *Service) renew(ctx context.Context) error {
	if err := s.db.Write(ctx, s.hold); err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	return nil
}

// resign gives the lease up, when everything that it held has ended or is at rest.
func (s *Service) resign(ctx context.Context) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM response_owner WHERE name = $1 AND NOT EXISTS
			(SELECT 1 FROM response WHERE completed IS NULL AND owner = $1)`, s.owner)
		return err
	})
	if err != nil {
		return fmt.Errorf("give up lease: %w", err)
	}
	return nil
}

// busy says whether this service holds anything.
func (s *Service) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) > 0
}

// ownerless says whether there may be something to take over. It only reads: an idle server leaves the disk alone.
func (s *Service) ownerless(ctx context.Context) (found bool, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM response WHERE completed IS NULL AND owner <> $1 AND owner <> $3)
		OR EXISTS (SELECT 1 FROM response_owner WHERE name <> $1 AND lease_until <= $2)`, s.owner, s.clock().UnixMilli(), parked).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for responses without an owner: %w", err)
	}
	return found, nil
}

// renewEvery renews the lease, writes ends that a full disk refused, and takes over what has no owner any more. An error is not
// lost by waiting: a lease that cannot be renewed runs out, and then the fences hold.
func (s *Service) renewEvery(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if (s.shared || s.busy()) && s.renew(ctx) != nil {
			continue
		}
		s.settle(ctx) // the disk takes something again
		if found, err := s.ownerless(ctx); err == nil && found {
			s.takeOver(ctx)
		}
	}
}
