package response

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const org = "default"

// timeout bounds what a test waits for; only a test that fails takes that long.
const timeout = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	return ctx
}

func openDB(t testing.TB, path string) *store.DB {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func serve(t testing.TB, db *store.DB, o Options) *Service {
	t.Helper()
	o.DB = db
	s, err := New(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever a test has left open is ended at once
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func newService(t testing.TB) *Service {
	t.Helper()
	return serve(t, openDB(t, filepath.Join(t.TempDir(), "hardshell.db")), Options{})
}

func begin(t testing.TB, s *Service, b Begin) *Run {
	t.Helper()
	if b.Org == "" {
		b.Org = org
	}
	b.Object.Model = "scripted"
	r, err := s.Begin(within(t), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func announce(t testing.TB, r *Run) {
	t.Helper()
	if err := r.Announce(); err != nil {
		t.Fatal(err)
	}
}

func say(t testing.TB, r *Run, text string) {
	t.Helper()
	if err := r.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, text)); err != nil {
		t.Fatal(err)
	}
}

func finish(t testing.TB, r *Run, status string) {
	t.Helper()
	if err := r.Finish(within(t), End{Status: status}); err != nil {
		t.Fatal(err)
	}
}

func until(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited too long")
		}
	}
}

// drain reads a subscription to its end.
func drain(t testing.TB, sub *Subscription) []Frame {
	t.Helper()
	var all []Frame
	ctx := within(t)
	for {
		frames, err := sub.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		all = append(all, frames...)
	}
}

// stored reads what a service has of a response, from the beginning.
func stored(t testing.TB, s *Service, id string) []Frame {
	t.Helper()
	sub, err := s.Subscribe(within(t), org, id, -1)
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, sub)
}

// wantLog checks that frames are a whole log from number first on: no gap, the numbers in the payloads, one terminal
// event, at the end.
func wantLog(t testing.TB, frames []Frame, first int64) {
	t.Helper()
	for i, f := range frames {
		typ, seq, err := openai.Peek(f.Data)
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
		if want := first + int64(i); f.Seq != want || seq != want || typ != f.Type {
			t.Fatalf("event %d: frame says %d %s, payload says %d %s, want %d", i, f.Seq, f.Type, seq, typ, want)
		}
		if terminal(f) != (i == len(frames)-1) {
			t.Fatalf("event %d of %d is %s", i, len(frames), f.Type)
		}
	}
}

func terminal(f Frame) bool {
	return f.Type == openai.EventCompleted || f.Type == openai.EventFailed || f.Type == openai.EventIncomplete
}

func sameFrames(t testing.TB, got, want []Frame) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Seq != want[i].Seq || got[i].Type != want[i].Type || !bytes.Equal(got[i].Data, want[i].Data) {
			t.Fatalf("event %d differs:\n got %s\nwant %s", i, got[i].Data, want[i].Data)
		}
	}
}

func TestALogFromBeginToEnd(t *testing.T) {
	for _, tc := range []struct {
		name   string
		begin  Begin
		deltas int
		opens  []string
	}{
		{"foreground", Begin{Store: true}, 10, []string{openai.EventCreated, openai.EventInProgress}},
		{"background", Begin{Store: true, Background: true}, 10, []string{openai.EventCreated, openai.EventQueued, openai.EventInProgress}},
		{"not stored", Begin{}, 10, []string{openai.EventCreated, openai.EventInProgress}},
		{"over many blocks", Begin{Store: true}, 5000, []string{openai.EventCreated, openai.EventInProgress}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newService(t)
			r := begin(t, s, tc.begin)
			sub := r.Subscribe(-1)
			announce(t, r)
			for i := range tc.deltas {
				say(t, r, fmt.Sprint("word ", i))
			}
			finish(t, r, openai.Completed)
			live := drain(t, sub)
			wantLog(t, live, 0)
			for i, typ := range tc.opens {
				if live[i].Type != typ {
					t.Errorf("event %d is %s, want %s", i, live[i].Type, typ)
				}
			}
			if want := len(tc.opens) + tc.deltas + 1; len(live) != want {
				t.Errorf("%d events, want %d", len(live), want)
			}
			if tc.begin.Store {
				sameFrames(t, stored(t, s, r.ID()), live)
			}
		})
	}
}
