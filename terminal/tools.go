package terminal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/command"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// neverEnds is the token of commands that nothing but their own end, or their session's, ends.
var neverEnds = context.Background()

// shellHandler serves shell and container.exec, which take an argument list, and shell_command, which takes a script.
// All three accept both.
type shellHandler struct{ freeform bool }

var oneShotArguments = []string{"command", "cmd", "workdir", "shell", "login", "timeout_ms", "max_output_tokens", "sandbox_permissions", "justification", "prefix_rule"}

// Kind is function.
func (shellHandler) Kind() ToolKind { return KindFunction }

// MatchesKind takes every payload; raw input only where the tool takes a script.
func (h shellHandler) MatchesKind(p ToolPayload) bool {
	if _, raw := p.(CustomPayload); raw {
		return h.freeform
	}
	return true
}

// IsMutating says whether the command is anything but proven to only read.
func (h shellHandler) IsMutating(_ context.Context, i ToolInvocation) bool {
	return mutates(i, oneShotArguments)
}

// Handle runs a command to its end.
func (h shellHandler) Handle(ctx context.Context, i ToolInvocation) (ToolOutput, error) {
	text, _ := arguments(i.Payload, "command")
	a, err := readArguments(text, oneShotArguments)
	if err != nil {
		return nil, err
	}
	w, budget, notes, err := i.want(a, false)
	if err != nil {
		return nil, err
	}
	t := i.ctx()
	r, err := t.request(ctx, w)
	if err != nil {
		return nil, err
	}
	result, err := Orchestrate(ctx, ToolRuntime[*execRequest, *ExecResult](oneShot{}), r, t)
	return i.finish(r, result, err, budget, notes)
}

// execHandler serves exec_command: a command that may live on.
type execHandler struct{}

var execArguments = append([]string{"tty", "yield_time_ms", "session_id", "process_id", "wait_for", "background"}, oneShotArguments...)

// Kind is function.
func (execHandler) Kind() ToolKind { return KindFunction }

// MatchesKind takes every payload.
func (execHandler) MatchesKind(ToolPayload) bool { return true }

// IsMutating says whether the command is anything but proven to only read.
func (execHandler) IsMutating(_ context.Context, i ToolInvocation) bool {
	return mutates(i, execArguments)
}

// Handle starts a command and waits as asked.
func (execHandler) Handle(ctx context.Context, i ToolInvocation) (ToolOutput, error) {
	text, _ := arguments(i.Payload, "cmd")
	a, err := readArguments(text, execArguments)
	if err != nil {
		return nil, err
	}
	w, budget, notes, err := i.want(a, true)
	if err != nil {
		return nil, err
	}
	l := &liveRequest{tty: w.tty, background: a.Background != nil && *a.Background}
	if l.name, err = a.named(); err != nil {
		return nil, err
	}
	if l.wait, l.ready, err = i.wait(a, DefaultYield, l.background, &notes); err != nil {
		return nil, err
	}
	t := i.ctx()
	if n, err := strconv.Atoi(l.name); err == nil && n > 0 {
		if old, err := i.Session.Live().Get(n); err != nil || old.State(ctx) == session.Exited {
			l.id = n // a number of the caller's own is the session's, where it is free
		}
	}
	if l.name != "" {
		if old, err := i.Session.Live().Named(l.name); err == nil && old.State(ctx) != session.Exited {
			return nil, fault.New(fault.Conflict, "A session %s runs already.", l.name).WithTry("write_stdin with it, or another name")
		}
	}
	r, err := t.request(ctx, w)
	if err != nil {
		return nil, err
	}
	r.live = l
	result, err := Orchestrate(ctx, ToolRuntime[*execRequest, *ExecResult](live{}), r, t)
	return i.finish(r, result, err, budget, notes)
}

// want reads what the arguments of a command ask for.
func (i ToolInvocation) want(a toolArguments, lives bool) (w wanted, budget int, notes []string, err error) {
	if w.argv, w.script, w.freeform, err = a.command(); err != nil {
		return w, 0, nil, err
	}
	var note string
	if w.expiration, note, err = a.expiration(lives, i.Session.config.MaxTimeout); err != nil {
		return w, 0, nil, err
	}
	if note != "" {
		notes = append(notes, note)
	}
	if w.permissions, err = a.permissions(); err != nil {
		return w, 0, nil, err
	}
	if budget, err = a.tokens(); err != nil {
		return w, 0, nil, err
	}
	w.workdir, w.shell, w.login, w.tty = text(a.Workdir), text(a.Shell), a.Login, a.TTY != nil && *a.TTY
	w.reason, w.prefix = text(a.Reason), a.PrefixRule
	return w, budget, notes, nil
}

// wait reads how long a call of a live command waits, and for what.
func (i ToolInvocation) wait(a toolArguments, by time.Duration, background bool, notes *[]string) (w session.Wait, ready session.Until, err error) {
	until, ceiling, err := a.waitFor()
	if err != nil {
		return w, ready, err
	}
	yield, note, err := bounded("yield_time_ms", a.YieldTimeMS, by, MinYield, MaxYield)
	if err != nil {
		return w, ready, err
	}
	if note != "" {
		*notes = append(*notes, note)
	}
	w = session.Wait{Yield: yield, Ceiling: ceiling, Longest: i.Session.config.MaxWait}
	if background {
		return w, until, nil
	}
	w.Until = until
	return w, ready, nil
}

// howToAsk follows a denial about which nobody was asked.
const howToAsk = "To ask for it: sandbox_permissions: require_escalated, with a justification."

// finish makes the output of a call from its result and its error.
func (i ToolInvocation) finish(r *execRequest, result *ExecResult, err error, budget int, notes []string) (ToolOutput, error) {
	if result == nil {
		result = &ExecResult{CwdBefore: r.params.Cwd, Profile: r.call.Profile}
	}
	result.Tool, result.MaxTokens = i.ToolName, budget
	if err != nil {
		if result.ExitCode == nil && result.SessionID == 0 {
			r.neverBegan(i.ctx(), result, err)
		}
		if err = result.fail(err); err != nil {
			return nil, err
		}
	}
	result.Notices = append(notes, result.Notices...)
	if !result.ranNothing() {
		result.Restarted = i.Session.places.news()
	}
	if result.Denial != nil && !i.Turn.ApprovalPolicy.Retries(r.call) && result.Failure == "denied" {
		result.Notices = append(result.Notices, howToAsk)
	}
	out := answer(i, result.Format(i.Session.config.Form), result.Success(), result)
	if result.Aborted {
		return out, ErrTurnAborted
	}
	return out, nil
}

// neverBegan tells of a call of which nothing ran because it was not allowed to, or had no sandbox to run in. What was
// begun is told of by whoever began it.
func (r *execRequest) neverBegan(t ToolCtx, result *ExecResult, err error) {
	var probe ExecResult
	if probe.fail(err) == nil && (probe.Failure == "rejected" || probe.Stage == "sandbox") {
		r.end(t, result, nil, err)
	}
}

// mutates says whether a call's command is anything but proven to only read. It reads it as the call itself will.
func mutates(i ToolInvocation, allowed []string) bool {
	raw, ok := arguments(i.Payload, "command")
	if !ok {
		return true
	}
	a, err := readArguments(raw, allowed)
	if err != nil {
		return false // it will be refused
	}
	argv, script, freeform, err := a.command()
	if err != nil {
		return false
	}
	var s *command.Script
	if freeform {
		sh, err := i.Session.config.Shells(text(a.Shell))
		if err != nil {
			return true
		}
		dialect, known := sh.Grammar()
		if !known {
			return true
		}
		s, err = command.Parse(script, dialect)
		if err != nil {
			return true
		}
	} else if s, err = command.Argv(argv); err != nil {
		return true
	}
	return s.Class() != command.ReadOnly
}

// stdinHandler serves write_stdin: it types into a live command, or only looks.
type stdinHandler struct{}

var stdinArguments = []string{"session_id", "process_id", "chars", "input", "yield_time_ms", "max_output_tokens", "wait_for"}

// Kind is function.
func (stdinHandler) Kind() ToolKind { return KindFunction }

// MatchesKind takes arguments.
func (stdinHandler) MatchesKind(p ToolPayload) bool {
	switch p.(type) {
	case FunctionPayload, McpPayload:
		return true
	}
	return false
}

// IsMutating is so when something is typed: what it does cannot be told.
func (stdinHandler) IsMutating(_ context.Context, i ToolInvocation) bool {
	raw, _ := arguments(i.Payload, "")
	a, err := readArguments(raw, stdinArguments)
	if err != nil {
		return false
	}
	typed, _ := a.typed()
	return typed != ""
}

// Handle writes and waits as asked.
func (stdinHandler) Handle(ctx context.Context, i ToolInvocation) (ToolOutput, error) {
	raw, _ := arguments(i.Payload, "")
	a, err := readArguments(raw, stdinArguments)
	if err != nil {
		return nil, err
	}
	name, err := a.named()
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, wrong("missing field `session_id`")
	}
	typed, err := a.typed()
	if err != nil {
		return nil, err
	}
	budget, err := a.tokens()
	if err != nil {
		return nil, err
	}
	by := DefaultPoll
	if typed != "" {
		by = DefaultWriteWait
	}
	var notes []string
	wait, _, err := i.wait(a, by, false, &notes)
	if err != nil {
		return nil, err
	}
	s, err := i.Session.Live().Named(name)
	if err != nil {
		return nil, err
	}
	call, known := s.Value().(*liveCall)
	if known && call.attempt.Outside && strings.Trim(typed, "\x03\x04") != "" {
		if err := i.ctx().mayType(ctx, s, typed); err != nil {
			result := &ExecResult{Tool: i.ToolName, MaxTokens: budget}
			if err := result.fail(err); err != nil {
				return nil, err
			}
			out := answer(i, result.Format(i.Session.config.Form), false, result)
			if result.Aborted {
				return out, ErrTurnAborted
			}
			return out, nil
		}
	}
	result := &ExecResult{Tool: i.ToolName, MaxTokens: budget, Notices: notes, SessionID: s.ID(), ProcessID: cmp.Or(s.Name(), strconv.Itoa(s.ID()))}
	if known {
		result.Sandbox, result.Timeout, result.Profile = call.place.Report(), call.timeout, call.r.call.Profile
	}
	tell := func(err error) (ToolOutput, error) {
		if err = result.fail(err); err != nil {
			return nil, err
		}
		return answer(i, result.Format(i.Session.config.Form), result.Success(), result), nil
	}
	if typed != "" {
		switch err := typeInto(ctx, s, typed); {
		case err == nil:
		case known && unanswered(err):
			return tell(call.trouble(ctx, "probe", err))
		case asksPerson(err):
			result.Notices = append(result.Notices, "Nothing was typed: "+told(err))
		case fault.KindOf(err) != fault.Conflict: // of a session that has ended the snapshot tells
			return nil, err
		}
	}
	snapshot, err := s.Collect(ctx, wait)
	if err != nil {
		if known && unanswered(err) {
			return tell(call.trouble(ctx, "probe", err))
		}
		return nil, err
	}
	result.take(snapshot)
	if known {
		err = call.outcome(result, snapshot)
	} else if snapshot.Lost != nil {
		err = ioError("session", snapshot.Lost)
	}
	if err != nil {
		var denied *DeniedError
		if errors.As(err, &denied) { // it came too late for a person to be offered the retry
			result.Notices = append(result.Notices, howToAsk)
		}
		return tell(err)
	}
	return answer(i, result.Format(i.Session.config.Form), result.Success(), result), nil
}

// asksPerson says whether nothing was typed because a password is asked for.
func asksPerson(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Code == session.CodeAwaitingPerson
}

// told is an error's public text.
func told(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Public()
	}
	return err.Error()
}

// mayType asks before something is typed into a command that a person let out of the sandbox: what was approved was
// that command, and not all that it can be told.
func (t ToolCtx) mayType(ctx context.Context, s *session.Session, typed string) error {
	id := strconv.Itoa(s.ID())
	keys := []ApprovalKey{ApprovalKey("typing into session " + id + " of " + s.Started().String())} // a number comes again
	if t.Session.approved.covers(keys) {
		return nil
	}
	var lines []string
	for line := range strings.Lines(typed) {
		lines = append(lines, strconv.QuoteToGraphic(line))
	}
	sum := sha256.Sum256([]byte(string(keys[0]) + "\x00" + typed))
	review, err := t.put(ctx, ApprovalRequest{CallID: t.CallID, Tool: t.ToolName, Lines: lines, Cwd: t.Turn.Cwd, Outside: true,
		Reasons: []string{"It is typed into session " + id + ", which runs outside the sandbox."},
		Effect:  "It is typed, OUTSIDE the sandbox. For the session: so is all that follows, without a question.",
		Scopes:  []approval.Scope{approval.Once, approval.Session}, Digest: approval.Digest("sha256:" + hex.EncodeToString(sum[:]))})
	switch {
	case err != nil:
		return err
	case review.Decision == Abort:
		t.Turn.Abort()
		return &RejectedError{Reason: review.reason(), By: review.By, Abort: true}
	case !review.Decision.approves():
		return &RejectedError{Reason: review.reason(), By: review.By}
	case review.Decision == ApprovedForSession:
		t.Session.approved.add(keys, true, review.By)
	}
	return nil
}

// typeInto gives characters to a session. A lone Ctrl-C interrupts a command that has no terminal.
func typeInto(ctx context.Context, s *session.Session, typed string) error {
	err := s.Write(ctx, []byte(typed))
	if fault.KindOf(err) == fault.Unsupported && strings.Trim(typed, "\x03") == "" {
		if typed != "\x03" {
			return fault.New(fault.Invalid, "One interrupt at a time.").WithTry("chars of exactly \\u0003")
		}
		return s.Interrupt(ctx)
	}
	return err
}
