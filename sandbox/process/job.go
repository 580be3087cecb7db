package process

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// Job is one command, running or ended. Package sandbox makes it and tells it what the resident reports; everyone
// else reads. All methods may be called from any goroutine.
type Job struct {
	dir  string
	ctl  Control
	done chan struct{}

	mu    sync.Mutex
	order int64           // bytes of the order file that are valid now
	waits []chan struct{} // of those who follow; each holds one word that something has changed
	ended bool
	end   int64 // bytes of the order file that belong to the call
	exit  Exit
	lost  error
}

// New returns the job of a job folder. kill is called by [Job.Kill] and may be called more than once.
func New(dir string, kill func()) *Job { return Controlled(dir, onlyKill(kill)) }

// Grew says that the first order bytes of the order file, and the stream bytes that they name, may be read. A smaller
// value than before is ignored. It may be called after the end: what a command left running goes on writing.
func (j *Job) Grew(order int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if order > j.order {
		j.order = order
		j.wake()
	}
}

// End tells the call's end. What Grew said before belongs to the call, what it says later does not. Only the first
// End or Lost counts.
func (j *Job) End(exit Exit) { j.finish(exit, nil) }

// Lost says that the end will never be known because the resident is gone.
func (j *Job) Lost(err error) {
	if err == nil {
		err = fault.New(fault.Unavailable, "the sandbox ended before the command did")
	}
	j.finish(Exit{}, err)
}

func (j *Job) finish(exit Exit, lost error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return
	}
	j.ended, j.end, j.exit, j.lost = true, j.order, exit, lost
	close(j.done)
	j.wake()
}

// wake needs the lock. It allocates nothing: a busy command has it called a thousand times a second.
func (j *Job) wake() {
	for _, w := range j.waits {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// watch returns a channel that has a word in it after each change from now on, until unwatch.
func (j *Job) watch() chan struct{} {
	w := make(chan struct{}, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waits = append(j.waits, w)
	return w
}

func (j *Job) unwatch(w chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waits = slices.DeleteFunc(j.waits, func(other chan struct{}) bool { return other == w })
}

// progress returns how much of the order file may be read, and whether the call has ended; then err is its loss.
func (j *Job) progress() (order int64, ended bool, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return j.end, true, j.lost
	}
	return j.order, false, nil
}

// Key returns the key under which the command was started.
func (j *Job) Key() string { return filepath.Base(filepath.Dir(j.dir)) }

// Done is closed at the call's end, or when it is lost.
func (j *Job) Done() <-chan struct{} { return j.done }

// Kill ends the call's processes and no others. It does not wait; the end arrives as usual, with Cancelled set.
func (j *Job) Kill() {
	j.ctl.Kill()
}

// Wait returns the call's end. Its error is the context's, or says that the end will never be known.
func (j *Job) Wait(ctx context.Context) (Exit, error) {
	select {
	case <-j.done:
	default:
		select {
		case <-j.done:
		case <-ctx.Done():
			return Exit{}, context.Cause(ctx)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.exit, j.lost
}

// Reader reads a stream's spool as far as it has come by now, later bytes of an ended call included. Beyond the
// spool's cap the punched-out middle reads as zeros.
func (j *Job) Reader(stream int) *io.SectionReader {
	return io.NewSectionReader(spool{j.path(stream)}, 0, j.size(stream))
}

// size is the stream's length now. The spool only grows, and its length is the stream's offset.
func (j *Job) size(stream int) int64 {
	info, err := os.Stat(j.path(stream))
	if err != nil {
		return 0 // made on the first byte
	}
	return info.Size()
}

// callSize is the part of the stream that belongs to the call, and whether the call is over.
func (j *Job) callSize(stream int) (int64, bool) {
	j.mu.Lock()
	ended, lost, exit := j.ended, j.lost, j.exit
	j.mu.Unlock()
	if !ended || lost != nil {
		return j.size(stream), ended
	}
	if stream == Stderr {
		return exit.Stderr, true
	}
	return exit.Stdout, true
}

func (j *Job) path(stream int) string {
	if stream == Stderr {
		return filepath.Join(j.dir, resident.FileStderr)
	}
	return filepath.Join(j.dir, resident.FileStdout)
}

// spool opens its file for each read, so that a reader that nobody closes holds no descriptor.
type spool struct{ path string }

func (s spool) ReadAt(p []byte, off int64) (int, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.ReadAt(p, off)
}

// Begun is a time shortly before the command's start, as far as its folder knows: the request is written just after it.
func (j *Job) Begun() time.Time {
	info, err := os.Stat(filepath.Join(j.dir, resident.FileRequest))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime().Add(-100 * time.Millisecond)
}
