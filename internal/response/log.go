package response

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// The shape of the log's work.
const (
	// flushEvery is how long foreground events wait for company, as nobody waits to see them durable: a short response
	// then reaches the disk with its end, in one commit. What somebody waits for is flushed at once.
	flushEvery = 4 * time.Millisecond
	// segmentBytes bounds one flush; what is beyond goes into the next.
	segmentBytes = 1 << 20
	// restEvents and restBytes are how much of a run is durable before it moves into blocks.
	restEvents = 2 * blockEvents
	restBytes  = 256 << 10
	// segmentsBytes bounds the live segments on disk: beyond it, runs that hold the oldest move into blocks early, so
	// that one slow response does not keep everybody's events on disk twice.
	segmentsBytes = 128 << 20
	// buryBatch is how many segments that nobody needs one flush deletes; deleting them singly costs more.
	buryBatch = 32
)

// Pauses before another try after the disk refused. After the last the runs are told.
var flushPauses = [...]time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}

// eventLog makes events durable. One goroutine (run) writes segments, another (rest) moves events into blocks.
type eventLog struct {
	s *Service

	mu     sync.Mutex
	dirty  []*Run
	spare  []*Run // room for the next dirty, empty
	urgent bool
	closed bool
	wake   chan struct{} // for run, one token
	since  time.Time     // when the oldest of the dirty came

	resting []*Run
	more    sync.Cond // for rest

	generation int64 // of this service's segments

	live  []*segment // oldest first
	bytes int
	dead  []int64

	insertAt *sql.Stmt

	// For one flush at a time.
	nextID  int64
	blob    []byte
	parts   []part
	burying []int64 // dead segments that this flush deletes
}

func newLog(ctx context.Context, s *Service) (*eventLog, error) {
	insert, err := s.db.Prepare(ctx, insertSegment)
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l := &eventLog{s: s, wake: make(chan struct{}, 1), insertAt: insert}
	// Segments of a later service sort behind those of earlier ones, and no number is ever used twice: one that is late
	// to delete its own must not hit another's.
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		return tx.QueryRow(`UPDATE log_generation SET n = n + 1 RETURNING n`).Scan(&l.generation)
	})
	if err != nil {
		return nil, fmt.Errorf("open event log: %w", err)
	}
	l.nextID = l.generation<<generationBits + 1
	l.more.L = &l.mu
	return l, nil
}

func (l *eventLog) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// enqueue puts a run on the list of those with events that are not durable. The caller has set r.queued.
func (l *eventLog) enqueue(r *Run, urgent bool) {
	l.mu.Lock()
	first := len(l.dirty) == 0
	if first {
		l.since = time.Now()
	}
	l.dirty = append(l.dirty, r)
	news := first || urgent && !l.urgent // else run is about to look anyway
	l.urgent = l.urgent || urgent
	l.mu.Unlock()
	if news {
		l.nudge()
	}
}

// hurry says that somebody waits for durability.
func (l *eventLog) hurry() {
	l.mu.Lock()
	l.urgent = true
	l.mu.Unlock()
	l.nudge()
}

// close ends the goroutines when nothing is left to do.
func (l *eventLog) close() {
	l.mu.Lock()
	l.closed = true
	l.more.Broadcast()
	l.mu.Unlock()
	l.nudge()
}

// run flushes until the log is closed.
func (l *eventLog) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		// Whoever was woken by the last flush may be about to emit. Letting them run first is not waiting for them, and
		// keeps a flush from going out with one event while all others just miss it.
		runtime.Gosched()
		l.mu.Lock()
		waiting, urgent, closed := len(l.dirty) > 0, l.urgent, l.closed
		wait := time.Until(l.since.Add(flushEvery))
		if waiting && (urgent || closed || wait <= 0) {
			l.mu.Unlock()
			l.flush()
			continue
		}
		l.urgent = false
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

// part is one run's share of a flush.
type part struct {
	run       *Run
	frames    []Frame
	container string // to be written to the row, "" when it is there already
	journal   []entry
	unborn    *birth // the row, when it is not there already
	stale     bool
}

// flush makes waiting events durable in one segment. It gathers them when the transaction has begun, so that all that
// came while others had the disk go along.
func (l *eventLog) flush() {
	var seg segment
	var epoch int64
	var err error
	gathered, begun := false, l.s.clock()
	for try := 0; ; try++ {
		err = l.s.db.Write(context.Background(), func(tx *sql.Tx) (err error) {
			if !gathered {
				l.gather()
				gathered = true
			}
			if len(l.parts) > 0 {
				seg, epoch, err = l.append(tx)
			}
			return err
		})
		if err == nil || try == len(flushPauses) || fault.KindOf(err) != fault.Unavailable {
			break
		}
		time.Sleep(flushPauses[try])
	}
	if err != nil || seg.id != 0 { // one that had nothing to write has not tried the disk
		l.s.ailing.Store(err != nil)
		l.s.observe.LogFlushed(l.gathered(), l.s.clock().Sub(begun), err)
	}
	switch {
	case err == nil:
		l.settle(seg, epoch)
		return
	case !gathered:
		l.gather() // the database cannot even begin; those who wait must hear of it
	}
	l.buried(false)
	for _, p := range l.parts {
		p.run.fail(err)
	}
	clear(l.parts)
}

// gather takes the events that wait, up to the size of a segment, and encodes them.
func (l *eventLog) gather() {
	l.mu.Lock()
	taken := l.dirty
	l.dirty, l.spare, l.urgent = l.spare, nil, false
	if len(l.dead) >= buryBatch {
		l.burying, l.dead = l.dead, nil
	}
	l.mu.Unlock()
	l.parts = l.parts[:0]
	runs, size := taken, 0
	for len(runs) > 0 && size < segmentBytes {
		r := runs[0]
		runs = runs[1:]
		r.mu.Lock()
		r.queued = r.broken != nil // a broken run never comes back here
		if r.phase == open && r.broken == nil && r.durable < r.ring.end() {
			p := part{run: r, frames: r.ring.slice(r.durable, r.ring.end())}
			p.unborn = r.unborn
			if r.container {
				p.container, r.container = r.object.ContainerID, false
			}
			p.journal, r.journal = r.journal, nil
			l.parts = append(l.parts, p)
			for i := range p.frames {
				size += len(p.frames[i].Data) + 4
			}
		}
		r.mu.Unlock()
	}
	l.mu.Lock()
	if len(runs) > 0 {
		l.dirty, l.urgent = append(runs, l.dirty...), true
	} else {
		clear(taken)
		l.spare = taken[:0]
	}
	l.mu.Unlock()
	l.encode()
}

// gathered is how many events this flush has.
func (l *eventLog) gathered() (n int) {
	for i := range l.parts {
		if p := &l.parts[i]; !p.stale {
			n += len(p.frames)
		}
	}
	return n
}

func (l *eventLog) encode() {
	l.blob = append(l.blob[:0], segmentVersion)
	for i := range l.parts {
		if p := &l.parts[i]; !p.stale {
			l.blob = appendSlice(l.blob, p.run.id, p.run.fence, p.frames)
		}
	}
}

// append writes the segment inside the transaction, without the slices of runs whose fence is stale. The segment has no
// id when nothing was left.
func (l *eventLog) append(tx *sql.Tx) (seg segment, epoch int64, err error) {
	if epoch, checked := l.checkedAt(); checked {
		seg, err := l.insert(tx, epoch)
		if err != nil || seg.id != 0 {
			return seg, epoch, err
		}
	}
	for i := range l.parts {
		if p := &l.parts[i]; p.unborn != nil {
			if err := p.unborn.write(tx, l.s.statements, p.run); err != nil {
				return seg, 0, err
			}
		}
	}
	if err := tx.QueryRow(`SELECT n FROM fence_epoch`).Scan(&epoch); err != nil {
		return seg, 0, fmt.Errorf("append events: %w", err)
	}
	fresh, err := l.checkFences(tx, epoch)
	if err != nil {
		return seg, 0, fmt.Errorf("append events: check fences: %w", err)
	}
	for _, p := range l.parts {
		if p.stale {
			continue
		}
		if err := insertJournal(tx, p.run.id, p.journal); err != nil {
			return seg, 0, err
		}
		if p.container == "" {
			continue
		}
		if _, err := tx.Exec(`UPDATE response SET container_id = $3 WHERE id = $1 AND fence = $2`,
			p.run.id, p.run.fence, p.container); err != nil {
			return seg, 0, fmt.Errorf("append events: %w", err)
		}
	}
	if fresh > 0 {
		seg, err = l.insert(tx, epoch)
	}
	return seg, epoch, err
}

// insert writes the segment if no fence has moved since the epoch, and deletes those that nobody needs any more.
func (l *eventLog) insert(tx *sql.Tx, epoch int64) (segment, error) {
	res, err := tx.Stmt(l.insertAt).Exec(l.nextID, l.blob, epoch)
	if err != nil {
		return segment{}, fmt.Errorf("append events: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return segment{}, err
	}
	return segment{id: l.nextID, bytes: len(l.blob)}, dropSegments(tx, l.burying)
}

// insertSegment writes a segment if no fence has moved since the epoch that it names.
const insertSegment = `INSERT INTO event_segment (id, data) SELECT $1, $2 FROM fence_epoch WHERE n = $3`

// checkedAt returns the epoch at which the fences of all parts were checked, if it is one and there is nothing else to
// write for them.
func (l *eventLog) checkedAt() (epoch int64, ok bool) {
	epoch = l.parts[0].run.epoch
	for i := range l.parts {
		if p := &l.parts[i]; p.run.epoch != epoch || p.container != "" || len(p.journal) > 0 {
			return 0, false
		}
	}
	return epoch, epoch >= 0
}

// checkFences marks the parts whose run has lost its row, takes them out of the blob, and returns how many are left.
// When no fence of any response has moved since a run was last checked, that check still holds.
func (l *eventLog) checkFences(tx *sql.Tx, epoch int64) (fresh int, err error) {
	var asked []int
	var claims strings.Builder
	for i := range l.parts {
		p := &l.parts[i]
		if p.stale = false; p.run.epoch == epoch {
			continue
		}
		if claims.WriteByte(','); len(asked) == 0 {
			claims.Reset()
			claims.WriteByte('[')
		}
		asked = append(asked, i)
		fmt.Fprintf(&claims, `["%s",%d]`, p.run.id, p.run.fence)
	}
	if len(asked) == 0 {
		return len(l.parts), nil
	}
	claims.WriteByte(']')
	rows, err := tx.Query(`SELECT claim.key FROM json_each($1) AS claim
		WHERE NOT EXISTS (SELECT 1 FROM response WHERE id = claim.value ->> 0 AND fence = claim.value ->> 1)`, claims.String())
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	stale := 0
	for ; rows.Next(); stale++ {
		var i int
		if err := rows.Scan(&i); err != nil {
			return 0, err
		}
		l.parts[asked[i]].stale = true
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	l.encode()
	return len(l.parts) - stale, nil
}

// settle tells the runs of a flush what has become of it.
func (l *eventLog) settle(written segment, epoch int64) {
	l.buried(written.id != 0)
	seg := &written
	if seg.id != 0 {
		l.nextID++
	}
	// Every run's claim stands before the first gives its back; what is not claimed then is given back at the end.
	seg.refs = 1 + len(l.parts)
	unclaimed := 1
	l.mu.Lock()
	l.live = append(l.live, seg)
	l.bytes += seg.bytes
	crowded := l.bytes > segmentsBytes
	l.mu.Unlock()
	for i := range l.parts {
		p := &l.parts[i]
		r := p.run
		if p.stale {
			unclaimed++
			r.lose(taken(r.id))
			continue
		}
		r.epoch = epoch
		r.mu.Lock()
		if r.phase == ended && r.unsealed == nil {
			r.mu.Unlock() // sealed meanwhile, with all its events
			unclaimed++
			continue
		}
		r.durable = p.frames[len(p.frames)-1].Seq + 1
		r.unborn = nil
		r.segments = append(r.segments, pin{seg, r.durable - 1})
		r.wakeLocked(true)
		rest := !r.resting && (r.durable-r.ring.first >= restEvents || r.ring.bytes >= restBytes)
		r.resting = r.resting || rest
		r.mu.Unlock()
		if rest {
			l.restLater(r)
		}
	}
	clear(l.parts) // the events are to be let go when their runs let them go
	l.mu.Lock()
	l.giveBackLocked(seg, unclaimed)
	l.mu.Unlock()
	if crowded {
		l.evict()
	}
}
