package response

import (
	"context"
	"database/sql"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// restLater puts a run on the list of those whose durable events move into blocks. The caller has set r.resting.
func (l *eventLog) restLater(r *Run) {
	l.mu.Lock()
	l.resting = append(l.resting, r)
	l.more.Signal()
	l.mu.Unlock()
}

// rest moves events into blocks until the log is closed.
func (l *eventLog) rest() {
	for {
		l.mu.Lock()
		for len(l.resting) == 0 && !l.closed {
			l.more.Wait()
		}
		if l.closed {
			l.mu.Unlock()
			return // Close has seen every run end
		}
		r := l.resting[0]
		l.resting = l.resting[1:]
		l.mu.Unlock()
		if err := r.rest(); err != nil {
			r.fail(err)
		}
	}
}

// rest moves the run's durable events into blocks, then lets ring and segments go.
func (r *Run) rest() error {
	r.packing.Lock()
	defer r.packing.Unlock()
	r.mu.Lock()
	r.resting = false
	n := r.durable - r.ring.first
	if r.phase == ended || n <= 0 {
		r.mu.Unlock()
		return nil
	}
	if n > blockEvents {
		n -= n % blockEvents // the remainder fills a whole block later
	}
	upTo := r.ring.first + n
	frames := r.ring.slice(r.ring.first, upTo)
	r.mu.Unlock()

	blocks, err := r.s.packer.pack(frames)
	if err != nil {
		return err
	}
	var ours bool
	for try := 0; ; try++ {
		err = r.s.db.Write(context.Background(), func(tx *sql.Tx) (err error) {
			ours, err = insertBlocks(tx, r.s.statements, r.id, r.fence, blocks)
			return err
		})
		if err == nil || try == len(flushPauses) || fault.KindOf(err) != fault.Unavailable {
			break
		}
		time.Sleep(flushPauses[try])
	}
	if err != nil {
		return err
	}
	if !ours {
		r.lose(taken(r.id))
		return nil
	}
	r.mu.Lock()
	r.ring.drop(upTo)
	done := 0
	for done < len(r.segments) && r.segments[done].last < upTo {
		done++
	}
	pins := r.segments[:done:done]
	r.segments = append([]pin(nil), r.segments[done:]...)
	r.roomMadeLocked()
	r.mu.Unlock()
	r.s.log.release(pins)
	return nil
}

// fail tells the owner that the log cannot be written. The run stays open so that its owner ends it; Finish then tries
// once more to store everything.
func (r *Run) fail(err error) {
	r.mu.Lock()
	if r.phase != ended {
		r.broken = err
		r.queued = true // nothing more is flushed for this run
		r.roomMadeLocked()
	}
	r.mu.Unlock()
	r.cancel(err)
}
