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

// StartSpawner starts a small process that makes boxes on our behalf, and keeps what a box begins with ready for the
// next. Without it Open works alike, and takes longer. stop ends it; boxes live on.
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
		far.mu.Lock()
		defer far.mu.Unlock()
		if running.CompareAndSwap(far, nil) {
			s.Close()
			unix.Wait4(pid, nil, 0, nil)
		}
	}), nil
}

func currentSpawner() spawner { return spawner{running.Load()} }

// start clones a resident. mine says that it is our own child, which we must reap.
func (s spawner) start(c resident.Clone, files []int) (pid, pidfd int, mine bool, err error) {
	if s.far != nil {
		pid, pidfd, err = askFar(s.far, func(far *resident.Spawner) (int, int, error) { return far.Start(c, files) })
		if !s.far.s.Lost(err) {
			return pid, pidfd, false, err
		}
	}
	pid, pidfd, err = c.Start(files)
	return pid, pidfd, true, err
}

func (s spawner) userNamespace(inside, outside int) (int, error) {
	if s.far != nil {
		_, fd, err := askFar(s.far, func(far *resident.Spawner) (int, int, error) {
			fd, err := far.UserNamespace(inside, outside)
			return 0, fd, err
		})
		if !s.far.s.Lost(err) {
			return fd, err
		}
	}
	return resident.UserNamespace(inside, outside)
}

// askFar asks the spawner, one question at a time. A spawner that is lost is let go: from then on this process makes
// its boxes itself, which is slower and works.
func askFar(far *farSpawner, ask func(*resident.Spawner) (int, int, error)) (pid, fd int, err error) {
	far.mu.Lock()
	defer far.mu.Unlock()
	if running.Load() != far { // let go while we waited for our turn: its descriptor is somebody else's now
		return 0, -1, unix.ESHUTDOWN
	}
	pid, fd, err = ask(far.s)
	if far.s.Lost(err) && running.CompareAndSwap(far, nil) {
		far.s.Close()
	}
	return pid, fd, err
}
