package shellcall

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// loop is what the kept shell does: it reads a command and then the mark of its end, both ended by NUL, from a descriptor
// that commands do not have. The mark is read when the command is over, so that nothing the command prints can be taken
// for it, and is written to copies of the streams, so that a command may redirect its own for good.
const loop = `exec 217<&0 218>&1 219>&2 </dev/null
while IFS= builtin read -r -d '' -u 217 hardshell_command; do
  builtin eval "$hardshell_command" 217<&- 218>&- 219>&-
  hardshell_status=$?
  IFS= builtin read -r -d '' -u 217 hardshell_mark || break
  builtin printf '\0%s:%d:%s\0' "$hardshell_mark" "$hardshell_status" "$PWD" >&218
  builtin printf '\0%s:\0' "$hardshell_mark" >&219
done`

// keptShell is the one shell of a persistent executor. It is started when it is first needed, and again after it has
// ended: by exit, by a time-out, by a cancel.
type keptShell struct {
	e       *Executor
	turn    chan struct{} // one command at a time
	closing chan struct{}
	live    *liveShell // nil before the first command, and after an end
	made    int        // shells until now, of which each has a key
}

// liveShell is a shell that runs.
type liveShell struct {
	job     *process.Job
	place   terminal.Place
	release func()
	stop    context.CancelFunc

	mu    sync.Mutex
	now   *capture  // of the command that runs
	early [3][]byte // what came after the last command's end: of its background jobs
	dead  bool      // the shell has ended, and nobody follows it any more
	lost  error     // why its end is not known
	cwd   string
}

// capture is the output of one command.
type capture struct {
	cut  [3]*cutter
	kept [3]*process.HeadTailBuffer
	open int // streams whose end has not come
	code int
	cwd  string
	over chan struct{} // closed at the end of both streams, or of the shell
	gone bool          // the shell ended
	lost error
}

func newCapture(c *command, most int) (seen *capture, mark string) {
	mark = rand.Text()
	seen = &capture{open: 2, over: make(chan struct{})}
	for _, stream := range []int{process.Stdout, process.Stderr} {
		seen.kept[stream] = process.NewHeadTailBuffer(most)
		seen.cut[stream] = newCutter(mark, func(data []byte) {
			seen.kept[stream].Write(data)
			c.printed(stream, data)
		})
	}
	return seen, mark
}

func newKept(e *Executor) *keptShell {
	return &keptShell{e: e, turn: make(chan struct{}, 1), closing: make(chan struct{})}
}

// maxEarly bounds what is kept of background jobs between two commands.
const maxEarly = 64 << 10

// run decides about a command, gives it to the shell and waits for its end.
func (k *keptShell) run(ctx context.Context, c *command) (r ran, err error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
	_, err = k.e.session.Clear(ctx, c.turn, toolName, terminal.Question{Script: c.script, Shell: "bash"})
	var rejected *terminal.RejectedError
	if errors.As(err, &rejected) {
		r.refused = rejected.Reason
		k.e.audit(ended(c, r))
		return r, nil
	}
	if err != nil {
		return r, err
	}
	seen, mark := newCapture(c, k.e.options.MaxOutput)
	if k.live != nil && !k.live.begin(seen) { // it has ended by itself meanwhile
		k.drop()
	}
	if k.live == nil {
		if k.live, err = k.start(ctx, c.turn); err != nil {
			if ctx.Err() == nil {
				r.broken, err = public(err), nil
			}
			return r, err
		}
		if !k.live.begin(seen) {
			k.drop()
			r.broken = "The shell ended before its first command."
			return r, nil
		}
	}
	report := k.live.place.Report()
	k.e.audit(terminal.ExecCommandBegin{CallID: c.callID, Tool: toolName, Command: []string{c.script}, Lines: []string{c.script}, Cwd: k.live.cwd, Source: terminal.FromAgent,
		Freeform: true, Attempt: 1, Sandbox: "kept", Report: report, Decision: terminal.Decided{By: "policy"}, Profile: c.turn.Profile(), Timeout: c.timeout, At: time.Now()})
	r, err = k.live.run(ctx, k, c, seen, mark)
	k.e.audit(ended(c, r))
	return r, err
}

// ended is the end of a command as the terminal's observer is told of it.
func ended(c *command, r ran) terminal.ExecCommandEnd {
	both := r.stdout.Text + r.stderr.Text
	sum := sha256.Sum256([]byte(both))
	end := terminal.ExecCommandEnd{CallID: c.callID, Tool: toolName, ExitCode: r.exit.Code, Signal: r.exit.Signal, TimedOut: r.timedOut, Denial: r.denial,
		Preview: terminal.TelemetryPreview(both), Digest: "sha256:" + hex.EncodeToString(sum[:]), Stdout: r.exit.Stdout, Stderr: r.exit.Stderr,
		Duration: r.exit.Ended.Sub(r.exit.Started), Decision: terminal.Decided{By: "policy"}, Cwd: r.cwd, At: time.Now()}
	switch {
	case r.refused != "":
		end.Error, end.Message = "rejected", r.refused
	case r.broken != "":
		end.Error, end.Message = "io", r.broken
	case r.timedOut:
		end.Error = "timeout"
	case r.denial != nil:
		end.Error, end.Message = "denied", r.denial.String()
	}
	return end
}

// holding is a request for the sandbox itself, in which the shell is started.
type holding struct{}

type held struct {
	place   terminal.Place
	release func()
	cmd     process.Command
}

func (holding) SandboxPreference() terminal.SandboxPreference { return terminal.SandboxAuto }
func (holding) EscalateOnFailure() bool                       { return false }
func (holding) ApprovalKeys(process.ExecParams) []terminal.ApprovalKey {
	return nil
}

// ExecApprovalRequirement asks nothing: the shell by itself runs nothing, and each of its commands is decided about.
func (holding) ExecApprovalRequirement(process.ExecParams, terminal.ToolCtx) terminal.ExecApprovalRequirement {
	return terminal.Skip{}
}

func (holding) StartApproval(context.Context, process.ExecParams, terminal.ApprovalCtx) (terminal.Review, error) {
	return terminal.Review{}, nil
}

func (holding) Run(ctx context.Context, p process.ExecParams, attempt terminal.SandboxAttempt, t terminal.ToolCtx) (h held, err error) {
	if h.place, h.release, err = attempt.Place(ctx); err != nil {
		return held{}, err
	}
	env, err := attempt.EnvFor(p)
	if err == nil {
		h.cmd, err = env.At(t.CallID, 0)
	}
	if err != nil {
		h.release()
		return held{}, err
	}
	return h, nil
}

// start starts a shell.
func (k *keptShell) start(ctx context.Context, turn *terminal.Turn) (*liveShell, error) {
	bash, err := shell.Find(shell.ThisHost(), "bash")
	if err != nil {
		return nil, fault.Wrap(fault.Unsupported, err, "A shell that is kept is bash, which is not here.").WithTry("a shell of its own for each command")
	}
	invocation, err := bash.Prepare(shell.Call{Command: loop, Environ: k.e.environ(), Policy: turn.ShellEnvironmentPolicy})
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for _, entry := range invocation.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	k.made++
	params := process.ExecParams{Command: invocation.Argv, Cwd: k.e.cwd, Env: env, Expiration: process.Cancellation(context.Background())}
	h, err := terminal.Orchestrate(ctx, terminal.ToolRuntime[process.ExecParams, held](holding{}), params,
		terminal.ToolCtx{Session: k.e.session, Turn: turn, CallID: "kept" + strconv.Itoa(k.made), ToolName: toolName})
	if err != nil {
		return nil, err
	}
	h.cmd.OpenStdin, h.cmd.Whole = true, true
	job, err := h.place.Start(ctx, h.cmd)
	if err != nil {
		h.release()
		return nil, err
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx)) // the shell outlives the call that starts it
	l := &liveShell{job: job, place: h.place, release: h.release, stop: stop, cwd: k.e.cwd}
	go l.follow(following)
	return l, nil
}

// follow passes the shell's streams to the command that runs.
func (l *liveShell) follow(ctx context.Context) {
	var lost error
	for chunk, err := range l.job.Follow(ctx) {
		if err != nil {
			lost = err
			break
		}
		l.mu.Lock()
		l.take(chunk.Stream, chunk.Data)
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead, l.lost = true, lost
	c := l.now
	if c == nil {
		return
	}
	for _, cut := range c.cut {
		if cut != nil {
			cut.end()
		}
	}
	c.gone, c.lost = true, l.lost
	l.now = nil
	close(c.over)
}

// begin makes what comes from now on the output of a command. It is false when the shell has ended.
func (l *liveShell) begin(c *capture) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return false
	}
	for stream, early := range l.early {
		if len(early) > 0 {
			c.cut[stream].emit(early)
			l.early[stream] = nil
		}
	}
	l.now = c
	return true
}

// take gives a piece of a stream to the command that runs; l.mu is held.
func (l *liveShell) take(stream int, data []byte) {
	c := l.now
	if c == nil || c.cut[stream] == nil { // of a background job
		if room := maxEarly - len(l.early[stream]); room > 0 {
			l.early[stream] = append(l.early[stream], data[:min(room, len(data))]...)
		}
		return
	}
	said, rest, found := c.cut[stream].write(data)
	if !found {
		return
	}
	c.cut[stream] = nil
	if stream == process.Stdout {
		code, cwd, _ := strings.Cut(said, ":")
		c.cwd = cwd
		c.code, _ = strconv.Atoi(code) // the shell's own %d
	}
	if len(rest) > 0 {
		l.early[stream] = append(l.early[stream], rest...)
	}
	if c.open--; c.open == 0 {
		l.now = nil
		close(c.over)
	}
}

// run gives the command to the shell.
func (l *liveShell) run(ctx context.Context, k *keptShell, c *command, seen *capture, mark string) (ran, error) {
	began := time.Now()
	before := l.cwd
	r := ran{started: true, cwd: before, report: l.place.Report()}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	go l.job.Write(context.WithoutCancel(ctx), []byte(c.script+"\x00"+mark+"\x00")) // of a shell that is gone, follow tells
	var stuck error
	why := ""
	select {
	case <-seen.over:
	case <-timer.C:
		r.timedOut, why = true, "its time ran out"
	case <-ctx.Done():
		r.exit.Cancelled, why = true, "the call was cancelled"
	case <-k.closing:
		r.exit.Cancelled, why = true, "the executor was closed"
	}
	if why != "" {
		l.job.Kill()
		select {
		case <-seen.over:
		case <-time.After(killLimit):
			stuck = fault.New(fault.Unavailable, "the sandbox does not answer")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for stream, b := range seen.kept {
		if b == nil {
			continue
		}
		v := b.View()
		out := process.StreamOutput{Text: v.Text, Bytes: v.Bytes, OmittedBytes: v.LostBytes, ReplacedBytes: v.Replaced, Truncated: v.LostBytes > 0}
		if stream == process.Stdout {
			r.stdout, r.exit.Stdout = out, v.Bytes
		} else {
			r.stderr, r.exit.Stderr = out, v.Bytes
		}
	}
	r.exit.Started, r.exit.Ended, r.exit.Code = began, time.Now(), seen.code
	byItself := !seen.gone && stuck == nil
	if byItself {
		r.timedOut, r.exit.Cancelled = false, false
		l.cwd = seen.cwd
		k.denied(&r, l.place.Report(), before)
	}
	if byItself && why == "" {
		return r, nil
	}
	k.live = nil
	defer l.let()
	if byItself { // it was over when we came to end it
		r.notes = append(r.notes, fmt.Sprintf("The shell was ended behind it. The next command starts in a new one, in %s.", k.e.cwd))
		return r, nil
	}
	if stuck != nil || seen.lost != nil {
		r.broken = public(errors.Join(stuck, seen.lost))
		return r, nil
	}
	exit, err := l.job.Wait(context.WithoutCancel(ctx))
	if err != nil {
		r.broken = public(err)
		return r, nil
	}
	r.exit.Code, r.exit.Signal, r.exit.Error = exit.Code, exit.Signal, exit.Error
	r.exit.OutOfMemory, r.exit.Limit = exit.OutOfMemory, exit.Limit
	if why == "" {
		k.denied(&r, l.place.Report(), before)
		r.notes = append(r.notes, fmt.Sprintf("The shell ended with it. The next command starts in a new one, in %s.", k.e.cwd))
		return r, nil
	}
	r.notes = append(r.notes, fmt.Sprintf("The shell was ended because %s. The next command starts in a new one, in %s.", why, k.e.cwd))
	if r.timedOut {
		return r, nil
	}
	return r, context.Cause(ctx)
}

// killLimit is how long a killed shell may take to be gone before its sandbox is given up.
const killLimit = 20 * time.Second

// denied asks whether the sandbox kept the command from something.
func (k *keptShell) denied(r *ran, report sandbox.Report, dir string) {
	policy := k.e.session.TurnContext().SandboxPolicy
	if policy.Mode != sandbox.ReadOnly && policy.Mode != sandbox.WorkspaceWrite {
		return
	}
	const enough = 16 << 10
	said := r.stderr.Text
	if d, ok := sandbox.Explain(report, policy, dir, r.exit.Code, []byte(said[max(0, len(said)-enough):])); ok && d.Evidence != sandbox.ByWords {
		r.denial = &d
	}
}

// let ends the shell and lets go of its sandbox.
func (l *liveShell) let() {
	l.job.Kill()
	l.stop()
	l.release()
}

// drop forgets a shell that has ended.
func (k *keptShell) drop() {
	k.live.let()
	k.live = nil
}

// close ends the shell and the command that runs.
func (k *keptShell) close() {
	close(k.closing)
	k.turn <- struct{}{}
	if k.live != nil {
		k.drop()
	}
}
