package sandbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// inTTY makes a command run in a terminal of the default size.
func inTTY(c process.Command) process.Command {
	c.TTY = &process.Size{}
	c.Env = append([]string{"TERM=dumb", "PS1=> "}, c.Env...)
	return c
}

// everyRung runs a test in a jail and without one.
func everyRung(t *testing.T, test func(t *testing.T, box *sandbox.Box)) {
	t.Run("jail", func(t *testing.T) { test(t, newPlace(t).open(t)) })
	t.Run("none", func(t *testing.T) {
		box, _ := unconfined(t)
		test(t, box)
	})
}

// shows waits until a running job's output holds something.
func shows(t testing.TB, job *process.Job, what string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q in the output", what), func() bool {
		out, _ := io.ReadAll(job.Reader(process.Stdout))
		if job.HasExited() && !bytes.Contains(out, []byte(what)) {
			t.Fatalf("the job ended with %q", out)
		}
		return bytes.Contains(out, []byte(what))
	})
}

func types(t testing.TB, job *process.Job, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n, err := job.Write(ctx, []byte(text)); err != nil || n != len(text) {
		t.Fatalf("write %.20q: %d, %v", text, n, err)
	}
}

func TestACommandInATerminal(t *testing.T) {
	everyRung(t, func(t *testing.T, box *sandbox.Box) {
		got := run(t, box, inTTY(bash("tty; stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo >/dev/tty all; echo err >&2; exit 5")))
		if got.Code != 5 || got.err != "" || !regexp.MustCompile(`^/dev/pts/\d+\r\n24 80\r\nall\r\nerr\r\n$`).MatchString(got.out) {
			t.Errorf("got %+v", got)
		}
		c := inTTY(bash("stty size"))
		c.TTY = &process.Size{Rows: 50, Cols: 132}
		if got := run(t, box, c); got.out != "50 132\r\n" {
			t.Errorf("got %q", got.out)
		}
	})
}

func TestATerminalOfAJailIsItsOwn(t *testing.T) {
	box := newPlace(t).open(t)
	for range 3 { // each is given back
		if got := run(t, box, inTTY(bash("tty; ls /dev/pts"))); got.out != "/dev/pts/0\r\n0  ptmx\r\n" {
			t.Errorf("got %q", got.out)
		}
	}
}

func TestCtrlC(t *testing.T) {
	everyRung(t, func(t *testing.T, box *sandbox.Box) {
		job := start(t, box, inTTY(bash("echo up; exec sleep 1000")))
		shows(t, job, "up")
		types(t, job, "\x03")
		if got := wait(t, job); got.Code != 130 || got.Signal != "SIGINT" || got.Cancelled {
			t.Errorf("got %+v", got)
		}
	})
}

func TestCtrlCReachesTheForegroundOnly(t *testing.T) {
	box := newPlace(t).open(t)
	job := start(t, box, inTTY(process.Command{Key: newKey(), Argv: []string{"bash", "--norc", "--noprofile", "-i"}, Env: environment, Timeout: time.Minute}))
	shows(t, job, "> ")
	types(t, job, "sleep 1000 &\nsleep 1000; echo code=$?\n")
	eventually(t, "the second sleep", func() bool { return len(sleepsIn(t, box)) >= 2 })
	types(t, job, "\x03")
	types(t, job, "jobs; echo still here\n")
	shows(t, job, "\nstill here")
	out, _ := io.ReadAll(job.Reader(process.Stdout))
	if !strings.Contains(string(out), "Running") {
		t.Errorf("the background job is gone: %q", out)
	}
	types(t, job, "kill %1; exit 7\n")
	if got := wait(t, job); got.Code != 7 {
		t.Errorf("got %+v", got)
	}
}

// sleepsIn lists the sleeps of a box, from inside.
func sleepsIn(t testing.TB, box *sandbox.Box) []string {
	t.Helper()
	return strings.Fields(run(t, box, bash("pgrep -x sleep || :")).out)
}

func TestJobControl(t *testing.T) {
	everyRung(t, func(t *testing.T, box *sandbox.Box) {
		job := start(t, box, inTTY(process.Command{Key: newKey(), Argv: []string{"bash", "--norc", "--noprofile", "-i"}, Env: environment, Timeout: time.Minute}))
		shows(t, job, "> ")
		out, _ := io.ReadAll(job.Reader(process.Stdout))
		if strings.Contains(string(out), "job control") {
			t.Errorf("bash complains: %q", out)
		}
		types(t, job, "FOO=bar; echo started-$FOO; sleep 1000\n")
		shows(t, job, "started-bar")
		eventually(t, "the stop", func() bool { // one that comes before the shell has handed over its terminal stops nothing
			types(t, job, "\x1a")
			time.Sleep(50 * time.Millisecond)
			out, _ := io.ReadAll(job.Reader(process.Stdout))
			return bytes.Contains(out, []byte("Stopped"))
		})
		types(t, job, "kill %1; fg; echo FOO=$FOO\n")
		shows(t, job, "\nFOO=bar")
		types(t, job, "\x04")
		wait(t, job)
	})
}

func TestResize(t *testing.T) {
	box := newPlace(t).open(t)
	job := start(t, box, inTTY(bash("trap 'stty size; exit 3' WINCH; echo up; while :; do sleep 0.01; done")))
	shows(t, job, "up")
	must(t, job.Resize(t.Context(), process.Size{Rows: 40, Cols: 111}))
	if got := wait(t, job); got.Code != 3 || !strings.HasSuffix(got.out, "40 111\r\n") {
		t.Errorf("got %+v", got)
	}
	if err := job.Resize(t.Context(), process.Size{}); fault.KindOf(err) != fault.Conflict {
		t.Errorf("after the end: %v", err)
	}
}

func TestOpenStdinIsFedAndClosed(t *testing.T) {
	everyRung(t, func(t *testing.T, box *sandbox.Box) {
		c := bash("exec cat")
		c.OpenStdin = true
		job := start(t, box, c)
		types(t, job, "one\n")
		shows(t, job, "one\n")
		types(t, job, "two\n")
		shows(t, job, "two\n")
		must(t, job.CloseInput(t.Context()))
		if got := wait(t, job); got.Code != 0 || got.out != "one\ntwo\n" {
			t.Errorf("got %+v", got)
		}
		if _, err := job.Write(t.Context(), []byte("x")); fault.KindOf(err) != fault.Conflict {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestAllThatWasWrittenIsReadBeforeTheEnd(t *testing.T) {
	box := newPlace(t).open(t)
	c := bash("sleep 0.2; sha256sum")
	c.OpenStdin = true
	job := start(t, box, c)
	data := bytes.Repeat([]byte("hardshell\n"), 500_000)
	types(t, job, string(data))
	must(t, job.CloseInput(t.Context()))
	if err := job.CloseInput(t.Context()); fault.KindOf(err) != fault.Conflict {
		t.Errorf("twice: %v", err)
	}
	if got := wait(t, job); !strings.HasPrefix(got.out, fmt.Sprintf("%x", sha256.Sum256(data))) {
		t.Errorf("got %+v", got)
	}
}

func TestWhatMakesNoSenseIsUnsupported(t *testing.T) {
	box := newPlace(t).open(t)
	open := bash("sleep 1000")
	open.OpenStdin = true
	plain, fed, tty := start(t, box, bash("sleep 1000")), start(t, box, open), start(t, box, inTTY(bash("sleep 1000")))
	ctx := t.Context()
	write := func(j *process.Job) error { _, err := j.Write(ctx, []byte("x")); return err }
	for name, err := range map[string]error{
		"write to a plain command": write(plain), "close a plain command": plain.CloseInput(ctx),
		"resize a plain command": plain.Resize(ctx, process.Size{}), "resize a pipe": fed.Resize(ctx, process.Size{}),
		"close a terminal": tty.CloseInput(ctx),
	} {
		if fault.KindOf(err) != fault.Unsupported || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, write(fed))
	must(t, write(tty))
	must(t, fed.CloseInput(ctx))
	if err := write(fed); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a closed stdin: %v", err)
	}
}

// A command that reads nothing holds up its writer, and nobody else.
func TestACommandThatNeverReads(t *testing.T) {
	const size = 10 << 20
	everyRung(t, func(t *testing.T, box *sandbox.Box) {
		for name, c := range map[string]process.Command{"pipe": bash("echo up; sleep 1000"), "tty": inTTY(bash("stty raw -echo; echo up; sleep 1000"))} {
			t.Run(name, func(t *testing.T) {
				c.OpenStdin = true
				job := start(t, box, c)
				shows(t, job, "up")
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				n, err := job.Write(ctx, make([]byte, size))
				if err != context.DeadlineExceeded || n < 4<<10 || n > 256<<10 {
					t.Errorf("took %d, %v", n, err)
				}
				began := time.Now()
				if got := run(t, box, bash("echo quick")); got.out != "quick\n" || time.Since(began) > 2*time.Second {
					t.Errorf("a neighbour: %+v after %v", got, time.Since(began))
				}
				blocked := make(chan error, 1)
				go func() { _, err := job.Write(t.Context(), make([]byte, size)); blocked <- err }()
				job.Kill()
				if got := wait(t, job); !got.Cancelled {
					t.Errorf("got %+v", got)
				}
				if err := <-blocked; fault.KindOf(err) != fault.Conflict {
					t.Errorf("the writer of a killed command: %v", err)
				}
			})
		}
	})
}

func TestAStoppedReaderGoesOnWhereItWas(t *testing.T) {
	box := newPlace(t).open(t)
	for name, c := range map[string]process.Command{
		"pipe": bash("echo up; sleep 0.5; head -c 1000000 | sha256sum"),
		"tty":  inTTY(bash("stty raw -echo; echo up; sleep 0.5; head -c 1000000 | sha256sum")),
	} {
		t.Run(name, func(t *testing.T) {
			c.OpenStdin = true
			job := start(t, box, c)
			shows(t, job, "up")
			data := bytes.Repeat([]byte("0123456789"), 100_000)
			types(t, job, string(data))
			if got := wait(t, job); !strings.Contains(got.out, fmt.Sprintf("%x", sha256.Sum256(data))) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestACommandThatClosesItsStdinRefuses(t *testing.T) {
	box := newPlace(t).open(t)
	c := bash("exec <&-; echo closed; sleep 1000")
	c.OpenStdin = true
	job := start(t, box, c)
	shows(t, job, "closed")
	if _, err := job.Write(t.Context(), []byte("x")); fault.KindOf(err) != fault.Conflict {
		t.Errorf("got %v", err)
	}
}

func TestOutputOfATerminalIsByteExact(t *testing.T) {
	everyRung(t, func(t *testing.T, box *sandbox.Box) {
		got := run(t, box, inTTY(bash(`stty -opost; seq 1 2000000 | head -c 10000000`)))
		var want bytes.Buffer
		for i := 1; want.Len() < 10_000_000; i++ {
			fmt.Fprintln(&want, i)
		}
		if want.Truncate(10_000_000); got.Code != 0 || got.out != want.String() || got.Stdout != 10_000_000 {
			t.Errorf("%d bytes, code %d, differ: %v", len(got.out), got.Code, got.out != want.String())
		}
	})
}

func TestCharactersOfATerminalStayWhole(t *testing.T) {
	box := newPlace(t).open(t)
	job := start(t, box, inTTY(bash(`stty -opost; for i in $(seq 300); do printf 'aé漢🦀%.0s' $(seq 97); done`)))
	var text strings.Builder
	for d, err := range job.Deltas(t.Context(), process.DeltaLimits{Size: 7}) {
		must(t, err)
		if strings.ContainsRune(d.Text, '\uFFFD') || d.Omitted != 0 {
			t.Fatalf("delta %+v", d)
		}
		text.WriteString(d.Text)
		if text.Len() > 60_000 {
			break
		}
	}
	if !strings.HasPrefix(strings.Repeat("aé漢🦀", 30_000), text.String()) {
		t.Error("the text differs")
	}
	v, err := job.View(process.Stdout, 1000)
	must(t, err)
	if wait(t, job); v.Replaced != 0 {
		t.Errorf("view %+v", v)
	}
}

func TestKillOfATerminalsTree(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	mark := "HARDSHELL_MARK=" + p.base
	c := inTTY(bash("trap '' HUP INT TERM; setsid sleep 1000 & (setsid setsid sleep 1000 &); nohup sleep 1000 & echo up; sleep 1000"))
	c.Env = append([]string{mark}, c.Env...)
	job := start(t, box, c)
	shows(t, job, "up")
	eventually(t, "the tree", func() bool { return len(marked(mark)) >= 4 })
	job.Terminate()
	if got := wait(t, job); !got.Cancelled || got.Code != 137 {
		t.Errorf("got %+v", got)
	}
	if n := len(marked(mark)); n != 0 {
		t.Errorf("%d processes live on", n)
	}
	if got := run(t, box, inTTY(bash("tty"))); got.out != "/dev/pts/0\r\n" {
		t.Errorf("the terminal was not given back: %q", got.out)
	}
}

// What a call leaves behind keeps its terminal, and what it writes later is not the call's.
func TestASurvivorKeepsItsTerminal(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	job := start(t, box, inTTY(bash("trap '' HUP; (while [ ! -e go ]; do sleep 0.01; done; echo later) & echo mine")))
	if got := wait(t, job); got.Stdout != int64(len("mine\r\n")) {
		t.Errorf("got %+v", got)
	}
	must(t, os.WriteFile(p.data("go"), nil, 0o644))
	eventually(t, "the survivor's line", func() bool {
		out, _ := io.ReadAll(job.Reader(process.Stdout))
		return string(out) == "mine\r\nlater\r\n"
	})
}

func TestATerminalMayBeClosedAndOpenedAgain(t *testing.T) {
	box := newPlace(t).open(t)
	got := run(t, box, inTTY(bash("exec </dev/null >/dev/null 2>&1; sleep 0.3; echo again >/dev/tty; exit 4")))
	if got.Code != 4 || got.out != "again\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAReaderIsTypedAndEnds(t *testing.T) {
	box := newPlace(t).open(t)
	c := inTTY(bash("stty -echo; cat; echo over"))
	c.Stdin = strings.NewReader("line\n")
	if got := run(t, box, c); got.Code != 0 || !strings.HasSuffix(got.out, "line\r\nover\r\n") {
		t.Errorf("got %+v", got)
	}
}

func TestACommandThatIsNotThereSaysSoInItsTerminal(t *testing.T) {
	box := newPlace(t).open(t)
	got := run(t, box, inTTY(process.Command{Key: newKey(), Argv: []string{"no-such-program"}, Env: environment}))
	if got.Code != 127 || got.out != "no-such-program: command not found\r\n" {
		t.Errorf("got %+v", got)
	}
	long := strings.Repeat("x", 100_000) // more than a pipe holds
	for _, c := range []process.Command{{Argv: []string{long}}, inTTY(process.Command{Argv: []string{long}})} {
		c.Key, c.Env = newKey(), append(c.Env, environment...)
		if got := run(t, box, c); got.Code != 127 || len(got.out)+len(got.err) < 1000 {
			t.Errorf("code %d, %d bytes", got.Code, len(got.out)+len(got.err))
		}
	}
}

func TestATimeOutInATerminal(t *testing.T) {
	box := newPlace(t).open(t)
	c := inTTY(bash("trap '' HUP INT TERM; echo up; while :; do sleep 1; done"))
	c.Timeout = 300 * time.Millisecond
	if got := run(t, box, c); !got.TimedOut || got.Code != 124 || got.out != "up\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestTheSpawnedForm(t *testing.T) {
	box := newPlace(t).open(t)
	c := bash("cat; exit 9")
	c.OpenStdin = true
	s := start(t, box, c).Spawned(t.Context())
	if _, ok := s.Session.ExitCode(); ok || s.Session.HasExited() {
		t.Error("it has exited already")
	}
	in := s.Session.Input(t.Context())
	_, err := io.WriteString(in, "hello")
	must(t, err)
	must(t, in.Close())
	var out []byte
	for chunk, err := range s.Output {
		must(t, err)
		out = append(out, chunk.Data...)
	}
	code, ok := <-s.Exit
	if got, known := s.Session.ExitCode(); string(out) != "hello" || code != 9 || !ok || got != 9 || !known || !s.Session.HasExited() {
		t.Errorf("%q, %d %v, %d %v", out, code, ok, got, known)
	}
}
