package session

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// The rule, played by hand: 70 sessions of which the first ones have exited (codex.md 7, case 14).
func TestTheOldestExitedGoFirst(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		var all []*Session
		for i := range 70 {
			s := start(t, store, inPipe(box, "job"))
			if i < 6 {
				box.last().exits(i)
				<-s.Done()
			}
			all = append(all, s)
			first := collect(t, s, Wait{})
			if told := strings.Contains(strings.Join(first.Notices, " "), "sessions are kept"); told != (i >= 59) {
				t.Errorf("session %d: %q", i, first.Notices)
			}
			if told := strings.Contains(strings.Join(first.Notices, " "), "forgotten to make room; it had exited with code"); told != (i >= 64) {
				t.Errorf("session %d: %q", i, first.Notices)
			}
		}
		for i, s := range all {
			_, err := store.Get(s.ID())
			if (i < 6) != (err != nil) {
				t.Errorf("session %d: %v", i, err)
			}
			if i < 6 && (fault.KindOf(err) != fault.Expired || !strings.Contains(err.Error(), "exited with code")) {
				t.Errorf("session %d: %v", i, err)
			}
		}
		// All live now: the least recently used goes, and its command with it.
		wantKind(t, all[6].Write(t.Context(), []byte("x")), fault.Unsupported) // refused, and a use all the same
		collect(t, all[7], Wait{})
		s := start(t, store, inPipe(box, "job"))
		if got := collect(t, s, Wait{}); !strings.Contains(got.Notices[0], "was killed") {
			t.Errorf("%q", got.Notices)
		}
		if _, err := store.Get(all[8].ID()); err == nil || !box.jobs[8].killed || box.jobs[6].killed || box.jobs[7].killed {
			t.Errorf("%v", err)
		}
	})
}

// TestPruningKeepsItsWord plays random lives against a model of the rule.
func TestPruningKeepsItsWord(t *testing.T) {
	for seed := range uint64(30) {
		box := newFake(t)
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			o := Options{Max: 3 + r.IntN(10), Recent: 1 + r.IntN(4)}
			store := New(o)
			defer store.Close()
			var order []int // numbers, the least recently used first
			exited := map[int]bool{}
			byID := map[int]*Session{}
			used := func(id int) { order = append(slices.DeleteFunc(order, func(o int) bool { return o == id }), id) }
			recent := min(o.Recent, o.Max-1)
			for range 200 {
				time.Sleep(time.Millisecond)
				switch k := r.IntN(10); {
				case k < 5 || len(order) == 0:
					want, told := 0, ""
					if len(order) == o.Max {
						old := order[:len(order)-recent]
						want = old[0]
						if i := slices.IndexFunc(old, func(id int) bool { return exited[id] }); i >= 0 {
							want, told = old[i], "forgotten"
						} else {
							told = "killed"
						}
					}
					s := start(t, store, inPipe(box, "job"))
					if want != 0 {
						if _, err := store.Get(want); fault.KindOf(err) != fault.Expired {
							t.Fatalf("seed %d: %d should have gone, %v", seed, want, err)
						}
						if text := collect(t, s, Wait{}).Notices; !strings.Contains(strings.Join(text, " "), told) {
							t.Fatalf("seed %d: told %q, want %q", seed, text, told)
						}
						synctest.Wait()
						if !byID[want].Over() {
							t.Fatalf("seed %d: %d lives on", seed, want)
						}
						order = slices.DeleteFunc(order, func(o int) bool { return o == want })
					}
					byID[s.ID()] = s
					used(s.ID())
				case k < 8:
					id := order[r.IntN(len(order))]
					collect(t, byID[id], Wait{})
					used(id)
				default:
					id := order[r.IntN(len(order))]
					byID[id].Kill() // it ends, which is no use of it
					<-byID[id].Done()
					exited[id] = true
				}
				list := store.List()
				if len(list) > o.Max || len(list) != len(order) {
					t.Fatalf("seed %d: %d sessions, want %d of at most %d", seed, len(list), len(order), o.Max)
				}
			}
		})
	}
}

func TestNamesAndNumbers(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		spec := inPipe(box, "job")
		spec.ID, spec.Name = 1001, "build"
		s := start(t, store, spec)
		for _, name := range []string{"build", "1001"} {
			if got, err := store.Named(name); err != nil || got != s {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := store.Start(t.Context(), spec)
		wantKind(t, err, fault.Conflict)
		spec.ID = 1002
		_, err = store.Start(t.Context(), spec)
		wantKind(t, err, fault.Conflict)
		spec.ID, spec.Name = -1, ""
		_, err = store.Start(t.Context(), spec)
		wantKind(t, err, fault.Invalid)
		_, err = store.Get(4711)
		wantKind(t, err, fault.NotFound)
		_, err = store.Named("nobody")
		wantKind(t, err, fault.NotFound)
		if list := store.List(); len(list) != 1 || list[0].ID != 1001 || list[0].Name != "build" {
			t.Errorf("%+v", list)
		}
		box.last().exits(4)
		<-s.Done()
		spec.ID, spec.Name = 1001, "build" // what has ended gives way
		s = start(t, store, spec)
		if got := collect(t, s, Wait{}); len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "number is used again; it had exited with code 4") {
			t.Errorf("%q", got.Notices)
		}
		box.last().exits(5)
		<-s.Done()
		spec.ID = 1002
		s = start(t, store, spec)
		if got := collect(t, s, Wait{}); len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "name is used again; it had exited with code 5") {
			t.Errorf("%q", got.Notices)
		}
		spec.ID, spec.Name = 1001, ""
		start(t, store, spec)
		box.last().exits(4)
		synctest.Wait()
		if gone := store.Prune(); len(gone) != 1 || gone[0].ID != 1001 || gone[0].Exit.Code != 4 || gone[0].Alive {
			t.Errorf("%+v", gone)
		}
		_, err = store.Get(1001)
		wantKind(t, err, fault.Expired)
		box.fail = fault.New(fault.Isolation, "no box")
		_, err = store.Start(t.Context(), inPipe(box, "job"))
		wantKind(t, err, fault.Isolation)
		if len(store.List()) != 1 { // 1002 lives
			t.Errorf("%+v", store.List())
		}
	})
}

func TestClose(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		var let atomic.Int32
		spec := inPipe(box, "job")
		spec.Ended = func(int, process.Exit, error) { let.Add(1) }
		start(t, store, spec)
		start(t, store, spec)
		must(t, store.Close())
		if let.Load() != 2 || !box.jobs[0].killed || !box.jobs[1].killed {
			t.Errorf("let go %d times", let.Load())
		}
		_, err := store.Start(t.Context(), spec)
		wantKind(t, err, fault.Conflict)
		must(t, store.Close())
	})
}
