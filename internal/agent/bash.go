package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A request of the Messages API may have a bash: one shell, in which the commands of all its calls run one after the other,
// so that a folder and variables hold from call to call. The shell is a command of the container that lives as long as the
// response; each command of the model's is one of its own beside it (bashscript.go), whose streams the shell is lent for that
// command alone. So output is cut by descriptors, every command has its own time, exit code and receipt, and nothing of
// what it prints is taken for an end.

// bashRoom is what a bash needs of the room of containers beside what every call needs.
type bashRoom interface {
	// OpenBash starts a shell that lives until it is killed. The container's box is there afterwards.
	OpenBash(ctx context.Context, org, id string, c process.Command) (bashJob, error)
	List(ctx context.Context, org string, page container.Page) ([]container.Container, bool, error)
	// End ends a container before its time; its files stay for a while.
	End(ctx context.Context, org, id string) error
}

// bashJob is a shell that lives.
type bashJob interface {
	Kill()
	Done() <-chan struct{}
}

// OpenBash starts a shell in a container.
func (s containerRoom) OpenBash(ctx context.Context, org, id string, c process.Command) (bashJob, error) {
	around, err := s.Ready(ctx, org, id)
	if err != nil {
		return nil, err
	}
	c.Argv = append([]string{around.Shell, "-c", "--"}, c.Argv...)
	c.Env, c.Dir = around.Environ, container.Workdir
	job, err := s.Live(ctx, org, id, c)
	if err != nil {
		return nil, err
	}
	return job, nil
}

// bash is the shell of a response, while it has one.
type bash struct {
	job    bashJob  // nil: none was opened yet
	place  string   // the container that it lives in
	folder string   // its own, in there
	shells int      // that were opened
	runs   int      // commands, over all calls
	leave  func()   // ends the watch of the response's context
	made   []string // containers that end with the response
	paused bool     // the response ends, and its turn does not
}

// alive says whether the shell can take a command in a container.
func (b *bash) alive(place string) bool {
	if b.job == nil || b.place != place {
		return false
	}
	select {
	case <-b.job.Done():
		return false
	default:
		return true
	}
}

// kill ends the shell with all that it started.
func (b *bash) kill() {
	if b.job == nil {
		return
	}
	b.leave()
	b.job.Kill()
	select {
	case <-b.job.Done():
	case <-time.After(killPatience): // it takes no more than a second where all is well; the container's end will
	}
	b.job = nil
}

// openBash makes sure that the response's shell lives in its container.
func (l *loop) openBash(ctx context.Context) error {
	b := &l.bash
	if b.alive(l.container) {
		return nil
	}
	b.kill()
	b.shells++
	key := fmt.Sprintf("%s%s-%d", bashKey, l.run.ID(), b.shells)
	folder := container.Tmpdir + "/.hardshell-" + key
	job, err := l.agent.containers.(bashRoom).OpenBash(ctx, l.plan.principal.Org, l.container,
		process.Command{Key: key, Argv: []string{bashHost, "bash", folder}, Lease: l.run.ID(), Fence: uint64(l.run.Fence())})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, job.Kill)
	b.job, b.place, b.folder, b.leave = job, l.container, folder, func() { stop() }
	return nil
}

// bashKey begins the keys of shells, so that one that a killed gateway has left is found and ended.
const bashKey = "bash-"

// runBash runs the commands of a call in the response's shell, one after the other. What became of one does not keep the
// next from being run; the time that the call is given does. After an error nothing of the call was run or told.
func (l *loop) runBash(ctx context.Context, c *call) error {
	if c.item.Action.Restart {
		if err := l.restartBash(ctx); err != nil {
			return err
		}
	}
	commands := c.item.Action.Commands
	facts := l.agent.containers.Facts(ctx)
	limit := facts.DefaultTimeout
	if asked := timeout(c.item.Action.TimeoutMS); asked > 0 {
		limit = min(asked, facts.MaxTimeout)
	}
	if len(commands) > 0 {
		_ = l.openBash(ctx) // what a boot takes is not the call's time; where it fails, the command says so
	}
	over := time.Now().Add(limit)
	c.output.Status = openai.Completed
	started := false
	for i, script := range commands {
		var end ended
		left := time.Until(over)
		if i > 0 && left < time.Millisecond {
			end = ended{entry: openai.ShellOutput{Stderr: "bash: not run, as the time of this call is over", Outcome: openai.Timeout(),
				Receipt: &openai.Receipt{Reason: reasonTimedOut, TimeoutMS: limit.Milliseconds()}}, whole: true}
		} else {
			var err error
			if end, err = l.bashCommand(ctx, c, i, script, max(left, time.Millisecond), func() { l.closeCall(c, true) }); err != nil {
				c.trouble = err
				end = ended{entry: notStarted(ctx, err)}
			} else {
				started = true
			}
			l.closeCall(c, started)
		}
		l.entryDone(c, i, end.entry)
		c.output.Output = append(c.output.Output, end.entry)
		c.output.OutputFiles = merge(c.output.OutputFiles, end.files)
		c.output.FilesMore += end.more
		c.output.FilesPartial = c.output.FilesPartial || end.partial
		if !end.whole {
			c.output.Status = openai.Incomplete
		}
	}
	l.closeCall(c, true)
	if started {
		c.trouble = nil
	}
	if len(commands) == 0 { // there is no command to number
		c.output.Output = []openai.ShellOutput{{Stdout: "bash was restarted in a fresh container.\n", Outcome: openai.Exit(0)}}
	}
	return nil
}

// bashCommand runs one command in the shell. begun is called once it runs, before anything of it is told.
func (l *loop) bashCommand(ctx context.Context, c *call, i int, script string, left time.Duration, begun func()) (ended, error) {
	if err := l.openBash(ctx); err != nil {
		return ended{}, err
	}
	b := &l.bash
	b.runs++
	e, err := l.agent.containers.Exec(ctx, l.plan.principal.Org, l.container, container.Command{Key: l.key(c), Index: i, Script: bashClient(b.folder, b.runs),
		Stdin: script, Timeout: left, MaxOutput: l.plan.viewSize(c.item.Action.MaxOutputLength), Network: l.plan.place.network,
		Lease: l.run.ID(), Fence: uint64(l.run.Fence())})
	l.heed(err)
	if err != nil {
		return ended{}, err
	}
	begun()
	// The shell may be killed by a limit while it runs the command; nobody would end the command then.
	gone := make(chan struct{})
	watching := make(chan struct{})
	lost := false
	go func() {
		defer close(watching)
		select {
		case <-b.job.Done():
			lost = true
			e.Cancel()
		case <-gone:
		}
	}()
	end := l.follow(ctx, c, i, e, tail{})
	close(gone)
	<-watching
	r := end.entry.Receipt
	switch {
	case end.entry.Outcome.Type == "timeout":
		b.kill() // it still runs the command
		end.entry.Stderr = joinLines(end.entry.Stderr, "bash: stopped at its time limit; the next command gets a new shell")
	case lost && ctx.Err() == nil && r != nil && r.Reason == reasonCancelled:
		r.Reason = reasonInterrupted
		end.entry.Outcome = openai.Exit(exitKilled)
		end.entry.Stderr = joinLines(end.entry.Stderr, "bash: the shell was killed; the next command gets a new one")
	}
	return end, nil
}

// restartBash gives the rest of the response a fresh container. That of a session is the session's from now on.
func (l *loop) restartBash(ctx context.Context) error {
	l.bash.kill()
	spec := l.plan.place.spec
	if spec.Name == "" {
		spec.Name = sessionName(l.plan.request.Bash.SessionID)
	}
	spec.FileIDs = nil // a clean state
	fresh, err := l.agent.containers.Create(ctx, l.plan.principal.Org, spec)
	if err != nil {
		return err
	}
	old := l.container
	l.container = fresh.ID
	l.run.SetContainer(fresh.ID)
	if !l.plan.place.referred && old != "" {
		l.bash.made = append(l.bash.made, old) // nobody can name it any more
	}
	l.plan.place.referred = false
	// The items of this call keep the place that they were announced with: the call began there, and the door of a bash shows
	// the response's container alone.
	return nil
}

// leaveBash has what the response's shell was and had ended behind the response.
func (l *loop) leaveBash() {
	if l != nil && l.plan.request.Bash != nil {
		l.agent.loops.Go(l.closeBash)
	}
}

// closeBash ends what the response's shell was and had. A container that nothing can name any more ends with it.
func (l *loop) closeBash() {
	l.bash.kill()
	ending := l.bash.made
	if !l.bashLasts() && l.container != "" {
		ending = append(ending, l.container)
	}
	ctx, cancel := context.WithTimeout(context.Background(), finishPatience)
	defer cancel()
	for _, id := range ending {
		if err := l.agent.containers.(bashRoom).End(ctx, l.plan.principal.Org, id); err != nil && fault.KindOf(err) != fault.NotFound {
			l.agent.options.Logger.Warn("end the container of a response", "response", l.run.ID(), "container", id, "error", err)
		}
	}
}

// bashLasts says whether the container outlives the response.
func (l *loop) bashLasts() bool {
	return l.plan.place.referred || l.plan.request.Bash.SessionID != "" || l.bash.paused
}

// partBash has the shell of a container that outlives the response go by itself, so that what it left running lives on. That
// of a response that was cancelled is killed.
func (l *loop) partBash() {
	if l == nil || l.plan.request.Bash == nil || !l.bashLasts() || !l.bash.alive(l.container) || l.run.Context().Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.run.Context(), killPatience)
	defer cancel()
	e, err := l.agent.containers.Exec(ctx, l.plan.principal.Org, l.container, container.Command{Key: id.New(id.Call), Script: bashQuit(l.bash.folder), Timeout: killPatience})
	if err != nil {
		return
	}
	if _, err := e.Wait(ctx); err != nil {
		return
	}
	select {
	case <-l.bash.job.Done():
		l.bash.leave()
		l.bash.job = nil
	case <-ctx.Done():
	}
}

// sessionName is the name of a session's container; empty for none.
func sessionName(session string) string {
	if session == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(session))
	return "session_" + hex.EncodeToString(sum[:16])
}

// bashPlace is where a request's bash runs. A container that is named goes before that of the session, which goes before one
// that ends with the response.
func (a *Agent) bashPlace(ctx context.Context, p *plan) error {
	if p.request.Bash == nil {
		return nil
	}
	room, ok := a.containers.(bashRoom)
	if !ok || a.options.ClientRuns || p.place.local {
		return fault.New(fault.Unsupported, "This server runs no bash.").WithTry(`the engine "auto", and running the calls yourself`).WithCode("unsupported_tool")
	}
	p.place.referred = p.place.id != ""
	name := sessionName(p.request.Bash.SessionID)
	if p.place.referred || name == "" {
		return nil
	}
	p.place.spec.Name = name
	found, _, err := room.List(ctx, p.principal.Org, container.Page{Name: name, Limit: 1})
	if err != nil || len(found) == 0 {
		return err
	}
	c, err := a.containers.Usable(ctx, p.principal.Org, found[0].ID)
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Expired:
		p.place.replaced = true
		return nil
	}
	if err != nil {
		return err
	}
	p.place.id, p.place.used, p.place.memory, p.place.network = c.ID, true, c.MemoryLimit, c.Network
	return nil
}

// bashArguments reads the arguments of a call of bash. An error is a sentence for the model.
func bashArguments(raw string) (openai.ShellAction, error) {
	none := openai.ShellAction{Commands: []string{}}
	var a struct {
		Command         *string  `json:"command"`
		Commands        []string `json:"commands"`
		Restart         bool     `json:"restart"`
		TimeoutMS       *float64 `json:"timeout_ms"`
		MaxOutputLength *float64 `json:"max_output_length"`
	}
	if err := json.Unmarshal([]byte(raw), &a); err != nil {
		return none, fmt.Errorf("the arguments are not a JSON object of this function's schema (%s)", plain(err))
	}
	action := openai.ShellAction{Commands: []string{}, Restart: a.Restart, TimeoutMS: whole(a.TimeoutMS), MaxOutputLength: whole(a.MaxOutputLength)}
	if a.Command != nil && strings.TrimSpace(*a.Command) != "" {
		action.Commands = append(action.Commands, *a.Command)
	}
	for i, c := range append(action.Commands, a.Commands...) {
		if strings.ContainsRune(c, 0) {
			return none, fmt.Errorf("command %d holds a NUL character", i+1)
		}
		if i >= len(action.Commands) && strings.TrimSpace(c) != "" {
			action.Commands = append(action.Commands, c)
		}
	}
	switch {
	case len(action.Commands) == 0 && !a.Restart:
		return none, fmt.Errorf(`give "command", "commands" or "restart"`)
	case len(action.Commands) > maxCommands:
		return none, fmt.Errorf("%d commands in one call; at most %d are run", len(action.Commands), maxCommands)
	}
	return action, nil
}

// arguments reads the arguments of a call of the request's shell.
func (p *plan) arguments(raw string) (openai.ShellAction, error) {
	if p.request.Bash != nil {
		return bashArguments(raw)
	}
	return readArguments(raw)
}

// pauses says whether the response ends here though the model would go on: its client may have it go on.
func (l *loop) pauses() bool {
	l.bash.paused = l.plan.request.Bash != nil && l.rounds >= l.agent.options.MaxIterations
	return l.bash.paused
}
