package agent

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

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
	journal  [][]byte
}

func (r *fakeRun) ID() string                     { return r.id }
func (r *fakeRun) Context() context.Context       { return r.ctx }
func (r *fakeRun) Cancel(cause error)             { r.cancel(cause) }
func (r *fakeRun) Sync(context.Context) error     { r.synced++; return nil }
func (r *fakeRun) Queue() error                   { return nil }
func (r *fakeRun) Recorded() bool                 { return true }
func (r *fakeRun) Fence() int64                   { return 1 }
func (r *fakeRun) Park(ctx context.Context) error { return r.Release(ctx) }
func (r *fakeRun) Show(items map[int]openai.Item) error {
	r.mu.Lock()
	maps.Copy(r.output, items)
	r.mu.Unlock()
	return nil
}
func (r *fakeRun) Release(context.Context) error {
	r.cancel(fault.New(fault.Conflict, "given back"))
	return nil
}

func (r *fakeRun) Journal(entry []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.journal = append(r.journal, entry)
}

func (r *fakeRun) Output() (items []openai.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range len(r.output) {
		items = append(items, r.output[i])
	}
	return items
}

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
