package terminal

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// fakeBackend makes places in which commands do what the test says.
type fakeBackend struct {
	linux
	base   string
	mu     sync.Mutex
	places []*fakePlace
	hang   chan struct{} // not nil: a place is not made before it is closed
	starts chan struct{} // likewise a command
}

func (b *fakeBackend) Open(_ context.Context, spec PlaceSpec) (Place, error) {
	b.mu.Lock()
	p := &fakePlace{backend: b, done: make(chan struct{}), rung: sandbox.RungJail}
	b.places = append(b.places, p)
	hang := b.hang
	b.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return p, nil
}

func (b *fakeBackend) made() []*fakePlace {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*fakePlace(nil), b.places...)
}

// fakePlace is one of its places.
type fakePlace struct {
	backend *fakeBackend
	rung    sandbox.Rung
	done    chan struct{}
	mu      sync.Mutex
	jobs    []*fakeJob
	mute    bool // it answers nothing any more
	closed  bool
}

func (p *fakePlace) Report() sandbox.Report { return sandbox.Report{Got: p.rung, Asked: p.rung} }
func (p *fakePlace) Done() <-chan struct{}  { return p.done }

func (p *fakePlace) Close() error {
	if p.silent() {
		time.Sleep(5 * time.Second) // it is asked first
	}
	p.mu.Lock()
	p.closed = true
	jobs := p.jobs
	p.mu.Unlock()
	for _, j := range jobs {
		j.exits(137)
	}
	return nil
}

func (p *fakePlace) Start(_ context.Context, c process.Command) (*process.Job, error) {
	p.backend.mu.Lock()
	wait := p.backend.starts
	p.backend.mu.Unlock()
	if wait != nil {
		<-wait
	}
	dir := filepath.Join(p.backend.base, c.Key, "0")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &fakeJob{place: p, dir: dir, command: c, started: time.Now()}
	j.Job = process.Controlled(dir, j)
	p.mu.Lock()
	p.jobs = append(p.jobs, j)
	p.mu.Unlock()
	return j.Job, nil
}

func (p *fakePlace) last() *fakeJob {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jobs[len(p.jobs)-1]
}

func (p *fakePlace) silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mute
}

func (p *fakePlace) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// fakeJob is a command of one.
type fakeJob struct {
	*process.Job
	place   *fakePlace
	dir     string
	command process.Command
	started time.Time

	mu    sync.Mutex
	over  bool
	order int64
	sizes [3]int64
	look  process.Look
}

func (j *fakeJob) says(stream int, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	record := resident.AppendOrder(nil, stream, int64(len(text)))
	j.append(map[int]string{process.Stdout: resident.FileStdout, process.Stderr: resident.FileStderr}[stream], []byte(text))
	j.append(resident.FileOrder, record)
	j.sizes[stream] += int64(len(text))
	j.order += int64(len(record))
	j.Grew(j.order)
}

func (j *fakeJob) append(name string, p []byte) {
	f, err := os.OpenFile(filepath.Join(j.dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	f.Write(p)
	f.Close()
}

func (j *fakeJob) exits(code int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return
	}
	j.over = true
	j.End(process.Exit{Code: code, Started: j.started, Ended: time.Now(), Stdout: j.sizes[1], Stderr: j.sizes[2]})
}

func (j *fakeJob) Kill() {
	if !j.place.silent() {
		j.exits(137)
	}
}

// Write is read by nobody where the command sleeps.
func (j *fakeJob) Write(ctx context.Context, p []byte) (int, error) {
	if j.command.Argv[len(j.command.Argv)-1] == "sleep 600" {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	return len(p), nil
}

func (j *fakeJob) CloseInput(context.Context) error             { return nil }
func (j *fakeJob) Resize(context.Context, process.Size) error   { return nil }
func (j *fakeJob) Signal(context.Context, syscall.Signal) error { return nil }
func (j *fakeJob) Look(ctx context.Context, _ uint16) (process.Look, error) {
	if j.place.silent() {
		<-ctx.Done()
		return process.Look{}, context.Cause(ctx)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.look, nil
}

// newFakeRig is a rig whose sandboxes are fakes, for time that is the test's own: within a bubble of synctest.
func newFakeRig(t *testing.T, base string, change func(*SessionConfig)) (*rig, *fakeBackend) {
	t.Helper()
	b := &fakeBackend{base: base}
	c := SessionConfig{Cwd: base, SandboxPolicy: DefaultSandbox(), ApprovalPolicy: AskFor(approval.Policy{}), DisableLogin: true, Environ: []string{"PATH=/usr/bin:/bin"},
		Shells: bashOnly, Backend: b, Dir: filepath.Join(base, "state")}
	if change != nil {
		change(&c)
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Begin(t.Context(), s.TurnContext())
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t: t, session: s, turn: turn, tools: NewRegistry(), work: base}, b
}
