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

// Sweep removes the responses whose retention is over by the service's clock, then, while the database is larger than it
// may be, those that have ended, the oldest first; and returns how many. It forgets the names of requests whose time is
// over, too.
func (s *Service) Sweep(ctx context.Context) (removed int64, err error) {
	if err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM response_key WHERE expires <= $1`, s.clock().UnixMilli())
		return err
	}); err != nil {
		return 0, fmt.Errorf("sweep keys: %w", err)
	}
	for now, more := s.clock().UnixMilli(), true; more; {
		n, err := s.removeEnded(ctx, `expires <= $2`, now)
		removed, more = removed+n, n == sweepBatch
		if err != nil {
			return removed, err
		}
	}
	if s.maxBytes <= 0 {
		return removed, nil
	}
	if err := s.log.clear(ctx); err != nil { // what nobody needs is not made up for with what somebody may want
		return removed, err
	}
	for {
		used, err := s.used(ctx)
		if err != nil || used <= s.maxBytes {
			return removed, err
		}
		n, err := s.removeEnded(ctx, `expires > $2`, 0)
		removed += n
		if err != nil || n == 0 {
			return removed, err
		}
	}
}

// removeEnded removes some responses that have ended and meet a condition, the oldest first.
func (s *Service) removeEnded(ctx context.Context, condition string, arg int64) (n int64, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`DELETE FROM response WHERE id IN (SELECT id FROM response WHERE `+condition+` ORDER BY expires LIMIT $1)`, sweepBatch, arg)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sweep responses: %w", err)
	}
	return n, nil
}

// used is how many bytes of the database hold something.
func (s *Service) used(ctx context.Context) (n int64, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT (page_count - freelist_count) * page_size
		FROM pragma_page_count, pragma_freelist_count, pragma_page_size`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("size of the database: %w", err)
	}
	return n, nil
}

// sweepEvery sweeps, and settles ends that a full disk refused, until ctx ends. An error is not lost by waiting for
// the next round: what could not be done is still there then.
func (s *Service) sweepEvery(ctx context.Context, period time.Duration) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if _, err := s.Sweep(ctx); err == nil || fault.KindOf(err) == fault.Unavailable {
			s.settle(ctx)
			s.log.clear(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
