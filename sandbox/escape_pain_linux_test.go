package sandbox_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"golang.org/x/sys/unix"
)

// Attacks that happened to others. The numbers in the tests' names are those of the attack list.

// onWorld runs a test on the plain stage with a world of its own.
func onWorld(t *testing.T, test func(t *testing.T, w world)) {
	t.Helper()
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	onStage(t, plainStage, func(t *testing.T) { test(t, newWorld(t)) })
}

// workspaceWrite opens a box on a folder of a world.
func (w world) workspaceWrite(t *testing.T, cwd string, policy sandbox.Policy) *sandbox.Box {
	t.Helper()
	policy.Mode = sandbox.WorkspaceWrite
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: w.at("state/box" + newKey()), Cwd: cwd, Policy: policy})
	must(t, err)
	t.Cleanup(func() { box.Close() })
	return box
}

// untouchedTree fails when a folder does not hold exactly these files, each with the text that it began with.
func untouchedTree(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != len(names) {
		t.Errorf("%s holds %v, want %v", dir, entries, names)
	}
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != untouched {
			t.Errorf("%s is now %q, %v", name, b, err)
		}
	}
}

func TestS26AChosenFolderIsNoWritableRoot(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work, home := w.folder(t, "work"), w.folder(t, "home")
		w.file(t, "home/file", untouched, 0o666)
		w.folder(t, "work/sub")
		box := w.workspaceWrite(t, work, sandbox.Policy{})
		for _, dir := range []string{"/", home, w.root, "/usr", "/etc", work + "/..", work + "/sub/../../home"} {
			t.Run(dir, func(t *testing.T) {
				c := bash("echo x >file; echo x >planted; mkdir planted; cat /proc/self/mountinfo | grep -c ' " + work + " '")
				c.Dir = dir
				if got := run(t, box, c); got.out != "1\n" || !strings.Contains(got.err, "Read-only file system") {
					t.Errorf("got %+v", got)
				}
				untouchedTree(t, home, "file")
			})
		}
		c := bash("echo mine >file && cat file")
		c.Dir = work + "/sub"
		if got := run(t, box, c); got.out != "mine\n" {
			t.Errorf("in the workspace: %+v", got)
		}
		for _, cwd := range []string{"/", "/.", w.root + "/root"} {
			if cwd == w.root+"/root" {
				must(t, os.Symlink("/", cwd))
			}
			_, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: w.at("state/no"), Cwd: cwd, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("a box in %s: %v", cwd, err)
			}
		}
	})
}

func TestS27LinksOfARepositoryLeadNowhere(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work, outside := w.folder(t, "work"), w.folder(t, "outside")
		file := w.file(t, "outside/file", untouched, 0o666)
		for name, to := range map[string]string{
			"absolute": file, "relative": "../outside/file", "folder": outside, "relative folder": "../outside", "dangling": outside + "/new",
			"chain": "absolute", "by proc": "/proc/self/root" + file, "by cwd": "/proc/self/cwd/../outside/file", "up": "..",
		} {
			must(t, os.Symlink(to, filepath.Join(work, name)))
		}
		box := w.workspaceWrite(t, work, sandbox.Policy{})
		got := run(t, box, bash(`for l in *; do
			if [ -d "$l" ]; then d=$l/; [ "$l" = up ] && d=$l/outside/; echo x >>"${d}file"; echo x >"${d}new"; rm -f "${d}file"; mv "${d}file" stolen; ln "${d}file" linked; cp "$0" "${d}new"
			else echo x >>"$l"; truncate -s0 "$l"; tee "$l" <<<x >/dev/null; cp /etc/passwd "$l"; sed -i s/u/x/ --follow-symlinks "$l"; chmod 600 "$l"; fi
		done 2>&1 | grep -c 'Read-only file system\|cross-device\|couldn.t open temporary'`))
		if n, err := strconv.Atoi(strings.TrimSpace(got.out)); err != nil || n < 40 {
			t.Errorf("got %+v", got)
		}
		untouchedTree(t, outside, "file")
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o666 {
			t.Errorf("%v, %v", st.Mode(), err)
		}
	})
}

// What the owner writes on a box's behalf lies in the box's state folder. A command that reaches it by its workspace must
// not lead the owner elsewhere.
func TestS28TheOwnerFollowsNoLinkOfACommand(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work, outside := w.folder(t, "work"), w.folder(t, "outside")
		w.file(t, "outside/file", untouched, 0o666)
		dir := filepath.Join(work, "state")
		spec := sandbox.Spec{Dir: dir, Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}}
		box, err := sandbox.Open(t.Context(), spec)
		must(t, err)
		defer box.Close()
		evil := bash(`cd state || mv state old && mkdir state && cd state
			for n in log report.json control jobs jobs/k jobs/next; do rm -rf $n; ln -s ` + outside + `/file $n; done 2>/dev/null
			cd .. && mv state old && ln -s ` + outside + ` state; true`)
		run(t, box, evil)
		for range 3 {
			job, err := box.Start(t.Context(), bash("echo to the spool"))
			if err != nil {
				break // it may have broken its own box; it may not write elsewhere by it
			}
			job.Wait(t.Context())
		}
		box.Close()
		if again, err := sandbox.Open(t.Context(), spec); err == nil {
			again.Close()
		}
		untouchedTree(t, outside, "file")
	})
}

func TestS29AMaskHoldsUnderEveryName(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work, home := w.folder(t, "work"), w.folder(t, "home")
		t.Setenv("HOME", home)
		secret := "the key itself"
		w.file(t, "home/.ssh/id", secret, 0o644)
		w.file(t, "keys/id", secret, 0o644)
		must(t, os.Symlink(w.at("keys"), w.at("home/.aws"))) // the mask's own name is a link
		w.file(t, "home/.netrc", secret, 0o644)
		must(t, os.Symlink(w.at("home/.ssh"), w.at("work/link")))
		must(t, os.Symlink(w.at("home"), w.at("alias")))
		w.folder(t, "second")
		if os.Geteuid() == 0 { // the same file system under another name
			must(t, unix.Mount(home, w.at("second"), "", unix.MS_BIND, ""))
			t.Cleanup(func() { unix.Unmount(w.at("second"), unix.MNT_DETACH) })
		}
		box := w.workspaceWrite(t, work, sandbox.Policy{})
		for name, script := range map[string]string{
			"its name":                  "cat ~/.ssh/id ~/.netrc ~/.aws/id",
			"where a mask's link leads": "cat " + w.at("keys/id"),
			"a link in the workspace":   "cat link/id",
			"a link of the host's":      "cat " + w.at("alias/.ssh/id"),
			"up and down":               "cat ~/../home/.ssh/../.ssh/id ~/./.netrc",
			"the root of a process":     "cat /proc/self/root" + home + "/.ssh/id",
			"a hard link":               "ln ~/.netrc mine; ln ~/.ssh/id mine; cat mine",
			"a rename":                  "mv ~/.ssh mine; mv ~/.netrc mine; cat mine/id mine",
			"a rename of the home":      "mv ~ mine; cat mine/.ssh/id",
			"a bind":                    "mount --bind ~/.ssh . && cat id",
			"a descriptor":              "exec 3<~; cat /proc/self/fd/3/.ssh/id /proc/self/fd/3/.netrc",
			"a second mount":            "cat " + w.at("second/.ssh/id") + " " + w.at("second/.netrc"),
		} {
			t.Run(name, func(t *testing.T) {
				c := bash(script)
				c.Env = append([]string{"HOME=" + home}, c.Env[:1]...)
				if got := run(t, box, c); strings.Contains(got.out, "key") {
					t.Errorf("it read %q", got.out)
				}
			})
		}
	})
}

// A folder that is a home is a workspace like any other: what is masked in it stays masked, and unwritten.
func TestS29AMaskHoldsInAWorkspace(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		home := w.folder(t, "home")
		t.Setenv("HOME", home)
		w.file(t, "home/.ssh/authorized_keys", "the key itself", 0o644)
		w.file(t, "home/.netrc", "the key itself", 0o644)
		socket := w.socket(t, "home/service", unix.SOCK_STREAM)
		box := w.workspaceWrite(t, home, sandbox.Policy{})
		c := bash("cat .ssh/authorized_keys .netrc; echo mine >>.ssh/authorized_keys; echo mine >>.netrc; mv .ssh old; mv .netrc old; echo wrote >file; cat file")
		if got := run(t, box, c); got.out != "wrote\n" {
			t.Errorf("got %+v", got)
		}
		for _, name := range []string{".ssh/authorized_keys", ".netrc"} {
			if b, err := os.ReadFile(filepath.Join(home, name)); string(b) != "the key itself" {
				t.Errorf("%s is now %q, %v", name, b, err)
			}
		}
		if out := inBox(box, sandbox.Spec{Cwd: home})(t, connectArg, socket); out != "refused\n" {
			t.Errorf("the host's socket in the workspace: %s", out)
		}
	})
}

func TestS32WhatOthersMadeBeforeUsIsRefused(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work := w.folder(t, "work")
		elsewhere := w.folder(t, "elsewhere")
		try := func(name, dir string) {
			t.Run(name, func(t *testing.T) {
				box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: dir, Cwd: work})
				if err == nil {
					box.Close()
					t.Error("opened")
				}
				untouchedTree(t, elsewhere)
			})
		}
		must(t, os.Symlink(elsewhere, w.at("link")))
		try("a link", w.at("link"))
		must(t, os.Mkdir(w.at("open"), 0o777))
		must(t, os.Chmod(w.at("open"), 0o777))
		try("a folder open to all", w.at("open"))
		if os.Geteuid() == 0 {
			must(t, os.Mkdir(w.at("theirs"), 0o700))
			must(t, os.Chown(w.at("theirs"), 4242, 4242))
			try("another user's", w.at("theirs"))
		}
		for _, name := range []string{"log", "jobs", "report.json"} {
			dir := w.at("box-" + name)
			must(t, os.Mkdir(dir, 0o700))
			must(t, os.Symlink(filepath.Join(elsewhere, name), filepath.Join(dir, name)))
			box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: dir, Cwd: work})
			if err == nil {
				box.Close()
			}
			untouchedTree(t, elsewhere)
		}
		dir := w.at("own")
		box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: dir, Cwd: work})
		must(t, err)
		defer box.Close()
		run(t, box, bash("echo x; echo y >&2"))
		must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode()&os.ModeSocket == 0 && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s is %v", path, info.Mode())
			}
			return err
		}))
	})
}

func TestS33InterpretersMeetTheKernel(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		work, home := w.folder(t, "work"), w.folder(t, "home")
		t.Setenv("HOME", home)
		w.file(t, "home/file", untouched, 0o666)
		box := w.workspaceWrite(t, work, sandbox.Policy{})
		for name, script := range map[string]string{
			"tilde":         "echo x >~/file; rm ~/file; rm -rf ~",
			"a variable":    `d=$HOME; echo x >"$d/file"; rm -rf "${d%/}"/*`,
			"perl":          `perl -e 'unlink "$ENV{HOME}/file"; rmdir $ENV{HOME}; open F, ">", "$ENV{HOME}/new"'`,
			"a built name":  `x=$(printf '%s/%s' "$HOME" file); eval "echo y >$x"`,
			"another shell": `sh -c 'cd ~ && rm -f file && echo x >new'`,
			"find":          `find ~ -delete; find ~ -type f -exec truncate -s0 {} +`,
			"an archive":    `tar cf - -C /etc passwd | tar xf - -C ~ --unlink-first`,
		} {
			t.Run(name, func(t *testing.T) {
				c := bash(script)
				c.Env = append([]string{"HOME=" + home}, c.Env[:1]...)
				run(t, box, c)
				untouchedTree(t, home, "file")
			})
		}
	})
}

// connectArg makes this test binary connect to sockets, and say how it went.
const connectArg = "connect"

func tryConnect(paths []string) int {
	for _, p := range paths {
		answer := "connected"
		if err := connects(&unix.SockaddrUnix{Name: p}, unix.AF_UNIX, unix.SOCK_STREAM); err != nil {
			answer = "refused"
		}
		os.Stdout.WriteString(answer + "\n")
	}
	return 0
}

func TestS48SocketsOfTheHostsServicesAreRefused(t *testing.T) {
	onWorld(t, func(t *testing.T, w world) {
		home := w.folder(t, "home")
		t.Setenv("HOME", home)
		short, err := os.MkdirTemp("", "s") // a socket's path has room for a hundred bytes
		must(t, err)
		t.Cleanup(func() { os.RemoveAll(short) })
		tmp := world{root: short, uid: w.uid}
		for dir := tmp.root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			must(t, os.Chmod(dir, 0o755))
		}
		paths := []string{tmp.socket(t, "display", unix.SOCK_STREAM)}
		for _, name := range []string{".docker/run/docker.sock", ".gnupg/S.gpg-agent", ".ssh/agent", ".colima/default/docker.sock", ".local/share/containers/podman.sock", "work/in-the-workspace"} {
			paths = append(paths, w.socket(t, "home/"+name, unix.SOCK_STREAM))
		}
		for _, name := range []string{"@/tmp/.X11-unix/X", "@dbus-", "@/containerd-shim/"} {
			l, err := net.Listen("unix", name+filepath.Base(w.root))
			must(t, err)
			t.Cleanup(func() { l.Close() })
			paths = append(paths, name+filepath.Base(w.root))
		}
		for _, mode := range []sandbox.Mode{sandbox.ReadOnly, sandbox.WorkspaceWrite} {
			for _, network := range []sandbox.Network{sandbox.NetworkOff, sandbox.NetworkFull} {
				for _, shared := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, network %s, shared tmp %v", mode, network, shared), func(t *testing.T) {
						policy := sandbox.Policy{Mode: mode, Network: network, SharedTmp: shared}
						spec := sandbox.Spec{Dir: w.at("state/box" + newKey()), Cwd: w.folder(t, "home/work"), Policy: policy}
						box, err := sandbox.Open(t.Context(), spec)
						must(t, err)
						defer box.Close()
						out := inBox(box, spec)(t, append([]string{connectArg}, paths...)...)
						for i, answer := range strings.Split(strings.TrimSpace(out), "\n") {
							if answer != "refused" {
								t.Errorf("%s: %s", paths[i], answer)
							}
						}
					})
				}
			}
		}
	})
}
