package response

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A short answer without effects reaches its client before the disk. Whoever asks for what is in the rows waits for
// them, and finds the same bytes.
func TestALateEnd(t *testing.T) {
	for name, ask := range map[string]func(t *testing.T, s *Service, r *Run){
		"the log": func(t *testing.T, s *Service, r *Run) { wantLog(t, stored(t, s, r.ID()), 0) },
		"a reader that was there": func(t *testing.T, s *Service, r *Run) {
			wantLog(t, drain(t, newSubscription(s, r, r.ID(), -1, true)), 0)
		},
		"a chain": func(t *testing.T, s *Service, r *Run) {
			if c, err := s.Chain(within(t), org, r.ID()); err != nil || len(c.Items) != 2 {
				t.Errorf("%+v, %v", c, err)
			}
		},
		"its input": func(t *testing.T, s *Service, r *Run) {
			if items, err := s.InputItems(within(t), org, r.ID()); err != nil || len(items) != 1 {
				t.Errorf("%v, %v", items, err)
			}
		},
		"deletion": func(t *testing.T, s *Service, r *Run) {
			if err := s.Delete(within(t), org, r.ID()); err != nil || onDisk(t, s, r.ID()) != 0 {
				t.Errorf("%v, %d rows", err, onDisk(t, s, r.ID()))
			}
			if _, err := s.Get(within(t), org, r.ID()); fault.KindOf(err) != fault.NotFound {
				t.Errorf("get it: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			r := begin(t, s, Begin{Store: true, Late: true, Input: []openai.Item{message("msg_in", "user", "q")}})
			sub := r.Subscribe(-1)
			release := stalled(t, s.db)
			announce(t, r)
			if err := r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, message("msg_1", "assistant", "a"))); err != nil {
				t.Fatal(err)
			}
			finish(t, r, openai.Completed)
			live := drain(t, sub)
			wantLog(t, live, 0)
			if resp, err := s.Get(within(t), org, r.ID()); err != nil || resp.Status != openai.Completed || len(resp.Output) != 1 {
				t.Errorf("get it at once: %+v, %v", resp, err)
			}
			if n := onDisk(t, s, r.ID()); n != 0 {
				t.Fatalf("%d rows while the disk is held: nothing was late", n)
			}
			done := make(chan struct{})
			go func() { defer close(done); ask(t, s, r) }()
			until(t, func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return len(r.watchers) > 0
			})
			release()
			<-done
			if name == "deletion" {
				return
			}
			sameFrames(t, stored(t, s, r.ID()), live)
			if s.running(org, r.ID()) != nil {
				t.Error("the run is kept although its rows are there")
			}
		})
	}
}

// What had an effect, and what somebody in the background waits for, is durable before it is told.
func TestAnEndThatIsNotLate(t *testing.T) {
	s := newService(t)
	for name, b := range map[string]Begin{
		"after a sync":  {Store: true, Late: true},
		"not asked for": {Store: true},
		"background":    {Store: true, Background: true, Late: true},
	} {
		r := begin(t, s, b)
		announce(t, r)
		if err := r.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
		finish(t, r, openai.Completed)
		var last sql.NullInt64
		if err := s.db.Read().QueryRow(`SELECT last_seq FROM response WHERE id = $1`, r.ID()).Scan(&last); err != nil || !last.Valid {
			t.Errorf("%s: %v, end on disk %v", name, err, last.Valid)
		}
	}
}

// A late end that the disk refuses is still found here, and written when the disk allows. Meanwhile nothing else is late,
// even when the log comes round with nothing to write.
func TestALateEndOnAFullDisk(t *testing.T) {
	s := newService(t)
	refuseRows(t, s, true)
	r := refused(t, s)
	if resp, err := s.Get(within(t), org, r.ID()); err != nil || resp.Status != openai.Completed {
		t.Errorf("get: %+v, %v", resp, err)
	}
	for range 2 { // the log takes the second when it is done with the first
		s.log.enqueue(r, true)
		until(t, func() bool {
			s.log.mu.Lock()
			defer s.log.mu.Unlock()
			return len(s.log.dirty) == 0
		})
	}
	if _, err := s.Begin(within(t), Begin{Org: org, Store: true, Late: true}); err == nil {
		t.Error("another response began as if the disk were well")
	}
	refuseRows(t, s, false)
	if err := s.settle(within(t)); err != nil {
		t.Fatal(err)
	}
	wantLog(t, stored(t, s, r.ID()), 0)
	if onDisk(t, s, r.ID()) != 1 {
		t.Error("it is not on record")
	}
}

// The timers of the lease and of the sweep both look after such ends. Who follows a response must not be told that
// another owner has it, because the two came at once.
func TestALateEndIsWrittenByOneOfManyRounds(t *testing.T) {
	s := newService(t)
	refuseRows(t, s, true)
	r := refused(t, s)
	sub := newSubscription(s, r, r.ID(), -1, true)
	refuseRows(t, s, false)
	release := stalled(t, s.db)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := s.settle(within(t)); err != nil {
				t.Errorf("settle: %v", err)
			}
		})
	}
	release()
	wg.Wait()
	wantLog(t, drain(t, sub), 0)
	if resp, err := r.Wait(within(t)); err != nil || resp.Status != openai.Completed {
		t.Errorf("%+v, %v", resp, err)
	}
}

// Such an end can be deleted like any other, once, and nothing brings it back.
func TestALateEndThatWasRefusedIsDeleted(t *testing.T) {
	s := newService(t)
	refuseRows(t, s, true)
	r := refused(t, s)
	if err := s.Delete(within(t), org, r.ID()); err != nil {
		t.Fatal(err)
	}
	refuseRows(t, s, false)
	if err := s.settle(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(within(t), org, r.ID()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a second time: %v", err)
	}
	if n := onDisk(t, s, r.ID()); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// What the log has of it goes too: nobody holds on to its events any more, and who follows it is told.
func TestAnEndThatWasRefusedIsDeletedWithItsEvents(t *testing.T) {
	s := newService(t)
	r := begin(t, s, Begin{Store: true})
	announce(t, r)
	if err := r.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	refuse := func(query string) {
		if err := s.db.Write(within(t), func(tx *sql.Tx) error { _, err := tx.Exec(query); return err }); err != nil {
			t.Fatal(err)
		}
	}
	refuse(`CREATE TRIGGER full BEFORE UPDATE ON response BEGIN SELECT RAISE(ABORT, 'full'); END`)
	if err := r.Finish(within(t), End{Status: openai.Completed}); err == nil {
		t.Fatal("the disk has taken the end")
	}
	if err := s.Delete(within(t), org, r.ID()); err != nil {
		t.Fatal(err)
	}
	refuse(`DROP TRIGGER full`)
	until(t, func() bool { // the flush that wrote it holds it for a moment, too
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		return len(s.log.live) == 0
	})
	if _, err := r.Wait(within(t)); fault.KindOf(err) != fault.Conflict {
		t.Errorf("who waits for it is told %v", err)
	}
}

// refuseRows has the disk refuse every new response from now on, or take them again.
func refuseRows(t *testing.T, s *Service, yes bool) {
	t.Helper()
	query := `DROP TRIGGER full`
	if yes {
		query = `CREATE TRIGGER full BEFORE INSERT ON response BEGIN SELECT RAISE(ABORT, 'full'); END`
	}
	if err := s.db.Write(within(t), func(tx *sql.Tx) error { _, err := tx.Exec(query); return err }); err != nil {
		t.Fatal(err)
	}
}

// refused returns a response whose late end the disk has refused. It ends before the log can come by with its first events.
func refused(t *testing.T, s *Service) *Run {
	t.Helper()
	r := begin(t, s, Begin{Store: true, Late: true})
	release := stalled(t, s.db)
	announce(t, r)
	finish(t, r, openai.Completed)
	release()
	if err := r.settled(within(t)); err != nil {
		t.Fatal(err)
	}
	if onDisk(t, s, r.ID()) != 0 {
		t.Fatal("the disk has taken it")
	}
	return r
}

func TestCloseWritesLateEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hardshell.db")
	db := openDB(t, path)
	s := serve(t, db, Options{})
	var ids []string
	for range 20 {
		r := begin(t, s, Begin{Store: true, Late: true})
		announce(t, r)
		finish(t, r, openai.Completed)
		ids = append(ids, r.ID())
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if n := onDisk(t, s, id); n != 1 {
			t.Errorf("%s: %d rows", id, n)
		}
	}
}
