package terminal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/command"
	"github.com/hardshell-dev/hardshell/terminal/session"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// execRequest is one command as the orchestrator gets it.
type execRequest struct {
	params   process.ExecParams
	call     approval.Call
	lines    []string
	decision approval.Decision
	sealed   [32]byte // of what was decided: what runs is compared with it
	freeform bool
	note     string // for the model, about how it runs
	keep     int    // bytes of each stream in the result; 0 is the usual
	sink     func(stream int, data []byte)

	live *liveRequest // nil for a one-shot command
}

// liveRequest is what makes a command live on.
type liveRequest struct {
	id         int
	name       string
	tty        bool
	background bool
	ready      session.Until
	wait       session.Wait
}

// wanted is what a call asks for, whatever tool it came by.
type wanted struct {
	argv        []string // of a command without a shell of ours
	script      string
	freeform    bool // script counts
	workdir     string
	shell       string
	login       *bool
	tty         bool
	expiration  process.ExecExpiration
	permissions process.SandboxPermissions
	reason      string
	prefix      []string
}

// request reads a command, makes its argument list and environment, and decides about it.
func (t ToolCtx) request(ctx context.Context, w wanted) (*execRequest, error) {
	dir, err := t.workdir(w.workdir)
	if err != nil {
		return nil, err
	}
	sh, err := t.Session.config.Shells(w.shell)
	if err != nil {
		return nil, err
	}
	login := !t.Session.config.DisableLogin
	if w.login != nil {
		if *w.login && !login {
			return nil, fault.New(fault.Invalid, "Login shells are disabled here.").WithParam("login").WithTry("login: false")
		}
		login = *w.login
	}
	prepare := shell.Call{Command: w.script, Login: login, TTY: w.tty, Environ: t.Session.config.Environ, Policy: t.Turn.ShellEnvironmentPolicy}
	var note string
	if local, ok := sh.(localShell); ok && login {
		// A login that cannot be captured would fail, or be slow, or print, before each command in the same way.
		prepare.Snapshot, note = t.Session.snapshot(ctx, t, local)
		prepare.Login = prepare.Snapshot.Usable()
	}
	invocation, err := sh.Prepare(prepare)
	if err != nil {
		return nil, err
	}
	argv := invocation.Argv
	if !w.freeform {
		argv = slices.Clone(w.argv)
	}
	script, err := parse(sh, w, argv)
	if err != nil {
		return nil, err
	}
	env := map[string]string{}
	for _, entry := range invocation.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	if gitOnlyReads(script) {
		for _, entry := range command.GitEnvironment() {
			name, value, _ := strings.Cut(entry, "=")
			env[name] = value
		}
	}
	r := &execRequest{
		params: process.ExecParams{Command: argv, Cwd: dir, Expiration: w.expiration, Env: env, SandboxPermissions: w.permissions, Justification: w.reason},
		call: approval.Call{Script: script, Argv: slices.Clone(argv), Cwd: dir, Workspace: append([]string{t.Turn.Cwd}, t.Turn.SandboxPolicy.WritableRoots...), TTY: w.tty,
			Profile: t.Turn.Profile(), Confinement: confinement(t.Turn.SandboxPolicy), Escalate: w.permissions == process.RequireEscalated,
			Justification: w.reason, Prefix: w.prefix, Now: t.Session.config.Now()},
		lines: script.Display(), freeform: w.freeform, note: note,
	}
	r.decision = t.Turn.ApprovalPolicy.Decide(r.call, t.Session.config.Rules, t.Session.approved.all())
	r.sealed = seal(r.params)
	return r, nil
}

// parse reads what will run: a script by its shell's grammar, everything else by its argument list.
func parse(sh Shell, w wanted, argv []string) (*command.Script, error) {
	if w.freeform {
		if dialect, ok := sh.Grammar(); ok {
			return command.Parse(w.script, dialect)
		}
	}
	return command.Argv(argv)
}

// workdir is the folder that a call names, from the turn's. It moves the command; what may be written stays the turn's.
func (t ToolCtx) workdir(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", fault.New(fault.Invalid, "The folder's name contains a NUL byte.").WithParam("workdir")
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(t.Turn.Cwd, name)
	}
	return filepath.Clean(name), nil
}

// gitOnlyReads says whether the script runs git and every git in it is proven to only read. What is proven is so
// because nothing in a repository's configuration makes git run a helper then.
func gitOnlyReads(s *command.Script) bool {
	found := false
	for i := range s.Parts {
		if s.Parts[i].Name() == "git" {
			if s.Parts[i].Class != command.ReadOnly {
				return false
			}
			found = true
		}
	}
	return found
}

// seal sums up what was decided about. The environment's values are in it too.
func seal(p process.ExecParams) [32]byte {
	text, _ := json.Marshal([]any{p.Command, p.Arg0, p.Cwd, p.Env, p.SandboxPermissions}) // plain values: it cannot fail
	return sha256.Sum256(text)
}

// commandRuntime is what one-shot and live commands share: how they are decided and asked about.
type commandRuntime struct{}

// SandboxPreference leaves it to the policy.
func (commandRuntime) SandboxPreference() SandboxPreference { return SandboxAuto }

// EscalateOnFailure is so for every command.
func (commandRuntime) EscalateOnFailure() bool { return true }

// ApprovalKeys is the digest of all that was asked.
func (commandRuntime) ApprovalKeys(r *execRequest) []ApprovalKey {
	return []ApprovalKey{ApprovalKey(digestOf(r.decision))}
}

// ExecApprovalRequirement is the decision.
func (commandRuntime) ExecApprovalRequirement(r *execRequest, _ ToolCtx) ExecApprovalRequirement {
	return RequirementOf(r.decision)
}

// SandboxModeForFirstAttempt is outside only for a call that asked for it; approve has seen to the approval.
func (commandRuntime) SandboxModeForFirstAttempt(r *execRequest) SandboxOverride {
	if r.call.Escalate {
		return BypassSandboxFirstAttempt
	}
	return NoOverride
}

// WantsNoSandboxApproval is the policy's word.
func (commandRuntime) WantsNoSandboxApproval(r *execRequest, t ToolCtx) bool {
	return t.Turn.ApprovalPolicy.Retries(r.call)
}

// StartApproval asks the session's person. The answer can only be one that was offered.
func (commandRuntime) StartApproval(ctx context.Context, r *execRequest, a ApprovalCtx) (Review, error) {
	request := ApprovalRequest{CallID: a.CallID, Tool: a.ToolName, Command: slices.Clone(r.params.Command), Lines: slices.Clone(r.lines), Cwd: r.params.Cwd,
		Reasons: a.Need.Question.Reasons, Justification: r.params.Justification, Effect: a.Need.Question.Effect, Outside: a.Need.Question.Outside,
		Proposed: a.Need.Question.Proposed, Scopes: a.Need.Question.Scopes, Digest: digestOf(r.decision)}
	if a.RetryReason != "" {
		request.Reasons, request.Retry, request.Outside = []string{a.RetryReason}, a.RetryReason, true
		request.Effect = "It runs again, OUTSIDE the sandbox, with all that you may do."
		request.Proposed, request.Scopes = nil, []approval.Scope{approval.Once, approval.Session}
	}
	return a.put(ctx, request)
}

// digestOf is the digest that any decision carries.
func digestOf(d approval.Decision) approval.Digest {
	switch d := d.(type) {
	case approval.Allow:
		return d.Digest
	case approval.Question:
		return d.Digest
	case approval.Forbid:
		return d.Digest
	}
	return ""
}
