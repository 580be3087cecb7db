package container

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
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

// waiting says whether a goroutine of the container's code waits for a lock in a function.
func waiting(function string) bool {
	stacks := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(g, "[sync.Mutex.Lock") && strings.Contains(g, "container.(*Service)."+function+"(") {
			return true
		}
	}
	return false
}

// TestAPlaceThatIsForgottenIsUsedByNobody: its box would not be found by the next command, nor by the server's end.
func TestAPlaceThatIsForgottenIsUsedByNobody(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	old := b.place(c.ID)
	old.mu.Lock()
	got := make(chan *place)
	go func() {
		p, _, err := b.prepare(b.ctx, c.ID)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	eventually(t, "somebody waits for it", func() bool { return waiting("prepare") })
	b.forget(old) // whose row could not be read for somebody else
	old.mu.Unlock()
	if p := <-got; p == old || p != b.known(c.ID) {
		t.Error("it is used")
	}
}

// stuck holds the database until release.
func (b *bench) stuck(t *testing.T) (release func()) {
	t.Helper()
	held, end := make(chan struct{}), make(chan struct{})
	go b.db.Write(b.ctx, func(*sql.Tx) error { close(held); <-end; return nil })
	<-held
	return sync.OnceFunc(func() { close(end) })
}

func (p *place) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended != nil
}

// TestADeleteThatFailsForgetsNothingThatLives, for nobody else knows of it.
func TestADeleteThatFailsForgetsNothingThatLives(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	running := b.exec(t, c.ID, "block")
	release := b.stuck(t)
	defer release()
	ctx, cancel := context.WithCancel(b.ctx)
	failed := make(chan error)
	go func() { failed <- b.Delete(ctx, "org", c.ID) }()
	eventually(t, "it is on its way", b.known(c.ID).refuses)
	cancel()
	err := <-failed
	release()
	if err == nil {
		t.Fatal("it did not fail")
	}
	if r := b.run(t, c.ID, "hello"); r.Stdout.Text != "hello\n" || b.fake.opens != 1 {
		t.Errorf("in %d boxes: %+v", b.fake.opens, r)
	}
	running.Cancel()
	if _, err := running.Wait(b.ctx); err != nil {
		t.Error(err)
	}
}

// TestAnExpiryThatFailsTakesBackItsOwn refusal, and not that of a server that stops meanwhile.
func TestAnExpiryThatFailsTakesBackItsOwn(t *testing.T) {
	for _, stops := range []bool{false, true} {
		b := newBench(t, Limits{})
		c := b.create(t)
		b.run(t, c.ID, "true")
		b.clock.advance(2 * c.IdleTTL)
		r, err := b.row(b.ctx, "org", c.ID)
		if err != nil {
			t.Fatal(err)
		}
		p, release := b.known(c.ID), b.stuck(t)
		ctx, cancel := context.WithCancel(b.ctx)
		failed := make(chan error)
		go func() { failed <- b.expire(ctx, r) }()
		eventually(t, "it is on its way", p.refuses)
		if stops {
			p.refuse(fault.New(fault.Unavailable, "The server is stopping."), nil)
		}
		cancel()
		if err := <-failed; err == nil {
			t.Fatal("it did not fail")
		}
		release()
		if p.refuses() != stops {
			t.Errorf("stops %v, and it refuses: %v", stops, p.refuses())
		}
	}
}

// TestWhatIsTakenBackIsOnesOwn: a server that stops meanwhile goes on to refuse.
func TestWhatIsTakenBackIsOnesOwn(t *testing.T) {
	deleted, stopping := absent("cntr_1"), fault.New(fault.Unavailable, "The server is stopping.")
	p := &place{id: "cntr_1"}
	undo := p.refuse(deleted, deleted)
	p.refuse(stopping, nil)
	if undo(); p.ended != stopping || p.gone != nil {
		t.Errorf("ended %v, gone %v", p.ended, p.gone)
	}
	p = &place{id: "cntr_1", ended: stopping}
	if p.refuse(deleted, deleted)(); p.ended != stopping || p.gone != nil {
		t.Errorf("ended %v, gone %v", p.ended, p.gone)
	}
}
