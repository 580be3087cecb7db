package mcp

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/internal/require"
)

// TestGitTakesTurns: twenty at once, of two clients, lose no commit to a lock (R30).
func TestGitTakesTurns(t *testing.T) {
	jail(t)
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	locks := t.TempDir()
	share := func(c *Config) { c.Locks, c.GitWait = locks, time.Hour }
	one := newRig(t, "", nil, share)
	two := newRig(t, "", nil, func(c *Config) { share(c); c.Terminal.Cwd = one.work })
	one.call("exec_command", `{"cmd":"git init -q . && git config user.name t && git config user.email t@example.com","wait_for":{"exit":true}}`)
	if !exists(filepath.Join(one.work, ".git/HEAD")) {
		t.Fatal("there is no repository")
	}
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			r, name := one, "f"+strconv.Itoa(n)
			if n%2 == 1 {
				r = two
			}
			got := r.call("exec_command", `{"cmd":"echo x > `+name+` && git add `+name+` && git commit -qm `+name+`","wait_for":{"exit":true}}`)
			for got.State == "pending" {
				got = r.call("write_stdin", `{"session_id":`+strconv.Itoa(got.Session)+`}`)
			}
			if got.ExitCode == nil || *got.ExitCode != 0 {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
	all.Wait()
	if got := one.call("exec_command", `{"cmd":"git rev-list --count HEAD","wait_for":{"exit":true}}`); strings.TrimSpace(got.Output) != "20" {
		t.Errorf("%q commits", got.Output)
	}
}

// TestWhoWaitsForGit: what only reads does not wait; what has waited long enough goes on, and says so.
func TestWhoWaitsForGit(t *testing.T) {
	jail(t)
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	r := newRig(t, "", nil, func(c *Config) { c.Locks, c.GitWait = t.TempDir(), 100*time.Millisecond })
	r.call("exec_command", `{"cmd":"git init -q .","wait_for":{"exit":true}}`)
	holder := r.call("exec_command", `{"cmd":"git gc -q; touch held; sleep 600","yield_time_ms":250}`)
	if holder.ExitCode != nil {
		t.Fatalf("%+v", holder)
	}
	const says = "Another git command has held"
	if got := r.call("exec_command", `{"cmd":"git status --short","wait_for":{"exit":true}}`); strings.Contains(got.text, says) {
		t.Errorf("%+v", got)
	}
	if got := r.call("exec_command", `{"cmd":"git gc -q","wait_for":{"exit":true}}`); !strings.Contains(got.text, says) || got.ExitCode == nil {
		t.Errorf("%+v", got)
	}
	waitFor(t, "git is done", func() bool { return exists(filepath.Join(r.work, "held")) })
	r.call("restart", `{"session_id":`+holder.Process+`}`) // it lets go, and takes its turn again
}

// TestAPersonHoldsNoRepository: while one call waits for an answer, another commits.
func TestAPersonHoldsNoRepository(t *testing.T) {
	jail(t)
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	asked, release := make(chan struct{}), make(chan struct{})
	client := &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return accept("once"), nil
	}}
	r := newRig(t, "2025-11-25", client, func(c *Config) { c.Locks, c.GitWait = t.TempDir(), time.Millisecond })
	r.call("exec_command", `{"cmd":"git init -q .","wait_for":{"exit":true}}`)
	outside := make(chan reply, 1)
	go func() {
		outside <- r.call("exec_command", `{"cmd":"git gc -q; touch after","sandbox_permissions":"require_escalated","wait_for":{"exit":true}}`)
	}()
	<-asked
	const says = "Another git command has held"
	if got := r.call("exec_command", `{"cmd":"git gc -q","wait_for":{"exit":true}}`); strings.Contains(got.text, says) || got.ExitCode == nil {
		t.Errorf("%+v", got)
	}
	holder := r.call("exec_command", `{"cmd":"git gc -q; sleep 600","yield_time_ms":250}`)
	close(release)
	if got := <-outside; !strings.Contains(got.text, says) || !exists(filepath.Join(r.work, "after")) { // its turn comes after the answer
		t.Errorf("%+v", got)
	}
	r.call("restart", `{"session_id":`+holder.Process+`}`)
}

func TestTheFolderOfARepository(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{"main/.git/HEAD": "", "main/deep/er/x": "", "tree/.git": "gitdir: " + root + "/main/.git/worktrees/tree\n", "none/x": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]string{"main": "main/.git", "main/deep/er": "main/.git", "tree": "main/.git"} {
		if got := gitFolder(filepath.Join(root, dir)); got != filepath.Join(root, want) {
			t.Errorf("%s: %s", dir, got)
		}
	}
}
