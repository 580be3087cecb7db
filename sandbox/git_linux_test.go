package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// git runs on the host, as whoever owns the folders of boxes.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=u", "-c", "user.email=u@x", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir)
	asBoxUser(c)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repositories makes a checkout with a submodule, and a linked worktree of it, as siblings.
func repositories(t testing.TB) (base, work string) {
	t.Helper()
	_, err := exec.LookPath("git")
	require.Feature(t, "git", err)
	base, work = workplace(t)
	for _, name := range []string{"lib", "linked"} {
		must(t, os.Mkdir(filepath.Join(base, name), 0o755))
		if os.Geteuid() == 0 {
			must(t, os.Chown(filepath.Join(base, name), hostUID, hostUID))
		}
	}
	lib := filepath.Join(base, "lib")
	git(t, lib, "init", "-q")
	git(t, lib, "commit", "-q", "--allow-empty", "-m", "one")
	git(t, work, "init", "-q")
	git(t, work, "commit", "-q", "--allow-empty", "-m", "one")
	git(t, work, "submodule", "--quiet", "add", lib, "sub")
	git(t, work, "commit", "-q", "-m", "two")
	git(t, work, "worktree", "add", "-q", "-b", "side", filepath.Join(base, "linked", "tree"))
	return base, work
}

// gitEnv is what a command needs to commit.
var gitEnv = append([]string{"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@x", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x", "GIT_CONFIG_GLOBAL=/dev/null"}, environment...)

// protections are what must fail in every checkout, by name.
const protections = `
g=$(git rev-parse --absolute-git-dir) c=$(cd "$(git rev-parse --git-common-dir)" && pwd)
attempt() { name=$1; shift; if "$@" 2>/dev/null; then echo "HOLE $name"; fi; }
put() { echo x >>"$1"; }
attempt hook put "$c/hooks/post-commit"
attempt "hook by link" ln -s /tmp "$c/hooks/x"
attempt "hooks away" mv "$c/hooks" "$c/hooks2"
attempt config put "$c/config"
attempt "config by git" git config core.fsmonitor /tmp/evil
attempt "config replaced" cp /dev/null "$c/config"
attempt "config moved" mv "$c/config" "$c/config2"
attempt attributes put "$c/info/attributes"
attempt "the whole folder" mv "$c" "$c.away"
attempt "its own folder" mv "$g" "$g.away"
if [ -f .git ]; then attempt pointer put .git; attempt "pointer away" rm -f .git; attempt "pointer moved" mv .git git2; fi
if [ -f "$g/commondir" ]; then attempt commondir put "$g/commondir"; attempt "gitdir back" put "$g/gitdir"; fi
echo tried`

func TestCommitsWorkWhereNothingObeyedCanBeWritten(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := repositories(t)
	linked := filepath.Join(base, "linked", "tree")
	for name, dir := range map[string]string{"checkout": work, "worktree": linked, "submodule": filepath.Join(work, "sub")} {
		t.Run(name, func(t *testing.T) {
			box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box-"+name), Cwd: dir, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
			must(t, err)
			defer box.Close()
			c := bash("echo " + name + " >file && git add file && git commit -q -m work && git commit -q --amend -m again && git checkout -q -b topic-" + name + " && git stash list && git log -1 --format=%s")
			c.Env, c.Dir = gitEnv, dir
			if got := run(t, box, c); got.Code != 0 || got.out != "again\n" {
				t.Fatalf("commit: %+v", got)
			}
			if got := git(t, dir, "log", "-1", "--format=%s"); got != "again" {
				t.Errorf("on the host the last commit is %q", got)
			}
			c = bash(protections)
			c.Env, c.Dir = gitEnv, dir
			if got := run(t, box, c); got.out != "tried\n" {
				t.Errorf("got %+v", got)
			}
			if !slices.ContainsFunc(box.Report().Protected, func(p string) bool { return strings.HasSuffix(p, "/config") || strings.HasSuffix(p, "/.git") }) {
				t.Errorf("report %+v", box.Report())
			}
		})
	}
	git(t, work, "status")
	git(t, linked, "fsck")
}

func TestARepositoryBelowTheWorkspaceIsProtectedToo(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, _ := repositories(t)
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: t.TempDir(), Cwd: base + "/work", Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
	must(t, err)
	defer box.Close()
	c := bash(protections + "; cd sub; " + protections + "; git commit -q --allow-empty -m sub && git log -1 --format=%s")
	c.Env, c.Dir = gitEnv, base+"/work"
	if got := run(t, box, c); got.out != "tried\ntried\nsub\n" {
		t.Errorf("got %+v", got)
	}
}

func TestAConfigurationElsewhereIsTakenAway(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := repositories(t)
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
	must(t, err)
	defer box.Close()
	c := bash("mkdir evil && echo ../evil >.git/commondir && echo y >.git/config.worktree; echo $?")
	c.Dir = work
	if got := run(t, box, c); got.out != "0\n" {
		t.Fatalf("got %+v", got)
	}
	for _, name := range []string{"commondir", "config.worktree"} {
		at := filepath.Join(work, ".git", name)
		if _, err := os.Lstat(at); err == nil || !slices.Contains(box.Removed(), at) {
			t.Errorf("%s is there, or not told: %v", name, box.Removed())
		}
	}
	git(t, work, "status")
}

func TestAPointerAloneOpensNothing(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := repositories(t)
	fake := filepath.Join(base, "linked", "fake")
	must(t, os.Mkdir(fake, 0o755))
	for name, pointer := range map[string]string{
		"to a checkout's folder":     "gitdir: " + work + "/.git",
		"to somebody else's folder":  "gitdir: " + base + "/lib/.git",
		"to another's worktree":      "gitdir: " + work + "/.git/worktrees/tree",
		"to a submodule's":           "gitdir: " + work + "/.git/modules/sub",
		"to a folder of no kind":     "gitdir: " + base + "/lib",
		"to nothing":                 "gitdir: /nowhere",
		"that is none":               "hello",
		"that is long":               "gitdir: " + strings.Repeat("x", 9000),
		"relative, up and up and up": "gitdir: ../../lib/.git",
	} {
		t.Run(name, func(t *testing.T) {
			must(t, os.WriteFile(filepath.Join(fake, ".git"), []byte(pointer+"\n"), 0o644))
			if os.Geteuid() == 0 {
				must(t, os.Chown(fake, hostUID, hostUID))
			}
			box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: t.TempDir(), Cwd: fake, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
			must(t, err)
			defer box.Close()
			got := run(t, box, bash("for d in "+work+"/.git "+work+"/.git/objects "+work+"/.git/modules/sub "+base+"/lib "+base+"/lib/.git; do touch $d/x 2>/dev/null && echo HOLE $d; done; echo tried"))
			if got.out != "tried\n" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestSettingsInAWorkspaceCannotBeWritten(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := workplace(t)
	for _, d := range []string{".hardshell", ".codex"} {
		must(t, os.Mkdir(filepath.Join(work, d), 0o777))
		must(t, os.WriteFile(filepath.Join(work, d, "rules"), []byte("ask"), 0o666))
	}
	must(t, os.WriteFile(filepath.Join(work, "hardshell.toml"), []byte("# mine"), 0o666))
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
	must(t, err)
	defer box.Close()
	c := bash("for f in .hardshell/rules .codex/rules hardshell.toml .codex/new; do echo x 2>/dev/null >$f && echo HOLE $f; done; for f in .hardshell .codex hardshell.toml; do mv $f z 2>/dev/null && echo HOLE mv $f; rm -rf $f 2>/dev/null && echo HOLE rm $f; done; cat hardshell.toml .codex/rules")
	c.Dir = work
	if got := run(t, box, c); got.out != "# mineask" {
		t.Errorf("got %+v", got)
	}
}

func TestWhatIsNamedMostExactlyCounts(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := workplace(t)
	for _, d := range []string{"keys", "keys/open", "keys/open/inner", "plain"} {
		must(t, os.Mkdir(filepath.Join(work, d), 0o777))
		must(t, os.WriteFile(filepath.Join(work, d, "f"), []byte(d), 0o666))
		if os.Geteuid() == 0 {
			must(t, os.Chown(filepath.Join(work, d), hostUID, hostUID))
		}
	}
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite,
		WritableRoots: []string{work + "/keys/open"}, Hidden: []string{work + "/keys", work + "/keys/open/inner"}}})
	must(t, err)
	defer box.Close()
	c := bash("cat plain/f keys/f keys/open/f keys/open/inner/f; echo; echo x >keys/new; echo y >keys/open/new; echo z >keys/open/inner/new")
	c.Dir = work
	if got := run(t, box, c); got.out != "plainkeys/open\n" {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]bool{"keys/new": false, "keys/open/new": true, "keys/open/inner/new": false} {
		if _, err := os.Stat(filepath.Join(work, name)); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", name, err == nil, want)
		}
	}
}
