package session_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// patience is for what must happen and usually takes milliseconds.
const patience = 30 * time.Second

var environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=dumb", "PS1=> ", "HISTFILE="}

// everyRung runs a test with sessions in a jail and without one.
func everyRung(t *testing.T, test func(t *testing.T, at place)) {
	t.Run("none", func(t *testing.T) { test(t, newPlace(t, sandbox.DangerFullAccess)) })
	t.Run("jail", func(t *testing.T) {
		require.Feature(t, "jail", sandbox.Supported(t.Context()))
		test(t, newPlace(t, sandbox.WorkspaceWrite))
	})
}

// place is a store with a box for its sessions.
type place struct {
	t     *testing.T
	store *session.Store
	box   *sandbox.Box
	dir   string // of the box
	work  string
}

func newPlace(t *testing.T, mode sandbox.Mode) place {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	work := filepath.Join(base, "work")
	must(t, os.Mkdir(work, 0o755))
	p := place{t: t, store: session.New(session.Options{}), dir: filepath.Join(base, "box"), work: work}
	if os.Geteuid() == 0 && mode == sandbox.WorkspaceWrite { // a box never runs as the host's root
		must(t, os.Chmod(base, 0o755))
	}
	p.box, err = sandbox.Open(t.Context(), sandbox.Spec{Dir: p.dir, Cwd: work, Policy: sandbox.Policy{Mode: mode, SharedTmp: true}})
	must(t, err)
	t.Cleanup(func() {
		if err := p.store.Close(); err != nil {
			t.Error(err)
		}
		p.box.Close()
	})
	return p
}

func (p place) tty(argv ...string) *session.Session {
	return p.start(session.Spec{Command: process.Command{Argv: argv, TTY: &process.Size{}}})
}

func (p place) start(spec session.Spec) *session.Session {
	p.t.Helper()
	spec.Starter = p.box
	spec.Command.Env, spec.Command.Dir = append([]string{"HOME=" + p.work}, environment...), p.work
	s, err := p.store.Start(p.t.Context(), spec)
	must(p.t, err)
	return s
}

func (p place) shell() *session.Session {
	p.t.Helper()
	s := p.tty("bash", "--norc", "--noprofile", "-i")
	if got := collect(p.t, s, session.Wait{Yield: patience}); got.State != session.Idle {
		p.t.Fatalf("no prompt: %+v", got)
	}
	return s
}

func types(t testing.TB, s *session.Session, text string) {
	t.Helper()
	must(t, s.Write(t.Context(), []byte(text)))
}

// does types a line and waits for the prompt.
func does(t testing.TB, s *session.Session, line string) session.Snapshot {
	t.Helper()
	types(t, s, line+"\n")
	got := collect(t, s, session.Wait{Yield: patience})
	if got.State != session.Idle || got.Fired != session.FiredIdle {
		t.Fatalf("%q: %+v", line, got)
	}
	return got
}

func collect(t testing.TB, s *session.Session, w session.Wait) session.Snapshot {
	t.Helper()
	out, err := s.Collect(t.Context(), w)
	must(t, err)
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The seed's second example: a variable lives on; and so do all that a shell has (R12).
func TestAShellKeepsItsState(t *testing.T) {
	everyRung(t, func(t *testing.T, at place) {
		s := at.shell()
		does(t, s, "export FOO=bar")
		if got := does(t, s, "echo $FOO"); got.Body != "bar\n" || *got.Command != 0 || got.Text() != "> echo $FOO\nbar\n> " && got.Text() != "echo $FOO\nbar\n> " {
			t.Errorf("%+v", got)
		}
		does(t, s, "f() { echo f-$1-$FOO; return 3; }")
		must(t, os.Mkdir(filepath.Join(at.work, "sub"), 0o755))
		if got := does(t, s, "set -o noglob; cd sub"); got.CwdBefore != at.work || got.CwdAfter != filepath.Join(at.work, "sub") {
			t.Errorf("%q, %q", got.CwdBefore, got.CwdAfter)
		}
		if got := does(t, s, "f '*'; false"); got.Body != "f-*-bar\n" || *got.Command != 1 || got.CwdBefore != filepath.Join(at.work, "sub") {
			t.Errorf("%+v", got)
		}
		if got := does(t, s, "env | grep -c -e aid= -e PROMPT_COMMAND -e ^PS0; echo $0 >/dev/null"); got.Body != "0\n" {
			t.Errorf("the marks are inherited: %q", got.Body)
		}
		types(t, s, "exit 5\n")
		if got := collect(t, s, session.Wait{Yield: patience}); got.State != session.Exited || got.Exit.Code != 5 {
			t.Errorf("%+v", got)
		}
	})
}

// R25: mixed commands, and no wrong state at the end of any, those that print marks of their own included.
func TestMixedCommandsLeaveNoWrongState(t *testing.T) {
	at := newPlace(t, sandbox.DangerFullAccess)
	s := at.shell()
	lines := []struct {
		line, answer string
		state        session.State
	}{
		{"true", "", session.Idle},
		{"false", "", session.Idle},
		{"sleep 0.05", "", session.Idle},
		{"echo -n no line end", "", session.Idle},
		{`printf '\033]133;D;0;aid=X\007'; sleep 0.15; echo late`, "", session.Idle},
		{`printf '\033]133;C;aid=X\007'`, "", session.Idle},
		{"read x", "word", session.AwaitingInput},
		{"head -n 1", "word", session.AwaitingInput},
		{"cat <<E\nx\nE", "", session.Idle},
		{"sleep 0.01 & wait", "", session.Idle},
		{"PS1='other> '", "", session.Idle},
		{"bash -c 'read -p \"name? \" x </dev/tty'", "me", session.AwaitingInput},
		{"", "", session.Idle},
		{"echo $'\\e[31mred'", "", session.Idle},
		{"(exit 9)", "", session.Idle},
		{"no-such-command", "", session.Idle},
	}
	rounds := 2
	if os.Getenv("HARDSHELL_SUITES") == "all" {
		rounds = 1000 / len(lines)
	}
	for range rounds {
		for _, c := range lines {
			types(t, s, c.line+"\n")
			got := collect(t, s, session.Wait{Yield: patience})
			if got.State != c.state || got.Password {
				t.Fatalf("%q: %+v", c.line, got)
			}
			if c.answer == "" {
				continue
			}
			types(t, s, c.answer+"\n")
			if got := collect(t, s, session.Wait{Yield: patience}); got.State != session.Idle {
				t.Fatalf("%q, answered: %+v", c.line, got)
			}
		}
	}
}

func TestARunningCommandIsNotIdle(t *testing.T) {
	everyRung(t, func(t *testing.T, at place) {
		s := at.shell()
		for _, line := range []string{"sleep 1000", "while :; do :; done", `while :; do printf '\033]133;D;0;aid=x\007'; sleep 0.01; done`} {
			types(t, s, "echo up; "+line+"\n")
			if got := collect(t, s, session.Wait{Until: session.Until{Pattern: regexp.MustCompile("^up$")}, Ceiling: patience}); got.Fired != session.FiredPattern {
				t.Fatalf("%q: %+v", line, got)
			}
			if got := collect(t, s, session.Wait{Yield: 500 * time.Millisecond}); got.State != session.Running || got.Fired != session.FiredYield {
				t.Errorf("%q: %+v", line, got)
			}
			var got session.Snapshot
			for end := time.Now().Add(patience); got.State != session.Idle && time.Now().Before(end); { // a bash whose child ends just then does not notice
				must(t, s.Interrupt(t.Context()))
				got = collect(t, s, session.Wait{Yield: time.Second})
			}
			if got.State != session.Idle || got.Command == nil || *got.Command != 130 {
				t.Errorf("%q, interrupted: %+v", line, got)
			}
		}
	})
}

func TestAREPL(t *testing.T) {
	everyRung(t, func(t *testing.T, at place) {
		s := at.tty("python3", "-q")
		if got := collect(t, s, session.Wait{Yield: patience}); got.State != session.AwaitingInput || got.Prompt != ">>>" {
			t.Fatalf("%+v", got)
		}
		types(t, s, "6*7\n")
		if got := collect(t, s, session.Wait{Yield: patience}); !strings.Contains(got.Text(), "\n42\n>>> ") {
			t.Errorf("%q", got.Text())
		}
		types(t, s, "import time; time.sleep(1000)\n")
		if got := collect(t, s, session.Wait{Yield: 500 * time.Millisecond}); got.State != session.Running {
			t.Errorf("%+v", got)
		}
		must(t, s.Interrupt(t.Context()))
		if got := collect(t, s, session.Wait{Yield: patience}); !strings.Contains(got.Text(), "KeyboardInterrupt") || got.State != session.AwaitingInput {
			t.Errorf("%+v", got)
		}
		types(t, s, "exit(3)\n")
		if got := collect(t, s, session.Wait{Yield: patience}); got.Exit.Code != 3 || got.State != session.Exited {
			t.Errorf("%+v", got)
		}
	})
}

// R5, with a canary: the answer is in nothing that we keep or tell.
func TestAPasswordLeavesNoTrace(t *testing.T) {
	everyRung(t, func(t *testing.T, at place) {
		canary := "canary-" + strings.Repeat("7f3a", 4)
		s := at.tty("bash", "-c", `read -rsp "Password: " p </dev/tty; echo; echo got ${#p}; echo "it is $p!" >&2; sleep 0.1`)
		got := collect(t, s, session.Wait{Until: session.Until{Exit: true}, Ceiling: patience})
		if got.State != session.AwaitingInput || !got.Password || got.Prompt != "Password:" || got.Fired != session.FiredAwaiting {
			t.Fatalf("%+v", got)
		}
		if err := s.Write(t.Context(), []byte(canary+"\n")); fault.KindOf(err) != fault.Conflict || strings.Contains(err.Error(), canary) {
			t.Errorf("%v", err)
		}
		if info := s.Info(); !info.Password || info.Prompt != "Password:" {
			t.Errorf("%+v", info)
		}
		must(t, s.Answer(t.Context(), []byte(canary)))
		got = collect(t, s, session.Wait{Until: session.Until{Exit: true}, Ceiling: patience})
		if want := fmt.Sprintf("\ngot %d\nit is •••!\n", len(canary)); got.Text() != want || got.Exit.Code != 0 {
			t.Errorf("%q, want %q", got.Text(), want)
		}
		if strings.Contains(fmt.Sprintf("%+v%+v", got, at.store.List()), canary) {
			t.Errorf("told: %+v", got)
		}
	})
	at := newPlace(t, sandbox.DangerFullAccess) // what prints it on nobody's behalf leaves nothing in the box's folder either
	canary := []byte("canary-0123456789")
	s := at.tty("bash", "-c", `read -rs p; echo ${#p}`)
	for end := time.Now().Add(patience); s.Answer(t.Context(), bytes.Clone(canary)) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was never asked for")
		}
	}
	if got := collect(t, s, session.Wait{Until: session.Until{Exit: true}, Ceiling: patience}); got.Text() != "17\n" && got.Text() != "\n17\n" {
		t.Errorf("%q", got.Text())
	}
	must(t, filepath.WalkDir(at.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, canary) {
			t.Errorf("%s: %v, %q", path, err, text)
		}
		return nil
	}))
}

func TestCtrlCWithoutATerminal(t *testing.T) {
	everyRung(t, func(t *testing.T, at place) {
		s := at.start(session.Spec{Command: process.Command{Argv: []string{"bash", "-c", "trap 'echo trapped; exit 9' INT; echo up; while :; do sleep 0.02; done"}}})
		if got := collect(t, s, session.Wait{Until: session.Until{Pattern: regexp.MustCompile("up")}, Ceiling: patience}); got.Fired != session.FiredPattern {
			t.Fatalf("%+v", got)
		}
		must(t, s.Interrupt(t.Context()))
		if got := collect(t, s, session.Wait{Yield: patience}); got.Exit.Code != 9 || got.Text() != "trapped\n" {
			t.Errorf("%+v", got)
		}
	})
}

func TestAServerBecomesReady(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	at := newPlace(t, sandbox.WorkspaceWrite)
	s := at.start(session.Spec{Background: true, Ready: session.Until{Port: 8123}, Settle: patience,
		Command: process.Command{Argv: []string{"python3", "-c", "import time, http.server as h\ntime.sleep(0.3)\nh.test(h.SimpleHTTPRequestHandler, port=8123, bind='127.0.0.1')"}}})
	if got := collect(t, s, session.Wait{}); got.Ready != session.JobReady || got.Fired != session.FiredPort {
		t.Fatalf("%+v", got)
	}
	for range 3 {
		client := at.start(session.Spec{Command: process.Command{Argv: []string{"python3", "-c", "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/').status)"}}})
		if got := collect(t, client, session.Wait{Yield: patience}); got.Text() != "200\n" {
			t.Errorf("%+v", got)
		}
	}
	s.Kill()
	if got := collect(t, s, session.Wait{Yield: patience}); got.Ready != session.JobExited || !got.Exit.Cancelled {
		t.Errorf("%+v", got)
	}
}

func TestAPipeIsFed(t *testing.T) {
	everyRung(t, func(t *testing.T, at place) {
		s := at.start(session.Spec{Command: process.Command{Argv: []string{"cat"}, OpenStdin: true}})
		if got := collect(t, s, session.Wait{Yield: patience}); got.State != session.AwaitingInput {
			t.Errorf("%+v", got)
		}
		types(t, s, "one\n")
		if got := collect(t, s, session.Wait{Until: session.Until{Pattern: regexp.MustCompile("^one$")}, Ceiling: patience}); got.Text() != "one\n" {
			t.Errorf("%+v", got)
		}
		must(t, s.CloseInput(t.Context()))
		if got := collect(t, s, session.Wait{Yield: patience}); got.State != session.Exited || got.Exit.Code != 0 {
			t.Errorf("%+v", got)
		}
	})
}
