package sandbox

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// spawner makes processes: through the small process of StartSpawner if there is one, else by itself.
type spawner struct{ far *farSpawner }

type farSpawner struct {
	mu sync.Mutex
	s  *resident.Spawner
}

// running is the process-wide spawner: like the process's own fork, there is one or there is none. Open has no other
// way to learn of it.
var running atomic.Pointer[farSpawner]

// StartSpawner starts a small process that makes boxes on our behalf. A program whose heap will grow calls it early:
// making a user namespace copies the page tables of whoever does it, 43 ms at 1 GiB. Without it Open works alike, and
// slower as the heap grows. stop ends it; boxes live on.
func StartSpawner(ctx context.Context) (stop func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s, pid, err := resident.StartSpawner()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the sandbox's spawner did not start")
	}
	far := &farSpawner{s: s}
	if !running.CompareAndSwap(nil, far) {
		s.Close()
		unix.Wait4(pid, nil, 0, nil)
		return func() {}, nil
	}
	sweepGroups()
	return sync.OnceFunc(func() {
		running.CompareAndSwap(far, nil)
		far.mu.Lock()
		defer far.mu.Unlock()
		s.Close()
		unix.Wait4(pid, nil, 0, nil)
	}), nil
}

func currentSpawner() spawner { return spawner{running.Load()} }

// start clones a resident. mine says that it is our own child, which we must reap.
func (s spawner) start(c resident.Clone, files []int) (pid, pidfd int, mine bool, err error) {
	if s.far == nil {
		pid, pidfd, err = c.Start(files)
		return pid, pidfd, true, err
	}
	s.far.mu.Lock()
	defer s.far.mu.Unlock()
	pid, pidfd, err = s.far.s.Start(c, files)
	return pid, pidfd, false, err
}

func (s spawner) userNamespace(inside, outside int) (int, error) {
	if s.far == nil {
		return resident.UserNamespace(inside, outside)
	}
	s.far.mu.Lock()
	defer s.far.mu.Unlock()
	return s.far.s.UserNamespace(inside, outside)
}
