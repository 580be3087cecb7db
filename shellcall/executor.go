package shellcall

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// The defaults of [Options].
const (
	DefaultTimeout    = 60 * time.Second
	DefaultMaxTimeout = time.Hour
	DefaultParallel   = 16
	DefaultAuditBytes = 4 << 10
)

// Options are what an executor works by. Only Terminal.Cwd is required.
type Options struct {
	// Terminal is where and how commands run: the workspace, the sandbox, who is asked (Approver), what is forbidden and
	// allowed (Rules, ApprovalPolicy). Its zero values are the tightest; terminal.DefaultSandbox is what an agent works in.
	Terminal terminal.SessionConfig

	// Allow, if it is not empty, names all that may run, by the beginnings of commands ("git status", "npm test"); each part
	// of a command line has to be on it. It only takes away: what is on it is decided about as ever.
	Allow []string
	// Deny names what never runs. It is also found behind wrappers, options and paths.
	Deny []string

	Timeout    time.Duration // of a command whose call names none; 0 is [DefaultTimeout]
	MaxTimeout time.Duration // the longest that a call may ask for; 0 is [DefaultMaxTimeout]
	MaxOutput  int           // bytes of each stream that a result has; 0 is 1 MiB. The endpoint cuts further, and is told how far.
	AuditBytes int           // bytes of each stream that an observer's Ended has; 0 is [DefaultAuditBytes]
	Parallel   int           // commands that run at the same time; 0 is [DefaultParallel]

	// Persistent gives all commands to one shell, in order: folder, variables, functions and background jobs last from one
	// to the next. Without it each has a shell of its own, and they run at the same time.
	Persistent bool

	Observer Observer // nil is nobody
}

// Executor runs the calls of one conversation. Its methods may be called from any goroutine.
type Executor struct {
	options Options
	session *terminal.Session
	root    *os.Root      // of the workspace, for patches
	cwd     string        // the workspace, with links resolved
	slots   chan struct{} // one for each command that may run
	kept    *keptShell    // nil unless persistent
	patches sync.Mutex    // one at a time
}

// New makes an executor. Nothing is started until the first call.
func New(o Options) (*Executor, error) {
	deny, err := readList("deny", "forbid", o.Deny)
	if err != nil {
		return nil, err
	}
	allow, err := readList("allow", "allow", o.Allow)
	if err != nil {
		return nil, err
	}
	o.Timeout, o.MaxTimeout = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.MaxTimeout, DefaultMaxTimeout)
	o.Parallel, o.AuditBytes = cmp.Or(max(o.Parallel, 0), DefaultParallel), cmp.Or(max(o.AuditBytes, 0), DefaultAuditBytes)
	if o.Timeout < 0 || o.MaxTimeout < 0 {
		return nil, fault.New(fault.Invalid, "A time-out is more than 0.")
	}
	if o.Observer == nil {
		o.Observer = ObserverFunc(func(Event) {})
	}
	c := &o.Terminal
	c.Rules = slices.Concat(c.Rules, deny)
	if c.ApprovalPolicy == nil {
		c.ApprovalPolicy = terminal.AskFor(approval.Policy{})
	}
	if len(allow) > 0 {
		c.ApprovalPolicy = listed{c.ApprovalPolicy, allow}
	}
	if c.Approver != nil {
		c.Approver = &queue{to: c.Approver, turn: make(chan struct{}, 1)}
	}
	session, err := terminal.Open(*c)
	if err != nil {
		return nil, err
	}
	e := &Executor{options: o, session: session, cwd: session.TurnContext().Cwd, slots: make(chan struct{}, o.Parallel)}
	if e.root, err = os.OpenRoot(e.cwd); err != nil {
		return nil, errors.Join(fmt.Errorf("open the workspace: %w", err), session.Close())
	}
	if o.Persistent {
		e.kept = newKept(e)
	}
	return e, nil
}

// Close ends every command, the shell that is kept, and every sandbox.
func (e *Executor) Close() error {
	if e.kept != nil {
		e.kept.close()
	}
	return errors.Join(e.session.Close(), e.root.Close())
}

// queue asks one question at a time. One that cannot be asked is a no, with the reason.
type queue struct {
	to   terminal.Approver
	turn chan struct{}
}

// Approve waits for its turn and asks.
func (q *queue) Approve(ctx context.Context, r terminal.ApprovalRequest) (terminal.Review, error) {
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return terminal.Review{}, context.Cause(ctx)
	}
	review, err := q.to.Approve(ctx, r)
	if err != nil && ctx.Err() == nil {
		return terminal.Review{Decision: terminal.Denied, By: "nobody", Reason: "Nobody could be asked: " + public(err)}, nil
	}
	return review, err
}

func public(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Public()
	}
	return err.Error()
}

// Answer runs what a response's output leaves to the client, and returns the items for the next request's input: one for
// each call, in their order. Calls run at the same time, patches one after the other, each after what stands before it and
// before what follows. When the context ends what runs is killed; every call has its answer all the same, and the error is
// the context's. terminal.ErrTurnAborted is a person's wish that the conversation's turn ends.
func (e *Executor) Answer(ctx context.Context, output []json.RawMessage) ([]json.RawMessage, error) {
	tasks, err := pending(output)
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	answers := make([]any, len(tasks))
	var failed error
	for at := 0; at < len(tasks); {
		if p := tasks[at].patch; p != nil {
			out, err := e.Patch(ctx, *p)
			answers[at], failed = out, errors.Join(failed, err)
			at++
			continue
		}
		var calls []Call
		for ; at+len(calls) < len(tasks) && tasks[at+len(calls)].call != nil; calls = append(calls, *tasks[at+len(calls)].call) {
		}
		outputs, err := e.Run(ctx, calls...)
		failed = errors.Join(failed, err)
		for i, out := range outputs {
			answers[at+i] = out
		}
		at += len(calls)
	}
	items := make([]json.RawMessage, len(answers))
	for i, a := range answers {
		if items[i], err = json.Marshal(a); err != nil {
			return nil, fmt.Errorf("write the answer: %w", err)
		}
	}
	return items, failed
}

// Run runs the commands of calls and returns an output for each, whatever the error. See [Executor.Answer].
func (e *Executor) Run(ctx context.Context, calls ...Call) ([]CallOutput, error) {
	outputs := make([]CallOutput, len(calls))
	for i, c := range calls {
		outputs[i] = CallOutput{Type: TypeCallOutput, CallID: c.CallID, MaxOutputLength: c.Action.MaxOutputLength, Output: make([]Result, len(c.Action.Commands))}
	}
	turn, err := e.session.Begin(ctx, e.session.TurnContext())
	if err != nil { // the workspace is gone
		for i := range outputs {
			for n := range outputs[i].Output {
				outputs[i].Output[n] = Result{Stderr: note("", public(err)), Outcome: exited(ExitNotRun)}
			}
		}
		return outputs, err
	}
	defer turn.End()
	var running sync.WaitGroup
	for i, c := range calls {
		for n, script := range c.Action.Commands {
			cmd := &command{e: e, turn: turn, callID: c.CallID, index: n, script: script, timeout: e.timeout(c.Action.TimeoutMS)}
			if e.kept != nil {
				outputs[i].Output[n] = cmd.run(ctx)
				continue
			}
			running.Go(func() { outputs[i].Output[n] = cmd.run(ctx) })
		}
	}
	running.Wait()
	if turn.Aborted() {
		return outputs, terminal.ErrTurnAborted
	}
	return outputs, context.Cause(ctx)
}

// timeout is what a call asks for, within bounds.
func (e *Executor) timeout(ms *int64) time.Duration {
	if ms == nil || *ms <= 0 {
		return min(e.options.Timeout, e.options.MaxTimeout)
	}
	if *ms >= e.options.MaxTimeout.Milliseconds() {
		return e.options.MaxTimeout
	}
	return time.Duration(*ms) * time.Millisecond
}

func isFault(err error) bool {
	_, ok := fault.As(err)
	return ok
}

// environ is what commands may inherit from.
func (e *Executor) environ() []string {
	if e.options.Terminal.Environ != nil {
		return e.options.Terminal.Environ
	}
	return os.Environ()
}

// audit tells the terminal's own observer of what its tools did not run themselves.
func (e *Executor) audit(event terminal.Event) {
	if o := e.options.Terminal.Observer; o != nil {
		o.Observe(event)
	}
}
