// Package container is a place that outlives a command: its row, its life from creation to expiry, its workspace, its
// files, its limits, and the commands that run in it.
//
// It confines nothing itself: a [Runtime] does. What holds: a container is a row before it is anything else, and
// nothing is started until its first command; at most one box lives per container, however many commands race; the
// workspace on disk is the only truth about files; idle time counts from the end of the last command; a row of another
// organisation looks absent; what was asked of the isolation and what was got are both told.
package container

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// Options are what a Service is made of. DB, Runtime and Dir are required.
type Options struct {
	DB      *store.DB
	Runtime Runtime
	Dir     string       // the folder that holds a folder per container; made if absent
	Blobs   *blob.Stores // where the files of expired containers go; nil leaves them in their folders
	Uploads Uploads      // the files that requests name by id; nil: there are none
	Skills  Skills       // the bundles that requests mount; nil: there are none
	Limits  Limits
	Network Network
	Clock   func() time.Time // nil is time.Now
	Logger  *slog.Logger     // nil discards
	// Observer is told of boots and commands; nil is nobody.
	Observer Observer
}

// Observer is told what a service does. It is called on its path and must not wait. What was begun ends.
type Observer interface {
	Booted(took time.Duration, err error)
	CommandBegan()
	CommandEnded(r *Result, err error)
}

// unobserved is nobody.
type unobserved struct{}

func (unobserved) Booted(time.Duration, error) {}
func (unobserved) CommandBegan()               {}
func (unobserved) CommandEnded(*Result, error) {}

// Service keeps the containers of one data folder. It is the only one on that folder.
type Service struct {
	db      *store.DB
	runtime Runtime
	dir     string
	limits  Limits
	network Network
	seal    sealer
	now     func() time.Time
	log     *slog.Logger
	watch   *notifier
	slots   slots
	disk    *disk
	blobs   *blob.Stores
	uploads Uploads
	skills  Skills
	observe Observer
	// mounting is held while a container gets skills: two requests may bring one under the same name.
	mounting sync.Mutex
	moves    moves
	// archiving has a token per workspace that is on its way into an archive.
	archiving chan struct{}
	seenBox   atomic.Pointer[Isolation] // of the last box that was opened

	fence    uint64 // of this process, for the boxes
	fences   fences // of the responses' owners, for their commands
	rebooted bool   // the machine ended without us: what was not on the disk is lost

	ctx  context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	places map[string]*place
	closed bool
}

// New opens the containers of a data folder. What an earlier gateway left alive there is adopted, and its commands go on;
// what nobody answers for is ended, and folders that no living row owns are removed.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{db: o.DB, runtime: o.Runtime, dir: o.Dir, limits: o.Limits.withDefaults(), network: o.Network, now: o.Clock, log: o.Logger,
		archiving: make(chan struct{}, maxArchiving), blobs: o.Blobs, uploads: o.Uploads, skills: o.Skills, places: map[string]*place{}}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.observe = o.Observer; s.observe == nil {
		s.observe = unobserved{}
	}
	s.disk = newDisk(s)
	s.slots.count = maxSlots
	if bounded, ok := s.runtime.(Bounded); ok {
		s.slots.count = max(1, min(maxSlots, bounded.MaxContainers()))
	}
	var undo cleanup.Stack
	defer undo.Run()
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	s.dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	if s.seal, err = newSealer(dir); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	if err := s.db.Migrate(ctx, "container", migrations); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	s.watch = newNotifier(s.log)
	undo.Add(s.watch.close)
	if err := s.claim(); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	if err := s.adopt(ctx); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	// The service outlives the context that opened it: Close ends it.
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.wg.Go(s.reapUntilClosed)
	s.wg.Go(func() { s.disk.watchUntil(s.ctx) })
	undo.Release()
	return s, nil
}

func (s *Service) folder(id string) string { return filepath.Join(s.dir, id) }

func (s *Service) spec(r row) Spec {
	memory, err := int64(0), error(nil)
	if r.MemoryLimit != "" {
		if memory, err = ParseMemory(r.MemoryLimit); err != nil {
			s.log.Error("a stored memory limit is not readable", "container", r.ID, "memory_limit", r.MemoryLimit)
		}
	}
	spec := Spec{ID: r.ID, Dir: s.folder(r.ID), Slot: int(r.slot.Int64), MemoryBytes: memory, Pids: s.limits.Pids, CPUs: s.limits.CPUs,
		Lease: min(r.IdleTTL, maxLease), Fence: s.fence}
	if spec.Egress, err = s.egress(r); err != nil {
		spec.refused = failed(err, "The container's network policy can't be held.")
		s.log.Error("a container's network policy can't be held", "container", r.ID, "error", err)
	}
	return spec
}

// Create makes a container: a row. Nothing is started. Where the runtime can make no box, its refusal is the answer:
// a container that no command can run in would be a promise.
func (s *Service) Create(ctx context.Context, org string, spec CreateSpec) (Container, error) {
	spec, err := s.limits.check(spec)
	if err != nil {
		return Container{}, err
	}
	if err := s.checkUploads(ctx, org, spec.FileIDs); err != nil {
		return Container{}, err
	}
	if _, err := s.CheckSkills(ctx, org, spec.Skills); err != nil {
		return Container{}, err
	}
	if err := s.runtime.Supported(ctx); err != nil {
		return Container{}, err
	}
	network, err := s.admitNetwork(spec)
	if err != nil {
		return Container{}, err
	}
	slot, err := s.slots.next()
	if err != nil {
		return Container{}, err
	}
	now := time.UnixMilli(s.now().UnixMilli())
	r := row{
		Container: Container{ID: id.At(id.Container, now), Org: org, Name: spec.Name, Status: Active, MemoryLimit: spec.MemoryLimit,
			IdleTTL: spec.IdleTTL, Network: spec.Network, Created: now, LastActive: now},
		slot: sql.NullInt64{Int64: int64(slot), Valid: true},
		due:  millis(now.Add(spec.IdleTTL)),
	}
	r.DiskLimit = s.limits.DiskBytes
	if network != nil {
		if r.secrets, err = s.seal.seal(r.ID, network.Secrets); err != nil {
			s.slots.free(slot)
			return Container{}, err
		}
	}
	if err := s.insert(ctx, r); err != nil {
		s.slots.free(slot)
		return Container{}, err
	}
	err = s.stage(ctx, r.Container, spec.FileIDs)
	if err == nil {
		err = s.AddSkills(ctx, org, r.ID, spec.Skills)
	}
	if err != nil {
		if undo := s.Delete(context.WithoutCancel(ctx), org, r.ID); undo != nil {
			s.log.Error("a container whose files and skills could not be put into it was not deleted", "container", r.ID, "error", undo)
		}
		return Container{}, err
	}
	return r.Container, nil
}

// MaxFileBytes is the most that one uploaded file may have.
func (s *Service) MaxFileBytes() int64 { return s.limits.MaxFileBytes }

// Get returns a container as it is now. One that is deleted, or another organisation's, is not found.
func (s *Service) Get(ctx context.Context, org, id string) (Container, error) {
	r, err := s.settled(ctx, org, id)
	return r.Container, err
}

// Usable returns a container in which commands can run: it is Get, and refuses one whose life is over.
func (s *Service) Usable(ctx context.Context, org, id string) (Container, error) {
	r, err := s.settled(ctx, org, id)
	if err == nil {
		err = usable(r.Container)
	}
	if r.Status == Expired && err != nil {
		err = s.expired(ctx, r)
	}
	return r.Container, err
}

func usable(c Container) error {
	switch c.Status {
	case Active:
		return nil
	case Expired:
		return fault.New(fault.Expired, "Container %s has expired: nothing used it for %s.", c.ID, c.IdleTTL).
			WithCode("container_expired").WithTry("a new container")
	}
	return fault.New(fault.Expired, "Container %s is %s.", c.ID, c.Status).WithCode("container_expired").WithTry("a new container")
}

// settled reads a container, and expires it first when its time is up and the reaper has not come by.
func (s *Service) settled(ctx context.Context, org, id string) (row, error) {
	r, err := s.row(ctx, org, id)
	if err != nil {
		return row{}, err
	}
	if seen := s.seen(r); seen.Status == r.Status {
		return seen, nil
	}
	if err := s.expire(ctx, r); err != nil {
		return row{}, err
	}
	if r, err = s.row(ctx, org, id); err != nil {
		return row{}, err
	}
	return s.seen(r), nil
}

// Delete ends a container's processes and removes its workspace. Its row stays for a while, and looks absent.
func (s *Service) Delete(ctx context.Context, org, id string) error {
	r, err := s.row(ctx, org, id)
	if err != nil {
		return err
	}
	p := s.place(id)
	undo := p.refuse(absent(id), absent(id))
	done, err := s.end(ctx, id, Deleted, millis(s.now()))
	if fault.KindOf(err) == fault.Unavailable && r.slot.Valid {
		// On a full disk it may be this very container that must go before anything can be written.
		if err = s.empty(context.WithoutCancel(ctx), p, r); err == nil {
			done, err = s.end(ctx, id, Deleted, millis(s.now()))
		}
	}
	if err != nil {
		undo()
		if !p.alive() { // what lives in it must be found
			s.forget(p) // its folders may be gone: the next use makes them again
		}
		return err
	}
	if !done {
		return absent(id) // somebody else deleted it, and removes it
	}
	// It is deleted now; a caller who goes away does not change that.
	s.clear(context.WithoutCancel(ctx), r)
	return nil
}

// clear ends what lives of a container and removes its folder. What fails is tried again by the reaper, since the row
// stays due.
func (s *Service) clear(ctx context.Context, r row) {
	if !r.slot.Valid && r.archive == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	ctx, end, err := s.moves.begin(ctx, r.ID, true)
	if err != nil {
		return
	}
	defer end()
	p := s.place(r.ID)
	p.refuse(absent(r.ID), absent(r.ID))
	defer s.forget(p)
	if r.slot.Valid {
		err = s.empty(ctx, p, r)
	}
	first := false
	if err == nil {
		first, err = s.freed(ctx, r.ID)
	}
	if err != nil {
		s.log.Error("a container's folder could not be removed", "container", r.ID, "error", err)
	}
	if first { // two may be at it, and by now the slot may be another container's
		s.slots.free(int(r.slot.Int64))
	}
	if err == nil && r.archive != "" {
		s.sweepBlobs(ctx, r.ID)
	}
}

// empty ends a container's box and removes its folders.
func (s *Service) empty(ctx context.Context, p *place, r row) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := s.shut(ctx, p); err != nil {
		return err
	}
	return s.runtime.Remove(ctx, s.spec(r))
}

// closeTimeout bounds the end of one container: killing, unmounting, removing its files.
const closeTimeout = time.Minute

// Close ends every box of this service and waits for that. Containers stay; their processes do not.
func (s *Service) Close(ctx context.Context) error { return s.finish(ctx, s.quit) }

// finish ends the service; end is what becomes of each place's box.
func (s *Service) finish(ctx context.Context, end func(context.Context, *place) error) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	places := make([]*place, 0, len(s.places))
	for _, p := range s.places {
		places = append(places, p)
	}
	s.mu.Unlock()
	s.stop() // the reaper, and boots on their way
	stopping := fault.New(fault.Unavailable, "The server is stopping.")
	errs := make(chan error, len(places))
	for _, p := range places {
		go func() {
			p.refuse(stopping, nil)
			errs <- end(ctx, p)
		}()
	}
	var first error
	for range places {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	if err := s.flush(ctx); err != nil && first == nil {
		first = err
	}
	quiet := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(quiet)
	}()
	select {
	case <-quiet:
	case <-ctx.Done():
		if first == nil {
			first = fmt.Errorf("close containers: commands have not ended: %w", context.Cause(ctx))
		}
	}
	s.watch.close()
	s.inOrder()
	return first
}
