package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// fakeRun is a response that keeps its events.
type fakeRun struct {
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	object   openai.Response
	frames   [][]byte
	output   map[int]openai.Item
	usage    *openai.Usage
	more     chan struct{} // closed and replaced at every event
	finished bool
	emitErr  error
	synced   int
}

func (r *fakeRun) ID() string                 { return r.id }
func (r *fakeRun) Context() context.Context   { return r.ctx }
func (r *fakeRun) Cancel(cause error)         { r.cancel(cause) }
func (r *fakeRun) Sync(context.Context) error { r.synced++; return nil }
func (r *fakeRun) SetContainer(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.object.ContainerID = id
}

func (r *fakeRun) AddUsage(u openai.Usage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.usage == nil {
		r.usage = &openai.Usage{}
	}
	r.usage.Add(u)
}

func (r *fakeRun) Announce() error {
	r.mu.Lock()
	r.object.ID, r.object.Status = r.id, openai.InProgress
	o := r.object
	r.mu.Unlock()
	if err := r.Emit(openai.NewLifecycle(openai.EventCreated, o)); err != nil {
		return err
	}
	return r.Emit(openai.NewLifecycle(openai.EventInProgress, o))
}

func (r *fakeRun) Emit(ev openai.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.emitErr != nil {
		return r.emitErr
	}
	ev.SetSequence(int64(len(r.frames)))
	frame, err := openai.AppendEvent(nil, ev)
	if err != nil {
		return err
	}
	if e, ok := ev.(*openai.ItemEvent); ok {
		r.output[e.OutputIndex] = e.Item
	}
	r.frames = append(r.frames, frame)
	close(r.more)
	r.more = make(chan struct{})
	return nil
}

func (r *fakeRun) Finish(_ context.Context, end response.End) error {
	r.mu.Lock()
	if r.finished {
		r.mu.Unlock()
		return fault.New(fault.Conflict, "finished twice")
	}
	o := r.object
	o.Status, o.Error, o.Usage = end.Status, end.Error, r.usage
	if end.Reason != "" {
		o.IncompleteDetails = &openai.IncompleteDetails{Reason: end.Reason}
	}
	for i := range len(r.output) {
		o.Output = append(o.Output, r.output[i])
	}
	r.object = o
	r.mu.Unlock()
	typ := map[string]string{openai.Completed: openai.EventCompleted, openai.Failed: openai.EventFailed}[end.Status]
	if typ == "" {
		typ = openai.EventIncomplete
	}
	err := r.Emit(openai.NewLifecycle(typ, o))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	close(r.more)
	r.more = make(chan struct{})
	return err
}

// await returns when the response has an event that holds the text, or has ended.
func (r *fakeRun) await(ctx context.Context, text string) {
	for {
		r.mu.Lock()
		more := r.more
		found := r.finished || slices.ContainsFunc(r.frames, func(f []byte) bool { return bytes.Contains(f, []byte(text)) })
		r.mu.Unlock()
		if found {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// wait returns the finished response.
func (r *fakeRun) wait(t testing.TB) openai.Response {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		more, done, o := r.more, r.finished, r.object
		r.mu.Unlock()
		if done {
			requireStream(t, r.frames)
			return o
		}
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("the response did not end; events:\n%s", bytes.Join(r.frames, []byte("\n")))
		}
	}
}

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
	removed  map[string]bool  // files that are no more
	put      []string
	putErr   error
	makeErr  error
	facts    container.Facts
	asked    []llm.Request
	rounds   []round
	agent    *Agent
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
		removed: map[string]bool{}, rounds: rounds}
	w.facts = container.Facts{Workdir: "/mnt/data", Network: "none", Runtime: "jail",
		Isolation: container.Isolation{Asked: "jail", Got: "jail"}, DefaultTimeout: 2 * time.Minute,
		MaxTimeout: 5 * time.Minute, MaxOutput: 8000, Memory: "1 GiB"}
	return w
}

func (w *world) create(req *openai.CreateRequest) (*fakeRun, error) {
	if w.agent == nil {
		w.agent = newAgent(w, w, w, w.options)
		w.t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := w.agent.Close(ctx); err != nil {
				w.t.Errorf("close agent: %v", err)
			}
		})
	}
	r, err := w.agent.create(context.Background(), principal, req)
	if err != nil {
		return nil, err
	}
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

func (w *world) Resolve(_ context.Context, model string) (llm.Route, error) {
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

func (w *world) Usable(_ context.Context, _, cid string) (container.Container, error) {
	if err := w.gone[cid]; err != nil {
		return container.Container{}, err
	}
	return container.Container{ID: cid, Status: container.Active, MemoryLimit: "1g"}, nil
}

func (w *world) Put(_ context.Context, _, _, name string, r io.Reader, source string) (container.File, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return container.File{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.putErr != nil {
		return container.File{}, w.putErr
	}
	w.put = append(w.put, fmt.Sprintf("%s=%s (%s, %d started)", name, data, source, len(w.started)))
	return container.File{}, nil
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

func (e *fakeExecution) Follow(ctx context.Context) iter.Seq2[container.Delta, error] {
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

// The model's turns.

func usage(in, out int64) *openai.Usage {
	return &openai.Usage{InputTokens: in, OutputTokens: out, TotalTokens: in + out}
}

// says answers with words, one delta each.
func says(text string) round {
	return func(t *llm.Turn) {
		words := strings.SplitAfter(text, " ")
		for _, w := range words {
			t.Text([]byte(w))
		}
		t.Complete(usage(10, int64(len(words))))
	}
}

// calls calls functions: pairs of a name and arguments.
func calls(pairs ...string) round {
	return func(t *llm.Turn) {
		for i := 0; i < len(pairs); i += 2 {
			c := t.Call(pairs[i])
			half := len(pairs[i+1]) / 2
			c.Write(pairs[i+1][:half])
			c.Write(pairs[i+1][half:])
		}
		t.Complete(usage(10, 5))
	}
}

func runs(commands ...string) round { return calls("shell", argumentsOf(commands...)) }

func argumentsOf(commands ...string) string {
	return argumentsText(openai.ShellAction{Commands: commands})
}

var ids = regexp.MustCompile(`\b(resp|msg|rs|fc|fco|sh|sho|call|cntr)_[0-9a-z]{26}\b`)

// golden compares text with a file of testdata, or writes it with -update. Ids are numbered as they come.
func golden(t testing.TB, name, text string) {
	t.Helper()
	seen := map[string]string{}
	counts := map[string]int{}
	text = ids.ReplaceAllStringFunc(text, func(s string) string {
		if seen[s] == "" {
			prefix, _, _ := strings.Cut(s, "_")
			counts[prefix]++
			seen[s] = fmt.Sprintf("%s_%d", prefix, counts[prefix])
		}
		return seen[s]
	})
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != text {
		t.Errorf("%s differs; see git diff after go test -update\ngot:\n%s", path, text)
	}
}

// transcript is a run's stream as a golden file holds it: what each event says, without the response objects, whose
// echo has a test of its own.
func (r *fakeRun) transcript() string {
	var b strings.Builder
	for _, f := range r.frames {
		var ev map[string]any
		if err := json.Unmarshal(f, &ev); err != nil {
			return err.Error()
		}
		if o, ok := ev["response"].(map[string]any); ok {
			ev["response"] = map[string]any{"id": o["id"], "status": o["status"], "error": o["error"],
				"incomplete_details": o["incomplete_details"], "container_id": o["container_id"],
				"output": len(o["output"].([]any)), "usage": o["usage"]}
		}
		delete(ev, "sequence_number")
		typ := ev["type"]
		delete(ev, "type")
		raw, err := openai.Marshal(ev)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s\n  %s\n", typ, raw)
	}
	return b.String()
}
