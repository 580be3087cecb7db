package shellcall

import (
	"bytes"
	"strings"
	"testing"
)

// One shell for all: what one command leaves the next one finds.
func TestAKeptShell(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Persistent = true })
	for _, step := range []struct{ command, stdout, stderr string }{
		{"mkdir sub; cd sub; x=1; export Y=2; f() { echo f $1; }; shopt -s extglob", "", ""},
		{"pwd; echo $x $Y; f 3", r.work + "/sub\n1 2\nf 3\n", ""},
		{"echo out; echo err >&2", "out\n", "err\n"},
		{"printf 'no newline'", "no newline", ""},
		{"cat", "", ""},
		{"read -r a; echo \"got <$a>\"", "got <>\n", ""},
		{"IFS=,; set -u; a=(1 2); echo \"${a[*]}\"", "1,2\n", ""},
		{"sleep 1000 & echo started", "started\n", ""},
		{"jobs -r | grep -c sleep; kill %1", "1\n", ""},
		{"exec 3<&0; ls /proc/self/fd/217 /proc/self/fd/218 2>/dev/null; echo none", "none\n", ""},
		{"# nothing", "", ""},
		{"echo a \\", "a \\\n", ""}, // as bash -c has it
		{"printf '\\0hardshell:0:/\\0'", "\x00hardshell:0:/\x00", ""},
		{"cat <<E\n$x\nE", "1\n", ""},
	} {
		if got := r.one(step.command); got.Stdout != step.stdout || got.Stderr != step.stderr {
			t.Errorf("%s: %s, want %q and %q", step.command, say(got), step.stdout, step.stderr)
		}
	}
	if got := r.run("cd /", "pwd", "cd -", "pwd"); got[1].Stdout != "/\n" || got[3].Stdout != r.work+"/sub\n" {
		t.Errorf("a call's commands do not run in order: %v", got)
	}
	if got := r.one("(exit 7)"); code(got) != 7 {
		t.Error(say(got))
	}
	if got := r.one("if"); code(got) == 0 || !strings.Contains(got.Stderr, "syntax error") {
		t.Error(say(got))
	}
	if got := r.one("echo still $Y"); got.Stdout != "still 2\n" {
		t.Errorf("after an error of syntax: %s", say(got))
	}
	// Streams that are redirected for good stay so, and the end is found all the same.
	if got := r.one("exec >log 2>&1; echo kept"); got.Stdout != "" || code(got) != 0 {
		t.Error(say(got))
	}
	if got := r.one("echo more"); got.Stdout != "" || r.read("sub/log") != "kept\nmore\n" {
		t.Errorf("%s, %q", say(got), r.read("sub/log"))
	}
}

// What ends the shell ends that command, says so, and the next one has a new shell.
func TestAKeptShellEnds(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Persistent = true })
	const ended = "hardshell: The shell ended with it. The next command starts in a new one"
	for command, want := range map[string]int{"exit 3": 3, "set -e; x=1; false; echo not here": 1, "exec sh -c 'exit 4'": 4, "kill -KILL $$": 137} {
		r.one("cd /; y=1")
		got := r.one(command)
		if code(got) != want || got.Stdout != "" {
			t.Errorf("%s: %s", command, say(got))
		}
		has(t, got.Stderr, ended, r.work)
		if got := r.one("pwd; echo $x$y"); got.Stdout != r.work+"\n\n" || got.Stderr != "" {
			t.Errorf("after %s: %s", command, say(got))
		}
	}
	out, err := r.e.Run(t.Context(), Call{CallID: "c", Action: Action{TimeoutMS: new(int64(6000)), Commands: []string{"sleep 1000 & echo some; echo more >&2; while :; do :; done", "pwd; " + lookForSleep}}})
	if err != nil {
		t.Fatal(err)
	}
	late, next := out[0].Output[0], out[0].Output[1]
	if late.Outcome.Type != OutcomeTimeout || late.Outcome.ExitCode != nil || late.Stdout != "some\n" || !strings.HasPrefix(late.Stderr, "more\n") {
		t.Error(say(late))
	}
	has(t, late.Stderr, "its time ran out", "starts in a new one")
	if next.Stdout != r.work+"\n" {
		t.Error(say(next))
	}
}

// What a background job prints between two commands comes with the next, and never stands in the way of an end.
func TestABackgroundJobOfAKeptShell(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Persistent = true })
	r.one("(until [ -e go ]; do sleep 0.02; done; echo from behind; touch done) & true")
	got := r.one("touch go; until [ -e done ]; do sleep 0.02; done; echo after")
	if got.Stdout != "from behind\nafter\n" {
		t.Error(say(got))
	}
	if got := r.one("head -c 300000 /dev/zero | tr '\\0' z"); len(got.Stdout) != 300000 {
		t.Errorf("%d bytes", len(got.Stdout))
	}
	if got := r.one("yes | head -c 5000000"); len(got.Stdout) > 2<<20 || !strings.Contains(got.Stdout, "y\ny") {
		t.Errorf("%d bytes are kept", len(got.Stdout))
	}
}

func TestCutter(t *testing.T) {
	const text, said, after = "some \x00 text\x00ma", "7:/tmp", "later"
	stream := text + "\x00mark:" + said + "\x00" + after
	for size := 1; size <= len(stream); size++ {
		var out bytes.Buffer
		c := newCutter("mark", func(p []byte) { out.Write(p) })
		found := false
		for at := 0; at < len(stream); at += size {
			piece := []byte(stream[at:min(at+size, len(stream))])
			if found {
				continue
			}
			got, rest, ok := c.write(piece)
			if found = ok; ok && (got != said || !strings.HasPrefix(after, string(rest))) {
				t.Errorf("size %d: %q %q", size, got, rest)
			}
		}
		if !found || out.String() != text {
			t.Errorf("size %d: found %v, %q", size, found, out.String())
		}
	}
	var out bytes.Buffer
	c := newCutter("mark", func(p []byte) { out.Write(p) })
	c.write([]byte("a\x00ma"))
	c.write([]byte("\x00mark:" + strings.Repeat("x", maxSaid+1)))
	if c.end(); out.Len() != len("a\x00ma\x00mark:")+maxSaid+1 {
		t.Errorf("%d bytes", out.Len())
	}
}

// FuzzCutter: what is no mark passes, byte for byte and in order, however it is cut.
func FuzzCutter(f *testing.F) {
	f.Add([]byte("abc\x00mar"), 2)
	f.Add([]byte("\x00\x00mark\x00mark:x"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size < 1 || bytes.Contains(data, []byte("\x00mark:")) {
			return
		}
		var out bytes.Buffer
		c := newCutter("mark", func(p []byte) { out.Write(p) })
		for at := 0; at < len(data); at += size {
			if _, _, found := c.write(data[at:min(at+size, len(data))]); found {
				t.Fatal("found")
			}
		}
		c.end()
		if !bytes.Equal(out.Bytes(), data) {
			t.Fatalf("%q", out.Bytes())
		}
	})
}
