package response

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
)

// entry is one entry of a run's journal. The events from seq on came after it.
type entry struct {
	n, seq int64
	data   []byte
}

// Journal notes how far the owner is, for one who may have to go on. The entry is durable with the next event that is:
// emit one and Sync, and it is. It goes with the response's end.
func (r *Run) Journal(data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stored || r.phase != open {
		return
	}
	r.journal = append(r.journal, entry{n: r.entries, seq: r.ring.end(), data: data})
	r.entries++
}

// Recorded says whether the response is on record by now, so that another could go on with it.
func (r *Run) Recorded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored && r.unborn == nil
}

// insertJournal writes entries of a run whose fence was checked in the transaction.
func insertJournal(tx *sql.Tx, id string, entries []entry) error {
	for _, e := range entries {
		if _, err := tx.Exec(`INSERT INTO response_journal (response_id, n, seq, entry) VALUES ($1, $2, $3, $4)`, id, e.n, e.seq, e.data); err != nil {
			return fmt.Errorf("write journal: %w", err)
		}
	}
	return nil
}

// forgetWork removes what only an owner of an open response needs.
func forgetWork(tx *sql.Tx, id string) error {
	for _, query := range []string{`DELETE FROM response_work WHERE response_id = $1`, `DELETE FROM response_journal WHERE response_id = $1`} {
		if _, err := tx.Exec(query, id); err != nil {
			return fmt.Errorf("end response: %w", err)
		}
	}
	return nil
}

// errReleased is the cause of a run's end that is none: somebody else goes on with the response.
var errReleased = fault.New(fault.Conflict, "The server is stopping; the response goes on when it is back.").
	WithCode("server_stopping").WithTry("reading on from the last event's number in a moment")

// Release gives the response back without an end, for another owner to go on with: it takes no more events, what was
// emitted is durable and at rest, and its readers are cut off. An error means that it could not be given back; the lease
// will run out, and then it falls to another all the same.
func (r *Run) Release(ctx context.Context) error { return r.giveBack(ctx, "", errReleased) }

// giveBack ends our hold on the response and writes its next owner; cut is what its readers meet.
func (r *Run) giveBack(ctx context.Context, owner string, cut *fault.Error) error {
	if !r.stored {
		return fault.New(fault.Internal, "A response that is not stored cannot be given back.")
	}
	r.mu.Lock()
	if r.phase != open || r.released {
		r.mu.Unlock()
		return over(r.id)
	}
	r.released = true
	r.roomMadeLocked()
	r.mu.Unlock()
	r.cancel(cut)
	err := r.layDown(ctx)
	if err == nil {
		err = r.s.db.Write(ctx, func(tx *sql.Tx) error { return r.restingRow(tx, owner) })
	}
	if err != nil { // whoever takes it over finds in the segments what is not in blocks
		r.mu.Lock()
		r.segments = nil
		r.mu.Unlock()
	}
	r.lose(cut)
	if err != nil {
		return fmt.Errorf("give back response %s: %w", r.id, err)
	}
	return nil
}

// layDown moves everything that was emitted into blocks.
func (r *Run) layDown(ctx context.Context) error {
	err := r.Sync(ctx)
	for err == nil {
		r.mu.Lock()
		left := r.durable - r.ring.first
		if err = r.broken; err == nil {
			err = r.cut
		}
		r.mu.Unlock()
		if err != nil || left == 0 {
			break
		}
		err = r.rest()
	}
	return err
}

// away is what a reader is told of a response that was given back.
func away(cut error) error {
	if cut != errReleased {
		return cut
	}
	return fault.New(fault.Unavailable, "%s", errReleased.Message).WithCode(errReleased.Code).WithTry("%s", errReleased.Try)
}

// Left says whether a run's context ended because the response is in other hands now: it goes on, and what belongs to
// it must be left alone.
func Left(cause error) bool { return fault.KindOf(cause) == fault.Conflict }
