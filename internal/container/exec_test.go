package container

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

func TestExecChecksItsCommand(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	tests := []struct {
		name    string
		command Command
		kind    fault.Kind
	}{
		{"empty", Command{Script: " \n"}, fault.Invalid},
		{"NUL", Command{Script: "echo \x00"}, fault.Invalid},
		{"huge", Command{Script: "#" + strings.Repeat("x", maxScript)}, fault.TooLarge},
		{"a path as key", Command{Script: "true", Key: "../x"}, fault.Invalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.Exec(b.ctx, "org", c.ID, tt.command)
			if fault.KindOf(err) != tt.kind {
				t.Errorf("got %v, want %v", err, tt.kind)
			}
		})
	}
}

func TestLimitsOfACommand(t *testing.T) {
	b := newBench(t, Limits{DefaultTimeout: 10 * time.Second, MaxTimeout: time.Minute, MaxOutput: 200})
	c := b.create(t)
	b.fake.programs["much"] = func(p *proc) int { p.out("%s", strings.Repeat("ä", 1000)); return 0 }
	tests := []struct {
		timeout, wantTimeout time.Duration
		output, wantOmitted  int
	}{
		{0, 10 * time.Second, 0, 800},
		{time.Second, time.Second, 100, 900},
		{time.Hour, time.Minute, 100_000, 800},
		{time.Minute, time.Minute, 1, 1000 - minOutput},
	}
	for _, tt := range tests {
		e, err := b.Exec(b.ctx, "org", c.ID, Command{Script: "much", Timeout: tt.timeout, MaxOutput: tt.output})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Wait(b.ctx)
		if err != nil || r.Timeout != tt.wantTimeout || b.fake.last.Timeout != tt.wantTimeout || r.Stdout.OmittedChars != int64(tt.wantOmitted) {
			t.Errorf("%+v: time-out %v (runtime %v), left out %d, %v", tt, r.Timeout, b.fake.last.Timeout, r.Stdout.OmittedChars, err)
		}
	}
}

func TestTheShellGetsTheExactScript(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	script := "-c 'odd'\n\"bytes\" \xff $(x)"
	b.run(t, c.ID, script)
	got := b.fake.last
	if want := []string{"/bin/bash", "-c", "--", script, "bash"}; !slices.Equal(got.Argv, want) {
		t.Errorf("argv %q, want %q", got.Argv, want)
	}
	if got.Dir != "/mnt/data" || got.Key == "" {
		t.Errorf("dir %q, key %q", got.Dir, got.Key)
	}
	for _, want := range []string{"HOME=/home/user", "USER=user", "LANG=C.UTF-8", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "DEBIAN_FRONTEND=noninteractive"} {
		if !slices.Contains(got.Env, want) {
			t.Errorf("no %s in %q", want, got.Env)
		}
	}
	t.Setenv("HARDSHELL_TEST_SECRET", "x")
	b.run(t, c.ID, "true")
	if strings.Contains(strings.Join(b.fake.last.Env, " "), "HARDSHELL") {
		t.Error("the gateway's environment is in the command's")
	}
}

func TestALongScriptIsReadFromAFile(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	script := "#" + strings.Repeat("x", 200<<10) + "\ntrue"
	ran := ""
	e, err := b.Exec(b.ctx, "org", c.ID, Command{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Wait(b.ctx); err != nil {
		t.Fatal(err)
	}
	// The fake knows no such program; look at what it was given, then once more while it runs.
	line := b.fake.last.Argv[3]
	if !strings.HasPrefix(line, ". /tmp/"+scriptPrefix) {
		t.Fatalf("the shell was given %q", line)
	}
	left, err := os.ReadDir(filepath.Join(b.dir, c.ID, "tmp"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in /tmp: %v, %v", left, err)
	}
	ws := Workspace{Tmp: t.TempDir(), Shell: "/bin/sh"}
	argv, name, err := b.argv(ws, Command{Key: "k", Script: script})
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(ws.Tmp, name))
	ran = string(written)
	if err != nil || ran != script || argv[0] != "/bin/sh" || argv[4] != "sh" {
		t.Errorf("%d bytes written of %d, %v, argv %q", len(ran), len(script), err, argv)
	}
	if err := (process.Command{Key: "k", Argv: argv}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestCancelReachesTheCommandOnly(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	ctx, cancel := context.WithCancel(b.ctx)
	first, err := b.Exec(ctx, "org", c.ID, Command{Script: "block"})
	if err != nil {
		t.Fatal(err)
	}
	second := b.exec(t, c.ID, "block")
	cancel() // the client went away
	if r, err := first.Wait(b.ctx); err != nil || !r.Cancelled || r.Stdout.Text != "begun\n" && r.Stdout.Text != "" {
		t.Errorf("first: %+v, %v", r, err)
	}
	select {
	case <-second.Done():
		t.Error("the second command ended too")
	default:
	}
	second.Cancel()
	if r, err := second.Wait(b.ctx); err != nil || !r.Cancelled {
		t.Errorf("second: %+v, %v", r, err)
	}
}

func TestOneRunPerKey(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.fake.programs["count"] = func(p *proc) int {
		p.file("runs", string(readOr(filepath.Join(p.workspace, "runs")))+"x")
		return 0
	}
	for range 3 {
		if e, err := b.Exec(b.ctx, "org", c.ID, Command{Key: "call_1", Index: 2, Script: "count"}); err == nil {
			e.Wait(b.ctx)
		}
	}
	if got := readOr(filepath.Join(b.dir, c.ID, "workspace", "runs")); string(got) != "x" {
		t.Errorf("ran %q", got)
	}
}

func readOr(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return b
}

// live gathers a command's deltas.
func live(t testing.TB, e *Execution) (stdout, stderr string, deltas int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for d, err := range e.Follow(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{d.Stdout, d.Stderr} {
			if len(text) > maxDelta || !utf8.ValidString(text) {
				t.Errorf("a delta of %d bytes, valid %v", len(text), utf8.ValidString(text))
			}
		}
		if d == (Delta{}) {
			t.Error("an empty delta")
		}
		stdout, stderr, deltas = stdout+d.Stdout, stderr+d.Stderr, deltas+1
	}
	return stdout, stderr, deltas
}

func TestFollowDeltas(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	tests := []struct {
		name           string
		program        func(*proc) int
		stdout, stderr string
	}{
		{"nothing", func(p *proc) int { return 0 }, "", ""},
		{"both", func(p *proc) int { p.out("a"); p.write(2, "b"); p.out("c"); return 0 }, "ac", "b"},
		{"a character in pieces", func(p *proc) int {
			for _, piece := range []string{"\xf0", "\x9f", "\x98", "\x80"} {
				p.out("%s", piece)
			}
			return 0
		}, "😀", ""},
		{"a broken one at the end", func(p *proc) int { p.out("x\xe2\x82"); return 0 }, "x\uFFFD", ""},
		{"many lines", func(p *proc) int {
			for range 2000 {
				p.out("line\n")
				p.write(2, "err\n")
			}
			return 0
		}, strings.Repeat("line\n", 2000), strings.Repeat("err\n", 2000)},
		{"a lot at once", func(p *proc) int { p.out("%s", strings.Repeat("ä", 100_000)); return 0 }, strings.Repeat("ä", 100_000), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.fake.mu.Lock()
			b.fake.programs[tt.name] = tt.program
			b.fake.mu.Unlock()
			e := b.exec(t, c.ID, tt.name)
			stdout, stderr, deltas := live(t, e)
			if stdout != tt.stdout || stderr != tt.stderr {
				t.Errorf("live: %d and %d bytes, want %d and %d", len(stdout), len(stderr), len(tt.stdout), len(tt.stderr))
			}
			if again, _, _ := live(t, e); again != tt.stdout {
				t.Errorf("a second reader got %d bytes", len(again))
			}
			if tt.name == "many lines" && deltas > 500 {
				t.Errorf("4,000 small writes came as %d deltas", deltas)
			}
		})
	}
}

func TestFollowIsLive(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	goOn := make(chan struct{})
	b.fake.programs["steps"] = func(p *proc) int {
		for i := range 3 {
			p.out("%d", i)
			<-goOn
		}
		return 0
	}
	e := b.exec(t, c.ID, "steps")
	var seen strings.Builder
	for d, err := range e.Follow(b.ctx) {
		if err != nil {
			t.Fatal(err)
		}
		seen.WriteString(d.Stdout)
		goOn <- struct{}{} // the program cannot go on before its output was shown
	}
	if seen.String() != "012" {
		t.Errorf("saw %q", seen.String())
	}
}

func TestFollowIsCut(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	const size = maxLive + 3<<20
	b.fake.programs["flood"] = func(p *proc) int {
		for range size >> 16 {
			p.out("%s", strings.Repeat("x", 1<<16))
		}
		p.write(2, "seen")
		return 0
	}
	e := b.exec(t, c.ID, "flood")
	stdout, stderr, _ := live(t, e)
	text, said, found := strings.Cut(stdout, "\n[… ")
	if !found || said != "3145728 more bytes left out of the live output …]\n" || len(text) != maxLive || stderr != "seen" {
		t.Errorf("%d bytes, then %q; stderr %q", len(text), said, stderr)
	}
	if r, err := e.Wait(b.ctx); err != nil || r.Stdout.Bytes != size {
		t.Errorf("the result: %d bytes, %v", r.Stdout.Bytes, err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	b := newBench(t, Limits{})
	e := b.exec(t, b.create(t).ID, "block")
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	var last error
	for _, err := range e.Follow(ctx) {
		last = err
		cancel()
	}
	if last == nil {
		t.Error("no error at the end")
	}
	e.Cancel()
	if _, err := e.Wait(b.ctx); err != nil {
		t.Error(err)
	}
}
