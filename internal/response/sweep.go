package response

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// sweepPeriod is how often ended responses are looked through for those whose time is over.
const sweepPeriod = 5 * time.Minute

// sweepBatch bounds how many responses one transaction removes: a log of many events takes a while to delete, and
// everyone's writes wait behind it.
const sweepBatch = 50

// Sweep removes the responses whose retention is over by the service's clock, and returns how many. It forgets the names
// of requests whose time is over, too.
func (s *Service) Sweep(ctx context.Context) (removed int64, err error) {
	if err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM response_key WHERE expires <= $1`, s.clock().UnixMilli())
		return err
	}); err != nil {
		return 0, fmt.Errorf("sweep keys: %w", err)
	}
	for {
		var n int64
		err := s.db.Write(ctx, func(tx *sql.Tx) error {
			res, err := tx.Exec(`DELETE FROM response WHERE id IN (SELECT id FROM response WHERE expires <= $1 ORDER BY expires LIMIT $2)`,
				s.clock().UnixMilli(), sweepBatch)
			if err != nil {
				return fmt.Errorf("sweep responses: %w", err)
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += n
		if n < sweepBatch {
			return removed, nil
		}
	}
}

// sweepEvery sweeps, and settles ends that a full disk refused, until ctx ends. An error is not lost by waiting for
// the next round: what could not be done is still there then.
func (s *Service) sweepEvery(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if _, err := s.Sweep(ctx); err == nil || fault.KindOf(err) == fault.Unavailable {
			s.settle(ctx)
			s.log.clear()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
