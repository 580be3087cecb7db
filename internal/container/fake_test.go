package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// fake is a runtime whose commands are Go functions. It holds the runtime's law: one box per container.
type fake struct {
	t        testing.TB
	programs map[string]func(*proc) int // by script

	mu          sync.Mutex
	living      map[string]*fakeBox
	opening     map[string]bool
	opens       int
	removed     []string
	reclaim     []string
	specs       map[string]Spec
	openErr     error
	unsupported error
	hold        chan struct{}  // an open waits for it
	starting    func(*fakeBox) // is called before a command is started
	last        process.Command
}

func (f *fake) Name() string                    { return "fake" }
func (f *fake) Supported(context.Context) error { return f.unsupported }

func (f *fake) Prepare(_ context.Context, spec Spec) (Workspace, error) {
	ws := Workspace{Dir: filepath.Join(spec.Dir, "workspace"), Tmp: filepath.Join(spec.Dir, "tmp"), Home: filepath.Join(spec.Dir, "home"), Shell: "/bin/bash"}
	for _, dir := range []string{ws.Dir, ws.Tmp, ws.Home} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Workspace{}, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.specs[spec.ID] = spec
	return ws, nil
}

func (f *fake) Open(ctx context.Context, spec Spec) (Box, error) {
	f.mu.Lock()
	if f.opening[spec.ID] || f.living[spec.ID] != nil {
		f.t.Errorf("a second box of %s", spec.ID)
	}
	f.opens++
	f.opening[spec.ID] = true
	hold, err := f.hold, f.openErr
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.opening, spec.ID)
	if err != nil {
		return nil, err
	}
	b := &fakeBox{f: f, spec: spec, done: make(chan struct{}), jobs: map[*process.Job]func(){}}
	f.living[spec.ID] = b
	return b, nil
}

func (f *fake) Remove(_ context.Context, spec Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.living[spec.ID] != nil {
		f.t.Errorf("%s is removed while its box lives", spec.ID)
	}
	f.removed = append(f.removed, spec.ID)
	return os.RemoveAll(spec.Dir)
}

func (f *fake) Reclaim(_ context.Context, spec Spec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reclaim = append(f.reclaim, spec.ID)
	return nil
}

func (f *fake) boxes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.living)
}

type fakeBox struct {
	f    *fake
	spec Spec
	done chan struct{}

	mu     sync.Mutex
	closed bool
	jobs   map[*process.Job]func()
	wg     sync.WaitGroup
}

func (b *fakeBox) Isolation() Isolation  { return Isolation{Asked: "fake", Got: "fake"} }
func (b *fakeBox) Done() <-chan struct{} { return b.done }

func (b *fakeBox) Close(context.Context) error {
	b.die()
	return nil
}

func (b *fakeBox) die() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		<-b.done
		return
	}
	b.closed = true
	for job, kill := range b.jobs {
		kill()
		job.Lost(nil)
	}
	b.mu.Unlock()
	b.wg.Wait()
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	delete(b.f.living, b.spec.ID)
	close(b.done)
}

// proc is a running program of the fake.
type proc struct {
	t         testing.TB
	workspace string
	tmp       string
	command   process.Command
	killed    chan struct{}
	job       *process.Job
	dir       string
	order     int64
	size      [3]int64
}

func (p *proc) write(stream int, text string) {
	for name, b := range map[string][]byte{
		[]string{process.Stdout: resident.FileStdout, process.Stderr: resident.FileStderr}[stream]: []byte(text),
	} {
		p.append(name, b)
	}
	p.append(resident.FileOrder, resident.AppendOrder(nil, stream, int64(len(text))))
	p.order += resident.OrderSize
	p.size[stream] += int64(len(text))
	p.job.Grew(p.order)
}

func (p *proc) append(name string, b []byte) {
	f, err := os.OpenFile(filepath.Join(p.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the container was removed
	}
	defer f.Close()
	f.Write(b)
}

func (p *proc) out(format string, args ...any) { p.write(process.Stdout, fmt.Sprintf(format, args...)) }

func (p *proc) file(name, text string) {
	path := filepath.Join(p.workspace, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		p.t.Errorf("program: %v", err)
	}
}

func (b *fakeBox) Start(_ context.Context, c process.Command) (Job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	b.f.mu.Lock()
	starting := b.f.starting
	b.f.mu.Unlock()
	if starting != nil {
		starting(b)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fault.New(fault.Unavailable, "the box is gone")
	}
	b.f.mu.Lock()
	b.f.last = c
	program := b.f.programs[c.Argv[3]]
	b.f.mu.Unlock()
	dir := filepath.Join(b.spec.Dir, "box", "jobs", c.Key, strconv.Itoa(c.Index))
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Conflict, err, "this command was started before")
	}
	killed := make(chan struct{})
	kill := sync.OnceFunc(func() { close(killed) })
	p := &proc{t: b.f.t, workspace: filepath.Join(b.spec.Dir, "workspace"), tmp: filepath.Join(b.spec.Dir, "tmp"), command: c,
		killed: killed, dir: dir}
	p.job = process.New(dir, kill)
	b.jobs[p.job] = kill
	started := time.Now()
	b.wg.Go(func() {
		exit := process.Exit{Code: 127, Started: started}
		if program != nil {
			exit.Code = program(p)
		}
		select {
		case <-killed:
			exit.Code, exit.Signal, exit.Cancelled = 137, "SIGKILL", true
		default:
		}
		exit.Ended, exit.Stdout, exit.Stderr = time.Now(), p.size[process.Stdout], p.size[process.Stderr]
		b.mu.Lock()
		delete(b.jobs, p.job)
		b.mu.Unlock()
		p.job.End(exit)
	})
	return p.job, nil
}

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bench is a service over a fake runtime.
type bench struct {
	*Service
	fake  *fake
	clock *clock
	dir   string
	db    *store.DB
	ctx   context.Context

	blobs   *blob.Stores // for the next restart; nil: files of expired containers stay in their folders
	uploads Uploads
}

func newBench(t testing.TB, limits Limits) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	dir := t.TempDir()
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "db", "hardshell.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b := &bench{dir: filepath.Join(dir, "containers"), db: db, ctx: ctx,
		clock: &clock{now: time.UnixMilli(1_900_000_000_000)}}
	b.restart(t, limits)
	return b
}

// restart makes a new service on the same data folder, as after a crash.
func (b *bench) restart(t testing.TB, limits Limits) {
	t.Helper()
	b.fake = &fake{t: t, programs: programs(), living: map[string]*fakeBox{}, opening: map[string]bool{}, specs: map[string]Spec{}}
	s, err := New(b.ctx, Options{DB: b.db, Runtime: b.fake, Dir: b.dir, Limits: limits, Clock: b.clock.time, Blobs: b.blobs, Uploads: b.uploads,
		Logger: slog.New(slog.NewTextHandler(testLog{t}, nil))})
	if err != nil {
		t.Fatal(err)
	}
	b.Service = s
	t.Cleanup(func() {
		if err := s.Close(b.ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

func programs() map[string]func(*proc) int {
	return map[string]func(*proc) int{
		"true":  func(*proc) int { return 0 },
		"false": func(*proc) int { return 1 },
		"hello": func(p *proc) int { p.out("hello\n"); p.write(process.Stderr, "warning\n"); return 0 },
		"block": func(p *proc) int { p.out("begun\n"); <-p.killed; return 0 },
	}
}

func (b *bench) create(t testing.TB) Container {
	t.Helper()
	c, err := b.Create(b.ctx, "org", CreateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (b *bench) exec(t testing.TB, id, script string) *Execution {
	t.Helper()
	e, err := b.Exec(b.ctx, "org", id, Command{Script: script})
	if err != nil {
		t.Fatalf("exec %s: %v", script, err)
	}
	return e
}

func (b *bench) run(t testing.TB, id, script string) Result {
	t.Helper()
	r, err := b.exec(t, id, script).Wait(b.ctx)
	if err != nil {
		t.Fatalf("run %s: %v", script, err)
	}
	return r
}

// wantFault fails unless err has this kind and code.
func wantFault(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != code {
		t.Errorf("error %v (%v), want %v with code %q", err, fault.KindOf(err), kind, code)
	}
}

// eventually polls until ok, generously.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}
