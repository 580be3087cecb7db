package shell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Runner runs a program of ours to its end and returns what it wrote to standard output, all that there is even with an
// error. It gives the program an empty standard input and a terminal session of its own without a terminal (setsid), or
// an interactive shell would fight for the caller's. When the context ends it kills the program and returns soon after;
// it does not wait for what the program left running in the background.
type Runner func(ctx context.Context, argv, env []string, dir string) (stdout []byte, err error)

// MaxCapture is the longest that a capture may take.
const MaxCapture = 5 * time.Second

// LoginOptions vary a [Login]. The zero value captures for the user of this process.
type LoginOptions struct {
	Environ []string      // where HOME and its like come from; nil is os.Environ()
	Limit   time.Duration // of the capture; 0, or more than that, is MaxCapture
}

// Login captures the login environment of a shell, at most once, when it is first asked for.
type Login struct {
	life    context.Context // ends the capture, not the Login: what was captured stays
	shell   Shell
	run     Runner
	environ []string
	limit   time.Duration

	once sync.Once
	done chan struct{}
	snap Snapshot // written before done is closed
}

// NewLogin returns a Login that has captured nothing yet. The context is that of the session it belongs to.
func NewLogin(session context.Context, s Shell, run Runner, o LoginOptions) *Login {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Limit <= 0 || o.Limit > MaxCapture {
		o.Limit = MaxCapture
	}
	return &Login{life: session, shell: s, run: run, environ: slices.Clone(o.Environ), limit: o.Limit, done: make(chan struct{})}
}

// Snapshot returns the login environment, and captures it on the first call; callers meanwhile wait for that one
// capture. It is never an error not to get one: the snapshot is then not usable and its Warning says why, the same for
// everybody, and nobody tries again. A caller whose context ends waits no longer, and the capture goes on for others.
func (l *Login) Snapshot(ctx context.Context) Snapshot {
	l.once.Do(func() {
		go func() {
			defer close(l.done)
			l.snap = l.capture()
		}()
	})
	select {
	case <-l.done:
		return l.snap
	default:
	}
	select {
	case <-l.done:
		return l.snap
	case <-ctx.Done():
		return Snapshot{Warning: "the login environment was not waited for: " + context.Cause(ctx).Error()}
	}
}

// capture runs the shell as an interactive login and reads what it exports.
func (l *Login) capture() Snapshot {
	began := time.Now()
	p, err := planCapture(l.shell, l.environ, runtime.GOOS)
	if err != nil {
		return Snapshot{Warning: err.Error()}
	}
	out, err := l.bounded(p)
	snap := Snapshot{Shell: p.shell, Took: time.Since(began)}
	for i, stage := range slices.Backward(p.stages) {
		vars, ok := stage.find(out)
		if !ok {
			continue
		}
		snap.vars = slices.DeleteFunc(vars, func(entry string) bool { return slices.Contains(p.scaffold, entry) })
		if i < len(p.stages)-1 {
			snap.Warning = fmt.Sprintf("the login environment of %s lacks what its interactive start-up file sets: %s",
				p.shell, reason(err, l.limit))
		}
		return snap
	}
	snap.Warning = fmt.Sprintf("the login environment of %s could not be captured: %s. Each command that asks for a "+
		"login shell starts one", p.shell, reason(err, l.limit))
	return snap
}

// reason says in words why a capture gave less than hoped.
func reason(err error, limit time.Duration) string {
	switch {
	case err == nil:
		return "a start-up file ends the shell or starts another program"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the start-up files take longer than %v", limit)
	case errors.Is(err, context.Canceled):
		return "the session ended"
	}
	return "the shell gave no answer: " + err.Error()
}

// bounded runs the capture within the limit, whatever the runner does. The last tenth of the time is for a runner to
// kill what it runs and hand over what was written so far.
func (l *Login) bounded(p capturePlan) ([]byte, error) {
	whole, cancel := context.WithTimeout(l.life, l.limit)
	defer cancel()
	ctx, stop := context.WithTimeout(l.life, l.limit-l.limit/10)
	defer stop()
	type result struct {
		out []byte
		err error
	}
	ran := make(chan result, 1) // of one, so that a late runner does not hang on it
	go func() {
		out, err := l.run(ctx, p.argv, p.env, p.dir)
		ran <- result{out, err}
	}()
	select {
	case r := <-ran:
		if ctx.Err() != nil {
			r.err = context.Cause(ctx) // a killed shell's exit status says less
		}
		return r.out, r.err
	case <-whole.Done():
		return nil, context.Cause(whole)
	}
}

// capturePlan is what to run for a capture and how to read its output.
type capturePlan struct {
	shell    string
	argv     []string
	env      []string
	dir      string
	stages   []marks  // of the dumps, in the order they are printed; the last that is whole counts
	scaffold []string // entries of env that are not the user's
}

// planCapture makes the plan. Nothing of a repository takes part: the shell starts in the user's home, under an
// environment of the few variables that say who the user is, so that neither a file of the current folder nor a guard
// variable of a start-up file that ran before is seen.
func planCapture(s Shell, environ []string, goos string) (capturePlan, error) {
	p := capturePlan{shell: s.Path, dir: "/"}
	t := s.Type
	if s.Login != "" {
		p.shell = s.Login
		if baseName(s.Login) != "fish" {
			return p, fmt.Errorf("the login environment of %s cannot be captured: only bash, zsh, sh and fish can", s.Login)
		}
		t = Sh
	}
	if goos == "windows" || t == PowerShell || t == Cmd {
		return p, fmt.Errorf("the login environment of %s cannot be captured: only bash, zsh, sh and fish can", p.shell)
	}
	p.env, p.scaffold = captureEnv(p.shell, environ)
	for _, entry := range p.env {
		if home, ok := strings.CutPrefix(entry, "HOME="); ok && strings.HasPrefix(home, "/") {
			p.dir = home
		}
	}
	// Dumps go to descriptor 9, so that what start-up files print, and what they leave running prints later, goes
	// elsewhere. A shell dumps through a child of its own: what a child sees is what a command would see, and neither
	// functions, aliases nor unexported variables are.
	dump := func() string {
		m := newMarks()
		p.stages = append(p.stages, m)
		return "command /bin/sh -c '" + m.script() + "' >&9"
	}
	script := dump()
	if t == Bash && goos != "darwin" {
		// A login bash does not read .bashrc unless .bash_profile does; a terminal of a desktop starts one that is no
		// login, inside a session that was. Do the same. (Terminals of macOS start login shells.) Bash as interactive
		// login closes descriptors 3 to 19 for what it starts, so 9 is made anew.
		script += "; exec " + quote(p.shell) + " -i -c " + quote(dump()) + " >&9 9>&1 >/dev/null"
	}
	p.argv = []string{"/bin/sh", "-c", `exec "$@" 9>&1 >/dev/null </dev/null`, "sh", p.shell, "-l", "-i", "-c", script}
	return p, nil
}

// quote makes s one word of a POSIX command line.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// captureEnv is the environment that a capture starts in, and the part of it that is made up.
func captureEnv(shell string, environ []string) (env, scaffold []string) {
	for _, entry := range environ {
		name, _, ok := strings.Cut(entry, "=")
		if ok && strings.IndexByte(entry, 0) < 0 && (slices.Contains(identity, name) || strings.HasPrefix(name, "LC_")) {
			env = append(env, entry)
		}
	}
	scaffold = []string{
		"SHELL=" + shell,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"TERM=xterm-256color", // start-up files leave early for a dumb one
		// Asked by other people's start-up files, and by those of the user who wants to tell a capture from a terminal.
		"VSCODE_RESOLVING_ENVIRONMENT=1", "HARDSHELL_RESOLVING_ENVIRONMENT=1",
		"DISABLE_AUTO_UPDATE=true", "ZSH_TMUX_AUTOSTART=false", "ZSH_TMUX_AUTOSTARTED=true", // oh-my-zsh
	}
	env = append(env, scaffold...)
	return env, scaffold[2:] // the user's SHELL and a PATH that no file changed are real enough
}

// identity are the variables that say who and where the user is before any start-up file has run.
var identity = []string{
	"HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "ZDOTDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME",
	"XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS", "WSL_DISTRO_NAME",
	"__CF_USER_TEXT_ENCODING",
}
