package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// obeys is a workspace of which the user's own git makes something, made by these lines before the box is opened; and
// what a command in the box tries, so that EVIL runs when the user next uses git there.
type obeys struct {
	name, before, try, after string
}

// evil is what a planted line would run. It leaves a file where only the host's user can.
const evil = `E=$PWD/evil; printf '#!/bin/sh\ntouch "$MARK"; cat >/dev/null 2>&1\n' >$E; chmod +x $E
`

// everyday is what a user does next.
const everyday = "git status; git diff; git log -1; git add f; git commit -qm next; git checkout -q -b side; git stash list; git status --short\n"

const aRepository = `git init -q . && echo x >f && git add f && git commit -qm one && `

var itsOwnGit = []obeys{
	{"a hook", aRepository + "true", `cp $E .git/hooks/pre-commit; cp $E .git/hooks/post-checkout; cp $E .git/hooks/post-index-change`, ""},
	{"a configuration", aRepository + "true", `printf '[core]\n\tfsmonitor = %s\n\thooksPath = %s\n' $E $PWD >>.git/config; git config core.pager $E; git config alias.status '!'$E`, ""},
	{"a configuration of a worktree", aRepository + "git config extensions.worktreeConfig true", `printf '[core]\n\tfsmonitor = %s\n' $E >.git/config.worktree`, ""},
	{"a common folder elsewhere", aRepository + "true", `cp -r .git other; printf '[core]\n\tfsmonitor = %s\n' $E >>other/config; echo ../other >.git/commondir`, ""},
	{"the folder exchanged", aRepository + "true", `cp -r .git other; printf '[core]\n\tfsmonitor = %s\n' $E >>other/config; mv .git away && mv other .git`, ""},
	{"hooks that are a link", aRepository + "mkdir -p tools/hooks && rm -rf .git/hooks && ln -s ../tools/hooks .git/hooks", `cp $E tools/hooks/pre-commit; cp $E tools/hooks/post-index-change`, ""},
	{"a configuration that is a link", aRepository + "mv .git/config shared.config && ln -s ../shared.config .git/config", `printf '[core]\n\tfsmonitor = %s\n' $E >>shared.config`, ""},
	{"attributes with a known filter", aRepository + "true", `echo '* filter=x' >.gitattributes; mkdir -p .git/info; echo '* filter=x' >.git/info/attributes; git config filter.x.clean $E`, ""},
	{"a submodule's hook and configuration", aRepository + "git init -q ../lib-$$ && git -C ../lib-$$ commit -q --allow-empty -m l && git submodule --quiet add $PWD/../lib-$$ sub && git commit -qm two",
		`for g in .git/modules/sub; do cp $E $g/hooks/post-index-change; printf '[core]\n\tfsmonitor = %s\n' $E >>$g/config; done; echo x >sub/new`, ""},
	{"a submodule's pointer", aRepository + "git init -q ../lib-$$ && git -C ../lib-$$ commit -q --allow-empty -m l && git submodule --quiet add $PWD/../lib-$$ sub && git commit -qm two",
		`cp -r .git/modules/sub evilgit; printf '[core]\n\tfsmonitor = %s\n\tworktree = %s\n' $E $PWD/sub >>evilgit/config; echo gitdir: ../evilgit >sub/.git; rm -f sub/.git; echo gitdir: ../evilgit >sub/.git; mv sub gone; mkdir sub; echo gitdir: ../evilgit >sub/.git`, ""},
	{"a bare repository", "git init -q --bare .", `cp $E hooks/post-update; printf '[core]\n\tfsmonitor = %s\n\tpager = %s\n[alias]\n\tx = !%s\n' $E $E $E >>config; cp $E hooks/reference-transaction`, "git update-ref refs/heads/x $(git commit-tree -m x $(git hash-object -t tree -w /dev/null)); git x"},
}

// Test49GitRunsNothingThatABoxPlanted: when the user uses git in the workspace afterwards, it obeys what it obeyed before.
func Test49GitRunsNothingThatABoxPlanted(t *testing.T) {
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	onWorld(t, func(t *testing.T, w world) {
		for i, o := range itsOwnGit {
			t.Run(o.name, func(t *testing.T) {
				base := w.folder(t, "case"+string(rune('a'+i)))
				work := w.folder(t, filepath.Base(base)+"/work")
				mark := filepath.Join(base, "mark")
				onHost(t, work, mark, o.before)
				box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: w.at("state/box" + newKey()), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
				must(t, err)
				c := bash(evil + o.try)
				c.Dir, c.Env = work, append([]string{"MARK=" + mark}, gitEnv...)
				got := run(t, box, c)
				box.Close()
				if _, err := os.Stat(filepath.Join(work, "evil")); err != nil {
					t.Fatalf("nothing was tried: %+v", got)
				}
				onHost(t, work, mark, everyday+o.after+"\ntrue")
				if _, err := os.Stat(mark); err == nil {
					t.Errorf("the user's git ran what the box planted; the box said %s%s", got.out, got.err)
				}
			})
		}
	})
}

// onHost runs a script as the owner of the folders, outside of every box.
func onHost(t *testing.T, dir, mark, script string) {
	t.Helper()
	c := exec.Command("bash", "-c", script)
	c.Dir = dir
	c.Env = append([]string{"MARK=" + mark, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always"}, gitEnv...)
	asBoxUser(c)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// The same scripts work where nothing is in the way, or they would show nothing.
func TestWhatABoxPlantsWouldRun(t *testing.T) {
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	onWorld(t, func(t *testing.T, w world) {
		for i, o := range itsOwnGit {
			t.Run(o.name, func(t *testing.T) {
				base := w.folder(t, "case"+string(rune('a'+i)))
				work := w.folder(t, filepath.Base(base)+"/work")
				mark := filepath.Join(base, "mark")
				onHost(t, work, mark, o.before)
				onHost(t, work, mark, evil+o.try+"\ntrue")
				os.Remove(mark)
				onHost(t, work, mark, everyday+o.after+"\ntrue")
				if _, err := os.Stat(mark); err != nil {
					t.Error("nothing ran even without a box")
				}
			})
		}
	})
}

func TestS34NoSettingOfOursComesToBe(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		home := w.folder(t, "home")
		t.Setenv("HOME", home)
		t.Setenv("XDG_CONFIG_HOME", "")
		t.Setenv("XDG_DATA_HOME", "")
		box := w.workspaceWrite(t, home, sandbox.Policy{})
		c := bash(`for f in .config/hardshell/hardshell.toml .local/share/hardshell/admin.key; do mkdir -p "$(dirname $f)"; echo x >$f; done; mkdir -p z/hardshell; echo y >z/hardshell/hardshell.toml; rm -rf .config; mv .config gone; mv z .config; mv .local/share gone; true`)
		c.Dir = home
		got := run(t, box, c)
		box.Close()
		for _, name := range []string{".config/hardshell/hardshell.toml", ".local/share/hardshell/admin.key"} {
			if b, err := os.ReadFile(filepath.Join(home, name)); err == nil && len(b) > 0 {
				t.Errorf("%s came to be: %q (%s)", name, b, got.err)
			}
		}
	})
}
