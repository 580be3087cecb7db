package response

import (
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func onDisk(t testing.TB, s *Service, id string) (n int) {
	t.Helper()
	if err := s.db.Read().QueryRow(`SELECT COUNT(*) FROM response r JOIN response_input i ON i.response_id = r.id WHERE r.id = $1`, id).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A response that may be late is on record at the latest when somebody needs it to be, and once.
func TestALateRow(t *testing.T) {
	question := []openai.Item{message("msg_in", "user", "q")}
	for name, need := range map[string]func(t *testing.T, s *Service, r *Run){
		"its end": func(t *testing.T, s *Service, r *Run) { finish(t, r, openai.Completed) },
		"a sync": func(t *testing.T, s *Service, r *Run) {
			if err := r.Sync(within(t)); err != nil {
				t.Fatal(err)
			}
		},
		"its log":  func(t *testing.T, s *Service, r *Run) { until(t, func() bool { return onDisk(t, s, r.ID()) == 1 }) },
		"deletion": func(t *testing.T, s *Service, r *Run) { r.Cancel(nil); finish(t, r, openai.Cancelled) },
		"its input": func(t *testing.T, s *Service, r *Run) {
			items, err := s.InputItems(within(t), org, r.ID())
			if err != nil || len(items) != 1 {
				t.Errorf("input %v, %v", items, err)
			}
		},
		"a chain": func(t *testing.T, s *Service, r *Run) {
			if _, err := s.Chain(within(t), org, r.ID()); fault.KindOf(err) != fault.Conflict {
				t.Errorf("a chain onto it: %v, want that it is still running", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			r := begin(t, s, Begin{Store: true, Late: true, Input: question})
			sub := r.Subscribe(-1)
			if _, err := s.Get(within(t), org, r.ID()); err != nil {
				t.Errorf("get it at once: %v", err)
			}
			announce(t, r)
			need(t, s, r)
			until(t, func() bool { return onDisk(t, s, r.ID()) == 1 })
			if name != "its end" && name != "deletion" {
				say(t, r, "more")
				finish(t, r, openai.Completed)
			}
			live := drain(t, sub)
			wantLog(t, live, 0)
			sameFrames(t, stored(t, s, r.ID()), live)
			if items, err := s.InputItems(within(t), org, r.ID()); err != nil || len(items) != 1 {
				t.Errorf("input %v, %v", items, err)
			}
			if err := s.Delete(within(t), org, r.ID()); err != nil || onDisk(t, s, r.ID()) != 0 {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

// Sync waits for the row although no event of the run waits for the disk yet.
func TestSyncWaitsForALateRow(t *testing.T) {
	s := newService(t)
	r := begin(t, s, Begin{Store: true, Late: true})
	if n := onDisk(t, s, r.ID()); n != 0 {
		t.Fatalf("%d rows before anything was written", n)
	}
	announce(t, r)
	if err := r.Sync(within(t)); err != nil || onDisk(t, s, r.ID()) != 1 {
		t.Fatalf("after a sync: %v, %d rows", err, onDisk(t, s, r.ID()))
	}
	finish(t, r, openai.Completed)
}

// Once writing has failed, nothing is begun that is not on record.
func TestNothingIsLateWhileTheDiskIsIll(t *testing.T) {
	s := newService(t)
	s.ailing.Store(true)
	r := begin(t, s, Begin{Store: true, Late: true})
	if onDisk(t, s, r.ID()) != 1 {
		t.Error("it is not on record")
	}
	if s.ailing.Load() {
		t.Error("the disk counts as ill after a write that went well")
	}
	announce(t, r)
	finish(t, r, openai.Completed)
}

// What nobody reads has an end all the same.
func TestUnread(t *testing.T) {
	s := newService(t)
	r := begin(t, s, Begin{Unread: true})
	announce(t, r)
	item := message("msg_1", "assistant", "a")
	if err := r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, item)); err != nil {
		t.Fatal(err)
	}
	say(t, r, "a")
	r.AddUsage(openai.Usage{TotalTokens: 3})
	finish(t, r, openai.Completed)
	if err := r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, item)); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an event behind the end: %v", err)
	}
	got, err := r.Wait(within(t))
	if err != nil || got.Status != openai.Completed || len(got.Output) != 1 || got.Usage.TotalTokens != 3 || got.ID != r.ID() {
		t.Errorf("%+v, %v", got, err)
	}
	if len(r.ring.frames) != 0 {
		t.Errorf("%d events kept for nobody", len(r.ring.frames))
	}
	kept := begin(t, s, Begin{Store: true, Unread: true})
	announce(t, kept)
	finish(t, kept, openai.Completed)
	wantLog(t, stored(t, s, kept.ID()), 0)
}
