// Package response holds responses: their rows and states, and the numbered event log that is the truth about each.
//
// A response has one owner, the [Run] that Begin returns. It numbers events from 0 without gaps and encodes each once;
// what is stored and what is sent are the same bytes. There is exactly one terminal event, written in the transaction
// that changes the status. Foreground readers see events at once; readers of a background run, and all who resume, see
// only what is durable. A response with store false touches no disk. Memory is bounded: producers wait, nothing is
// dropped.
//
// It does not run anything: asking models, running tools and deciding how a response ends is the agent's.
//
// An event lives first in its run's ring (ring.go), is made durable by a segment that many responses share
// (segment.go, log.go), and comes to rest in a compressed block of its response (block.go), after which ring and
// segment let go of it. So a reader needs only two places, blocks and then ring, and segments are read after a crash
// only (takeover.go). An owner holds its responses by a lease (lease.go); when that runs out another takes them over, and
// the agent claims them (claim.go) and goes on.
package response

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options of a service. DB is required; the rest has defaults.
type Options struct {
	DB        *store.DB
	Clock     func() time.Time // time.Now
	Retention time.Duration    // how long an ended response is kept; 30 days
	MaxBytes  int64            // how large the database may be before the oldest ended responses go; 0 is no bound
	Lease     time.Duration    // how long an owner that says nothing more is believed to live; 30 s
	Shared    bool             // other services may live on this database; otherwise whatever an earlier one owned is taken over at once
	Observer  Observer         // nobody
}

// DefaultRetention is how long an ended response is kept.
const DefaultRetention = 30 * 24 * time.Hour

// Service owns the responses of this process.
type Service struct {
	db        *store.DB
	clock     func() time.Time
	retention time.Duration
	maxBytes  int64
	lease     time.Duration
	shared    bool
	owner     string // this service in the rows; another start has another name
	observe   Observer
	log       *eventLog
	late      *lateEnds
	packer    packer
	statements
	ailing atomic.Bool // the last write failed

	conversations *conversation.Room

	taking  sync.Mutex       // one take-over at a time
	unmoved map[string]int64 // taken over, and their logs not moved into blocks yet; under taking
	// settledIn: what was there when this service came has been taken over; under taking.
	settledIn bool

	settling sync.Mutex // one round of settle at a time

	mu       sync.Mutex
	live     map[string]*Run // every run without a sealed end, stored or not
	backlog  []orphan        // taken over, waiting to be claimed
	unwanted map[string]int  // how many wait to see a response cancelled that nobody runs
	arrivals map[string]*arriving
	closed   bool

	orphans chan struct{} // one token; see Orphans
	closing chan struct{} // closed by Close

	stop context.CancelFunc // ends the goroutines
	wg   sync.WaitGroup
}

//go:embed migrations/*.sql
var migrations embed.FS

// New migrates the tables, takes over what a dead process left open, and starts.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{db: o.DB, clock: o.Clock, retention: o.Retention, maxBytes: o.MaxBytes, owner: id.New("own"), lease: o.Lease, shared: o.Shared,
		live: map[string]*Run{}, unwanted: map[string]int{}, arrivals: map[string]*arriving{}, orphans: make(chan struct{}, 1), closing: make(chan struct{})}
	if s.observe = o.Observer; s.observe == nil {
		s.observe = unobserved{}
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.retention <= 0 {
		s.retention = DefaultRetention
	}
	if s.lease <= 0 {
		s.lease = defaultLease
	}
	if err := s.db.Migrate(ctx, "response", migrations); err != nil {
		return nil, err
	}
	var err error
	if s.conversations, err = conversation.Open(ctx, s.db, s.clock); err != nil {
		return nil, err
	}
	if s.statements, err = prepare(ctx, s.db); err != nil {
		return nil, err
	}
	if s.log, err = newLog(ctx, s); err != nil {
		return nil, err
	}
	if err := s.enrol(ctx); err != nil {
		return nil, err
	}
	if err := s.takeOver(ctx); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.wg.Go(s.log.run)
	s.wg.Go(s.log.rest)
	s.late = newLateEnds(s)
	s.wg.Go(s.late.run)
	s.wg.Go(func() { s.sweepEvery(background, sweepPeriod) })
	s.wg.Go(func() { s.renewEvery(background, s.lease/3) })
	return s, nil
}

// errStopping is the cause that a run's context ends with when the service closes.
var errStopping = fault.New(fault.Cancelled, "The server is stopping.")

// Close refuses new responses, cancels the running ones and waits for their owners to end them. Those that are still
// open when ctx ends are ended here as failed, so that none is left without a terminal event.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	runs := make([]*Run, 0, len(s.live))
	for _, r := range s.live {
		runs = append(runs, r)
	}
	s.mu.Unlock()
	for _, r := range runs {
		r.Cancel(errStopping)
	}
	var errs []error
	for _, r := range runs {
		select {
		case <-r.done:
			continue
		case <-ctx.Done():
		}
		// Closing is bounded by ctx, the last writes by the disk alone: without them the rows would lie.
		err := r.Finish(context.WithoutCancel(ctx), End{Status: openai.Failed, Error: &openai.ResponseError{Code: "server_error",
			Message: "The server stopped before the response was complete."}})
		if fault.KindOf(err) == fault.Conflict {
			<-r.done // its owner came first and is writing the end
			err = nil
		}
		errs = append(errs, err)
	}
	s.stop()
	s.late.close()
	s.log.close()
	s.wg.Wait()
	errs = append(errs, s.settle(context.WithoutCancel(ctx)), s.log.clear(context.WithoutCancel(ctx)), s.resign(context.WithoutCancel(ctx)))
	return errors.Join(errs...)
}

// Conversations are what responses may continue and add to.
func (s *Service) Conversations() *conversation.Room { return s.conversations }

// missing is the answer for a response that is absent or another organisation's: the two are not to be told apart.
func missing(id string) error {
	return fault.New(fault.NotFound, "Response with id '%s' not found.", id).WithCode("response_not_found")
}

// running returns the live, stored run of that id if it is the organisation's.
func (s *Service) running(org, id string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.live[id]; r != nil && r.stored && r.org == org {
		return r
	}
	return nil
}

// undecided returns the live, stored run of that id, as running does. One whose end is on its way to the disk is waited
// for: then the rows hold it all.
func (s *Service) undecided(ctx context.Context, org, id string) (*Run, error) {
	r := s.running(org, id)
	if r == nil {
		return nil, nil
	}
	if err := r.settled(ctx); err != nil {
		return nil, err
	}
	return s.running(org, id), nil
}

// Get returns a response: as it stands now while it runs, in its final form afterwards.
func (s *Service) Get(ctx context.Context, org, id string) (*openai.Response, error) {
	if r := s.running(org, id); r != nil {
		return r.snapshot(), nil
	}
	var object, status string
	err := s.db.Read().QueryRowContext(ctx, `SELECT object, status FROM response WHERE id = $1 AND org = $2`, id, org).Scan(&object, &status)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, missing(id)
	}
	if err != nil {
		return nil, fmt.Errorf("get response: %w", err)
	}
	var resp openai.Response
	if err := json.Unmarshal([]byte(object), &resp); err != nil {
		return nil, fmt.Errorf("get response %s: %w", id, err)
	}
	resp.Status = status // of one that waits for an owner the object is as it was at the beginning
	return &resp, nil
}

// Subscribe reads a stored response's events with numbers above after (-1 is all): what is stored, then what becomes
// durable, without a hole or a repeat.
func (s *Service) Subscribe(ctx context.Context, org, id string, after int64) (*Subscription, error) {
	f, err := s.find(ctx, org, id)
	if err != nil {
		return nil, err
	}
	sub := newSubscription(s, f.run, id, after, true)
	sub.org, sub.last, sub.early = org, f.last, f.run == nil && !f.ended
	return sub, nil
}

// Cancel stops a running response, waits for its end and returns it. One that has ended is returned as it is.
func (s *Service) Cancel(ctx context.Context, org, id string) (*openai.Response, error) {
	f, err := s.find(ctx, org, id)
	if err != nil {
		return nil, err
	}
	if f.run == nil && !f.ended {
		defer s.expel(id)()
		if _, err := s.Wake(ctx, id); err != nil {
			return nil, err
		}
		if f, err = s.await(ctx, org, id); err != nil {
			return nil, err
		}
	}
	if f.run == nil {
		return s.Get(ctx, org, id)
	}
	f.run.Cancel(errCancelled)
	resp, err := f.run.Wait(ctx)
	if Parked(err) { // that was quicker
		return s.Cancel(ctx, org, id)
	}
	return resp, err
}

// errCancelled is the cause of a run that somebody asked to cancel.
var errCancelled = fault.New(fault.Cancelled, "The response was cancelled.")

// ErrClientGone is the cause of a foreground run that ends because its client hangs up.
var ErrClientGone = fault.New(fault.Cancelled, "The client closed the connection.").WithCode("client_disconnected")

// Delete removes a response and its log. A running one is cancelled first.
func (s *Service) Delete(ctx context.Context, org, id string) error {
	f, err := s.find(ctx, org, id)
	if err != nil {
		return err
	}
	if !f.ended {
		if _, err := s.Cancel(ctx, org, id); err != nil {
			return err
		}
		if r := s.running(org, id); r != nil {
			if err := r.settled(ctx); err != nil {
				return err
			}
			return s.deleteUnsealed(ctx, org, r)
		}
	}
	return s.deleteRow(ctx, org, id)
}

// deleteUnsealed deletes a response whose end the disk has refused so far, before the end is written behind our back. There
// may be no row of it.
func (s *Service) deleteUnsealed(ctx context.Context, org string, r *Run) error {
	s.settling.Lock()
	defer s.settling.Unlock()
	err := s.deleteRow(ctx, org, r.id)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return err
	}
	if s.running(org, r.id) == nil { // somebody else was quicker
		return err
	}
	r.sealed(taken(r.id)) // whoever follows it is told, and the log lets its events go
	return nil
}

func (s *Service) deleteRow(ctx context.Context, org, id string) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`DELETE FROM response WHERE id = $1 AND org = $2`, id, org)
		if err != nil {
			return fmt.Errorf("delete response: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil {
			return fmt.Errorf("delete response: %w", err)
		} else if n == 0 {
			return missing(id)
		}
		return nil
	})
}

// forget takes a run off the list of the living.
func (s *Service) forget(r *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[r.id] == r { // one that waited may have another run by now
		delete(s.live, r.id)
	}
}
