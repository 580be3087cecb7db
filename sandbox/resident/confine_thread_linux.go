package resident

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// forkThread is the thread from which commands are forked where there is no jail. It alone is confined, and they
// inherit that. The resident's own thread is not: no command can then reach, by a path that it may write, the job
// folders, and none may signal us, since Landlock keeps signals inside.
//
// It is a locked goroutine that never unlocks, so its thread is never another's: the runtime makes new threads from a
// clean one.
type forkThread struct {
	work chan func()
}

// confineThread makes it.
func confineThread(p *Plan, secret *Secret, groups []int) (*forkThread, []string, error) {
	t := &forkThread{work: make(chan func())}
	var notes []string
	began := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		err := enterGroups(groups) // this thread may be older than that the main one did
		if err == nil {
			notes, err = confineSelf(p, secret)
		}
		began <- err
		if err == nil {
			for f := range t.work {
				f()
			}
		}
	}()
	if err := <-began; err != nil {
		return nil, nil, err
	}
	return t, notes, nil
}

// confineSelf puts the two walls on the calling thread.
func confineSelf(p *Plan, secret *Secret) ([]string, error) {
	if err := dropHere(); err != nil { // where C code is linked, only the main thread has
		return nil, err
	}
	walls := domain{writable: p.Writable, readable: p.Readable, offline: p.Offline, alone: true}
	notes, err := walls.enter()
	if err != nil {
		return nil, err
	}
	own := []uint32{uint32(os.Getpid()), uint32(unix.Gettid())}
	return notes, restrict(assemble(append(restrictedRules(p, own, LandlockABI()), denied...), secret))
}

// execute forks a command: here where there is no such thread, else on it.
func (t *forkThread) execute(s *Start, home string, files []uintptr) (pid int, fault *startError) {
	chances.set(moreLikely)
	defer chances.set(0)
	if t == nil {
		return execute(s, home, files)
	}
	done := make(chan struct{})
	t.work <- func() {
		pid, fault = execute(s, home, files)
		close(done)
	}
	<-done
	return pid, fault
}
