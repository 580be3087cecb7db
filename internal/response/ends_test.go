package response

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestExactlyOneTerminalEventUnderARace(t *testing.T) {
	s := newService(t)
	statuses := []string{openai.Completed, openai.Incomplete, openai.Failed, openai.Cancelled}
	for _, store := range []bool{true, false} {
		for range 20 {
			r := begin(t, s, Begin{Store: store})
			sub := r.Subscribe(-1)
			announce(t, r)
			var wg sync.WaitGroup
			var won atomic.Int64
			var winner atomic.Value
			for i := range 8 {
				wg.Go(func() {
					status := statuses[i%len(statuses)]
					switch err := r.Finish(within(t), End{Status: status}); {
					case err == nil:
						won.Add(1)
						winner.Store(status)
					case !isConflict(err):
						t.Errorf("finish: %v", err)
					}
				})
				wg.Go(func() {
					if store {
						if _, err := s.Cancel(within(t), org, r.ID()); err != nil {
							t.Errorf("cancel: %v", err)
						}
					} else {
						r.Cancel(errors.New("stop"))
					}
				})
				wg.Go(func() {
					for range 50 {
						if err := r.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, "x")); err != nil {
							if !isConflict(err) {
								t.Errorf("emit: %v", err)
							}
							return
						}
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Fatalf("%d of 8 calls of Finish have won", won.Load())
			}
			log := drain(t, sub)
			wantLog(t, log, 0)
			resp, err := r.Wait(within(t))
			if err != nil || resp.Status != winner.Load() {
				t.Fatalf("status %v, %v; want %v", resp.Status, err, winner.Load())
			}
			if store {
				sameFrames(t, stored(t, s, r.ID()), log)
			}
		}
	}
}

func TestHowAResponseEnds(t *testing.T) {
	for _, tc := range []struct {
		end   End
		event string
	}{
		{End{Status: openai.Completed}, openai.EventCompleted},
		{End{Status: openai.Incomplete, Reason: openai.ReasonMaxMessages}, openai.EventIncomplete},
		{End{Status: openai.Failed, Error: &openai.ResponseError{Code: "server_error", Message: "no"}}, openai.EventFailed},
		{End{Status: openai.Cancelled}, openai.EventIncomplete},
	} {
		for _, store := range []bool{true, false} {
			t.Run(fmt.Sprint(tc.end.Status, " store ", store), func(t *testing.T) {
				s := newService(t)
				r := begin(t, s, Begin{Store: store})
				announce(t, r)
				item := openai.NewItem(openai.Message{Type: openai.TypeMessage, ID: "msg_1", Role: "assistant", Status: openai.InProgress})
				if err := r.Emit(openai.NewItemEvent(openai.EventItemAdded, 0, item)); err != nil {
					t.Fatal(err)
				}
				r.AddUsage(openai.Usage{TotalTokens: 3})
				r.AddUsage(openai.Usage{TotalTokens: 4})
				r.SetContainer("cntr_1")
				if err := r.Finish(within(t), tc.end); err != nil {
					t.Fatal(err)
				}
				resp, err := r.Wait(within(t))
				if err != nil {
					t.Fatal(err)
				}
				if store {
					row, err := s.Get(within(t), org, r.ID())
					if err != nil {
						t.Fatal(err)
					}
					a, b := must(openai.Marshal(resp)), must(openai.Marshal(row))
					if string(a) != string(b) {
						t.Errorf("the row differs from what the owner got:\n%s\n%s", b, a)
					}
				}
				log := drain(t, r.Subscribe(-1))
				if last := log[len(log)-1]; last.Type != tc.event || string(objectIn(last.Data)) != string(must(openai.Marshal(resp))) {
					t.Errorf("terminal event %s %s", last.Type, last.Data)
				}
				open := resp.Output[0].Status == openai.InProgress
				if done := tc.end.Status == openai.Completed; resp.Status != tc.end.Status || (resp.CompletedAt != nil) != done || open != done {
					t.Errorf("response %+v", resp)
				}
				if (resp.IncompleteDetails != nil) != (tc.end.Reason != "") || (resp.Error != nil) != (tc.end.Error != nil) {
					t.Errorf("why: %+v %+v", resp.IncompleteDetails, resp.Error)
				}
				if resp.Usage.TotalTokens != 7 || resp.ContainerID != "cntr_1" {
					t.Errorf("usage %+v, container %q", resp.Usage, resp.ContainerID)
				}
				if err := r.Finish(within(t), tc.end); !isConflict(err) {
					t.Errorf("a second end: %v", err)
				}
				if err := r.Emit(openai.NewDelta(openai.EventTextDelta, "m", 0, 0, "x")); !isConflict(err) {
					t.Errorf("an event after the end: %v", err)
				}
				if r.Context().Err() == nil {
					t.Error("the context goes on after the end")
				}
			})
		}
	}
}

func TestStatesAreATable(t *testing.T) {
	all := []string{openai.Queued, openai.InProgress, openai.Completed, openai.Incomplete, openai.Failed, openai.Cancelled}
	allowed := map[string]bool{"queued in_progress": true, "queued failed": true, "queued cancelled": true, "in_progress completed": true,
		"in_progress incomplete": true, "in_progress failed": true, "in_progress cancelled": true}
	for _, from := range all {
		for _, to := range all {
			if err := change("resp_1", from, to); (err == nil) != allowed[from+" "+to] || err != nil && !isConflict(err) {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
	s := newService(t)
	r := begin(t, s, Begin{Store: true, Background: true})
	if err := r.Finish(within(t), End{Status: openai.Completed}); !isConflict(err) {
		t.Errorf("a queued response completes: %v", err)
	}
	finish(t, r, openai.Cancelled)
}

func TestCloseLeavesNothingOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hardshell.db")
	db := openDB(t, path)
	s := serve(t, db, Options{})
	var owned, left []*Run
	var wg sync.WaitGroup
	for i := range 20 {
		r := begin(t, s, Begin{Store: i%4 != 0, Background: i%4 == 1})
		announce(t, r)
		if i%2 == 0 {
			left = append(left, r)
			continue
		}
		owned = append(owned, r)
		wg.Go(func() { // an owner that goes on until it is told to stop
			for i := 0; r.Context().Err() == nil; i++ {
				if err := r.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
			if err := r.Finish(context.Background(), End{Status: openai.Cancelled}); err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	wg.Wait()
	cancel() // nobody will end the rest
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for i, runs := range [][]*Run{owned, left} {
		for _, r := range runs {
			resp, err := r.Wait(within(t))
			if err != nil || resp.Status != []string{openai.Cancelled, openai.Failed}[i] {
				t.Errorf("%+v, %v", resp, err)
			}
			wantLog(t, drain(t, r.Subscribe(-1)), 0)
		}
	}
	if _, err := s.Begin(within(t), Begin{Org: org, Store: true}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a new response: %v, want fault.Unavailable", err)
	}
	if n := count(t, db, `SELECT COUNT(*) FROM response WHERE completed IS NULL`); n != 0 {
		t.Errorf("%d rows are open", n)
	}
	if n := count(t, db, `SELECT COUNT(*) FROM event_segment`); n != 0 {
		t.Errorf("%d segments are left", n)
	}
}

func TestAFullDiskIsToldAndMadeGood(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	limit := func(pages string) {
		if err := db.Write(within(t), func(tx *sql.Tx) error { _, err := tx.Exec(`PRAGMA max_page_count = ` + pages); return err }); err != nil {
			t.Fatal(err)
		}
	}
	front, back := begin(t, s, Begin{Store: true}), begin(t, s, Begin{Store: true, Background: true})
	announce(t, front)
	announce(t, back)
	for _, r := range []*Run{front, back} {
		if err := r.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	fore, behind := front.Subscribe(1), back.Subscribe(2)
	limit("1")               // as large as it is now
	noise := func() string { // what does not compress
		var b strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&b, "%x", i*i*7919)
		}
		return b.String()
	}()
	say(t, front, noise)
	say(t, back, noise)
	for _, r := range []*Run{front, back} {
		<-r.Context().Done() // the owner is told
		if cause := context.Cause(r.Context()); fault.KindOf(cause) != fault.Unavailable {
			t.Errorf("cause %v, want fault.Unavailable", cause)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // no long tries
		if err := r.Finish(ctx, End{Status: openai.Completed}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("finish: %v, want fault.Unavailable", err)
		}
		if resp, err := r.Wait(within(t)); err != nil || resp.Status != openai.Failed {
			t.Errorf("%+v, %v", resp, err)
		}
		if resp, err := s.Get(within(t), org, r.ID()); err != nil || resp.Status != openai.Failed {
			t.Errorf("get: %+v, %v", resp, err)
		}
	}
	seen := drain(t, fore)
	if len(seen) != 2 || seen[1].Type != openai.EventFailed {
		t.Errorf("the foreground reader got %d events", len(seen))
	}
	if _, err := behind.Next(within(t)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("the background reader got %v, want fault.Unavailable", err)
	}
	limit("1000000000")
	if err := s.settle(within(t)); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Run{front, back} {
		log := stored(t, s, r.ID())
		wantLog(t, log, 0)
		if last := log[len(log)-1]; last.Type != openai.EventFailed {
			t.Errorf("the stored log ends with %s", last.Type)
		}
	}
}

func TestRetention(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	clock := func() time.Time { return time.Unix(now.Load(), 0) }
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{Clock: clock, Retention: time.Hour})
	var old []*Run
	for range sweepBatch + 10 {
		r := begin(t, s, Begin{Store: true})
		announce(t, r)
		finish(t, r, openai.Completed)
		old = append(old, r)
	}
	running := begin(t, s, Begin{Store: true})
	announce(t, running)
	now.Add(3599)
	young := begin(t, s, Begin{Store: true})
	announce(t, young)
	finish(t, young, openai.Completed)
	if n, err := s.Sweep(within(t)); n != 0 || err != nil {
		t.Fatalf("too early: %d, %v", n, err)
	}
	now.Add(1)
	if n, err := s.Sweep(within(t)); n != int64(len(old)) || err != nil {
		t.Fatalf("swept %d, %v; want %d", n, err, len(old))
	}
	if _, err := s.Get(within(t), org, old[0].ID()); fault.KindOf(err) != fault.NotFound {
		t.Errorf("an old one: %v", err)
	}
	for _, r := range []*Run{running, young} {
		if _, err := s.Get(within(t), org, r.ID()); err != nil {
			t.Errorf("a younger one: %v", err)
		}
	}
	if n := count(t, db, `SELECT (SELECT COUNT(*) FROM event_block) + (SELECT COUNT(*) FROM response_input)`); n != 1+2 {
		t.Errorf("%d rows hang about", n)
	}
	finish(t, running, openai.Completed)
}

// What a flush has left lying about counts against nobody's responses.
func TestDeadSegmentsCostNoResponse(t *testing.T) {
	const most = 1 << 20
	s := serve(t, openDB(t, filepath.Join(t.TempDir(), "hardshell.db")), Options{MaxBytes: most})
	r := begin(t, s, Begin{Store: true, Background: true})
	announce(t, r)
	for range 40 {
		say(t, r, strings.Repeat("said often, and small in a block ", 2000))
	}
	until(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.durable == r.ring.end() })
	finish(t, r, openai.Completed)
	until(t, func() bool {
		s.log.mu.Lock()
		defer s.log.mu.Unlock()
		return len(s.log.live) == 0 && len(s.log.dead) > 0
	})
	if used, err := s.used(within(t)); err != nil || used <= most {
		t.Fatalf("%d bytes are used, %v: no dead segment is in the way", used, err)
	}
	if removed, err := s.Sweep(within(t)); err != nil || removed != 0 {
		t.Errorf("removed %d, %v", removed, err)
	}
}

func TestTheDatabaseKeepsToItsSize(t *testing.T) {
	const most = 1 << 20
	s := serve(t, openDB(t, filepath.Join(t.TempDir(), "hardshell.db")), Options{MaxBytes: most})
	running := begin(t, s, Begin{Store: true, Background: true})
	announce(t, running)
	var ids []string
	for range 200 {
		r := begin(t, s, Begin{Store: true})
		announce(t, r)
		for range 100 {
			say(t, r, rand.Text()+rand.Text()+rand.Text()+rand.Text())
		}
		finish(t, r, openai.Completed)
		ids = append(ids, r.ID())
	}
	if _, err := s.Wait(within(t), org, ids[len(ids)-1]); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.Sweep(within(t)); err != nil || removed == 0 || removed == int64(len(ids)) {
		t.Fatalf("removed %d, %v", removed, err)
	}
	if used, err := s.used(within(t)); err != nil || used > most {
		t.Errorf("%d bytes are used, %v", used, err)
	}
	if _, err := s.Get(within(t), org, ids[0]); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the oldest: %v", err)
	}
	for _, id := range []string{ids[len(ids)-1], running.ID()} {
		if _, err := s.Get(within(t), org, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
