package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test.
const patience = 20 * time.Second

var principal = tenant.Principal{Org: "org_a", KeyID: "key_a"}

// world is everything around an agent under test.
type world struct {
	t        testing.TB
	mu       sync.Mutex
	options  Options
	chains   map[string]response.Chain
	begun    []response.Begin
	runs     []*fakeRun
	commands map[string]command // by script
	started  []container.Command
	made     []container.CreateSpec
	gone     map[string]error // containers that can't be used
	skills   map[string][]container.Skill
	removed  map[string]bool // files that are no more
	put      []string
	inputs   map[string]string // names, by container and key
	there    map[string]bool   // what is in a workspace, by container and name
	putErr   error
	makeErr  error
	facts    container.Facts
	asked    []llm.Request
	rounds   []round
	agent    *Agent
	resolve  models // nil: the world itself
}

// round plays one model turn.
type round func(t *llm.Turn)

// command is how a script behaves.
type command struct {
	deltas []container.Delta
	result container.Result
	start  error  // it can't be started
	lost   error  // its end is not seen
	after  string // it prints when the response has an event with this text
	boots  string // it is started when the response has an event with this text
	hangs  bool   // it ends by Cancel only
}

func newWorld(t testing.TB, rounds ...round) *world {
	w := &world{t: t, chains: map[string]response.Chain{}, commands: map[string]command{}, gone: map[string]error{},
		removed: map[string]bool{}, rounds: rounds, inputs: map[string]string{}, there: map[string]bool{}}
	w.facts = container.Facts{Workdir: "/mnt/data", Network: "none", Runtime: "jail",
		Isolation: container.Isolation{Asked: "jail", Got: "jail"}, DefaultTimeout: 2 * time.Minute,
		MaxTimeout: 5 * time.Minute, MaxOutput: 8000, Memory: "1 GiB"}
	return w
}

func (w *world) create(req *openai.CreateRequest) (*fakeRun, error) {
	if w.agent == nil {
		if w.resolve == nil {
			w.resolve = w
		}
		w.agent = newAgent(w, w, w.resolve, w.options)
		w.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			w.agent.cancelAll() // what a test has left open
			if err := w.agent.Close(ctx); err != nil {
				w.t.Errorf("close agent: %v", err)
			}
		})
	}
	r, live, err := w.agent.begin(context.Background(), principal, req)
	if err != nil {
		return nil, err
	}
	go live()
	return r.(*fakeRun), nil
}

// run creates a response and waits for its end.
func (w *world) run(body string) (*fakeRun, openai.Response) {
	w.t.Helper()
	r, err := w.create(request(w.t, body))
	if err != nil {
		w.t.Fatalf("create: %v", err)
	}
	return r, r.wait(w.t)
}

func request(t testing.TB, body string) *openai.CreateRequest {
	t.Helper()
	var req openai.CreateRequest
	if err := json.Unmarshal([]byte(body), &req); err != nil {
		t.Fatalf("request: %v", err)
	}
	req.Raw = json.RawMessage(body)
	return &req
}

func (w *world) Chain(_ context.Context, _, previousID string) (response.Chain, error) {
	c, ok := w.chains[previousID]
	if !ok {
		return c, fault.New(fault.NotFound, "no response %s", previousID).WithCode("previous_response_not_found").
			WithParam("previous_response_id")
	}
	return c, nil
}

func (w *world) Begin(_ context.Context, b response.Begin) (run, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	w.t.Cleanup(func() { cancel(nil) })
	r := &fakeRun{id: id.New(id.Response), ctx: ctx, cancel: cancel, object: b.Object, output: map[int]openai.Item{},
		more: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.runs = append(w.begun, b), append(w.runs, r)
	return r, nil
}

func (w *world) Orphans() <-chan struct{} { return nil }

func (w *world) Wake(context.Context, string) (bool, error) { return false, nil }

func (w *world) Claim(context.Context, bool) (*response.Claim, run, error) { return nil, nil, nil }

func (w *world) Replay(context.Context, string, int64) iter.Seq2[response.Frame, error] {
	return func(func(response.Frame, error) bool) {}
}

func (w *world) Reattach(context.Context, string, string, container.Command) (execution, container.CallState, error) {
	return nil, container.NeverStarted, nil
}

func (w *world) Acknowledge(context.Context, string, string, string, int) error { return nil }

func (w *world) Resolve(_ context.Context, _, model string, _ ...string) (llm.Route, error) {
	if model != "m" {
		return llm.Route{}, fault.New(fault.NotFound, "no model %q", model).WithCode("model_not_found").WithParam("model")
	}
	return llm.Route{Provider: w, ProviderName: "fake", Model: "m"}, nil
}

func (w *world) Models(context.Context) ([]openai.Model, error) { return nil, nil }

// Stream plays the next round.
func (w *world) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		w.mu.Lock()
		n := len(w.asked)
		w.asked = append(w.asked, r)
		w.mu.Unlock()
		stopped := false
		t := llm.NewTurn(func(ev openai.Event, err error) bool {
			if ctx.Err() != nil && !stopped {
				stopped = true
				yield(nil, fault.Wrap(fault.Upstream, ctx.Err(), "broken off"))
			}
			if stopped {
				return false
			}
			stopped = !yield(ev, err)
			return !stopped
		}, nil)
		if n >= len(w.rounds) {
			t.Fail(fault.New(fault.Upstream, "the fake model has no round %d", n+1))
			return
		}
		w.rounds[n](t)
	}
}

func (w *world) Create(_ context.Context, _ string, spec container.CreateSpec) (container.Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.makeErr != nil {
		return container.Container{}, w.makeErr
	}
	w.made = append(w.made, spec)
	return container.Container{ID: id.New(id.Container), Status: container.Active, MemoryLimit: spec.MemoryLimit}, nil
}

// Admits judges as the room does where a container has no network.
func (w *world) Admits(_ context.Context, _, _ string, p *openai.NetworkPolicy) error {
	if asked, _, err := container.ReadNetwork(p); err != nil || asked == nil || asked.Type == "disabled" {
		return err
	}
	return fault.New(fault.Invalid, "It can't be changed.").WithParam("network_policy").WithTry("a new container")
}

func (w *world) Usable(_ context.Context, _, cid string) (container.Container, error) {
	if err := w.gone[cid]; err != nil {
		return container.Container{}, err
	}
	return container.Container{ID: cid, Status: container.Active, MemoryLimit: "1g"}, nil
}

// Restore brings expired back what the test says.
func (w *world) Restore(ctx context.Context, org, cid string) (container.Container, error) {
	w.mu.Lock()
	delete(w.gone, cid)
	w.mu.Unlock()
	return w.Usable(ctx, org, cid)
}

func (w *world) PutInput(_ context.Context, _, cid string, in container.Input) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.putErr != nil {
		return w.putErr
	}
	if in.Upload != "" {
		in.Data = []byte("bytes of " + in.Upload)
	}
	w.put = append(w.put, fmt.Sprintf("%s=%s (%d started)", in.Name, in.Data, len(w.started)))
	w.inputs[cid+" "+in.Key] = in.Name
	w.there[cid+" "+in.Name] = true
	return nil
}

func (w *world) InputAt(_ context.Context, _, cid, key string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inputs[cid+" "+key], nil
}

func (w *world) HasFile(_ context.Context, _, cid, name string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.there[cid+" "+name], nil
}

func (w *world) File(_ context.Context, _, _, fileID string) (container.File, error) {
	if w.removed[fileID] {
		return container.File{}, fault.New(fault.NotFound, "no file %s", fileID)
	}
	return container.File{ID: fileID}, nil
}

func (w *world) Facts(context.Context) container.Facts { return w.facts }

func (w *world) Exec(ctx context.Context, _, _ string, c container.Command) (execution, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = append(w.started, c)
	b, ok := w.commands[c.Script]
	if !ok {
		return nil, errors.New("a script that the test does not know: " + c.Script)
	}
	r := w.runs[len(w.runs)-1]
	if b.boots != "" {
		w.mu.Unlock()
		r.await(ctx, b.boots)
		w.mu.Lock()
	}
	if b.start != nil {
		return nil, b.start
	}
	return &fakeExecution{command: b, run: r, cancelled: make(chan struct{})}, nil
}

type fakeExecution struct {
	command
	run       *fakeRun
	once      sync.Once
	cancelled chan struct{}
}

func (e *fakeExecution) Cancel() { e.once.Do(func() { close(e.cancelled) }) }

func (e *fakeExecution) Release() {}

func (e *fakeExecution) FollowFrom(ctx context.Context, _ container.Cursor) iter.Seq2[container.Delta, error] {
	return func(yield func(container.Delta, error) bool) {
		if e.after != "" {
			e.run.await(ctx, e.after)
		}
		for _, d := range e.deltas {
			if !yield(d, nil) {
				return
			}
		}
		if e.hangs {
			<-e.cancelled
		}
		if e.lost != nil {
			yield(container.Delta{}, e.lost)
		}
	}
}

func (e *fakeExecution) Wait(ctx context.Context) (container.Result, error) {
	r := e.result
	if e.hangs {
		select {
		case <-e.cancelled:
			r.Cancelled, r.ExitCode, r.Signal = true, 137, "KILL"
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	return r, e.lost
}

// printed is the behaviour of a command that prints and ends.
func printed(stdout, stderr string, code int, files ...container.File) command {
	c := command{result: container.Result{ExitCode: code, Duration: 12 * time.Millisecond, Timeout: 2 * time.Minute,
		Isolation: container.Isolation{Asked: "jail", Got: "jail"}, Changed: files,
		Stdout: process.View{Text: stdout, Bytes: int64(len(stdout))}, Stderr: process.View{Text: stderr, Bytes: int64(len(stderr))}}}
	if stdout != "" {
		c.deltas = append(c.deltas, container.Delta{Stdout: stdout})
	}
	if stderr != "" {
		c.deltas = append(c.deltas, container.Delta{Stderr: stderr})
	}
	return c
}

func file(name string, size int64) container.File {
	return container.File{ID: "cfile_" + strings.ReplaceAll(name, "/", "_"), Path: "/mnt/data/" + name, Bytes: size,
		Source: container.SourceAssistant, ContentType: "text/csv"}
}
