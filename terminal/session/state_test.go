package session

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

func TestJudge(t *testing.T) {
	tty, shell, marked, prompt := sitting{tty: true}, sitting{tty: true, shell: true}, sitting{tty: true, shell: true, marked: true}, sitting{tty: true, shell: true, marked: true, prompt: true}
	reads := process.Look{Clear: true, Reads: true, Lines: true, Echoes: true}
	edits := process.Look{Clear: true, Polls: true}
	for name, c := range map[string]struct {
		look  process.Look
		about sitting
		want  stand
	}{
		"works":                         {process.Look{Clear: true, Lines: true, Echoes: true}, tty, stand{}},
		"sleeps in poll, cooked":        {process.Look{Clear: true, Polls: true, Lines: true, Echoes: true}, tty, stand{}},
		"nobody may look":               {process.Look{Reads: true}, prompt, stand{}},
		"has not read yet":              {process.Look{Clear: true, Polls: true, Unread: true}, tty, stand{}},
		"reads a line":                  {reads, tty, stand{state: AwaitingInput, sure: true}},
		"reads a password":              {process.Look{Clear: true, Reads: true, Lines: true}, tty, stand{state: AwaitingInput, sure: true, password: true}},
		"reads keys":                    {process.Look{Clear: true, Reads: true}, tty, stand{state: AwaitingInput, sure: true}},
		"edits lines itself":            {edits, tty, stand{state: AwaitingInput}},
		"reads a pipe":                  {process.Look{Clear: true, Reads: true}, sitting{}, stand{state: AwaitingInput, sure: true}},
		"polls a pipe":                  {process.Look{Clear: true, Polls: true}, sitting{}, stand{}},
		"a shell at its prompt":         {process.Look{Clear: true, Reads: true, Leads: true}, prompt, stand{state: Idle, sure: true}},
		"a shell that polls":            {process.Look{Clear: true, Polls: true, Leads: true}, prompt, stand{state: Idle, sure: true}},
		"a shell without marks":         {process.Look{Clear: true, Reads: true, Leads: true}, shell, stand{state: Idle, sure: true}},
		"a builtin reads":               {process.Look{Clear: true, Reads: true, Leads: true, Lines: true, Echoes: true}, marked, stand{state: AwaitingInput, sure: true}},
		"a builtin reads a password":    {process.Look{Clear: true, Reads: true, Leads: true, Lines: true}, marked, stand{state: AwaitingInput, sure: true, password: true}},
		"a child after a mark":          {reads, prompt, stand{state: AwaitingInput, sure: true}},
		"a child asks for a password":   {process.Look{Clear: true, Reads: true, Lines: true}, prompt, stand{state: AwaitingInput, sure: true, password: true}},
		"a mark while the shell works":  {process.Look{Clear: true, Leads: true}, prompt, stand{}},
		"a mark while a child works":    {process.Look{Clear: true}, prompt, stand{}},
		"it listens":                    {process.Look{Clear: true, Listens: true}, tty, stand{listens: true}},
		"an editor of a shell's prompt": {edits, prompt, stand{state: AwaitingInput}},
	} {
		if got := judge(c.look, c.about); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWhichShellsAreInteractive(t *testing.T) {
	for argv, want := range map[string]string{
		"bash -i": "bash", "/bin/bash": "bash", "-bash": "bash", "bash --norc --noprofile -i": "bash", "bash --rcfile x -i": "bash", "zsh -il": "zsh",
		"bash -lc|bash -i": "bash", "sh -c|exec bash": "", "bash -c|bash -i; x": "", "bash script": "", "bash -c|make": "", "python3": "", "": "",
		"bash -lc|bash": "bash", "bash -lc|python3 -q": "", "bash -lc": "", "sh": "sh", "bash -c|bash x|y": "",
	} {
		head, script, has := strings.Cut(argv, "|")
		words := strings.Fields(head)
		if has {
			words = append(words, script)
		}
		if got := shellOf(words); got != want {
			t.Errorf("%q: %q, want %q", argv, got, want)
		}
	}
}

func TestAPromptEndsTheWait(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inTTY(box, "python3"))
		job := box.last()
		time.AfterFunc(time.Second, func() {
			job.says("Python 3\r\n>>> ")
			job.stands(process.Look{Polls: true})
		})
		got := collect(t, s, Wait{Yield: 30 * time.Second})
		if got.Fired != FiredAwaiting || got.State != AwaitingInput || got.Prompt != ">>>" || got.Wall > 1200*time.Millisecond || got.Password {
			t.Errorf("%+v", got)
		}
		// It stands there still: a poll is a poll.
		if got = collect(t, s, Wait{Yield: 5 * time.Second}); got.Fired != FiredYield || got.State != AwaitingInput {
			t.Errorf("%+v", got)
		}
		// It is deaf until something shows that it heard: the prompt of before ends nothing.
		job.onWrite = func([]byte) {
			time.AfterFunc(200*time.Millisecond, func() { job.says("6*7\r\n42\r\n>>> ") })
		}
		must(t, s.Write(t.Context(), []byte("6*7\n")))
		got = collect(t, s, Wait{Yield: 30 * time.Second})
		if got.Text() != ">>> 6*7\n42\n>>> " && got.Text() != "6*7\n42\n>>> " || got.Fired != FiredAwaiting || got.Wall < 200*time.Millisecond || got.Wall > time.Second {
			t.Errorf("%+v", got)
		}
	})
}

func TestSilenceIsNoPrompt(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inTTY(box, "make"))
		box.last().says("Password: ")
		if got := collect(t, s, Wait{Yield: time.Hour}); got.Fired != FiredYield || got.State != Running {
			t.Errorf("%+v", got)
		}
	})
}

func TestAPasswordIsAPersons(t *testing.T) {
	var seen strings.Builder
	room(t, func(t *testing.T, _ *Store, box *fake) {
		store := New(Options{Observer: listener{&seen}})
		defer store.Close()
		s := start(t, store, inTTY(box, "sudo", "make"))
		job := box.last()
		wantKind(t, s.Answer(t.Context(), []byte("too early")), fault.Conflict)
		job.says("[sudo] password for u: ")
		job.stands(process.Look{Reads: true, Lines: true})
		got := collect(t, s, Wait{Until: Until{Exit: true}})
		if got.State != AwaitingInput || !got.Password || got.Prompt != "[sudo] password for u:" || got.Wall > 2*time.Second {
			t.Errorf("%+v", got)
		}
		err := s.Write(t.Context(), []byte("hunter2\n"))
		wantKind(t, err, fault.Conflict)
		if e, _ := fault.As(err); e == nil || !strings.Contains(e.Try, "hardshell answer") || len(job.typed) > 0 {
			t.Errorf("%v, typed %q", err, job.typed)
		}
		secret := []byte("correct horse battery")
		job.onWrite = func([]byte) {
			job.stands(process.Look{})
			job.says("\r\nyour password is corr")
			synctest.Wait()
			job.says("ect horse battery!\r\nor correct horse bat")
		}
		must(t, s.Answer(t.Context(), secret))
		if string(job.typed) != "correct horse battery\n" || strings.Trim(string(secret), "\x00") != "" {
			t.Errorf("typed %q, left %q", job.typed, secret)
		}
		wantKind(t, s.Answer(t.Context(), []byte("a\nb")), fault.Invalid)
		job.exits(0)
		<-s.Done()
		got = collect(t, s, Wait{})
		if want := "\nyour password is •••!\nor •••"; got.Text() != want {
			t.Errorf("%q", got.Text())
		}
		for _, part := range []string{"correct", "horse", "hunter2"} {
			if strings.Contains(seen.String(), part) {
				t.Errorf("the observer saw %q", seen.String())
			}
		}
		must(t, s.store.Close())
	})
}

// listener writes down all that an observer is told.
type listener struct{ b *strings.Builder }

func (l listener) Output(_, _ int, p []byte)            { l.b.Write(p) }
func (l listener) Ended(_ int, e process.Exit, _ error) { l.b.WriteString(e.Error) }
func (l listener) Pruned(p Pruned)                      { l.b.WriteString(p.Why) }

func TestControlsPassAPasswordPrompt(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inTTY(box, "sudo", "make"))
		box.last().stands(process.Look{Reads: true, Lines: true})
		must(t, s.Write(t.Context(), []byte("\x03")))
		if got := box.last().typed; string(got) != "\x03" {
			t.Errorf("%q", got)
		}
	})
}

func TestAMarkedShell(t *testing.T) {
	room(t, func(t *testing.T, store *Store, box *fake) {
		s := start(t, store, inTTY(box, "bash", "-i"))
		job := box.last()
		var nonce string
		for _, entry := range job.command.Env {
			if _, after, ok := strings.Cut(entry, "aid="); ok {
				nonce, _, _ = strings.Cut(after, `\`)
			}
		}
		mark := func(what, aid string) string { return "\x1b]133;" + what + ";aid=" + aid + "\a" }
		job.says(mark("D;0", nonce) + "$ ")
		job.stands(process.Look{Reads: true, Leads: true})
		if got := collect(t, s, Wait{Yield: 10 * time.Second}); got.State != Idle || got.Fired != FiredIdle || got.Text() != "$ " || got.Command != nil {
			t.Errorf("%+v", got)
		}
		// A command runs, and prints marks of its own making.
		job.onWrite = func([]byte) {
			job.stands(process.Look{Dir: "/elsewhere"})
			job.says("cd /elsewhere; slow\r\n" + mark("C", nonce) + "out 1\rout 2\r\n" + mark("D;0", "fake") + mark("D;0", nonce[:5]) + "$ ")
			time.AfterFunc(time.Minute, func() {
				job.says("\r\nlast\r\n" + mark("D;7", nonce) + "$ ")
				job.stands(process.Look{Reads: true, Leads: true})
			})
		}
		must(t, s.Write(t.Context(), []byte("cd /elsewhere; slow\n")))
		got := collect(t, s, Wait{Until: Until{Exit: true}})
		if got.State != Idle || got.Fired != FiredIdle || got.Command == nil || *got.Command != 7 || got.Body != "out 2\n$ \nlast\n" ||
			got.Wall < time.Minute || got.Wall > time.Minute+time.Second {
			t.Errorf("%+v", got)
		}
		if got.CwdBefore != "/work" || got.CwdAfter != "/elsewhere" {
			t.Errorf("%q, %q", got.CwdBefore, got.CwdAfter)
		}
		// A builtin that reads is no prompt.
		job.onWrite = func([]byte) {
			job.says("read x\r\n" + mark("C", nonce))
			job.stands(process.Look{Reads: true, Leads: true, Lines: true, Echoes: true})
		}
		must(t, s.Write(t.Context(), []byte("read x\n")))
		if got := collect(t, s, Wait{Yield: 10 * time.Second}); got.State != AwaitingInput || got.Command != nil || got.Wall > time.Second {
			t.Errorf("%+v", got)
		}
	})
}
