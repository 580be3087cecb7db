package response

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// The shape of the late ends' work.
const (
	// lateEvery is how long a late end waits for company.
	lateEvery = 4 * time.Millisecond
	// lateRuns and lateBytes bound what has been told and is not durable; beyond either an end is durable first.
	lateRuns  = 256
	lateBytes = 16 << 20
)

// lateEnds writes the ends of foreground responses that had no effect: text and nothing else. The client has such an
// end before the disk, as it has every event of a foreground stream (D2). Until it is written the run stands in for its
// rows: whoever asks for them waits here. A response that ran a command never comes here: its row was durable before.
type lateEnds struct {
	s *Service

	mu       sync.Mutex
	runs     []*Run
	reserved int // ends that are about to be added
	bytes    int // of runs and of what is reserved
	since    time.Time
	urgent   bool
	closed   bool
	wake     chan struct{} // one token
}

func newLateEnds(s *Service) *lateEnds { return &lateEnds{s: s, wake: make(chan struct{}, 1)} }

// reserve promises room for an end of so many bytes, which add takes; or says that there is none now.
func (l *lateEnds) reserve(bytes int) bool {
	if l.s.ailing.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.reserved+len(l.runs) >= lateRuns || l.bytes+bytes > lateBytes {
		return false
	}
	l.reserved++
	l.bytes += bytes
	return true
}

// add takes a run whose end is told and not durable.
func (l *lateEnds) add(r *Run) {
	l.mu.Lock()
	l.reserved--
	if len(l.runs) == 0 {
		l.since = time.Now()
	}
	l.runs = append(l.runs, r)
	alone := len(l.runs) == 1
	l.mu.Unlock()
	if alone {
		l.nudge()
	}
}

func (l *lateEnds) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// hurry says that somebody waits for an end to be durable.
func (l *lateEnds) hurry() {
	l.mu.Lock()
	l.urgent = len(l.runs) > 0
	l.mu.Unlock()
	l.nudge()
}

// close has what is left written and ends the goroutine.
func (l *lateEnds) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.nudge()
}

// run writes late ends until it is closed.
func (l *lateEnds) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.mu.Lock()
		wait := time.Until(l.since.Add(lateEvery))
		if len(l.runs) > 0 && (l.urgent || l.closed || wait <= 0 || len(l.runs) >= lateRuns/2) {
			runs := l.runs
			l.runs, l.urgent = nil, false
			l.mu.Unlock()
			freed := l.s.sealLate(runs)
			l.mu.Lock()
			l.bytes -= freed
			l.mu.Unlock()
			continue
		}
		waiting, closed := len(l.runs) > 0, l.closed && l.reserved == 0
		l.mu.Unlock()
		switch {
		case waiting:
			timer.Reset(wait)
			select {
			case <-l.wake:
			case <-timer.C:
			}
		case closed:
			return
		default:
			<-l.wake
		}
	}
}

// sealLate writes ends together. When that fails each is tried alone, as Finish would have: one bad row must not cost
// the others theirs. It returns the size of what is not waited for any more.
func (s *Service) sealLate(runs []*Run) (size int) {
	var packed []*Run
	for _, r := range runs {
		size += r.unsealed.size() // nobody else touches an end that is late
		if err := r.pack(r.unsealed); err != nil {
			r.sealed(err)
			continue
		}
		packed = append(packed, r)
	}
	errs := make([]error, len(packed))
	together := func() error {
		return s.db.Write(context.Background(), func(tx *sql.Tx) error {
			for i, r := range packed {
				if errs[i] = s.sealIn(tx, r.id, r.fence, r.unsealed); errs[i] != nil && fault.KindOf(errs[i]) != fault.Conflict {
					return errs[i]
				}
			}
			return nil
		})
	}
	err := together()
	for _, pause := range sealPauses {
		if fault.KindOf(err) != fault.Unavailable {
			break
		}
		s.ailing.Store(true) // from here on an end is durable before it is told
		time.Sleep(pause)
		err = together()
	}
	for i, r := range packed {
		if err != nil {
			errs[i] = s.writeSeal(context.Background(), r.id, r.fence, r.unsealed)
		}
		r.sealed(errs[i])
	}
	if err == nil {
		s.ailing.Store(false)
	}
	return size
}

// sealed settles a late end. What the disk refused stays here, to be written when it allows.
func (r *Run) sealed(err error) {
	r.mu.Lock()
	r.late = false
	gone := err == nil || fault.KindOf(err) == fault.Conflict
	if gone {
		r.unsealed, r.durable = nil, r.ring.end()
	}
	if fault.KindOf(err) == fault.Conflict {
		r.cut = err
	}
	var pins []pin
	if gone {
		pins, r.segments = r.segments, nil
	}
	r.wakeLocked(true)
	r.mu.Unlock()
	if gone {
		r.s.forget(r)
	}
	r.s.log.release(pins)
}

// settled waits until a late end is written or refused.
func (r *Run) settled(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return newSubscription(r.s, r, r.id, -1, true).settledLocked(ctx)
}

// settledLocked is settled for a caller that holds the lock, and holds it again afterwards.
func (sub *Subscription) settledLocked(ctx context.Context) error {
	r := sub.run
	for r.late {
		r.mu.Unlock()
		r.s.late.hurry()
		r.mu.Lock()
		if !r.late {
			break
		}
		if err := sub.waitLocked(ctx); err != nil {
			sub.Close()
			r.mu.Lock()
			return err
		}
	}
	return nil
}
