package response

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// reads counts how often the database was asked: no connection is kept, so that each question closes one.
func reads(db *store.DB) (asked func() int64) {
	db.Read().SetMaxIdleConns(-1)
	return func() int64 { return db.Read().Stats().MaxIdleClosed }
}

// undisturbed serves a database that nothing but the test asks: no lease is looked after, and the first sweep is over.
func undisturbed(t *testing.T, db *store.DB) *Service {
	t.Helper()
	s := serve(t, db, Options{Lease: 1000 * time.Hour})
	if _, err := s.Sweep(within(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// S49 of the attack list: who asks for another organisation's response, or its replay, learns nothing from how long it
// takes. It is as much work as for an id that never was: as many questions, and nothing written or waited for.
func TestAnotherOrganisationsResponseCostsWhatAnUnknownOneCosts(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	old := serve(t, db, Options{Lease: 1000 * time.Hour})
	waiting := working(t, old, "of an owner that is gone")
	s := undisturbed(t, db) // takes it over, and nobody claims it
	ended, running, late := begin(t, s, Begin{Store: true}), begin(t, s, Begin{Store: true, Background: true}), begin(t, s, Begin{Store: true, Late: true})
	announce(t, ended)
	finish(t, ended, openai.Completed)
	announce(t, running)
	if err := running.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	release := stalled(t, db) // what waits for the disk, or writes, would not come back
	announce(t, late)
	finish(t, late, openai.Completed)
	asked := reads(db)
	cost := func(call func(id string) error, id string) int64 {
		before := asked()
		if err := call(id); fault.KindOf(err) != fault.NotFound {
			t.Fatalf("%v, want that it is not found", err)
		}
		return asked() - before
	}
	for name, call := range map[string]func(id string) error{
		"get":    func(id string) error { return second(s.Get(within(t), "other", id)) },
		"replay": func(id string) error { return second(s.Subscribe(within(t), "other", id, 1)) },
		"cancel": func(id string) error { return second(s.Cancel(within(t), "other", id)) },
		"delete": func(id string) error { return s.Delete(within(t), "other", id) },
		"chain":  func(id string) error { return second(s.Chain(within(t), "other", id)) },
		"input":  func(id string) error { return second(s.InputItems(within(t), "other", id)) },
		"wait":   func(id string) error { return second(s.Wait(within(t), "other", id)) },
	} {
		want := cost(call, "resp_00000000000000000000000000")
		if want == 0 {
			t.Errorf("%s of an unknown id asks nobody: the count is broken", name)
		}
		for state, r := range map[string]*Run{"ended": ended, "running": running, "on its way to the disk": late, "without an owner": waiting} {
			if n := cost(call, r.ID()); n != want {
				t.Errorf("%s of one that is %s asks %d times, of an unknown id %d times", name, state, n, want)
			}
		}
	}
	release()
	if running.Context().Err() != nil {
		t.Error("another organisation has cancelled it")
	}
	finish(t, running, openai.Completed)
}

// A reader that waits is woken. For a day it asks the database nothing, and then it has the event at once.
func TestAWaitingReaderAsksNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hardshell.db")
	synctest.Test(t, func(t *testing.T) {
		db := openDB(t, path)
		s := undisturbed(t, db)
		r := begin(t, s, Begin{Store: true, Background: true})
		announce(t, r)
		if err := r.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
		sub, err := s.Subscribe(t.Context(), org, r.ID(), 2)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan []Frame, 1)
		go func() {
			frames, err := sub.Next(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- frames
		}()
		asked := reads(db)
		before := asked()
		time.Sleep(24 * time.Hour)
		if n := asked() - before; n != 0 {
			t.Errorf("the database was asked %d times", n)
		}
		say(t, r, "at last")
		if frames := <-got; len(frames) != 1 || frames[0].Seq != 3 {
			t.Errorf("%+v", frames)
		}
		if n := asked() - before; n != 0 {
			t.Errorf("for an event that is in memory the database was asked %d times", n)
		}
		finish(t, r, openai.Completed)
	})
}
