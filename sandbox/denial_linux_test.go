package sandbox_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// What commands really print, in a real box, is explained by what the box was really given.
func TestDenialsOfRealCommands(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	landlock(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	cases := []struct {
		name, script string
		kind         sandbox.DenialKind // "" is no denial
		path         string             // BASE and WORK stand for folders
		evidence     sandbox.Evidence   // "" is any
		both         bool               // on the restricted rung too
	}{
		{"touch", "touch /etc/x", "write", "/etc/x", "", true},
		{"a redirection", "echo x >BASE/out/x", "write", "BASE/out/x", "", true},
		{"dash", "exec sh -c 'echo x >/usr/y'", "write", "/usr/y", "", true},
		{"mkdir", "mkdir /opt/z", "write", "/opt/z", "", true},
		{"cp", "cp /bin/true /usr/bin/evil", "write", "/usr/bin/evil", "", true},
		{"python", "exec python3 -c 'open(\"/etc/x\", \"w\")'", "write", "/etc/x", "", true},
		{"rm", "rm BASE/out/there", "write", "BASE/out/there", "", true},
		{"a hook", "echo x >.git/hooks/x", "write", "WORK/.git/hooks/x", "mounts", false},
		{"git's configuration", "git config core.fsmonitor x", "write", "WORK/.git/config", "", false},
		{"an address", "exec 3<>/dev/tcp/192.0.2.1/80", "network", "", "policy", true},
		{"a name", "exec 3<>/dev/tcp/example.invalid/80", "network", "", "policy", true},
		{"the host's loopback", "exec 3<>/dev/tcp/127.0.0.1/" + port, "network", "", "policy", true},
		{"python, an address", "exec python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'", "network", "", "policy", false},
		{"a mount", "mount -t tmpfs x /mnt", "syscall", "", "policy", false},
		{"a namespace", "unshare -Ur true", "syscall", "", "policy", true},
		{"a hidden key", "cat BASE/keys/id", "read", "BASE/keys/id", "mounts", true},

		{"success", "echo x >/dev/null", "", "", "", true},
		{"a failure of its own", "exit 3", "", "", "", true},
		{"a typing error", "no-such-program", "", "", "", true},
		{"what is not there", "cat nothing", "", "", "", true},
		{"what its owner has closed", "echo x >closed; chmod 0 closed; cat WORK/closed", "", "", "", true},
	}
	for _, rung := range []sandbox.Rung{sandbox.RungJail, sandbox.RungRestricted} {
		base, work := workplace(t)
		for _, d := range []string{"out", "keys"} {
			must(t, os.Mkdir(filepath.Join(base, d), 0o777))
		}
		for _, f := range []string{"out/there", "keys/id"} {
			must(t, os.WriteFile(filepath.Join(base, f), []byte("x"), 0o666))
		}
		asBox(t, filepath.Join(base, "out"), filepath.Join(base, "out/there"))
		git(t, work, "init", "-q")
		policy := sandbox.Policy{Mode: sandbox.WorkspaceWrite, Hidden: []string{base + "/keys"}, Shown: []string{base + "/out"}}
		box, err := sandbox.OpenRung(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: policy}, rung)
		must(t, err)
		defer box.Close()
		say := strings.NewReplacer("BASE", base, "WORK", work).Replace
		for _, c := range cases {
			if rung == sandbox.RungRestricted && !c.both {
				continue
			}
			t.Run(string(rung)+"/"+c.name, func(t *testing.T) {
				command := bash(say(c.script))
				command.Dir, command.Env = work, gitEnv
				got := run(t, box, command)
				d, ok := sandbox.Explain(box.Report(), policy, work, got.Code, []byte(got.err))
				if ok != (c.kind != "") || d.Kind != c.kind || d.Path != say(c.path) || c.evidence != "" && d.Evidence != c.evidence {
					t.Errorf("exit %d, said %q: %v %+v", got.Code, got.err, ok, d)
				}
			})
		}
	}
}

// asBox gives things to whoever the commands of boxes are.
func asBox(t testing.TB, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if os.Geteuid() == 0 {
			must(t, os.Lchown(p, hostUID, hostUID))
		}
	}
}

func TestWhatIsShownAllTheSame(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := workplace(t)
	for _, d := range []string{"keys", "keys/public"} {
		must(t, os.Mkdir(filepath.Join(base, d), 0o755))
		must(t, os.WriteFile(filepath.Join(base, d, "f"), []byte(d), 0o644))
	}
	policy := sandbox.Policy{Hidden: []string{base + "/keys"}, Shown: []string{base + "/keys/public"}}
	box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: policy})
	must(t, err)
	defer box.Close()
	if got := run(t, box, bash("cat "+base+"/keys/f; cat "+base+"/keys/public/f; echo x >"+base+"/keys/public/f")); got.out != "keys/public" || !strings.Contains(got.err, "Read-only") {
		t.Errorf("got %+v", got)
	}
}

func TestATmpIsSharedWhenAsked(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	base, work := workplace(t)
	must(t, os.Mkdir(filepath.Join(base, "scratch"), 0o777))
	must(t, os.Chmod(filepath.Join(base, "scratch"), 0o777))
	if !strings.HasPrefix(base, "/tmp/") {
		require.Feature(t, "tmp", errors.New("the folders of this run are not below /tmp"))
	}
	for _, shared := range []bool{false, true} {
		box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: t.TempDir(), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite, SharedTmp: shared}})
		must(t, err)
		got := run(t, box, bash("echo x >"+base+"/scratch/made"))
		if _, err := os.Stat(base + "/scratch/made"); (err == nil) != shared || (got.Code == 0) != shared {
			t.Errorf("shared %v: made %v, %+v", shared, err == nil, got)
		}
		must(t, box.Close())
	}
}
