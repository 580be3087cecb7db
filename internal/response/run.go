package response

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// ringLimit bounds the events that a run keeps in memory. Beyond it Emit waits: for the disk when the response is
// stored, for the slowest reader when it is not.
const ringLimit = 2 << 20

// maxOutputItems bounds the snapshot: an index beyond it is a defect of the caller, not a long answer.
const maxOutputItems = 100_000

// phase is how far a run's log is.
type phase int

const (
	open   phase = iota // events are taken
	ending              // Finish is writing the end
	ended               // the terminal event is out, or the run is lost
)

// Run is a live response in the hands of its owner. All methods are safe for use by many goroutines.
type Run struct {
	s          *Service
	id         string
	org        string
	stored     bool
	background bool
	unread     bool // keeps no events: only the end is of interest
	fence      int64
	ctx        context.Context
	cancel     context.CancelCauseFunc
	done       chan struct{} // closed when the phase becomes ended

	packing sync.Mutex // held while events move from the ring into blocks; taken before mu

	mu        sync.Mutex
	phase     phase
	object    openai.Response // Output is kept apart, in output
	output    []openai.Item   // by output index; an index that was not used has no Raw
	ring      ring
	durable   int64         // events below are durable
	cut       error         // why the log ends here without a terminal event
	broken    error         // why nothing more becomes durable before the end
	unsealed  *seal         // the end that could not be written yet
	late      bool          // the end is told and on its way to the disk
	unborn    *birth        // the row, while it is not durable
	released  bool          // given back: nothing is emitted any more
	begun     time.Time     // here
	input     []openai.Item // of a run that is not stored
	spoke     bool          // there was a delta
	announced int           // lifecycle events so far; the owner's only
	entries   int64         // of the journal
	watchers  []*Subscription
	room      chan struct{} // closed when a waiting Emit should look again; nil when none waits
	unwatched bool          // somebody waits for the end only; see trim

	// For the log, guarded by mu.
	queued    bool // on the log's list
	resting   bool // on the list of those whose events move into blocks
	container bool // the container is not in the row yet
	journal   []entry
	segments  []pin

	epoch int64           // fences were checked at this epoch; the log's goroutine only
	subs  []*Subscription // of a run that is not stored
}

// ID returns the response's id.
func (r *Run) ID() string { return r.id }

// Context ends when the response is cancelled, lost or finished; its cause says which. The work of the response runs
// under it.
func (r *Run) Context() context.Context { return r.ctx }

// Cancel asks the owner to stop: it ends Context. How the response ends is still for Finish to say.
func (r *Run) Cancel(cause error) { r.cancel(cause) }

// openings are the events that open a log, in the foreground and in the background.
var openings = map[bool][]string{
	false: {openai.EventCreated, openai.EventInProgress},
	true:  {openai.EventCreated, openai.EventQueued, openai.EventInProgress},
}

// Announce opens the log: response.created, response.queued for a background response, response.in_progress. What is
// there already is not said again.
func (r *Run) Announce() error {
	if err := r.Queue(); err != nil {
		return err
	}
	r.mu.Lock()
	waits := r.object.Status == openai.Queued
	r.mu.Unlock()
	if waits {
		if err := r.s.toInProgress(r); err != nil {
			return err
		}
		r.mu.Lock()
		r.object.Status = openai.InProgress
		r.mu.Unlock()
	}
	return r.open(openai.EventInProgress)
}

// Queue opens the log of a response that waits for its turn: everything of Announce but response.in_progress.
func (r *Run) Queue() error { return r.open(openai.EventQueued) }

// open says the opening events up to one.
func (r *Run) open(last string) error {
	for _, typ := range openings[r.background][min(r.announced, len(openings[r.background])):] {
		if typ == openai.EventInProgress && typ != last {
			return nil
		}
		if err := r.lifecycle(typ); err != nil {
			return err
		}
		r.announced++
	}
	return nil
}

// toInProgress writes the change of a queued row.
func (s *Service) toInProgress(r *Run) error {
	return s.db.Write(r.ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE response SET status = $3 WHERE id = $1 AND fence = $2 AND status = $4`,
			r.id, r.fence, openai.InProgress, openai.Queued)
		if err != nil {
			return fmt.Errorf("start response: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			return err
		}
		return taken(r.id)
	})
}

// lifecycle emits an event that carries the response as it stands.
func (r *Run) lifecycle(typ string) error {
	r.mu.Lock()
	if r.unread {
		defer r.mu.Unlock()
		return r.roomLocked()
	}
	ev := openai.NewLifecycle(typ, r.objectLocked())
	r.mu.Unlock()
	return r.emit(ev)
}

// Emit takes an event into the log: it numbers and encodes it once and wakes its readers. It waits when the run's
// memory is full and never drops an event. Once the run has ended it refuses with fault.Conflict, or with the reason
// why the run was lost. Lifecycle events are written by Announce and Finish only.
func (r *Run) Emit(ev openai.Event) error {
	if _, ok := ev.(*openai.Lifecycle); ok {
		return fault.New(fault.Internal, "%s is not the caller's to emit.", ev.EventType())
	}
	return r.emit(ev)
}

func (r *Run) emit(ev openai.Event) error {
	r.mu.Lock()
	if err := r.roomLocked(); err != nil {
		r.mu.Unlock()
		return err
	}
	item, ok := ev.(*openai.ItemEvent)
	if ok && (item.OutputIndex < 0 || item.OutputIndex >= maxOutputItems) {
		r.mu.Unlock()
		return fault.New(fault.Internal, "Output index %d is out of range.", item.OutputIndex)
	}
	if !r.unread {
		if err := r.ring.add(ev); err != nil {
			r.mu.Unlock()
			return fmt.Errorf("emit %s: %w", ev.EventType(), err)
		}
	}
	if ok {
		r.putLocked(item.OutputIndex, item.Item)
	}
	r.spokeLocked(ev)
	r.wakeLocked(false)
	enqueue := r.stored && !r.queued
	r.queued = r.queued || enqueue
	r.mu.Unlock()
	if enqueue {
		r.s.log.enqueue(r, r.background)
	}
	return nil
}

// putLocked sets what stands at a place of the output.
func (r *Run) putLocked(index int, item openai.Item) {
	for len(r.output) <= index {
		r.output = append(r.output, openai.Item{})
	}
	r.output[index] = item
}

// roomLocked waits until the ring has room for an event, and says why the run takes none any more.
func (r *Run) roomLocked() error {
	for {
		switch {
		case r.cut != nil:
			return r.cut
		case r.released:
			return errReleased
		case r.phase != open:
			return over(r.id)
		case r.ring.bytes < ringLimit:
			return nil
		}
		if !r.stored {
			if r.trimLocked(); r.ring.bytes < ringLimit {
				return nil
			}
		}
		if r.broken != nil {
			return r.broken
		}
		if r.ctx.Err() != nil {
			return nil // the owner must be able to close what is open; that is little
		}
		if r.room == nil {
			r.room = make(chan struct{})
		}
		room := r.room
		r.mu.Unlock()
		if r.stored {
			r.s.log.hurry()
		}
		select {
		case <-room:
		case <-r.ctx.Done():
		}
		r.mu.Lock()
	}
}

// roomMadeLocked lets waiting producers look again.
func (r *Run) roomMadeLocked() {
	if r.room != nil {
		close(r.room)
		r.room = nil
	}
}

// trimLocked forgets what every reader of an unstored run has read. While nobody reads and nobody waits for the end
// either, a reader may still come, and everything is kept for it.
func (r *Run) trimLocked() {
	low := r.ring.end()
	if len(r.subs) == 0 && !r.unwatched {
		return
	}
	for _, sub := range r.subs {
		low = min(low, sub.next)
	}
	// Dropping copies what stays, so it waits until it frees half.
	if low-r.ring.first > int64(len(r.ring.frames)/2) {
		r.ring.drop(low)
	}
}

// wakeLocked wakes readers that wait; for durable, those that wait for durable events only.
func (r *Run) wakeLocked(durable bool) {
	if len(r.watchers) == 0 {
		return
	}
	kept := r.watchers[:0]
	for _, sub := range r.watchers {
		if sub.durable && !durable && r.phase != ended {
			kept = append(kept, sub)
			continue
		}
		sub.waiting = false
		select {
		case sub.wake <- struct{}{}:
		default:
		}
	}
	r.watchers = kept
}

// Sync returns when every event emitted so far is durable. For a response that is not stored there is nothing to do.
func (r *Run) Sync(ctx context.Context) error {
	if !r.stored {
		return nil
	}
	r.mu.Lock()
	last := r.ring.end() - 1
	if r.unborn != nil {
		last = max(last, 0) // the row becomes durable with the first event
	}
	if r.durable > last {
		r.mu.Unlock()
		return nil
	}
	r.mu.Unlock()
	sub := syncPlaces.Get().(*Subscription)
	sub.s, sub.run, sub.id, sub.next = r.s, r, r.id, last+1
	err := sub.reached(ctx)
	if err == nil { // then nobody knows it any more, and its channel is empty
		sub.s, sub.run, sub.id = nil, nil, ""
		syncPlaces.Put(sub)
	}
	return err
}

// syncPlaces keeps the places from which Sync waits: it does so for every event of those who wait for each.
var syncPlaces = sync.Pool{New: func() any { return &Subscription{durable: true, wake: make(chan struct{}, 1)} }}

// SetContainer records the container that the response uses. It is durable with the next event that is.
func (r *Run) SetContainer(id string) {
	r.mu.Lock()
	r.object.ContainerID = id
	r.container = r.stored
	r.mu.Unlock()
}

// Fence is the number under which this owner holds the response; a later owner's is higher.
func (r *Run) Fence() int64 { return r.fence }

// AddUsage adds a model call's tokens to the response's sum.
func (r *Run) AddUsage(u openai.Usage) {
	r.mu.Lock()
	sum := u
	if r.object.Usage != nil {
		sum.Add(*r.object.Usage)
	}
	r.object.Usage = &sum // a new value: snapshots share the old one
	r.mu.Unlock()
}

// Input returns what the response was asked, with the ids that the items have got, where it is not stored: of one that is,
// Service.InputItems knows.
func (r *Run) Input() []openai.Item { return r.input }

// Output returns the output so far, in the order of the output indexes.
func (r *Run) Output() []openai.Item {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outputLocked()
}

func (r *Run) outputLocked() []openai.Item {
	items := make([]openai.Item, 0, len(r.output))
	for _, i := range r.output {
		if i.Raw != nil {
			items = append(items, i)
		}
	}
	return items
}

// objectLocked returns the response as it stands; it shares nothing that changes.
func (r *Run) objectLocked() openai.Response {
	o := r.object
	if r.phase != ended {
		o.Output = r.outputLocked()
	}
	return o
}

// Response returns the response as it stands now.
func (r *Run) Response() *openai.Response { return r.snapshot() }

func (r *Run) snapshot() *openai.Response {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.objectLocked()
	o.Output = slices.Clone(o.Output)
	return &o
}

// Wait returns the response when it has ended. A run that is waited for and read by nobody keeps no events.
func (r *Run) Wait(ctx context.Context) (*openai.Response, error) {
	if !r.stored {
		r.mu.Lock()
		r.unwatched = true
		r.roomMadeLocked()
		r.mu.Unlock()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r.mu.Lock()
	cut := r.cut
	r.mu.Unlock()
	if cut != nil {
		return nil, away(cut)
	}
	return r.snapshot(), nil
}

// errOver is the cause with which the context of a response ends that has ended.
var errOver = fault.New(fault.Conflict, "The response has ended.")

// over is the answer to an owner that goes on after the end.
func over(id string) error { return fault.New(fault.Conflict, "Response %s has ended.", id) }

// taken is the answer to an owner whose fence is not the row's any more.
func taken(id string) error {
	return fault.New(fault.Conflict, "Response %s was taken over by another owner, or deleted.", id)
}
