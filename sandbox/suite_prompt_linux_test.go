package sandbox_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// unattended is what a caller gives to commands that nobody sits in front of: the seed's variables for such.
var unattended = append([]string{"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "MANPAGER=cat", "GIT_PAGER=cat", "GH_PAGER=cat",
	"GIT_TERMINAL_PROMPT=0", "DEBIAN_FRONTEND=noninteractive", "GIT_CONFIG_GLOBAL=/dev/null",
	"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}, environment...)

func tools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := exec.LookPath(name)
		require.Feature(t, name, err)
	}
}

// promptly is for what returns at once or never: a minute is never.
func promptly(t *testing.T, c process.Command) (out string, exit process.Exit) {
	t.Helper()
	c.Key, c.Timeout = newKey(), time.Minute
	got := run(t, newPlace(t).open(t), c)
	if got.TimedOut {
		t.Errorf("it hangs: %s%s", got.out, got.err)
	}
	return got.out + got.err, got.Exit
}

// R26: programs that would open an editor or a pager return without a terminal, and say what to use.
func TestEditorsAndPagersReturn(t *testing.T) {
	const repository = "cd /mnt/data && git init -q -b main . && echo 1 >f && git add f && git commit -qm one && "
	cases := []struct {
		name, tool, script string
		fails              bool
		says               string // one of these, with | between
	}{
		{"git commit", "git", repository + "echo 2 >f && git commit -a", true, "-m or -F|EDITOR"},
		{"git rebase --continue", "git", repository + "git checkout -qb side && echo 2 >f && git commit -qam two && git checkout -q main && " +
			"echo 3 >f && git commit -qam three && git rebase -q side; echo 4 >f; git add f; git rebase --continue", true, "EDITOR|-m or -F"},
		{"git log", "git", repository + "for i in $(seq 300); do echo; done >>f && git commit -qam '" + strings.Repeat("long ", 500) + "' && git log -p", false, "long long"},
		{"git clone that asks for a password", "git", "git clone -q https://127.0.0.1:1/x", true, "unable to access|not find remote helper"},
		{"man", "man", "man ls", false, ""}, // a system without the pages says so
		{"crontab -e", "crontab", "crontab -e", true, ""},
		{"apt-get install", "apt-get", "apt-get install hello", true, "root|lock|Unable|denied"},
		{"less", "less", "seq 10000 | less", false, "9999"},
		{"more than one reader of the terminal", "bash", "exec 3</dev/tty; read x <&3", true, "/dev/tty"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tools(t, c.tool)
			out, exit := promptly(t, process.Command{Argv: []string{"bash", "-c", c.script}, Env: unattended})
			if c.fails && exit.Code == 0 || !c.fails && exit.Code != 0 && c.says != "" {
				t.Errorf("exit %+v: %s", exit, out)
			}
			said := false
			for what := range strings.SplitSeq(c.says, "|") {
				said = said || strings.Contains(out, what)
			}
			if !said || out == "" {
				t.Errorf("it does not say %q: %.2000s", c.says, out)
			}
		})
	}
}

// R27: without a stdin programs read its end; with one they read its bytes.
func TestStdinIsEmptyUnlessGiven(t *testing.T) {
	cases := []struct {
		name, tool, script string
		code               int
		out                string
	}{
		{"cat", "cat", "cat", 0, ""},
		{"cat by name", "cat", "cat /dev/stdin", 0, ""},
		{"cat by descriptor", "cat", "cat <&0", 0, ""},
		{"an interpreter", "perl", "perl -", 0, ""},
		{"read", "bash", "read x; echo $?", 0, "1\n"},
		{"select", "bash", "select x in a b; do echo $x; done 2>/dev/null; echo over", 0, "\nover\n"},
		{"a shell", "sh", "sh", 0, ""},
		{"sort", "sort", "sort | wc -l", 0, "0\n"},
		{"ssh", "ssh", "ssh -o BatchMode=yes nobody@127.0.0.1 true", 255, ""},
		{"ssh that may ask", "ssh", "ssh -o StrictHostKeyChecking=ask nobody@127.0.0.1 true", 255, ""},
		{"a password", "bash", "read -s -p 'Password: ' x; echo $?", 0, "1\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tools(t, c.tool)
			c2 := process.Command{Argv: []string{"bash", "-c", c.script}, Env: unattended}
			c2.Key, c2.Timeout = newKey(), time.Minute
			if got := run(t, newPlace(t).open(t), c2); got.TimedOut || got.Code != c.code || got.out != c.out {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestStdinIsFedExactly(t *testing.T) {
	box := newPlace(t).open(t)
	source := rand.NewChaCha8([32]byte{2})
	for _, size := range []int{0, 1, 4096, 65536, 65537, 3_000_001} {
		fed := make([]byte, size)
		source.Read(fed)
		for name, script := range map[string]string{"stdin": "cat", "by name": "cat /dev/stdin", "seen twice": "head -c 1000; cat"} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				c := bash(script)
				c.Stdin = bytes.NewReader(fed)
				if got := run(t, box, c); got.Code != 0 || got.out != string(fed) {
					t.Errorf("%d bytes came of %d, exit %d", len(got.out), size, got.Code)
				}
			})
		}
	}
}
