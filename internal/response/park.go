package response

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A response that waits for a person has no owner and no run: its log is at rest, its row says so, and nobody takes it
// over until somebody wakes it. Those who read it or wait for its end stay, and go on with the run that it gets then.

// parked is the owner of responses that wait. No service has that name.
const parked = "parked"

// errParked is the cause of a run's end that is none: the response goes on when it is woken.
var errParked = fault.New(fault.Conflict, "The response waits for an answer.").WithCode("response_waits")

// Parked says whether a run's end was none, as its response waits to be woken.
func Parked(err error) bool { return errors.Is(err, errParked) }

// Park gives the response back until Wake: what was emitted is at rest, and the row has it as it stands. It refuses a
// response that is to be cancelled. One whose log cannot be laid to rest stays its owner's, to be ended. After any other
// error the response is claimed anew.
func (r *Run) Park(ctx context.Context) error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	if !r.stored {
		return fault.New(fault.Internal, "A response that is not stored cannot wait.")
	}
	// Whoever goes on with it here begins at the end of the blocks.
	if err := r.layDown(ctx); err != nil {
		return fmt.Errorf("park response %s: %w", r.id, err)
	}
	err := r.giveBack(ctx, parked, errParked)
	if err != nil && fault.KindOf(err) != fault.Conflict {
		r.s.queueUp(map[string]int64{r.id: r.fence})
	}
	return err
}

// restingRow writes who owns a response that is given back, and how it stood then.
func (r *Run) restingRow(tx *sql.Tx, owner string) error {
	if owner != parked {
		_, err := tx.Exec(`UPDATE response SET owner = $3 WHERE id = $1 AND fence = $2`, r.id, r.fence, owner)
		return err
	}
	object, err := openai.Marshal(r.snapshot())
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE response SET owner = $3, object = $4 WHERE id = $1 AND fence = $2 AND completed IS NULL`, r.id, r.fence, owner, string(object))
	return err
}

// Show puts items anew that have been announced, and tells the response as it stands by response.in_progress.
func (r *Run) Show(items map[int]openai.Item) error {
	r.mu.Lock()
	for index, item := range items {
		if index >= 0 && index < len(r.output) {
			r.output[index] = item
		}
	}
	r.mu.Unlock()
	return r.lifecycle(openai.EventInProgress)
}

// shownLocked takes what a later response.in_progress says of items that were announced before.
func (r *Run) shownLocked(items []openai.Item) {
	for _, item := range items {
		for i := range r.output {
			if item.ID != "" && r.output[i].ID == item.ID {
				r.output[i] = item
			}
		}
	}
}

// Wake puts a response that waits into the backlog, for Claim. Of several services that wake it one gets it. One that
// does not wait is left alone. It says whether the response is open.
func (s *Service) Wake(ctx context.Context, id string) (open bool, err error) {
	var owner string
	err = s.db.Read().QueryRowContext(ctx, `SELECT owner FROM response WHERE id = $1 AND completed IS NULL`, id).Scan(&owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("wake response: %w", err)
	case owner != parked:
		return true, nil
	}
	var fence int64
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		fence = 0
		err := tx.QueryRow(`UPDATE response SET owner = $2, fence = fence + 1 WHERE id = $1 AND owner = $3 AND completed IS NULL
			RETURNING fence`, id, s.owner, parked).Scan(&fence)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return true, fmt.Errorf("wake response: %w", err)
	}
	if fence > 0 {
		s.queueUp(map[string]int64{id: fence})
	}
	return true, nil
}

// Attend returns a stored response when it has ended, or as it stands when the bell rings while nobody runs it here.
func (s *Service) Attend(ctx context.Context, org, id string, bell <-chan time.Time) (*openai.Response, error) {
	for {
		waiting, stop := context.WithCancelCause(ctx)
		over := make(chan struct{})
		go func() {
			defer close(over)
			select {
			case <-bell:
				stop(errBell)
			case <-waiting.Done():
			}
		}()
		f, err := s.await(waiting, org, id)
		stop(nil)
		<-over
		switch {
		case errors.Is(context.Cause(waiting), errBell): // it rings once
			return s.Get(ctx, org, id)
		case err != nil:
			return nil, err
		case f.run == nil:
			return s.Get(ctx, org, id)
		}
		resp, err := f.run.Wait(ctx)
		if !Parked(err) {
			return resp, err
		}
	}
}

var errBell = errors.New("the bell rang")

// Abandon cancels a response that its client has left, whoever runs it here by now. A server that stops leaves it alone.
func (r *Run) Abandon(ctx context.Context, cause error) {
	r.Cancel(cause)
	if !r.stored {
		return
	}
	select {
	case <-r.done:
	case <-r.s.closing:
		return
	}
	r.mu.Lock()
	waits := Parked(r.cut)
	r.mu.Unlock()
	r.s.mu.Lock()
	waits = waits && !r.s.closed
	r.s.mu.Unlock()
	if waits {
		r.s.Cancel(context.WithoutCancel(ctx), r.org, r.id) // there is nobody to tell of an error; the question expires
	}
}
