package agent

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// ground is what outlives an owner: the containers and their jobs, and the models.
type ground struct {
	t testing.TB

	mu      sync.Mutex
	jobs    map[string]*job // by key and index
	fences  map[string]uint64
	refused int            // starts and questions of stale owners
	starts  map[string]int // how often each script was started
	gone    bool           // every box was lost: nothing can be reattached
	scripts map[string]script
	rounds  map[int]round // the model's turn, by how many outputs it has seen
	asked   []llm.Request
	model   llm.Provider // instead of the rounds
	options Options
	put     []string
	late    int             // files that were put after a command had begun
	onExec  func()          // called once, before the first command
	unknown map[string]bool // models that there are not any more
	settled map[string]bool
}

// script is what a command prints and how it ends. It does not end before release, where that is set.
type script struct {
	deltas  []container.Delta
	code    int
	files   []container.File
	release chan struct{}
	hook    func() // called before it starts
}

// job is a command that was started.
type job struct {
	script
	ended     chan struct{}
	cancelled bool
	once      sync.Once
}

func newGround(t testing.TB) *ground {
	return &ground{t: t, jobs: map[string]*job{}, fences: map[string]uint64{}, starts: map[string]int{}, scripts: map[string]script{},
		rounds: map[int]round{}, settled: map[string]bool{}}
}

func (g *ground) Create(context.Context, string, container.CreateSpec) (container.Container, error) {
	return container.Container{ID: id.New(id.Container), Status: container.Active}, nil
}

func (g *ground) Admits(context.Context, string, string, *openai.NetworkPolicy) error { return nil }

func (g *ground) Usable(_ context.Context, _, cid string) (container.Container, error) {
	return container.Container{ID: cid, Status: container.Active}, nil
}

func (g *ground) Restore(ctx context.Context, org, cid string) (container.Container, error) {
	return g.Usable(ctx, org, cid)
}

func (g *ground) PutInput(_ context.Context, _, _ string, in container.Input) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if in.Key == "" {
		g.t.Errorf("an input without a key: %+v", in)
	}
	g.put = append(g.put, in.Name+"="+string(in.Data))
	if len(g.jobs) > 0 {
		g.late++
	}
	return nil
}

func (g *ground) InputAt(context.Context, string, string, string) (string, error) { return "", nil }

func (g *ground) HasFile(context.Context, string, string, string) (bool, error) { return false, nil }

func (g *ground) File(_ context.Context, _, _, fileID string) (container.File, error) {
	return container.File{ID: fileID}, nil
}

func (g *ground) Facts(context.Context) container.Facts {
	return container.Facts{Workdir: "/mnt/data", Network: "none", Runtime: "jail", Isolation: container.Isolation{Asked: "jail", Got: "jail"}, MaxOutput: 8000}
}

// fenceLocked refuses a stale owner.
func (g *ground) fenceLocked(c container.Command) error {
	if c.Lease == "" || c.Fence == 0 {
		g.t.Errorf("a command without a fence: %+v", c)
	}
	if c.Fence < g.fences[c.Lease] {
		g.refused++
		return fault.New(fault.Conflict, "A newer owner has taken this command over.").WithCode(container.CodeStaleOwner)
	}
	g.fences[c.Lease] = c.Fence
	return nil
}

func (g *ground) Exec(ctx context.Context, _, _ string, c container.Command) (execution, error) {
	g.mu.Lock()
	hook := g.onExec
	g.onExec = nil
	g.mu.Unlock()
	if hook != nil {
		hook()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fenceLocked(c); err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%s#%d", c.Key, c.Index)
	if g.jobs[key] != nil {
		g.t.Errorf("%s was to be started again", key)
		return nil, fault.New(fault.Conflict, "It was started before.")
	}
	s, ok := g.scripts[c.Script]
	if !ok {
		g.t.Errorf("a script that the test does not know: %s", c.Script)
	}
	g.starts[c.Script]++
	if s.hook != nil {
		s.hook()
	}
	j := &job{script: s, ended: make(chan struct{})}
	if s.release == nil {
		close(j.ended)
	} else {
		go func() {
			select {
			case <-s.release:
				j.once.Do(func() { close(j.ended) })
			case <-j.ended:
			}
		}()
	}
	g.jobs[key] = j
	return g.attach(ctx, j), nil
}

func (g *ground) Reattach(ctx context.Context, _, _ string, c container.Command) (execution, container.CallState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.fenceLocked(c); err != nil {
		return nil, container.NeverStarted, err
	}
	key := fmt.Sprintf("%s#%d", c.Key, c.Index)
	switch {
	case g.gone:
		return nil, container.Gone, nil
	case g.settled[key]:
		g.t.Errorf("%s was asked for again after its end was on record", key)
	case g.jobs[key] == nil:
		return nil, container.NeverStarted, nil
	}
	return g.attach(ctx, g.jobs[key]), container.Started, nil
}

func (g *ground) Acknowledge(_ context.Context, _, _, key string, index int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settled[fmt.Sprintf("%s#%d", key, index)] = true
	return nil
}

func (g *ground) attach(ctx context.Context, j *job) execution {
	h := &handle{job: j}
	h.release = context.AfterFunc(ctx, h.Cancel)
	return h
}

// handle is an owner's hold on a job.
type handle struct {
	job     *job
	release func() bool
}

func (h *handle) Cancel() {
	h.job.once.Do(func() {
		h.job.cancelled = true
		close(h.job.ended)
	})
}

func (h *handle) Release() { h.release() }

func (h *handle) FollowFrom(ctx context.Context, from container.Cursor) iter.Seq2[container.Delta, error] {
	return func(yield func(container.Delta, error) bool) {
		skip := func(s string, n *int64) string {
			known := min(*n, int64(len(s)))
			*n -= known
			return s[known:]
		}
		for _, d := range h.job.deltas {
			d = container.Delta{Stdout: skip(d.Stdout, &from.Stdout), Stderr: skip(d.Stderr, &from.Stderr)}
			if d != (container.Delta{}) && !yield(d, nil) {
				return
			}
		}
		select {
		case <-h.job.ended:
		case <-ctx.Done():
			yield(container.Delta{}, context.Cause(ctx))
		}
	}
}

func (h *handle) Wait(ctx context.Context) (container.Result, error) {
	select {
	case <-h.job.ended:
	case <-ctx.Done():
		return container.Result{}, context.Cause(ctx)
	}
	r := container.Result{ExitCode: h.job.code, Isolation: container.Isolation{Asked: "jail", Got: "jail"}, Changed: h.job.files}
	var out, err string
	for _, d := range h.job.deltas {
		out, err = out+d.Stdout, err+d.Stderr
	}
	r.Stdout, r.Stderr = process.View{Text: out, Bytes: int64(len(out))}, process.View{Text: err, Bytes: int64(len(err))}
	if h.job.cancelled {
		r.Cancelled, r.ExitCode, r.Signal = true, 137, "KILL"
	}
	return r, nil
}

func (g *ground) Resolve(_ context.Context, _, model string, _ ...string) (llm.Route, error) {
	g.mu.Lock()
	gone := g.unknown[model]
	g.mu.Unlock()
	if gone {
		return llm.Route{}, fault.New(fault.NotFound, "There is no model %s.", model).WithCode("model_not_found")
	}
	if g.model != nil {
		return llm.Route{Provider: g.model, ProviderName: "chat", Model: "m"}, nil
	}
	return llm.Route{Provider: g, ProviderName: "fake", Model: "m"}, nil
}

func (g *ground) Models(context.Context) ([]openai.Model, error) { return nil, nil }

func (g *ground) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		g.mu.Lock()
		g.asked = append(g.asked, r)
		g.mu.Unlock()
		outputs := 0
		for _, i := range r.Items {
			if i.Type == openai.TypeFunctionCallOutput {
				outputs++
			}
		}
		stopped := false
		t := llm.NewTurn(func(ev openai.Event, err error) bool {
			if !stopped && ctx.Err() != nil {
				stopped = true
				yield(nil, fault.Wrap(fault.Upstream, ctx.Err(), "broken off"))
			}
			stopped = stopped || !yield(ev, err)
			return !stopped
		}, nil)
		if g.rounds[outputs] == nil {
			t.Fail(fault.New(fault.Upstream, "the fake model has no turn after %d outputs", outputs))
			return
		}
		g.rounds[outputs](t)
	}
}

// started says how often a script was started.
func (g *ground) started(script string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.starts[script]
}
