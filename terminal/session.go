package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// Session is one agent's place on this machine: its sandboxes, its live commands, what was approved for it. Its methods
// may be called from any goroutine.
type Session struct {
	config   SessionConfig
	dir      string
	places   *places
	approved *approvals
	live     sync.Mutex // guards store
	store    *session.Store

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	serial atomic.Int64 // of keys, under which commands are started

	loginOnce sync.Once
	login     *shell.Login
	warned    atomic.Bool
}

// Open opens a session. Nothing is started until its first command.
func Open(c SessionConfig) (*Session, error) {
	c, err := c.orDefault()
	if err != nil {
		return nil, err
	}
	dir := c.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hardshell-terminal-"); err != nil {
			return nil, fmt.Errorf("make the session's folder: %w", err)
		}
	}
	s := &Session{config: c, dir: dir}
	s.places = &places{backend: c.Backend, dir: dir, byKey: map[string]*held{}}
	s.approved = &approvals{now: c.Now, store: c.Grants}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends every command and every sandbox of the session.
func (s *Session) Close() error {
	s.cancel()
	var err error
	s.live.Lock()
	if s.store != nil {
		err = s.store.Close()
	}
	s.live.Unlock()
	err = errors.Join(err, s.places.close())
	if s.config.Dir == "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// Live are the session's commands that live on between calls.
func (s *Session) Live() *session.Store {
	s.live.Lock()
	defer s.live.Unlock()
	if s.store == nil {
		options := s.config.Sessions
		options.Observer = pruned{options.Observer, s.config.Observer}
		s.store = session.New(options)
	}
	return s.store
}

// TurnContext is what a turn starts from, to change before [Session.Begin].
func (s *Session) TurnContext() TurnContext {
	return TurnContext{Cwd: s.config.Cwd, SandboxPolicy: s.config.SandboxPolicy, ApprovalPolicy: s.config.ApprovalPolicy,
		ShellEnvironmentPolicy: *s.config.ShellEnvironmentPolicy, SandboxExe: s.config.SandboxExe}
}

// Begin begins a turn. Its calls end when the context does.
func (s *Session) Begin(ctx context.Context, c TurnContext) (*Turn, error) {
	cwd, err := folder(s.config.Backend, c.Cwd)
	if err != nil {
		return nil, err
	}
	c.Cwd = cwd
	if c.ApprovalPolicy == nil {
		c.ApprovalPolicy = s.config.ApprovalPolicy
	}
	if err := c.ShellEnvironmentPolicy.Validate(); err != nil {
		return nil, err
	}
	t := &Turn{TurnContext: c}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t, nil
}

// Revoke ends an approval that was given for the session.
func (s *Session) Revoke(id string) bool { return s.approved.revoke(id) }

func (s *Session) nextKey() string { return "t" + strconv.FormatInt(s.serial.Add(1), 10) }

// snapshot is the environment of the user's login, captured once, in the sandbox of the turn that first asks, and a
// warning, given once. It is the user's own shell that is asked for it, whatever shell a call names: what it exports is
// for every command. Only where the user has none is it the one that the first call names.
func (s *Session) snapshot(ctx context.Context, t ToolCtx, sh localShell) (shell.Snapshot, string) {
	s.loginOnce.Do(func() {
		if own, err := s.config.Shells(""); err == nil {
			if local, ok := own.(localShell); ok {
				sh = local
			}
		}
		attempt := t.attempt(s.config.Backend.Select(t.Turn.SandboxPolicy, SandboxAuto), false, false)
		s.login = shell.NewLogin(s.ctx, sh.Shell, s.capture(attempt), shell.LoginOptions{Environ: s.config.Environ})
	})
	snapshot := s.login.Snapshot(ctx)
	if snapshot.Warning != "" && s.warned.CompareAndSwap(false, true) {
		first, _, _ := strings.Cut(snapshot.Warning, ". ") // what follows is for who runs a login shell all the same
		return snapshot, first + "; commands run without it."
	}
	return snapshot, ""
}

// capture runs the shell whose login environment is taken where commands run: in the home folder, or, where those may
// not go there, in the workspace.
func (s *Session) capture(attempt SandboxAttempt) shell.Runner {
	return func(ctx context.Context, argv, env []string, dir string) ([]byte, error) {
		place, release, err := attempt.Place(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
		cmd := process.Command{Argv: argv, Env: env, Dir: dir, Whole: true}
		out, exit, err := s.gather(ctx, place, cmd)
		if err == nil && exit.Error != "" {
			cmd.Dir = attempt.turn.Cwd
			out, exit, err = s.gather(ctx, place, cmd)
		}
		if err == nil && exit.Code != 0 {
			err = fault.New(fault.Unavailable, "the shell exited with code %d", exit.Code)
		}
		return out, err
	}
}

// gather runs a command of ours to its end and returns what it wrote to stdout, all that there is even with an error.
func (s *Session) gather(ctx context.Context, place Place, cmd process.Command) (out []byte, exit process.Exit, err error) {
	cmd.Key = s.nextKey()
	job, err := session.Spawn(ctx, nil, place, cmd)
	if err != nil {
		return nil, exit, err
	}
	defer context.AfterFunc(ctx, job.Kill)()
	for chunk, err := range job.Follow(ctx) {
		if err != nil {
			return out, exit, err
		}
		if chunk.Stream == process.Stdout {
			out = append(out, chunk.Data...)
		}
	}
	exit, err = job.Wait(ctx)
	return out, exit, err
}
