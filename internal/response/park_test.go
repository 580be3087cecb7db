package response

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// shell opens a shell_call at place 0, and shows it with a question.
func shell(t testing.TB, r *Run, status string) {
	t.Helper()
	call := openai.ShellCall{Type: openai.TypeShellCall, ID: "sh_1", CallID: "call_1", Status: openai.InProgress,
		Action: openai.ShellAction{Commands: []string{"make"}}}
	if len(r.Output()) == 0 {
		if err := r.Emit(openai.NewItemEvent(openai.EventItemAdded, 0, openai.NewItem(call))); err != nil {
			t.Fatal(err)
		}
	}
	call.Approval = &openai.ItemApproval{ID: "appr_1", Status: status}
	if err := r.Show(map[int]openai.Item{0: openai.NewItem(call)}); err != nil {
		t.Fatal(err)
	}
}

// park begins a response that waits.
func park(t testing.TB, s *Service, b Begin) *Run {
	t.Helper()
	b.Store, b.Work = true, func() ([]byte, error) { return []byte("work"), nil }
	r := begin(t, s, b)
	announce(t, r)
	r.AddUsage(openai.Usage{TotalTokens: 7})
	r.Journal([]byte("asks"))
	shell(t, r, "pending")
	if err := r.Park(within(t)); err != nil {
		t.Fatal(err)
	}
	return r
}

// claim waits for the next response to go on with.
func claim(t testing.TB, s *Service) (c *Claim) {
	t.Helper()
	until(t, func() bool {
		var err error
		if c, err = s.Claim(within(t), false); err != nil {
			t.Fatal(err)
		}
		return c != nil
	})
	return c
}

func TestAParkedResponseIsNobodys(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	r := park(t, s, Begin{Background: true})
	if c, err := s.Claim(within(t), false); c != nil || err != nil {
		t.Fatalf("claimed without being woken: %+v, %v", c, err)
	}
	resp, err := s.Get(within(t), org, r.ID())
	if err != nil || resp.Status != openai.InProgress || len(resp.Output) != 1 || !strings.Contains(string(resp.Output[0].Raw), `"pending"`) {
		t.Errorf("it shows %+v, %v", resp, err)
	}
	if !Parked(context.Cause(r.Context())) || !Left(context.Cause(r.Context())) {
		t.Errorf("its context ended by %v", context.Cause(r.Context()))
	}
	if err := r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, openai.Item{})); err == nil {
		t.Error("the old owner may still write")
	}
	// No restart takes it over.
	next := serve(t, db, Options{})
	if c, err := next.Claim(within(t), false); c != nil || err != nil {
		t.Fatalf("a restart claims it: %+v, %v", c, err)
	}
	if found, err := next.ownerless(within(t)); err != nil || found {
		t.Errorf("it counts as lost: %v, %v", found, err)
	}
	if open, err := next.Wake(within(t), r.ID()); err != nil || !open {
		t.Fatal(open, err)
	}
	c := claim(t, next)
	if c.Run.ID() != r.ID() || string(c.Work) != "work" || len(c.Journal) != 1 || string(c.Journal[0].Data) != "asks" {
		t.Errorf("claimed %+v", c)
	}
	if now := c.Run.Response(); now.Usage != nil || !strings.Contains(string(now.Output[0].Raw), `"pending"`) {
		t.Errorf("it goes on as %+v", now)
	}
	if open, err := next.Wake(within(t), r.ID()); err != nil || !open {
		t.Errorf("woken again: %v, %v", open, err)
	}
	shell(t, c.Run, "approved")
	finish(t, c.Run, openai.Completed)
	wantLog(t, stored(t, next, r.ID()), 0)
	if open, err := next.Wake(within(t), r.ID()); err != nil || open {
		t.Errorf("after its end it is open: %v, %v", open, err)
	}
	if open, err := next.Wake(within(t), "resp_none"); err != nil || open {
		t.Errorf("one that there is not is open: %v, %v", open, err)
	}
}

// Whoever reads stays, and reads on.
func TestReadersOfAParkedResponseStay(t *testing.T) {
	for name, background := range map[string]bool{"background": true, "foreground": false} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			r := begin(t, s, Begin{Store: true, Background: background})
			early, late := r.Subscribe(-1), make(chan []Frame, 1)
			announce(t, r)
			shell(t, r, "pending")
			go func() { late <- drain(t, early) }()
			if err := r.Park(within(t)); err != nil {
				t.Fatal(err)
			}
			resumed, err := s.Subscribe(within(t), org, r.ID(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Wake(within(t), r.ID()); err != nil {
				t.Fatal(err)
			}
			c := claim(t, s)
			shell(t, c.Run, "approved")
			finish(t, c.Run, openai.Completed)
			all := stored(t, s, r.ID())
			sameFrames(t, <-late, all)
			sameFrames(t, drain(t, resumed), all[1:])
			var end openai.Lifecycle
			if err := json.Unmarshal(all[len(all)-1].Data, &end); err != nil || !strings.Contains(string(end.Response.Output[0].Raw), `"approved"`) {
				t.Errorf("it ends with %s, %v", all[len(all)-1].Data, err)
			}
		})
	}
}

func TestAttendingAParkedResponse(t *testing.T) {
	s := newService(t)
	r := park(t, s, Begin{})
	if _, err := r.Wait(within(t)); !Parked(err) {
		t.Errorf("its run ended with %v", err)
	}
	bell := make(chan time.Time, 1)
	bell <- time.Time{}
	resp, err := s.Attend(within(t), org, r.ID(), bell)
	if err != nil || resp.Status != openai.InProgress || len(resp.Output) != 1 {
		t.Errorf("when the bell rang: %+v, %v", resp, err)
	}
	type end struct {
		resp *openai.Response
		err  error
	}
	ended := make(chan end, 2)
	for _, bell := range []chan time.Time{nil, make(chan time.Time)} {
		go func() {
			resp, err := s.Attend(within(t), org, r.ID(), bell)
			ended <- end{resp, err}
		}()
	}
	for range 2 { // it may wait twice
		if _, err := s.Wake(within(t), r.ID()); err != nil {
			t.Fatal(err)
		}
		if err := claim(t, s).Run.Park(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Wake(within(t), r.ID()); err != nil {
		t.Fatal(err)
	}
	finish(t, claim(t, s).Run, openai.Completed)
	for range 2 {
		if e := <-ended; e.err != nil || e.resp.Status != openai.Completed {
			t.Errorf("%+v, %v", e.resp, e.err)
		}
	}
	if _, err := s.Attend(within(t), "another", r.ID(), nil); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of another organisation: %v", err)
	}
}

func TestAParkedResponseCanBeCancelled(t *testing.T) {
	for name, cancel := range map[string]func(s *Service, r *Run) error{
		"by request": func(s *Service, r *Run) error {
			resp, err := s.Cancel(context.Background(), org, r.ID())
			if err == nil && resp.Status != openai.Cancelled {
				err = errors.New(resp.Status)
			}
			return err
		},
		"by its client's leaving": func(s *Service, r *Run) error {
			r.Abandon(context.Background(), ErrClientGone)
			return nil
		},
		"by its deletion": func(s *Service, r *Run) error { return s.Delete(context.Background(), org, r.ID()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			r := park(t, s, Begin{})
			done := make(chan error, 1)
			go func() { done <- cancel(s, r) }()
			c := claim(t, s)
			if cause := context.Cause(c.Run.Context()); fault.KindOf(cause) != fault.Cancelled {
				t.Errorf("it goes on: %v", cause)
			}
			if err := c.Run.Park(within(t)); fault.KindOf(err) != fault.Cancelled {
				t.Errorf("it was parked again: %v", err)
			}
			finish(t, c.Run, openai.Cancelled)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A cancel and a park at the same time: one of them is first, and the response ends.
func TestCancelAndParkRace(t *testing.T) {
	s := newService(t)
	for range 50 {
		r := begin(t, s, Begin{Store: true, Background: true, Work: func() ([]byte, error) { return []byte("work"), nil }})
		announce(t, r)
		shell(t, r, "pending")
		cancelled := make(chan error, 1)
		go func() {
			_, err := s.Cancel(context.Background(), org, r.ID())
			cancelled <- err
		}()
		if err := r.Park(within(t)); fault.KindOf(err) == fault.Cancelled {
			finish(t, r, openai.Cancelled)
		} else {
			finish(t, claim(t, s).Run, openai.Cancelled)
		}
		if err := <-cancelled; err != nil {
			t.Fatal(err)
		}
	}
}

// A stale owner parks nothing, and a server that stops leaves what waits alone.
func TestWhatStopsLeavesAParkedResponse(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	r := park(t, s, Begin{Background: true})
	sub, err := s.Subscribe(within(t), org, r.ID(), -1)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		for {
			if _, err := sub.Next(context.Background()); err != nil {
				read <- err
				return
			}
		}
	}()
	if err := s.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	r.Abandon(within(t), ErrClientGone)
	if f, ok := fault.As(<-read); !ok || f.Code != "server_stopping" {
		t.Errorf("its reader was told %v", f)
	}
	next := serve(t, db, Options{})
	resp, err := next.Get(within(t), org, r.ID())
	if err != nil || resp.Status != openai.InProgress {
		t.Fatalf("%+v, %v", resp, err)
	}
	stale := begin(t, next, Begin{Store: true, Background: true})
	announce(t, stale)
	if err := stale.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	after := serve(t, db, Options{}) // it takes over what is open and not parked
	if err := stale.Park(within(t)); err == nil {
		var owner string
		if err := db.Read().QueryRow(`SELECT owner FROM response WHERE id = $1`, stale.ID()).Scan(&owner); err != nil || owner == parked {
			t.Errorf("a stale owner parked it: %q, %v", owner, err)
		}
	}
	c := claim(t, after)
	finish(t, c.Run, openai.Completed)
	if _, err := after.Wake(within(t), r.ID()); err != nil {
		t.Fatal(err)
	}
	c = claim(t, after)
	finish(t, c.Run, openai.Completed)
	if _, err := after.Subscribe(within(t), org, r.ID(), -1); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// What cannot be laid to rest is neither parked nor forgotten: those who have read it must not read something else there.
func TestWhatTheDiskRefusesToLayDownIsNotLost(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	ended, released := begin(t, s, Begin{Store: true, Background: true}), begin(t, s, Begin{Store: true, Background: true})
	for _, r := range []*Run{ended, released} {
		announce(t, r)
		shell(t, r, "pending")
		if err := r.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Write(within(t), execTx(`CREATE TRIGGER refuse BEFORE INSERT ON event_block BEGIN SELECT RAISE(ABORT, 'no room'); END`)); err != nil {
		t.Fatal(err)
	}
	if err := ended.Park(within(t)); err == nil || context.Cause(ended.Context()) != nil {
		t.Errorf("parked: %v; its context ended by %v", err, context.Cause(ended.Context()))
	}
	if err := released.Release(within(t)); err == nil {
		t.Error("released though its log is not at rest")
	}
	if err := db.Write(within(t), execTx(`DROP TRIGGER refuse`)); err != nil {
		t.Fatal(err)
	}
	last := ended.ring.end()
	finish(t, ended, openai.Failed)
	log := stored(t, s, ended.ID())
	wantLog(t, log, 0)
	if int64(len(log)) != last+1 {
		t.Errorf("%d events are left of %d and the end", len(log), last)
	}
	if err := s.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	c := claim(t, serve(t, db, Options{}))
	if c.Run.ID() != released.ID() || c.Run.ring.end() != last {
		t.Errorf("%s goes on at %d; readers have seen what is before %d", c.Run.ID(), c.Run.ring.end(), last)
	}
	finish(t, c.Run, openai.Completed)
}
