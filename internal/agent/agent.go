// Package agent is the loop: ask the model, run the shell calls of its turn, give it the results, until it answers.
//
// It knows what a conversation is and who executes a call; it speaks to no upstream (package llm does), confines
// nothing (package container does) and writes no row (package response does). What holds: no command starts before
// the model's turn is complete; a call and its output are two items with ids of their own, in the order of DESIGN D3;
// what could not be run is told to the model as a failed call and to the client with an honest status; every response
// that [Agent.Create] returned ends with exactly one terminal event.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options are an agent's settings. The zero value works.
type Options struct {
	MaxIterations          int    // model calls per response; 0 is 10, less than 2 is 2. In the last one there are no tools.
	EnvironmentDescription string // the operator's words in the shell's description
	DefaultEnvironment     string // what a shell tool without environment means: container_auto (default) or local
	Logger                 *slog.Logger
}

const defaultIterations = 10

// Agent runs responses. It is safe for use by many goroutines.
type Agent struct {
	responses  responses
	containers containers
	models     models
	options    Options

	mu     sync.Mutex
	closed bool
	runs   map[run]struct{}
	loops  sync.WaitGroup
}

// New makes an agent over the rooms that it uses.
func New(responses *response.Service, containers *container.Service, models *llm.Router, o Options) *Agent {
	return newAgent(responseRoom{responses}, containerRoom{containers}, models, o)
}

func newAgent(r responses, c containers, m models, o Options) *Agent {
	if o.MaxIterations <= 0 {
		o.MaxIterations = defaultIterations
	}
	o.MaxIterations = max(o.MaxIterations, 2) // one to call, one to answer
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Agent{responses: r, containers: c, models: m, options: o, runs: map[run]struct{}{}}
}

// Create checks a request, begins its response and runs it: in a goroutine of its own, or, where nobody reads the
// response as it comes, before it returns. Then the end of ctx cancels the response, as its caller cannot. An error
// means that nothing was begun; it is the HTTP answer. What goes wrong later is told in the response.
func (a *Agent) Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (*response.Run, error) {
	r, live, err := a.begin(ctx, p, req)
	if err != nil {
		return nil, err
	}
	if isTrue(req.Stream) || isTrue(req.Background) {
		go live()
	} else {
		stop := context.AfterFunc(ctx, func() { r.Cancel(errClientGone) })
		live()
		stop()
	}
	out, ok := r.(*response.Run)
	if !ok {
		return nil, fmt.Errorf("create response: a run of type %T", r)
	}
	return out, nil
}

// begin checks a request and begins its response. The caller calls live, once, which returns when it has ended.
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

	r, err = a.responses.Begin(ctx, plan.begin())
	if err != nil {
		a.loops.Done()
		return nil, nil, err
	}
	a.mu.Lock()
	a.runs[r] = struct{}{}
	stopping := a.closed
	a.mu.Unlock()
	if stopping {
		r.Cancel(errStopping)
	}
	return r, func() {
		defer a.loops.Done()
		defer a.forget(r)
		a.drive(r, plan)
	}, nil
}

// errStopping is the cause of runs that end because the server does.
var errStopping = fault.New(fault.Cancelled, "The server is stopping.")

// errClientGone is the cause of a run that ends because the one who waits for it does not any more.
var errClientGone = fault.New(fault.Cancelled, "The client closed the connection.").WithCode("client_disconnected")

func (a *Agent) forget(r run) {
	a.mu.Lock()
	delete(a.runs, r)
	a.mu.Unlock()
}

// Close cancels what runs and waits until every response has its terminal event, or until ctx ends.
func (a *Agent) Close(ctx context.Context) error {
	a.mu.Lock()
	a.closed = true
	for r := range a.runs {
		r.Cancel(errStopping)
	}
	a.mu.Unlock()
	done := make(chan struct{})
	go func() {
		a.loops.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close agent: %w", context.Cause(ctx))
	}
}

// finishPatience bounds the writing of a terminal event, which must happen although the run's context may have ended.
const finishPatience = 30 * time.Second

// drive runs a response to its end and finishes it. A panic of the loop ends its own response, not the server.
func (a *Agent) drive(r run, p *plan) {
	l := newLoop(a, r, p)
	end := func() (end response.End) {
		defer func() {
			if v := recover(); v != nil {
				a.options.Logger.Error("the loop panicked", "response", r.ID(), "panic", v, "stack", string(debug.Stack()))
				end = response.End{Status: openai.Failed, Error: failure(fmt.Errorf("panic: %v", v))}
			}
		}()
		return l.live(r.Context())
	}()
	// The run's context may be over; its end is still to be told.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), finishPatience)
	defer cancel()
	if err := r.Finish(ctx, end); err != nil && fault.KindOf(err) != fault.Conflict {
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
