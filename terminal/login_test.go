package terminal

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// withLogin is a rig whose user has start-up files.
func withLogin(t *testing.T, files map[string]string) *rig {
	t.Helper()
	return newRig(t, approval.OnRequest, func(c *SessionConfig) {
		c.DisableLogin = false
		for name, text := range files {
			write(t, c.Cwd, name, text)
		}
		if err := os.Chmod(filepath.Join(c.Cwd, "versions/bin/python"), 0o755); err != nil {
			t.Fatal(err)
		}
	})
}

var startUp = map[string]string{
	"versions/bin/python": "#!/bin/sh\necho the user\\'s python\n",
	".bash_profile":       "echo noise\necho x >>$HOME/captures\nexport NVM_DIR=$HOME/nvm NOT_FOR_COMMANDS=secret\nalias pwd='echo alias'\nhidden() { echo function; }\n",
	".bashrc":             "PATH=$HOME/versions/bin:$PATH\n",
}

// R11: the tools run what the user's terminal would run, whatever shell a call names, and the start-up files run once.
func TestCommandsRunAsInTheUsersTerminal(t *testing.T) {
	for _, order := range [][]string{{"", "sh"}, {"sh", ""}} { // whichever shell comes first
		r := withLogin(t, startUp)
		for _, named := range order {
			for _, tool := range []string{ToolShell, ToolShellCommand, ToolExecCommand} {
				got := r.call(tool, `{"command":"python; echo $NVM_DIR [$NOT_FOR_COMMANDS]; hidden 2>/dev/null; pwd","shell":"`+named+`"}`)
				if want := "the user's python\n" + r.work + "/nvm []\n" + r.turn.Cwd + "\n"; got.Text() != want || len(got.Notices) != 0 {
					t.Errorf("%s %q: %q %q", tool, named, got.Text(), got.Notices)
				}
			}
			if got := r.call(ToolShell, `{"command":["python"]}`); got.Text() != "the user's python\n" {
				t.Errorf("an argument list: %+v", got)
			}
		}
		if got := r.call(ToolShellCommand, `{"command":"python || echo none; echo [$NVM_DIR]","login":false}`); !strings.HasSuffix(got.Text(), "[]\n") || strings.Contains(got.Text(), "user") {
			t.Errorf("login: false: %q", got.Text())
		}
		if text, err := os.ReadFile(filepath.Join(r.work, "captures")); string(text) != "x\n" {
			t.Errorf("the start-up files ran %d times, %v", strings.Count(string(text), "x"), err)
		}
	}
}

// A start-up file that fails is a warning, told once.
func TestABrokenStartUpFileIsAWarning(t *testing.T) {
	r := withLogin(t, map[string]string{"versions/bin/python": "", ".bash_profile": "exit 3\n"})
	first := r.call(ToolShellCommand, `{"command":"echo runs"}`)
	if first.Text() != "runs\n" || code(first) != 0 || !slices.ContainsFunc(first.Notices, func(n string) bool {
		return strings.Contains(n, "login environment") && strings.Contains(n, "without it")
	}) {
		t.Errorf("%+v", first)
	}
	if again := r.call(ToolExecCommand, `{"cmd":"echo runs","wait_for":"exit"}`); again.Text() != "runs\n" || len(again.Notices) != 0 {
		t.Errorf("%+v", again)
	}
}
