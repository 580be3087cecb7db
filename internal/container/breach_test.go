package container

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// counted is a container whose files are counted only when a test says so.
type counted struct {
	*bench
	kept *keeping
	id   string
}

func newCounted(t *testing.T) counted {
	t.Helper()
	b := newBench(t, Limits{})
	c := counted{bench: b, kept: b.restartKeeping(t, nil)}
	b.disk.mu.Lock()
	b.disk.room = func(string) (int64, int64, bool) { return 0, 0, false }
	b.disk.mu.Unlock()
	c.id = c.create(t).ID
	c.run(t, c.id, "true")
	return c
}

// finds has the watchdog find so many megabytes on a disk that is almost full.
func (c counted) finds(megabytes int64) {
	d, p := c.disk, c.known(c.id)
	d.mu.Lock()
	sp := d.spaces[p]
	d.mu.Unlock()
	d.count = func(string) (int64, error) { return megabytes << 20, nil }
	d.recount(p, sp, true)
}

// ending says whether the container's box is ended, or is to be.
func (c counted) ending() bool {
	p := c.known(c.id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.boot.breach.Load() != nil
}

// TestWhoIsBlamed: only what was there the whole time between two counts, or went on in spite of them.
func TestWhoIsBlamed(t *testing.T) {
	t.Run("what was left behind", func(t *testing.T) {
		c := newCounted(t)
		c.finds(1)
		c.finds(1)
		c.finds(2)
		if !c.ending() {
			t.Error("the box goes on")
		}
	})
	t.Run("not the next command, for one that has ended", func(t *testing.T) {
		c := newCounted(t)
		c.finds(1)
		c.run(t, c.id, "true")
		next := c.exec(t, c.id, "block")
		c.finds(5)
		c.finds(5)
		if c.ending() || next.stoppedFor() != nil {
			t.Error("it is stopped for the one before it")
		}
		c.finds(6)
		if r, err := next.Wait(c.ctx); err != nil || r.Breach != BreachFull {
			t.Errorf("what it took itself: %+v, %v", r, err)
		}
	})
	t.Run("not the box, for a command between two counts", func(t *testing.T) {
		c := newCounted(t)
		c.finds(1)
		c.finds(1)
		c.run(t, c.id, "true")
		c.finds(5)
		c.finds(5)
		if c.ending() {
			t.Error("it is ended")
		}
	})
	t.Run("who hides behind short commands", func(t *testing.T) {
		c := newCounted(t)
		c.finds(1)
		for i := range int64(10) {
			if c.ending() {
				return
			}
			c.run(t, c.id, "true")
			c.finds(i + 2)
		}
		t.Error("it writes on")
	})
}

// TestAContainerThatCannotBeCounted is taken for as large as it was.
func TestAContainerThatCannotBeCounted(t *testing.T) {
	c := newCounted(t)
	d, p := c.disk, c.known(c.id)
	d.mu.Lock()
	far := farAbove(c.limits.DiskBytes) + 1
	d.spaces[p].used = far
	d.mu.Unlock()
	d.count = func(string) (int64, error) { return 0, errors.New("no folder can be read") }
	wantFault(t, d.admit(p), fault.Unavailable, BreachDisk)
	if used, _ := d.used(p); used != far {
		t.Errorf("it is said to take %d, not %d", used, far)
	}
	d.count = func(string) (int64, error) { return far - 1, nil }
	must(t, d.admit(p))
}

// TestABreachThatEndsTheBox is seen by commands at every point of their lives.
func TestABreachThatEndsTheBox(t *testing.T) {
	why := &breach{BreachFull, "The disk is almost full."}
	end := func(c counted) {
		d, p := c.disk, c.known(c.id)
		d.mu.Lock()
		d.breach(p, &space{alone: true}, why)
		d.mu.Unlock()
	}
	t.Run("one that runs", func(t *testing.T) {
		c := newCounted(t)
		e := c.exec(t, c.id, "block")
		end(c)
		r, err := e.Wait(c.ctx)
		if err != nil || r.Breach != BreachFull || r.BreachText != why.sentence || !r.Cancelled || r.ExitCode != 137 || r.Signal != "SIGKILL" {
			t.Errorf("got %+v, %v", r, err)
		}
		if r := c.run(t, c.id, "hello"); r.Stdout.Text != "hello\n" || r.Breach != "" {
			t.Errorf("the next: %+v", r)
		}
	})
	t.Run("one that is on its way in", func(t *testing.T) {
		c := newCounted(t)
		ended := false
		c.fake.starting = func(b *fakeBox) {
			if !ended {
				ended = true
				end(c)
				<-b.done
			}
		}
		if r := c.run(t, c.id, "hello"); r.Stdout.Text != "hello\n" || r.Breach != "" || !ended {
			t.Errorf("got %+v", r)
		}
		if c.fake.opens != 2 {
			t.Errorf("%d boxes", c.fake.opens)
		}
	})
	t.Run("one that may have been started", func(t *testing.T) {
		c := newCounted(t)
		dir := filepath.Join(t.TempDir(), "call", strconv.Itoa(0))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		job := process.New(dir, func() {})
		job.Lost(nil)
		c.kept.folders["call"], c.kept.jobs = Gone, map[string]Job{"call": job}
		c.fake.starting = func(b *fakeBox) {
			end(c)
			<-b.done
		}
		e, err := c.Exec(c.ctx, "org", c.id, Command{Key: "call", Script: "hello"})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := e.Wait(c.ctx); err != nil || r.Breach != BreachFull || r.Stdout.Bytes != 0 {
			t.Errorf("got %+v, %v", r, err)
		}
		if c.fake.opens != 1 {
			t.Error("it was tried in a second box")
		}
	})
	t.Run("one that nothing is known of", func(t *testing.T) {
		c := newCounted(t)
		c.kept.folders["call"] = Gone
		c.fake.starting = func(b *fakeBox) {
			end(c)
			<-b.done
		}
		if _, err := c.Exec(c.ctx, "org", c.id, Command{Key: "call", Script: "hello"}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("got %v", err)
		}
		if c.fake.opens != 1 {
			t.Error("it was tried in a second box")
		}
	})
}
