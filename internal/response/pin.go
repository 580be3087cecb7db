package response

import (
	"context"
	"database/sql"
)

// A segment holds events of many responses, each of which may need it for another while. Each holds on to it by a pin;
// when the last has let go, the segment dies, and the next flush deletes it.

// segment is a live row of event_segment.
type segment struct {
	id    int64
	bytes int
	refs  int // runs that have events in it which are not in blocks; guarded by eventLog.mu
}

// pin is a run's claim on a segment: its events up to last need it.
type pin struct {
	segment *segment
	last    int64
}

// release gives claims back; a segment that nobody claims dies with the next flush.
func (l *eventLog) release(pins []pin) {
	if len(pins) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range pins {
		l.giveBackLocked(p.segment, 1)
	}
}

// giveBackLocked takes n claims off a segment.
func (l *eventLog) giveBackLocked(seg *segment, n int) {
	if seg.refs -= n; seg.refs == 0 {
		l.buryLocked(seg)
	}
}

func (l *eventLog) buryLocked(seg *segment) {
	if seg.id != 0 {
		l.dead = append(l.dead, seg.id)
	}
	seg.refs = -1
	l.bytes -= seg.bytes
	for len(l.live) > 0 && l.live[0].refs < 0 {
		l.live = l.live[1:]
	}
}

// evict moves the runs that hold the oldest segment into blocks.
func (l *eventLog) evict() {
	l.mu.Lock()
	if len(l.live) == 0 {
		l.mu.Unlock()
		return
	}
	oldest := l.live[0]
	l.mu.Unlock()
	l.s.mu.Lock()
	var runs []*Run
	for _, r := range l.s.live {
		runs = append(runs, r)
	}
	l.s.mu.Unlock()
	for _, r := range runs {
		r.mu.Lock()
		holds := !r.resting && len(r.segments) > 0 && r.segments[0].segment == oldest
		r.resting = r.resting || holds
		r.mu.Unlock()
		if holds {
			l.restLater(r)
		}
	}
}

// buried says whether the deletions that went with a flush are durable; if not, they are for a later one.
func (l *eventLog) buried(ok bool) {
	l.mu.Lock()
	if !ok {
		l.dead = append(l.dead, l.burying...)
	}
	l.burying = nil
	l.mu.Unlock()
}

// clear deletes the dead segments that no flush has taken along.
func (l *eventLog) clear(ctx context.Context) error {
	l.mu.Lock()
	dead := l.dead
	l.dead = nil
	l.mu.Unlock()
	if len(dead) == 0 {
		return nil
	}
	err := l.s.db.Write(ctx, func(tx *sql.Tx) error { return dropSegments(tx, dead) })
	if err != nil {
		l.mu.Lock()
		l.dead = append(l.dead, dead...)
		l.mu.Unlock()
	}
	return err
}
