package response

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// clock is a wall clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)} }

// shared serves a database that several services use.
func shared(t testing.TB, db *store.DB, c *clock) *Service {
	t.Helper()
	return serve(t, db, Options{Shared: true, Clock: c.Now, Lease: time.Minute})
}

// working begins a background response with work and a journal of which everything is durable.
func working(t testing.TB, s *Service, entries ...string) *Run {
	t.Helper()
	r := begin(t, s, Begin{Store: true, Background: true, Work: func() ([]byte, error) { return []byte("the work"), nil }})
	announce(t, r)
	for _, e := range entries {
		r.Journal([]byte(e))
		say(t, r, e)
	}
	if err := r.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestALeaseThatRunsOutIsTakenOver(t *testing.T) {
	db, c := openDB(t, filepath.Join(t.TempDir(), "hardshell.db")), newClock()
	old, next, third := shared(t, db, c), shared(t, db, c), shared(t, db, c)
	r := working(t, old, "one", "two")
	for _, s := range []*Service{next, third} {
		if err := s.takeOver(within(t)); err != nil {
			t.Fatal(err)
		}
		if got := claims(t, s); len(got) != 0 {
			t.Fatalf("%d responses of a living owner were claimed", len(got))
		}
	}
	c.add(50 * time.Second)
	if err := old.renew(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Service{next, third} {
		if err := s.renew(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	c.add(50 * time.Second) // the first lease would be over
	if err := next.takeOver(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := claims(t, next); len(got) != 0 {
		t.Fatalf("%d responses of an owner who renewed were claimed", len(got))
	}
	for _, s := range []*Service{next, third} {
		if err := s.renew(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	c.add(11 * time.Second) // now it is
	var both []*Claim
	for _, s := range []*Service{next, third} {
		if err := s.takeOver(within(t)); err != nil {
			t.Fatal(err)
		}
		for _, got := range claims(t, s) {
			both = append(both, got)
		}
	}
	if len(both) != 1 {
		t.Fatalf("%d owners have it", len(both))
	}
	got := both[0]
	if string(got.Work) != "the work" || len(got.Journal) != 2 || string(got.Journal[1].Data) != "two" || got.Journal[1].Since != 4 || got.Org != org {
		t.Errorf("claimed %q %+v of %q", got.Work, got.Journal, got.Org)
	}
	if got.Run.Fence() != r.Fence()+1 {
		t.Errorf("fence %d after %d", got.Run.Fence(), r.Fence())
	}
	// The old owner was only paused.
	say(t, r, "too late")
	if err := r.Sync(within(t)); !isConflict(err) {
		t.Errorf("the old owner wrote: %v", err)
	}
	if err := r.Release(within(t)); err == nil {
		t.Error("the old owner gave it away")
	}
	say(t, got.Run, "three")
	finish(t, got.Run, openai.Completed)
	log := stored(t, got.Run.s, r.ID())
	wantLog(t, log, 0)
	if len(log) != 7 {
		t.Errorf("%d events", len(log))
	}
	noSegments(t, got.Run.s)
	for _, table := range []string{"response_work", "response_journal"} {
		if n := count(t, db, `SELECT COUNT(*) FROM `+table); n != 0 {
			t.Errorf("%s has %d rows after the end", table, n)
		}
	}
}

func TestAnHeirThatDiesIsInherited(t *testing.T) {
	db, c := openDB(t, filepath.Join(t.TempDir(), "hardshell.db")), newClock()
	old, heir, last := shared(t, db, c), shared(t, db, c), shared(t, db, c)
	r := working(t, old, "one")
	c.add(2 * time.Minute)
	if err := last.renew(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := heir.renew(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := heir.inherit(within(t)); err != nil { // and dies before it has moved the log
		t.Fatal(err)
	}
	if err := last.takeOver(within(t)); err != nil {
		t.Fatal(err)
	}
	if got := claims(t, last); len(got) != 0 {
		t.Fatal("what a living heir takes over was claimed")
	}
	c.add(2 * time.Minute)
	if err := last.renew(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := last.takeOver(within(t)); err != nil {
		t.Fatal(err)
	}
	got := claims(t, last)[r.ID()]
	if got == nil {
		t.Fatal("nobody has it")
	}
	finish(t, got.Run, openai.Completed)
	if log := stored(t, last, r.ID()); len(log) != 5 {
		t.Errorf("%d events", len(log))
	}
}

func TestTheClockMayJump(t *testing.T) {
	for _, jump := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		db, c := openDB(t, filepath.Join(t.TempDir(), "hardshell.db")), newClock()
		s := shared(t, db, c)
		r := working(t, s, "before")
		c.add(jump)
		if err := s.takeOver(within(t)); err != nil {
			t.Fatal(err)
		}
		if got := claims(t, s); len(got) != 0 {
			t.Fatalf("%s: it took its own responses over", jump)
		}
		say(t, r, "after")
		if err := s.renew(within(t)); err != nil {
			t.Fatal(err)
		}
		finish(t, r, openai.Completed)
		log := stored(t, s, r.ID())
		wantLog(t, log, 0)
		if removed, err := s.Sweep(within(t)); err != nil || removed != 0 {
			t.Errorf("%s: swept %d, %v", jump, removed, err)
		}
	}
}

func TestWhatIsGivenBackGoesOn(t *testing.T) {
	for _, words := range []int{0, 1, 1000} {
		path := filepath.Join(t.TempDir(), "hardshell.db")
		db := openDB(t, path)
		s := serve(t, db, Options{})
		r := working(t, s, "one")
		sub := r.Subscribe(-1)
		for i := range words {
			say(t, r, fmt.Sprint(i))
		}
		var seen []Frame
		if err := r.Release(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := r.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, "late")); !isConflict(err) {
			t.Errorf("emit after it was given back: %v", err)
		}
		if err := r.Finish(within(t), End{Status: openai.Cancelled}); !isConflict(err) {
			t.Errorf("end after it was given back: %v", err)
		}
		if !Left(context.Cause(r.Context())) {
			t.Errorf("the context ended with %v", context.Cause(r.Context()))
		}
		for {
			frames, err := sub.Next(within(t))
			if errors.Is(err, io.EOF) || err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Fatalf("a reader got %v", err)
			}
			if err != nil {
				break
			}
			seen = append(seen, frames...)
		}
		if err := s.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		if n := count(t, db, `SELECT COUNT(*) FROM event_segment`) + count(t, db, `SELECT COUNT(*) FROM response_owner`); n != 0 {
			t.Errorf("%d rows are left of the owner", n)
		}
		next := serve(t, db, Options{})
		resp, err := next.Get(within(t), org, r.ID())
		if err != nil || resp.Status != openai.InProgress {
			t.Errorf("while it waits: %+v, %v", resp, err)
		}
		c := claims(t, next)[r.ID()]
		if c == nil || len(c.Journal) != 1 {
			t.Fatalf("claimed %+v", c)
		}
		finish(t, c.Run, openai.Completed)
		log := stored(t, next, r.ID())
		wantLog(t, log, 0)
		if len(log) != 5+words || len(seen) > len(log) {
			t.Fatalf("%d events after %d seen", len(log), len(seen))
		}
		sameFrames(t, seen, log[:len(seen)])
	}
}

func TestARestartCancelsAndDeletesWhatNobodyRunsYet(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	old := serve(t, db, Options{})
	cancelled, deleted, other := working(t, old, "a"), working(t, old, "b"), working(t, old, "c")
	s := serve(t, db, Options{})
	results := make(chan error, 2)
	go func() {
		resp, err := s.Cancel(within(t), org, cancelled.ID())
		if err == nil && resp.Status != openai.Cancelled {
			err = fmt.Errorf("cancelled as %s", resp.Status)
		}
		results <- err
	}()
	go func() { results <- s.Delete(within(t), org, deleted.ID()) }()
	for n := 0; n < 2; {
		<-s.Orphans()
		for {
			c, err := s.Claim(within(t), true)
			if err != nil {
				t.Fatal(err)
			}
			if c == nil {
				break
			}
			if c.Run.ID() == other.ID() || c.Run.Context().Err() == nil {
				t.Errorf("%s was claimed, and its context is %v", c.Run.ID(), c.Run.Context().Err())
			}
			finish(t, c.Run, openai.Cancelled)
			n++
		}
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Get(within(t), org, deleted.ID()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the deleted one: %v", err)
	}
	if got := claims(t, s); len(got) != 1 || got[other.ID()] == nil {
		t.Errorf("%d claims are left", len(got))
	}
	for _, r := range []*Run{other} {
		if _, err := s.Subscribe(within(t), "another", r.ID(), -1); fault.KindOf(err) != fault.NotFound {
			t.Errorf("another organisation: %v", err)
		}
	}
}

func TestAJournalOfAResponseThatEndsIsNotKept(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	for _, late := range []bool{true, false} {
		r := begin(t, s, Begin{Store: true, Late: late, Work: func() ([]byte, error) { return []byte("w"), nil }})
		announce(t, r)
		r.Journal([]byte("x"))
		say(t, r, "x")
		if !late {
			if err := r.Sync(within(t)); err != nil {
				t.Fatal(err)
			}
			if n := count(t, db, `SELECT COUNT(*) FROM response_journal`) + count(t, db, `SELECT COUNT(*) FROM response_work`); n != 2 {
				t.Errorf("%d rows while it runs", n)
			}
		}
		finish(t, r, openai.Completed)
		stored(t, s, r.ID())
	}
	if n := count(t, db, `SELECT COUNT(*) FROM response_journal`) + count(t, db, `SELECT COUNT(*) FROM response_work`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestALogThatCannotBeReadEndsAsFailed(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	old := serve(t, db, Options{})
	bad, good := working(t, old, "a"), working(t, old, "b")
	s := serve(t, db, Options{})
	if err := db.Write(within(t), execTx(`UPDATE event_block SET data = X'07' WHERE response_id = $1`, bad.ID())); err != nil {
		t.Fatal(err)
	}
	var got []*Claim
	var errs []error
	for range 3 {
		c, err := s.Claim(within(t), false)
		if err != nil {
			errs = append(errs, err)
		}
		if c != nil {
			got = append(got, c)
		}
	}
	if len(errs) != 1 || len(got) != 1 || got[0].Run.ID() != good.ID() {
		t.Fatalf("%d claims, %v", len(got), errs)
	}
	resp, err := s.Get(within(t), org, bad.ID())
	if err != nil || resp.Status != openai.Failed || resp.Error == nil {
		t.Errorf("%+v, %v", resp, err)
	}
}

func execTx(query string, args ...any) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	}
}

func TestWhatIsGivenBackToNobodyIsTakenUpAgain(t *testing.T) {
	s := newService(t)
	if found, err := s.ownerless(within(t)); err != nil || found {
		t.Fatalf("at first: %v, %v", found, err)
	}
	r := working(t, s, "one")
	if err := r.Release(within(t)); err != nil {
		t.Fatal(err)
	}
	if found, err := s.ownerless(within(t)); err != nil || !found {
		t.Fatalf("after it was given back: %v, %v", found, err)
	}
	if err := s.takeOver(within(t)); err != nil {
		t.Fatal(err)
	}
	c := claims(t, s)[r.ID()]
	if c == nil {
		t.Fatal("nobody has it")
	}
	finish(t, c.Run, openai.Completed)
	wantLog(t, stored(t, s, r.ID()), 0)
}
