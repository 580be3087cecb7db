package agent

import (
	"slices"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
)

// crew bounds how many responses run at once that no client's connection bounds: those in the background, and those that
// were taken over. What finds no place waits in the order in which it came; beyond a number nothing more is taken in.
type crew struct {
	mu      sync.Mutex
	free    int
	room    int     // how many more may wait
	waiting []*task // the oldest first
	elder   bool    // a response that was taken over waits for a place: it is older than all that wait here
	freed   chan struct{}
}

// task is a response that waits for a place.
type task struct{ start func() }

func newCrew(workers, waiting int) *crew {
	return &crew{free: workers, room: waiting, freed: make(chan struct{}, 1)}
}

// book promises that one more may wait.
func (c *crew) book() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.room == 0 {
		return fault.New(fault.RateLimited, "Too many background responses wait for their turn.").WithTry("again when some have ended")
	}
	c.room--
	return nil
}

// unbook gives a promise back.
func (c *crew) unbook() {
	c.mu.Lock()
	c.room++
	c.mu.Unlock()
}

// submit starts a booked task now, or when its turn has come. It does not wait.
func (c *crew) submit(t *task) {
	c.mu.Lock()
	if c.free > 0 {
		c.free--
		c.room++
		c.mu.Unlock()
		go t.start()
		return
	}
	c.waiting = append(c.waiting, t)
	c.mu.Unlock()
}

// remove takes a task out that waits. It says whether it was there; then its start is the caller's.
func (c *crew) remove(t *task) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.waiting, t)
	if at < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, at, at+1)
	c.room++
	return true
}

// enter takes a place for a response that was taken over, if one is free; if not, the next that is freed is its.
func (c *crew) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elder = c.free == 0
	if c.elder {
		return false
	}
	c.free--
	return true
}

// leave frees a place.
func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.elder && len(c.waiting) > 0 {
		t := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.room++
		go t.start()
		return
	}
	c.free++
	if c.elder {
		select {
		case c.freed <- struct{}{}:
		default:
		}
	}
}

// calm says that nothing that was taken over waits for a place, and gives the places that were kept for it away.
func (c *crew) calm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elder = false
	for c.free > 0 && len(c.waiting) > 0 {
		t := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.free--
		c.room++
		go t.start()
	}
}
