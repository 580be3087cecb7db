package agent

import (
	"context"
	"errors"
	"path"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// call is one call of our shell: two items on the wire, and the commands behind them.
type call struct {
	item    openai.ShellCall
	index   int
	read    bool  // its arguments were read
	problem error // what is wrong with them
	closed  bool  // its output_item.done was sent
	ruling  *ruling

	output      shellOutput
	outputIndex int
	trouble     error // why none of its commands could be started
}

// environment is where the next call runs. The container's row is made here, for the first call; nothing is started.
// It is nil when no row can be made, and the call is then answered as one that could not be started.
func (l *loop) environment(ctx context.Context) *openai.ItemEnvironment {
	if l.container == "" {
		c, err := l.agent.containers.Create(ctx, l.plan.principal.Org, l.plan.place.spec)
		if err != nil {
			l.trouble = err
			return nil
		}
		l.container = c.ID
		l.run.SetContainer(c.ID)
	}
	return &openai.ItemEnvironment{Type: envReference, ContainerID: l.container}
}

// stage puts the request's files into the workspace, once. Files of a message that the model has answered before go
// into a new container only.
func (l *loop) stage(ctx context.Context) error {
	if l.container == "" {
		return l.trouble
	}
	if l.staged {
		return nil
	}
	for _, f := range l.plan.files {
		if f.replayed && l.plan.place.used {
			continue
		}
		in := container.Input{Name: f.name, Key: f.key, Upload: f.id, Data: f.data}
		if err := l.agent.containers.PutInput(ctx, l.plan.principal.Org, l.container, in); err != nil {
			return err
		}
	}
	l.staged = true
	l.plan.files = nil
	return nil
}

// ownCalls are a turn's calls of our shell.
func (t *turn) ownCalls() (calls []*call) {
	for _, n := range t.entries {
		if n.fate == ours {
			calls = append(calls, n.call)
		}
	}
	return calls
}

// announceCalls opens the outputs of a turn's calls. The journal has the turn before them, so that a later owner knows
// their ids.
func (l *loop) announceCalls(t *turn) {
	calls, next := t.ownCalls(), l.wire.places()
	for i, c := range calls {
		if c.item.Environment == nil && l.container != "" { // the row could be made for a later call of the turn
			c.item.Environment = &openai.ItemEnvironment{Type: envReference, ContainerID: l.container}
		}
		c.output, c.outputIndex = emptyOutput(c.item, id.New(id.ShellCallOutput)), next+i
	}
	l.mark(func(m *mark) { m.turn(t); m.Next = next + len(calls) })
	for _, c := range calls {
		c.outputIndex = l.wire.open(openai.NewItem(c.output)) // nobody else opens items now
	}
}

// emptyOutput is a call's output as it is announced.
func emptyOutput(c openai.ShellCall, outputID string) shellOutput {
	return shellOutput{ShellCallOutput: openai.ShellCallOutput{Type: openai.TypeShellCallOutput,
		ID: outputID, CallID: c.CallID, Status: openai.InProgress,
		MaxOutputLength: c.Action.MaxOutputLength, Output: []openai.ShellOutput{}}, Environment: c.Environment}
}

// runCalls runs the calls of a turn, all at the same time, and returns when each has its output. unready is why none can
// be run, if so; was is what an earlier owner has told of them.
func (l *loop) runCalls(ctx context.Context, t *turn, unready error, was progress) {
	if unready == nil {
		unready = l.stage(ctx)
	}
	calls := t.ownCalls()
	var wg sync.WaitGroup
	for _, c := range calls {
		if done := was.of(c.outputIndex).item; done != nil {
			c.closed, c.output = true, *done
			continue
		}
		if l.plan.request.Bash != nil { // one shell, one call at a time
			l.runCall(ctx, c, unready, was.of(c.outputIndex))
			continue
		}
		wg.Go(func() { l.runCall(ctx, c, unready, was.of(c.outputIndex)) })
	}
	wg.Wait()
	l.recent, l.trouble = nil, nil
	for _, c := range calls {
		l.recent = merge(l.recent, c.output.OutputFiles)
		l.trouble = errors.Join(l.trouble, c.trouble)
	}
	for _, c := range calls {
		if c.trouble == nil {
			l.trouble = nil
		}
	}
	l.files = merge(l.files, l.recent)
}

// closeCall sends the end of a shell_call, unless it was sent: completed once something was started.
func (l *loop) closeCall(c *call, started bool) {
	if c.closed {
		return
	}
	c.item.Status = openai.Completed
	if !started {
		c.item.Status = openai.Incomplete
	}
	c.closed = true
	l.wire.emit(openai.NewItemEvent(openai.EventItemDone, c.index, openai.NewItem(c.item)))
}

func (l *loop) runCall(ctx context.Context, c *call, unready error, was *told) {
	c.closed = c.closed || was.closed
	switch {
	case c.problem != nil:
		// There is no command to number, so the entry comes with the item and not by an event of its own.
		l.closeCall(c, false)
		c.output.Output = []openai.ShellOutput{{Stderr: "shell: " + c.problem.Error(), Outcome: openai.Exit(exitUsage),
			Receipt: &openai.Receipt{Reason: reasonNotStarted}}}
		c.output.Status = openai.Completed
	case c.ruling.refuses() && unready == nil:
		l.closeCall(c, false)
		l.denyOutput(c, was)
	case unready != nil && !was.closed: // one that is closed was started, or nothing of it will be
		l.closeCall(c, false)
		c.trouble = unready
		l.refuseOutput(ctx, c, unready, was)
		return
	case l.plan.request.Bash != nil:
		if err := l.runBash(ctx, c); err != nil {
			l.closeCall(c, false)
			c.trouble = err
			l.refuseOutput(ctx, c, err, was)
			return
		}
	default:
		l.runCommands(ctx, c, was)
	}
	l.wire.emit(openai.NewItemEvent(openai.EventItemDone, c.outputIndex, openai.NewItem(c.output)))
}

// runCommands runs the commands of a call at the same time. The shell_call is closed when the first of them has been
// started, or when none could be; what any of them prints comes after that.
func (l *loop) runCommands(ctx context.Context, c *call, was *told) {
	commands := c.item.Action.Commands
	ends := make([]ended, len(commands))
	errs := make([]error, len(commands))
	g := gate{left: len(commands), open: make(chan struct{}), pass: func(started bool) { l.closeCall(c, started) }}
	var wg sync.WaitGroup
	over := make([]chan struct{}, len(commands)) // closed when a command is over, or will never be started
	for i := range over {
		over[i] = make(chan struct{})
	}
	for i, script := range commands {
		if entry, known := was.entries[i]; known {
			g.tried(true)
			ends[i] = toldBefore(entry, was.ends[i])
			close(over[i])
			continue
		}
		var before chan struct{}
		if i > 0 {
			before = over[i-1]
		}
		wg.Go(func() {
			over := sync.OnceFunc(func() { close(over[i]) })
			defer over()
			if l.agent.options.InOrder && i > 0 {
				<-before
			}
			command := container.Command{Key: l.key(c), Index: i, Script: script,
				Timeout: timeout(c.item.Action.TimeoutMS), MaxOutput: l.plan.viewSize(c.item.Action.MaxOutputLength),
				Dir: c.item.Action.WorkingDirectory, Env: c.item.Action.Env, Stdin: c.item.Action.Stdin,
				Network: l.plan.place.network, Lease: l.run.ID(), Fence: uint64(l.run.Fence())}
			e, gone, err := l.start(ctx, command, was.taken)
			l.heed(err)
			if err != nil {
				over() // the next one's turn is not bound to this one's
			}
			g.tried(err == nil)
			switch {
			case err != nil:
				errs[i], ends[i] = err, ended{entry: notStarted(ctx, err)}
			case e == nil:
				ends[i] = ended{entry: interrupted(ctx, gone, container.Result{}, was.heard(i))}
			default:
				ends[i] = l.follow(ctx, c, i, e, was.heard(i))
			}
			l.noteEnd(c, i, ends[i])
			l.entryDone(c, i, ends[i].entry)
		})
	}
	wg.Wait()
	c.output.Status = openai.Completed
	for _, e := range ends {
		c.output.Output = append(c.output.Output, e.entry)
		c.output.OutputFiles = merge(c.output.OutputFiles, e.files)
		c.output.FilesMore += e.more
		c.output.FilesPartial = c.output.FilesPartial || e.partial
		if !e.whole {
			c.output.Status = openai.Incomplete
		}
	}
	if !g.started {
		c.trouble = errors.Join(errs...)
	}
	for i := range commands {
		if errs[i] == nil {
			l.ended(container.Command{Key: l.key(c), Index: i})
		}
	}
}

// key names a call's commands for ever, with their index.
func (l *loop) key(c *call) string { return l.run.ID() + "." + c.item.ID }

// ended notes that a command's end was told.
func (l *loop) ended(c container.Command) {
	l.mu.Lock()
	l.finished = append(l.finished, c)
	l.mu.Unlock()
}

// acknowledge says of the commands whose ends are on record by now that they are: nobody will ask for them again. Nothing
// waits for it, and one that is not said costs some space.
func (l *loop) acknowledge() {
	l.mu.Lock()
	finished, place := l.finished, l.container
	l.finished = nil
	l.mu.Unlock()
	if len(finished) == 0 || !l.run.Recorded() {
		return
	}
	l.agent.loops.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), finishPatience)
		defer cancel()
		for _, c := range finished {
			if err := l.agent.containers.Acknowledge(ctx, l.plan.principal.Org, place, c.Key, c.Index); err != nil {
				l.agent.options.Logger.Debug("acknowledge command", "response", l.run.ID(), "error", err)
			}
		}
	})
}

// refuse closes a call of which nothing will be run. It has its output all the same: every shell_call has one.
func (l *loop) refuse(ctx context.Context, c *call, why error) {
	l.closeCall(c, false)
	c.output = emptyOutput(c.item, id.New(id.ShellCallOutput))
	c.outputIndex = l.wire.open(openai.NewItem(c.output))
	l.refuseOutput(ctx, c, why, &told{})
}

// refuseOutput closes the output of a call of which nothing will be run, behind what was told of it before.
func (l *loop) refuseOutput(ctx context.Context, c *call, why error, was *told) {
	for i := range c.item.Action.Commands {
		entry, known := was.entries[i]
		if !known {
			entry = notStarted(ctx, why)
			l.entryDone(c, i, entry)
		}
		c.output.Output = append(c.output.Output, entry)
	}
	if len(c.item.Action.Commands) == 0 { // there is no command to number
		c.output.Output = []openai.ShellOutput{notStarted(ctx, why)}
	}
	c.output.Status = openai.Incomplete
	l.wire.emit(openai.NewItemEvent(openai.EventItemDone, c.outputIndex, openai.NewItem(c.output)))
}

// start starts a command, unless it is taken: then an earlier owner may have started it, and it is found again if so. It
// is never run twice. Without an execution and an error it is gone, and why is said.
func (l *loop) start(ctx context.Context, c container.Command, taken bool) (e execution, gone, err error) {
	// What outlives our hold on the response: it ends when that is cancelled, not when it comes into other hands.
	effect, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !response.Left(cause) {
			cancel(cause)
		}
	})
	if taken {
		e, gone, err = l.find(ctx, effect, c)
		if e != nil || gone != nil || err != nil {
			return e, gone, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	e, err = l.agent.containers.Exec(effect, l.plan.principal.Org, l.container, c)
	return e, nil, err
}

// heed ends our part of the response when its containers say that another owner has it. Nothing more is said: it would be
// about a command that the other one cares for.
func (l *loop) heed(err error) {
	if taken(err) {
		l.wire.stop(err)
		l.run.Cancel(err)
	}
}

// taken says whether containers refuse us as the owner of a command.
func taken(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Code == container.CodeStaleOwner || f.Code == container.CodeHandedOver)
}

// Pauses before a command's place is asked again for one that may have been started.
var findPauses = [...]time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}

// find looks for a command that an earlier owner may have started. It answers nothing at all when it never was. What
// cannot be found out counts as gone: to run it could be to run it twice.
func (l *loop) find(ctx, effect context.Context, c container.Command) (e execution, gone, err error) {
	lost := func(cause error) error {
		return fault.Wrap(fault.Unavailable, cause, "The server stopped while the command may have been running, and it can't be found again.")
	}
	if l.container == "" {
		return nil, nil, nil
	}
	for try := 0; ; try++ {
		// Asked also when the response was cancelled: then what runs is to be killed.
		e, state, err := l.agent.containers.Reattach(context.WithoutCancel(effect), l.plan.principal.Org, l.container, c)
		switch {
		case err == nil && state == container.NeverStarted:
			return nil, nil, nil
		case err == nil && e == nil:
			return nil, lost(nil), nil
		case err == nil:
			return e, nil, nil
		case taken(err):
			return nil, nil, err // we are not the owner any more
		case fault.KindOf(err) != fault.Unavailable || try == len(findPauses) || response.Left(context.Cause(ctx)):
			return nil, lost(err), nil
		}
		time.Sleep(findPauses[try])
	}
}

// gate holds back the output of a call's commands until the call itself has been closed.
type gate struct {
	pass    func(started bool)
	open    chan struct{}
	mu      sync.Mutex
	left    int // commands whose start is not decided yet
	passed  bool
	started bool
}

// tried notes that a command was started or could not be, and returns when the call is closed.
func (g *gate) tried(started bool) {
	g.mu.Lock()
	g.left--
	g.started = g.started || started
	if !g.passed && (started || g.left == 0) {
		g.passed = true
		g.pass(started)
		close(g.open)
	}
	g.mu.Unlock()
	<-g.open
}

// killPatience bounds the wait for a cancelled command's last words. The kill itself takes no more than a second.
const killPatience = 5 * time.Second

// follow sends what a command prints as it comes, behind what was heard of it before, and returns its end.
func (l *loop) follow(ctx context.Context, c *call, i int, e execution, heard tail) ended {
	// A cancelled command is still followed to its end: what it printed before counts.
	until, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	stop := context.AfterFunc(ctx, func() {
		if response.Left(context.Cause(ctx)) {
			e.Release() // it is the next owner's
			giveUp()
			return
		}
		e.Cancel()
		select {
		case <-time.After(killPatience):
			giveUp()
		case <-until.Done():
		}
	})
	defer stop()
	from := container.Cursor{Stdout: heard.stdoutBytes, Stderr: heard.stderrBytes}
	for d, err := range e.FollowFrom(until, from) {
		if err != nil {
			break // Wait tells why
		}
		if d == (container.Delta{}) {
			continue
		}
		heard.add(d, l.plan.maxOutput)
		l.wire.emit(&openai.OutputDeltaEvent{Head: openai.Head{Type: openai.EventOutputDelta}, ItemID: c.output.ID,
			OutputIndex: c.outputIndex, CommandIndex: i, Delta: openai.OutputDelta(d)})
	}
	r, err := e.Wait(until)
	l.heed(err)
	out := ended{entry: entryOf(r), more: r.ChangedMore, partial: r.ChangedPartial, whole: err == nil && (!r.Cancelled || r.Breach != "") &&
		r.StdoutLost+r.StderrLost == 0}
	if err != nil {
		out.entry = interrupted(ctx, err, r, heard)
	}
	for _, f := range r.Changed {
		out.files = append(out.files, openai.OutputFile{ContainerID: l.container, FileID: f.ID, Filename: path.Base(f.Path),
			Path: f.Path, Bytes: f.Bytes, ContentType: f.ContentType, Source: f.Source})
	}
	return out
}

func (l *loop) entryDone(c *call, i int, e openai.ShellOutput) {
	l.wire.emit(&openai.OutputDoneEvent{Head: openai.Head{Type: openai.EventOutputDone}, ItemID: c.output.ID,
		OutputIndex: c.outputIndex, CommandIndex: i, Output: []openai.ShellOutput{e}})
}

// minView is the least that a command's stream may be cut to: less tells the model nothing.
const minView = 64

// viewSize bounds the characters of a stream that the model asks to see; 0 leaves it to the container's setting.
func (p *plan) viewSize(asked *int64) int {
	if asked == nil {
		return 0
	}
	return int(max(minView, min(*asked, int64(max(p.maxOutput, minView)))))
}

// timeout is the time limit that a call asks for; 0 leaves it to the container's setting, which also has the cap.
func timeout(ms *int64) time.Duration {
	if ms == nil {
		return 0
	}
	return time.Duration(min(*ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
}

// public is the part of an error that a model and a client may read.
func public(err error) string {
	if e, ok := fault.As(err); ok {
		return e.Public()
	}
	return "The container could not be used because of an error of the server."
}
