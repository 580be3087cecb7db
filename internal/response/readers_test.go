package response

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func isConflict(err error) bool { return fault.KindOf(err) == fault.Conflict }

func TestManyReadersSeeOneLog(t *testing.T) {
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprint("background ", background), func(t *testing.T) {
			s := newService(t)
			r := begin(t, s, Begin{Store: true, Background: background})
			announce(t, r)
			const events, readers = 20_000, 64
			var wg sync.WaitGroup
			views, afters := make([][]Frame, readers), make([]int64, readers)
			for i := range readers {
				wg.Go(func() {
					// Half of them come back again and again, some with the id alone, at a number of their own.
					after := int64(rand.IntN(events)) - 1
					afters[i] = after
					ctx := within(t)
					for {
						sub := r.Subscribe(after)
						if i%2 == 0 {
							var err error
							if sub, err = s.Subscribe(ctx, org, r.ID(), after); err != nil {
								t.Error(err)
								return
							}
						}
						for reads := 1 + rand.IntN(20); reads > 0; reads-- {
							frames, err := sub.Next(ctx)
							if errors.Is(err, io.EOF) {
								return
							}
							if err != nil {
								t.Errorf("reader %d: %v", i, err)
								return
							}
							views[i] = append(views[i], frames...)
							after = frames[len(frames)-1].Seq
						}
						sub.Close()
					}
				})
			}
			for i := range events {
				say(t, r, strings.Repeat("x", i%300))
			}
			finish(t, r, openai.Completed)
			wg.Wait()
			sealed := stored(t, s, r.ID())
			wantLog(t, sealed, 0)
			for i, view := range views {
				sameFrames(t, view, sealed[afters[i]+1:])
			}
			r.mu.Lock()
			held := r.ring.bytes
			r.mu.Unlock()
			if held > ringLimit+1<<20 {
				t.Errorf("the run holds %d bytes", held)
			}
		})
	}
}

// A reader of a stored response that stands still, or goes away without a word, holds neither its owner nor its memory.
// The slow one has the rest from the store.
func TestAReaderThatStandsStillHoldsNobody(t *testing.T) {
	s := newService(t)
	r := begin(t, s, Begin{Store: true, Background: true})
	slow, gone := r.Subscribe(-1), r.Subscribe(-1)
	announce(t, r)
	view, err := slow.Next(within(t))
	if err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(t.Context())
	vanished := make(chan error)
	go func() {
		for {
			if _, err := gone.Next(left); err != nil {
				vanished <- err
				return
			}
		}
	}()
	leave()
	if err := <-vanished; !errors.Is(err, context.Canceled) {
		t.Errorf("the one who left got %v", err)
	}
	const events = 40
	for range events { // more than a run may hold
		say(t, r, strings.Repeat("x", ringLimit/20))
	}
	r.mu.Lock()
	held := r.ring.bytes
	r.mu.Unlock()
	if held > ringLimit+1<<20 {
		t.Errorf("the run holds %d bytes", held)
	}
	finish(t, r, openai.Completed)
	view = append(view, drain(t, slow)...)
	wantLog(t, view, 0)
	if len(view) != 3+events+1 {
		t.Errorf("%d events", len(view))
	}
}

// stalled keeps the database from committing until release is called.
func stalled(t testing.TB, db *store.DB) (release func()) {
	t.Helper()
	in, out := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		db.Write(context.Background(), func(*sql.Tx) error { close(in); <-out; return nil })
	})
	<-in
	release = sync.OnceFunc(func() { close(out); wg.Wait() })
	t.Cleanup(release)
	return release
}

// ready returns what a reader could have without waiting.
func ready(sub *Subscription) []Frame {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	frames, _ := sub.Next(ctx)
	return frames
}

func TestForegroundDoesNotWaitForTheDiskAndBackgroundDoes(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	front, back := begin(t, s, Begin{Store: true}), begin(t, s, Begin{Store: true, Background: true})
	announce(t, front)
	announce(t, back)
	for _, r := range []*Run{front, back} {
		if err := r.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	fore, resumed, behind := front.Subscribe(1), must(s.Subscribe(within(t), org, front.ID(), 1)), back.Subscribe(2)
	release := stalled(t, db)
	say(t, front, "now")
	say(t, back, "later")
	if n := len(ready(fore)); n != 1 {
		t.Errorf("a foreground reader has %d events while the disk is busy, want 1", n)
	}
	if n := len(ready(resumed)); n != 0 {
		t.Errorf("a reader who resumed has %d events that are not durable", n)
	}
	if n := len(ready(behind)); n != 0 {
		t.Errorf("a background reader has %d events that are not durable", n)
	}
	release()
	for name, sub := range map[string]*Subscription{"resumed": resumed, "background": behind} {
		if frames, err := sub.Next(within(t)); err != nil || len(frames) != 1 {
			t.Errorf("%s: %d events, %v", name, len(frames), err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestAnUnstoredResponseTouchesNoDisk(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	conn := must(db.Read().Conn(within(t)))
	defer conn.Close()
	version := func() (n int) {
		if err := conn.QueryRowContext(within(t), `PRAGMA data_version`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if _, err := s.Sweep(within(t)); err != nil { // the service's first sweep is over now, too
		t.Fatal(err)
	}
	before := version()
	release := stalled(t, db) // and it does not wait for the disk either
	r := begin(t, s, Begin{})
	r.SetContainer("cntr_1")
	sub := r.Subscribe(-1)
	announce(t, r)
	for i := range 1000 {
		say(t, r, fmt.Sprint(i))
	}
	if err := r.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	finish(t, r, openai.Completed)
	wantLog(t, drain(t, sub), 0)
	release()
	if after := version(); after != before {
		t.Errorf("the database has changed")
	}
	for name, err := range map[string]error{
		"get":       second(s.Get(within(t), org, r.ID())),
		"subscribe": second(s.Subscribe(within(t), org, r.ID(), -1)),
		"delete":    s.Delete(within(t), org, r.ID()),
	} {
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v, want fault.NotFound", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestTheProducerOfAnUnstoredResponseWaitsForItsReader(t *testing.T) {
	s := newService(t)
	big := strings.Repeat("x", 64<<10)
	const events = 200 // six times what a run may hold
	for name, tc := range map[string]struct {
		free func(t *testing.T, r *Run, sub *Subscription)
	}{
		"until it reads": {func(t *testing.T, r *Run, sub *Subscription) {
			frames := drain(t, sub)
			wantLog(t, frames, 0)
			if len(frames) != events+1 {
				t.Errorf("%d events, want %d", len(frames), events+1)
			}
		}},
		"until it leaves": {func(t *testing.T, r *Run, sub *Subscription) { sub.Close(); must(r.Wait(within(t))) }},
		"until cancelled": {func(t *testing.T, r *Run, sub *Subscription) { r.Cancel(errors.New("enough")) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t, s, Begin{})
			sub := r.Subscribe(-1)
			produced := make(chan error, 1)
			go func() {
				for range events {
					if err := r.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, big)); err != nil {
						produced <- err
						return
					}
				}
				produced <- r.Finish(context.Background(), End{Status: openai.Completed})
			}()
			waits(t, r)
			tc.free(t, r, sub)
			if err := <-produced; err != nil {
				t.Error(err)
			}
		})
	}
}

// waits returns when a producer of r waits for room.
func waits(t testing.TB, r *Run) {
	t.Helper()
	until(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.room != nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring.bytes < ringLimit || r.ring.bytes > ringLimit+1<<20 {
		t.Errorf("the producer waits at %d bytes", r.ring.bytes)
	}
}

func TestTheProducerOfAStoredResponseWaitsForTheDisk(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	s := serve(t, db, Options{})
	r := begin(t, s, Begin{Store: true})
	announce(t, r)
	release := stalled(t, db)
	produced := make(chan error, 1)
	go func() {
		for range 200 {
			if err := r.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, strings.Repeat("x", 64<<10))); err != nil {
				produced <- err
				return
			}
		}
		produced <- r.Finish(context.Background(), End{Status: openai.Completed})
	}()
	waits(t, r)
	release()
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	wantLog(t, stored(t, s, r.ID()), 0)
}
