// Package agent is the loop: ask the model, run the shell calls of its turn, give it the results, until it answers.
//
// It knows what a conversation is and who executes a call; it speaks to no upstream (package llm does), confines
// nothing (package container does) and writes no row (package response does). What holds: no command starts before
// the model's turn is complete; a call and its output are two items with ids of their own, in the order of DESIGN D3;
// what could not be run is told to the model as a failed call and to the client with an honest status; every response
// that [Agent.Create] returned ends with exactly one terminal event.
//
// Responses in the background, and those whose server died, are run by a bounded crew (crew.go, claim.go). How far a loop
// is stands in its response's journal (mark.go); another owner goes on from there (resume.go), and no command runs twice.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options are an agent's settings. The zero value works.
type Options struct {
	MaxIterations          int       // model calls per response; 0 is 10, less than 2 is 2. In the last one there are no tools.
	EnvironmentDescription string    // the operator's words in the shell's description
	DefaultEnvironment     string    // what a shell tool without environment means: container_auto (default) or local
	ClientRuns             bool      // nothing is run here: every call of the shell goes to the client
	Vendors                Vendors   // calls of a shell with a container are the upstream's to run; nil: they are run here
	InOrder                bool      // the commands of a call run one after the other and not at the same time
	Uploads                Uploads   // the files that input_file parts name by id; nil: there are none
	Sealer                 Sealer    // keeps what tools show their servers for an owner who goes on; nil: one cannot
	Downloads              Downloads // fetches those that they name by file_url; nil: none is fetched
	Workers                int       // responses in the background that run at once; 0 is 128
	MaxWaiting             int       // background responses that wait for a worker; beyond it one is refused; 0 is 4096
	Approvals              *approvals.Service
	Compaction             Compaction
	Logger                 *slog.Logger
}

const (
	defaultIterations = 10
	defaultWorkers    = 128
	defaultWaiting    = 4096
)

// Agent runs responses. It is safe for use by many goroutines.
type Agent struct {
	responses  responses
	containers containers
	models     models
	options    Options

	crew *crew
	stop context.CancelFunc // no more is claimed

	handed atomic.Bool // a response was given back
	ratios ratios

	mu     sync.Mutex
	closed bool
	runs   map[run]bool // whether another owner can go on with it
	loops  sync.WaitGroup
}

// New makes an agent over the rooms that it uses.
func New(responses *response.Service, containers *container.Service, models *llm.Router, o Options) *Agent {
	containers.EndLive(bashKey)
	return newAgent(responseRoom{responses}, containerRoom{containers}, models, o)
}

func newAgent(r responses, c containers, m models, o Options) *Agent {
	if o.MaxIterations <= 0 {
		o.MaxIterations = defaultIterations
	}
	o.MaxIterations = max(o.MaxIterations, 2) // one to call, one to answer
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = defaultWaiting
	}
	o.Compaction = o.Compaction.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agent{responses: r, containers: c, models: m, options: o, runs: map[run]bool{}, crew: newCrew(o.Workers, o.MaxWaiting)}
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.loops.Go(func() { a.tend(ctx) })
	if o.Approvals != nil {
		a.loops.Go(func() { a.attend(ctx) })
	}
	return a
}

// Create checks a request, begins its response and runs it: in a goroutine of its own, in the background when its turn
// has come, or, where nobody reads the response as it comes, before it returns. Then the end of ctx cancels the response,
// as its caller cannot. An error means that nothing was begun; it is the HTTP answer. What goes wrong later is told in
// the response.
func (a *Agent) Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (*response.Run, error) {
	r, live, err := a.begin(ctx, p, req)
	if err != nil {
		return nil, err
	}
	if req.InBackground() {
		live()
	} else if req.Streams() {
		go live()
	} else {
		stop := context.AfterFunc(ctx, func() { r.Cancel(response.ErrClientGone) })
		live()
		stop()
	}
	out, ok := r.(*response.Run)
	if !ok {
		return nil, fmt.Errorf("create response: a run of type %T", r)
	}
	return out, nil
}

// begin checks a request and begins its response. The caller calls live, once, which returns when it has ended, or, of
// one in the background, when it has begun or waits for its turn.
func (a *Agent) begin(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (r run, live func(), err error) {
	plan, err := a.plan(ctx, p, req)
	if err != nil {
		return nil, nil, err
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil, nil, fault.New(fault.Unavailable, "The server is stopping.").WithTry("the same request in a moment")
	}
	a.loops.Add(1) // before Begin, so that Close waits for what is being begun
	a.mu.Unlock()
	background := req.InBackground()
	if background {
		if err := a.crew.book(); err != nil {
			a.loops.Done()
			return nil, nil, err
		}
	}
	r, err = a.responses.Begin(ctx, plan.begin())
	if err != nil {
		if background {
			a.crew.unbook()
		}
		a.loops.Done()
		return nil, nil, err
	}
	a.enlist(r, background)
	play := func() {
		defer a.loops.Done()
		defer a.forget(r)
		a.drive(r, func(context.Context) (*loop, error) { return newLoop(a, r, plan), nil })
	}
	if background {
		return r, func() { a.enqueue(r, play) }, nil
	}
	return r, play, nil
}

// enlist notes a run, so that Close finds it.
func (a *Agent) enlist(r run, durable bool) {
	a.mu.Lock()
	a.runs[r] = durable
	stopping := a.closed
	a.mu.Unlock()
	if stopping {
		a.part(r, durable)
	}
}

// part ends what a stopping server has to do with a response: another owner goes on, or it is cancelled.
func (a *Agent) part(r run, durable bool) {
	if !durable {
		r.Cancel(errStopping)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishPatience)
	defer cancel()
	err := r.Release(ctx)
	if fault.KindOf(err) == fault.Conflict { // it has ended
		return
	}
	a.handed.Store(true)
	if err != nil {
		a.options.Logger.Error("give response back", "response", r.ID(), "error", err)
	}
}

// HandedOver says whether Close has given responses back, whose commands may run.
func (a *Agent) HandedOver() bool { return a.handed.Load() }

// enqueue has a background response run when its turn has come. One that is cancelled before is ended at once.
func (a *Agent) enqueue(r run, live func()) {
	if err := r.Queue(); err != nil {
		a.options.Logger.Warn("queue response", "response", r.ID(), "error", err) // live ends it
	}
	t := &task{start: func() {
		defer a.crew.leave()
		live()
	}}
	a.crew.submit(t)
	context.AfterFunc(r.Context(), func() {
		if a.crew.remove(t) {
			live()
		}
	})
}

// errStopping is the cause of runs that end because the server does.
var errStopping = fault.New(fault.Cancelled, "The server is stopping.")

func (a *Agent) forget(r run) {
	a.mu.Lock()
	delete(a.runs, r)
	a.mu.Unlock()
}

// lastWords is how long before the end of its time a stopping server cancels what is still running, so that the ends
// are told.
const lastWords = 3 * time.Second

// Close begins no more, gives back what another owner can go on with, lets what a client waits for end by itself until
// shortly before ctx does, and cancels it then. It returns when each of them has its terminal event, or when ctx ends.
func (a *Agent) Close(ctx context.Context) error {
	a.stop()
	a.mu.Lock()
	a.closed = true
	var durable []run
	for r, is := range a.runs {
		if is {
			durable = append(durable, r)
		}
	}
	a.mu.Unlock()
	var parting sync.WaitGroup
	for _, r := range durable {
		parting.Go(func() { a.part(r, true) })
	}
	done := make(chan struct{})
	go func() {
		parting.Wait()
		a.loops.Wait()
		close(done)
	}()
	patience := time.NewTimer(0)
	defer patience.Stop()
	if deadline, ok := ctx.Deadline(); ok {
		patience.Reset(time.Until(deadline) - lastWords)
	}
	for {
		select {
		case <-done:
			return nil
		case <-patience.C:
			a.cancelAll()
		case <-ctx.Done():
			return fmt.Errorf("close agent: %w", context.Cause(ctx))
		}
	}
}

func (a *Agent) cancelAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r, durable := range a.runs {
		if !durable {
			r.Cancel(errStopping)
		}
	}
}

// finishPatience bounds the writing of a terminal event, which must happen although the run's context may have ended.
const finishPatience = 30 * time.Second

// drive runs a response to its end and finishes it. A panic of the loop ends its own response, not the server. What has
// come into other hands is left alone.
func (a *Agent) drive(r run, begin func(context.Context) (*loop, error)) {
	var l *loop
	end := func() (end response.End) {
		defer func() {
			if v := recover(); v != nil {
				a.options.Logger.Error("the loop panicked", "response", r.ID(), "panic", v, "stack", string(debug.Stack()))
				end = response.End{Status: openai.Failed, Error: failure(fmt.Errorf("panic: %v", v))}
			}
		}()
		var err error
		if l, err = begin(r.Context()); err != nil {
			a.options.Logger.Warn("response cannot be gone on with", "response", r.ID(), "error", err)
			return response.End{Status: openai.Failed, Error: failure(err)}
		}
		return l.live(r.Context())
	}()
	if response.Left(context.Cause(r.Context())) {
		ctx, cancel := context.WithTimeout(context.Background(), finishPatience)
		defer cancel()
		if err := r.Release(ctx); err != nil && fault.KindOf(err) != fault.Conflict {
			a.options.Logger.Warn("give response back", "response", r.ID(), "error", err)
		}
		return
	}
	l.partBash()
	defer l.leaveBash()
	// The run's context may be over; its end is still to be told.
	ctx := context.WithoutCancel(r.Context())
	if r.Recorded() { // any other has no disk to wait for
		bounded, cancel := context.WithTimeout(ctx, finishPatience)
		defer cancel()
		ctx = bounded
	}
	err := r.Finish(ctx, end)
	switch {
	case err == nil && l != nil:
		l.acknowledge()
	case err != nil && fault.KindOf(err) != fault.Conflict:
		a.options.Logger.Error("finish response", "response", r.ID(), "error", err)
	}
}

// failure is how a client is told of an error that ends its response.
func failure(err error) *openai.ResponseError {
	out := &openai.ResponseError{Code: "server_error", Message: "The server had an error while it processed the request."}
	if e, ok := fault.As(err); ok {
		out.Message = e.Public()
		if e.Code != "" {
			out.Code = e.Code
		}
	}
	return out
}
