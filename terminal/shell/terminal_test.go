//go:build unix

package shell

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
)

// TestNothingWaitsForATerminal runs what usually opens an editor or asks, without a terminal and with an environment
// that would have it hang: everything must end by itself and say what to do instead.
func TestNothingWaitsForATerminal(t *testing.T) {
	sh := installed(t, "bash")
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	const repository = `cd "$HOME" && git init -q . && git config user.email a@b && git config user.name a && ` +
		`echo 1 >f && git add f && git commit -qm one && echo 2 >f && git commit -qam two && `
	for _, c := range []struct {
		name, script string
		fails        bool
		says         string
	}{
		{"git commit", repository + "echo 3 >f && git commit -a", true, "git commit -m TEXT"},
		{"git commit with the sequence's way out", repository + "echo 3 >f && git commit -qam three && echo done", false, "done"},
		{"git tag", repository + "git tag -a v1", true, "git tag -m TEXT"},
		{"git rebase -i", repository + "git rebase -i HEAD~1", true, "GIT_SEQUENCE_EDITOR"},
		{"git rebase --continue", repository + `b=$(git branch --show-current) && git checkout -qb x HEAD~1 && echo 4 >f && git commit -qam four &&
			{ git rebase -q $b || true; } && git add f && git rebase --continue`, true, "GIT_EDITOR=true git rebase --continue"},
		{"git rebase --continue as told", repository + `b=$(git branch --show-current) && git checkout -qb x HEAD~1 && echo 4 >f && git commit -qam four &&
			{ git rebase -q $b || true; } && git add f && GIT_EDITOR=true git rebase --continue && git log --format=%s`, false, "four"},
		{"git log", repository + "git log", false, "one"},
		{"git fetch that wants a password", repository + `git -c credential.helper= -c core.askPass="sleep 600 #" credential fill <<<$'protocol=https\nhost=h.invalid\n'`, true, "terminal prompts disabled"},
		{"an editor by a shell", `sh -c "$EDITOR /tmp/x"`, true, "Write the file itself"},
		{"an editor by words", `$VISUAL /tmp/x`, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			call, err := sh.Prepare(Call{Command: c.script, Environ: []string{"HOME=" + t.TempDir(), "PATH=/usr/local/bin:/usr/bin:/bin",
				"GIT_PAGER=sleep 600 #", "PAGER=sleep 600 #", "EDITOR=sleep 600 #", "GIT_ASKPASS=/bin/false"}, Policy: Policy{Inherit: InheritAll}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			argv := append([]string{"/bin/sh", "-c", `exec "$@" 2>&1 </dev/null`, "sh"}, call.Argv...)
			out, err := spawn(ctx, argv, call.Env, "/")
			if ctx.Err() != nil {
				t.Fatalf("still waiting: %s", out)
			}
			if (err != nil) != c.fails || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
