package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// An Adopter is a runtime whose boxes and commands outlive the process that opened them, by the spec's Lease. A runtime
// that does not implement it can't reattach: what ran in its boxes when their owner went is lost.
type Adopter interface {
	// Adopt connects to the box that lives of a container, as its new owner, whose fence the spec has. It is nil when
	// none lives. One that can't be adopted, such as one of a version that is not understood, is ended.
	Adopt(ctx context.Context, spec Spec) (Keeper, error)
	// Recall is Keeper.Reattach for a container without a box.
	Recall(ctx context.Context, spec Spec, c process.Command) (Found, error)
	// Settle says that a command's end is journaled: what is kept of it may go when room is needed.
	Settle(ctx context.Context, spec Spec, key string, index int) error
}

// A Keeper is a Box of an Adopter.
type Keeper interface {
	Box
	// Reattach says what became of a command, of which it reads Key, Index, Lease and Fence, and starts nothing.
	Reattach(ctx context.Context, c process.Command) (Found, error)
	// Live are the calls that go on, and LastEnd is when the last of those ended that ended before the box was adopted.
	Live() []Job
	LastEnd() time.Time
	// Detach lets go of the box, which lives on for its lease. Its jobs end with fault.Conflict, code handed_over.
	Detach() error
	// Rest ends the box if nothing lives in it, and says whether it did. Nothing is started meanwhile.
	Rest() (bool, error)
	// Restarted says that the container had a box before this one, and lost it with all its processes.
	Restarted() bool
}

// Found is a command that was looked for.
type Found struct {
	State CallState
	Job   Job       // nil when it was never started
	Begun time.Time // not after its start
}

// maxLease bounds how long a box lives without a gateway. A shorter idle time bounds it too: nobody could use it longer.
const maxLease = 24 * time.Hour

// The files of the service's folder beside the containers' own.
const (
	fenceName = "fence" // of the last process that opened the folder
	bootName  = "boot"  // the machine's run in which it was last left in order
)

// claim makes this process the folder's owner, with a fence above that of every process before it.
func (s *Service) claim() error {
	text, err := os.ReadFile(filepath.Join(s.dir, fenceName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	last, _ := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	s.fence = max(last+1, uint64(time.Now().UnixNano())) // clocks go back, fences don't
	if err := replaceFile(filepath.Join(s.dir, fenceName), strconv.FormatUint(s.fence, 10)); err != nil {
		return err
	}
	left, err := os.ReadFile(filepath.Join(s.dir, bootName))
	if errors.Is(err, fs.ErrNotExist) {
		return replaceFile(filepath.Join(s.dir, bootName), bootID())
	}
	s.rebooted = string(left) != bootID()
	return err
}

// owned says that no later process has claimed the folder.
func (s *Service) owned() error {
	text, err := os.ReadFile(filepath.Join(s.dir, fenceName))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "The containers' folder is not to be read.")
	}
	if string(text) != strconv.FormatUint(s.fence, 10) {
		return takenOver()
	}
	return nil
}

func takenOver() error {
	return fault.New(fault.Conflict, "Another server has taken over the containers.").WithCode(CodeHandedOver)
}

// inOrder notes that this run of the machine has lost nothing: from here on a folder that is absent was never made.
func (s *Service) inOrder() {
	if s.owned() == nil {
		if err := replaceFile(filepath.Join(s.dir, bootName), bootID()); err != nil {
			s.log.Error("the machine's run could not be noted", "error", err)
		}
	}
}

func bootID() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(text))
}

// replaceFile writes a small file so that it is whole or as before, whatever happens.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// maxAdopting is how many containers are looked at together at the start: one that does not answer holds up no other.
const maxAdopting = 16

// adopt takes over what an earlier gateway left alive, ends what nobody answers for, and finishes what was begun to be
// removed.
func (s *Service) adopt(ctx context.Context) error {
	rows, err := s.foldedRows(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(rows))
	var all sync.WaitGroup
	gate := make(chan struct{}, maxAdopting)
	for _, r := range rows {
		known[r.ID] = true
		s.slots.take(int(r.slot.Int64))
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			if r.Status == Deleted {
				s.clear(ctx, r)
				return
			}
			if _, err := os.Stat(s.folder(r.ID)); err != nil {
				return // never prepared
			}
			if err := s.adoptOne(ctx, r); err != nil {
				s.log.Error("a container's old processes could not be adopted", "container", r.ID, "error", err)
			}
		})
	}
	all.Wait()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if known[e.Name()] || !id.Valid(id.Container, e.Name()) {
			continue
		}
		if err := s.runtime.Remove(ctx, Spec{ID: e.Name(), Dir: s.folder(e.Name()), Fence: s.fence}); err != nil {
			s.log.Error("a stray container folder could not be removed", "container", e.Name(), "error", err)
		}
	}
	return nil
}

// adoptOne adopts the box of an active container, and ends that of any other.
func (s *Service) adoptOne(ctx context.Context, r row) error {
	spec := s.spec(r)
	adopter, can := s.runtime.(Adopter)
	if !can || r.Status != Active || spec.refused != nil {
		if reclaimer, ok := s.runtime.(Reclaimer); ok {
			return reclaimer.Reclaim(ctx, spec)
		}
		return nil
	}
	p := s.place(r.ID)
	narrowed, err := p.narrowing.restore(spec)
	if err != nil {
		s.log.Error("an adopted container gets no network", "container", r.ID, "error", err)
	}
	spec.Narrowed = &narrowed
	box, err := adopter.Adopt(ctx, spec)
	spec.Narrowed = nil
	if err != nil || box == nil {
		s.forget(p)
		return err
	}
	ws, err := s.runtime.Prepare(ctx, spec)
	if err != nil {
		s.forget(p)
		return errors.Join(err, box.Close(ctx))
	}
	b := &boot{done: make(chan struct{}), box: box}
	close(b.done)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spec, p.ws, p.boot, p.tree = spec, &ws, b, s.watch.add(ws.Dir)
	p.active, p.stored = r.LastActive, r.LastActive
	if end := box.LastEnd(); end.After(r.LastActive) {
		p.active = end
	}
	isolation := box.Isolation()
	s.seenBox.Store(&isolation)
	live := box.Live()
	s.keep(p, box, live)
	for _, job := range live {
		p.running++
		s.wg.Go(func() {
			<-job.Done()
			s.uncount(p)
		})
	}
	s.log.Info("container adopted", "container", r.ID, "calls", len(live))
	return nil
}

// HandOver ends the service and lets its boxes and their commands live on for their lease: the next New on this folder
// adopts them. Executions end with fault.Conflict, code handed_over. Where the runtime can't do that, it is Close.
func (s *Service) HandOver(ctx context.Context) error { return s.finish(ctx, s.letGo) }

// quit ends a place's box, if there is one. Where nothing lives in it, nothing is lost, and nobody is told so later.
func (s *Service) quit(ctx context.Context, p *place) error {
	s.rest(p, 0)
	return s.shut(ctx, p)
}

// letGo detaches a place's box, if there is one.
func (s *Service) letGo(ctx context.Context, p *place) error {
	p.mu.Lock()
	b := p.boot
	p.mu.Unlock()
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	keeper, ok := b.box.(Keeper)
	if !ok || s.rest(p, 0) {
		return s.shut(ctx, p)
	}
	p.mu.Lock()
	tree := p.tree
	p.tree = nil
	p.mu.Unlock()
	s.watch.remove(tree)
	p.narrowing.pass()
	if err := keeper.Detach(); err != nil {
		return fmt.Errorf("hand over container: %w", err)
	}
	return nil
}

// restAfter is how long a container does nothing before it is looked whether anything lives in it at all. One in which
// nothing does has no process of ours either; its next command boots it anew, in a few milliseconds.
const restAfter = 30 * time.Second

// restIdle ends the boxes in which nothing lives.
func (s *Service) restIdle() {
	s.mu.Lock()
	places := make([]*place, 0, len(s.places))
	for _, p := range s.places {
		places = append(places, p)
	}
	s.mu.Unlock()
	for _, p := range places {
		s.rest(p, restAfter)
	}
}

// rest ends a place's box if it was idle for so long and nothing lives in it. Whoever wants the box meanwhile waits.
func (s *Service) rest(p *place, idle time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.boot
	if b == nil || p.running > 0 || s.now().Before(p.active.Add(idle)) {
		return false
	}
	if !b.settled() {
		return false // booting, for somebody
	}
	keeper, ok := b.box.(Keeper)
	if !ok || b.over() {
		return false
	}
	ended, err := keeper.Rest()
	if err != nil {
		s.log.Error("an idle box could not be ended", "container", p.id, "error", err)
	}
	if ended {
		p.boot = nil
		s.log.Info("container rests", "container", p.id)
	}
	return ended
}
