package session

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// fake is a box whose commands do what the test says.
type fake struct {
	t     testing.TB
	base  string
	mu    sync.Mutex
	count int
	jobs  []*fakeJob
	fail  error
	hang  chan struct{} // not nil: a start waits for it
}

func newFake(t testing.TB) *fake { return &fake{t: t, base: t.TempDir()} }

func (f *fake) Start(_ context.Context, c process.Command) (*process.Job, error) {
	if f.hang != nil {
		<-f.hang
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	f.count++
	dir := filepath.Join(f.base, c.Key, "0")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.t.Error(err)
	}
	j := &fakeJob{t: f.t, dir: dir, command: c, started: time.Now(), look: process.Look{Clear: true, Echoes: true, Lines: true, Dir: c.Dir}}
	j.Job = process.Controlled(dir, j)
	f.jobs = append(f.jobs, j)
	return j.Job, nil
}

// last is the command that was started last.
func (f *fake) last() *fakeJob {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs[len(f.jobs)-1]
}

type fakeJob struct {
	*process.Job
	t       testing.TB
	dir     string
	command process.Command
	started time.Time

	mu      sync.Mutex
	order   []byte
	sizes   [3]int64
	look    process.Look
	ports   map[uint16]bool
	looks   int
	mute    bool // looks are never answered
	lasting bool // it does not end when it is killed
	typed   []byte
	onWrite func(p []byte)
	signals []syscall.Signal
	killed  bool
}

// says prints.
func (j *fakeJob) says(text string) { j.print(process.Stdout, text) }

func (j *fakeJob) print(stream int, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	name := map[int]string{process.Stdout: resident.FileStdout, process.Stderr: resident.FileStderr}[stream]
	j.append(name, []byte(text))
	j.sizes[stream] += int64(len(text))
	record := resident.AppendOrder(nil, stream, int64(len(text)))
	j.append(resident.FileOrder, record)
	j.order = append(j.order, record...)
	j.Grew(int64(len(j.order)))
}

func (j *fakeJob) append(name string, p []byte) {
	f, err := os.OpenFile(filepath.Join(j.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		j.t.Error(err)
		return
	}
	f.Write(p)
	f.Close()
}

// exits ends the command.
func (j *fakeJob) exits(code int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.End(process.Exit{Code: code, Started: j.started, Ended: time.Now(), Stdout: j.sizes[1], Stderr: j.sizes[2], Cancelled: j.killed})
}

func (j *fakeJob) stands(l process.Look) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l.Clear = true
	if l.Dir == "" {
		l.Dir = j.look.Dir
	}
	j.look = l
}

func (j *fakeJob) Kill() {
	j.mu.Lock()
	already := j.killed || j.lasting
	j.killed = true
	j.mu.Unlock()
	if !already {
		j.exits(137)
	}
}

func (j *fakeJob) Write(_ context.Context, p []byte) (int, error) {
	j.mu.Lock()
	j.typed = append(j.typed, p...)
	then := j.onWrite
	j.mu.Unlock()
	if then != nil {
		then(p)
	}
	return len(p), nil
}

func (j *fakeJob) CloseInput(context.Context) error           { return nil }
func (j *fakeJob) Resize(context.Context, process.Size) error { return nil }

func (j *fakeJob) Signal(_ context.Context, sig syscall.Signal) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.signals = append(j.signals, sig)
	return nil
}

func (j *fakeJob) Look(ctx context.Context, port uint16) (process.Look, error) {
	j.mu.Lock()
	mute := j.mute
	j.looks++
	l := j.look
	l.Listens = j.ports[port]
	j.mu.Unlock()
	if mute {
		<-ctx.Done()
		return process.Look{}, context.Cause(ctx)
	}
	return l, nil
}

func (j *fakeJob) open(port uint16) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ports = map[uint16]bool{port: true}
}

// inTTY is a session in a terminal, inPipe one without.
func inTTY(f *fake, argv ...string) Spec {
	return Spec{Starter: f, Command: process.Command{Argv: argv, Dir: "/work", TTY: &process.Size{}}}
}

func inPipe(f *fake, argv ...string) Spec {
	return Spec{Starter: f, Command: process.Command{Argv: argv, Dir: "/work"}}
}

func start(t testing.TB, s *Store, spec Spec) *Session {
	t.Helper()
	out, err := s.Start(t.Context(), spec)
	must(t, err)
	return out
}

func collect(t testing.TB, s *Session, w Wait) Snapshot {
	t.Helper()
	out, err := s.Collect(t.Context(), w)
	must(t, err)
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Errorf("got %v, want a fault of kind %v", err, kind)
	}
}
