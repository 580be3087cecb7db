package container

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// booting is a service that can boot, and nothing else.
func booting(t *testing.T, f *fake) *Service {
	t.Helper()
	s := &Service{runtime: f, dir: t.TempDir(), fence: 1, now: time.Now, log: slog.New(slog.DiscardHandler), ctx: t.Context(), observe: unobserved{}}
	must(t, os.WriteFile(filepath.Join(s.dir, fenceName), []byte(strconv.FormatUint(s.fence, 10)), 0o600))
	return s
}

// TestABootWaitsForTheOneBeforeIt: two boxes in one folder would share its files, its sockets and its processes' ends.
func TestABootWaitsForTheOneBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{t: t, programs: programs(), living: map[string]*fakeBox{}, opening: map[string]bool{}, hold: make(chan struct{})}
		s, p, spec := booting(t, f), &place{id: "cntr_1"}, Spec{ID: "cntr_1", Dir: t.TempDir()}
		first, second := &boot{done: make(chan struct{})}, &boot{done: make(chan struct{})}
		go s.open(p, spec, first, nil)
		synctest.Wait()
		go s.open(p, spec, second, first)
		synctest.Wait()
		if f.opens != 1 {
			t.Errorf("%d boxes are opened at the same time", f.opens)
		}
		close(f.hold)
		synctest.Wait()
		if !first.settled() || !first.over() || first.err != nil {
			t.Error("the first box goes on")
		}
		if !second.settled() || second.over() || f.opens != 2 || f.boxes() != 1 {
			t.Errorf("%d boxes were opened, %d live: %v", f.opens, f.boxes(), second.err)
		}
		must(t, second.box.Close(t.Context()))
	})
}

type undying struct{ *fakeBox }

func (undying) Close(context.Context) error { return errors.New("its processes did not end") }

// TestNoBoxTakesThePlaceOfOneThatLives, even if nobody is to get that one any more.
func TestNoBoxTakesThePlaceOfOneThatLives(t *testing.T) {
	f := &fake{t: t, living: map[string]*fakeBox{}, opening: map[string]bool{}}
	s, old := booting(t, f), &boot{done: make(chan struct{}), box: undying{}}
	close(old.done)
	for range 3 {
		next := &boot{done: make(chan struct{})}
		s.open(&place{id: "cntr_1"}, Spec{ID: "cntr_1", Dir: t.TempDir()}, next, old)
		if fault.KindOf(next.err) != fault.Unavailable || f.opens != 0 {
			t.Errorf("%d boxes were opened: %v", f.opens, next.err)
		}
		old = next
	}
}

// TestABoxOnItsWayIsNotBlamed for what the one before it took.
func TestABoxOnItsWayIsNotBlamed(t *testing.T) {
	c := newCounted(t)
	d, p := c.disk, c.known(c.id)
	coming := &boot{done: make(chan struct{})}
	p.mu.Lock()
	was := p.boot
	p.boot = coming
	p.mu.Unlock()
	d.mu.Lock()
	d.breach(p, &space{alone: true}, &breach{BreachFull, "The disk is almost full."})
	d.mu.Unlock()
	if coming.breach.Load() != nil {
		t.Error("it is ended before it began")
	}
	p.mu.Lock()
	p.boot = was
	p.mu.Unlock()
}
