package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"golang.org/x/sys/unix"
)

// obeys is a workspace of which the user's own git makes something, made by these lines before the box is opened; and
// what a command in the box tries, so that EVIL runs when the user next uses git there.
type obeys struct {
	name, before, try, after string
}

// evil is what a planted line would run. It leaves a file where only the host's user can.
const evil = `E=$PWD/evil; printf '#!/bin/sh\ntouch "$MARK"; cat >/dev/null 2>&1\n' >$E; chmod +x $E
`

// everyday is what a user does next. What git finds unchanged by its times it does not look into.
const everyday = "echo more >>f; git status; git diff; git log -1; git add f; git commit -qm next; git checkout -q -b side; git stash list; git status --short\n"

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

// Test49ARepositoryOfTheBoxesOwnIsObeyed is a limit, said in decision 0007.
func Test49ARepositoryOfTheBoxesOwnIsObeyed(t *testing.T) {
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	onWorld(t, func(t *testing.T, w world) {
		work, mark := w.folder(t, "work"), w.at("work/mark")
		onHost(t, work, mark, aRepository+"true")
		box := w.workspaceWrite(t, work, sandbox.Policy{})
		c := bash(evil + `git init -q n && git -C n commit -q --allow-empty -m n && printf '[core]\n\tfsmonitor = %s\n' $E >>n/.git/config
			git update-index --add --cacheinfo 160000,$(git -C n rev-parse HEAD),n`)
		c.Dir, c.Env = work, append([]string{"MARK=" + mark}, gitEnv...)
		if got := run(t, box, c); got.Code != 0 {
			t.Fatalf("got %+v", got)
		}
		onHost(t, work, mark, "git diff --cached --submodule=short --ignore-submodules=dirty")
		if _, err := os.Stat(mark); err == nil {
			t.Error("the way to look that the decision names went in")
		}
		onHost(t, work, mark, "git status")
		if _, err := os.Stat(mark); err != nil {
			t.Error("git does not go in any more, and the decision is out of date")
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
		t.Setenv("HARDSHELL_DATA", w.at("home/elsewhere/data"))
		w.file(t, "home/elsewhere/data/admin.key", "the key itself", 0o644)
		box := w.workspaceWrite(t, home, sandbox.Policy{})
		c := bash(`for f in .config/hardshell/hardshell.toml .local/share/hardshell/admin.key; do mkdir -p "$(dirname $f)"; echo x >$f; done; mkdir -p z/hardshell; echo y >z/hardshell/hardshell.toml; rm -rf .config; mv .config gone; mv z .config; mv .local/share gone; cat elsewhere/data/admin.key; mv elsewhere gone; true`)
		c.Dir = home
		got := run(t, box, c)
		box.Close()
		if got.out != "" {
			t.Errorf("it read %q", got.out)
		}
		for _, name := range []string{".config/hardshell/hardshell.toml", ".local/share/hardshell/admin.key"} {
			if b, err := os.ReadFile(filepath.Join(home, name)); err == nil && len(b) > 0 {
				t.Errorf("%s came to be: %q (%s)", name, b, got.err)
			}
		}
	})
}

// TestS34WhatIsHiddenStaysInItsPlace: a folder above it that was moved away would free the name.
func TestS34WhatIsHiddenStaysInItsPlace(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work := w.folder(t, "work")
		secret := w.file(t, "work/a/b/data/admin.key", "the key itself", 0o644)
		hidden := filepath.Dir(secret)
		box := w.workspaceWrite(t, work, sandbox.Policy{Hidden: []string{hidden}})
		c := bash(`cat a/b/data/admin.key; mv a gone; mv a/b a/gone; mv a/b/data a/b/gone; rm -rf a; mkdir -p a/b/data; echo planted >a/b/data/admin.key; echo planted >a/b/data/new; cat gone/b/data/admin.key; true`)
		c.Dir = work
		got := run(t, box, c)
		box.Close()
		if b, err := os.ReadFile(secret); got.out != "" || err != nil || string(b) != "the key itself" {
			t.Errorf("got %+v; it is %q, %v", got, b, err)
		}
		if _, err := os.Stat(filepath.Join(hidden, "new")); err == nil {
			t.Error("something was made beside it")
		}
	})
}

// TestS30ACraftedPointerChangesNothingOutside: what says of itself that it is a linked worktree, and is not.
func TestS30ACraftedPointerChangesNothingOutside(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		home := w.folder(t, "home")
		w.file(t, "home/file", untouched, 0o666)
		for name, files := range map[string]map[string]string{
			"a pointer to a home":         {".git": "gitdir: " + home},
			"a pointer up":                {".git": "gitdir: ../home"},
			"a common folder in a home":   {".git": "gitdir: fake", "fake/commondir": home, "fake/gitdir": "../.git", "fake/HEAD": "ref: refs/heads/x"},
			"a worktree of one's own":     {".git": "gitdir: fake/worktrees/x", "fake/worktrees/x/commondir": "../../../../home", "fake/worktrees/x/gitdir": "../../../.git", "fake/HEAD": "x"},
			"a module's worktree":         {".git/HEAD": "x", ".git/modules/m/HEAD": "x", ".git/modules/m/config": "[core]\n\tworktree = " + home},
			"a common folder by the link": {".git/HEAD": "x", ".git/commondir": home},
		} {
			t.Run(name, func(t *testing.T) {
				work := w.folder(t, "work"+newKey())
				for path, text := range files {
					w.file(t, filepath.Base(work)+"/"+path, text+"\n", 0o644)
				}
				box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: w.at("state/box" + newKey()), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
				if err != nil {
					return // refused
				}
				defer box.Close()
				c := bash("echo x >>" + home + "/file; echo x >" + home + "/.bashrc; mkdir " + home + "/objects; git commit --allow-empty -m x; git config core.pager x; echo ok >made && cat made")
				c.Dir, c.Env = work, gitEnv
				if got := run(t, box, c); got.out != "ok\n" {
					t.Errorf("got %+v", got)
				}
				untouchedTree(t, home, "file")
			})
		}
	})
}

// TestS31AProtectedNameIsOneInEveryCase needs a file system that takes names in any case for the same.
func TestS31AProtectedNameIsOneInEveryCase(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work := w.folder(t, "work")
		require.Feature(t, "casefold", folding(work))
		t.Cleanup(func() { unix.Unmount(work, unix.MNT_DETACH) })
		must(t, os.Chown(work, w.uid, w.uid))
		onHost(t, work, "", aRepository+"true")
		w.file(t, "work/hardshell.toml", untouched, 0o666)
		box := w.workspaceWrite(t, work, sandbox.Policy{})
		c := bash("for n in .GIT/config .git/CONFIG .Git/Hooks/pre-commit HARDSHELL.TOML HardShell.toml; do echo x >>$n && echo HOLE $n; rm -rf $n; done; mv .GIT away; echo done")
		c.Dir = work
		if got := run(t, box, c); got.out != "done\n" {
			t.Errorf("got %+v", got)
		}
		if b, err := os.ReadFile(filepath.Join(work, "hardshell.toml")); string(b) != untouched {
			t.Errorf("%q, %v", b, err)
		}
	})
}

// folding puts a file system there that takes names in any case for the same.
func folding(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,casefold"); err != nil {
		return err
	}
	return byDescriptor(dir, unix.O_RDONLY, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x40000000) })
}
