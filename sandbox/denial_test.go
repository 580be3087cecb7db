package sandbox_test

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox"
)

// seen are the reports that the cases of this file are told against: a workspace at /work, its git protected.
func seen(got sandbox.Rung, mode sandbox.Mode, network sandbox.Network) (sandbox.Report, sandbox.Policy) {
	r := sandbox.Report{Asked: sandbox.RungJail, Got: got, Mode: mode.String(), Network: network.String(), Hidden: []string{"/home/u/.ssh", "/run"}}
	if mode == sandbox.WorkspaceWrite {
		r.Writable, r.Protected = []string{"/tmp", "/work"}, []string{"/work/.git/hooks", "/work/.git/config"}
	}
	return r, sandbox.Policy{Mode: mode, Network: network}
}

func TestWhatASandboxDenied(t *testing.T) {
	const (
		jail       = sandbox.RungJail
		restricted = sandbox.RungRestricted
		ro         = sandbox.ReadOnly
		ww         = sandbox.WorkspaceWrite
		off, full  = sandbox.NetworkOff, sandbox.NetworkFull
	)
	cases := []struct {
		name     string
		rung     sandbox.Rung
		mode     sandbox.Mode
		network  sandbox.Network
		code     int
		stderr   string
		kind     sandbox.DenialKind // "" is no denial
		path     string
		evidence sandbox.Evidence
		allow    string // part of it
	}{
		{"success", jail, ww, off, 0, "touch: cannot touch '/etc/x': Read-only file system", "", "", "", ""},
		{"nothing restricts", sandbox.RungNone, sandbox.DangerFullAccess, full, 1, "Permission denied", "", "", "", ""},
		{"another failure", jail, ww, off, 1, "make: *** [all] Error 1", "", "", "", ""},

		{"touch", jail, ww, off, 1, "touch: cannot touch '/etc/x': Read-only file system\n", "write", "/etc/x", "mounts", "--writable /etc"},
		{"bash", jail, ww, off, 1, "bash: line 1: /etc/x: Read-only file system", "write", "/etc/x", "mounts", "--writable /etc"},
		{"dash, by its path", jail, ww, off, 2, "/bin/sh: 1: cannot create /etc/x: Read-only file system", "write", "/etc/x", "mounts", "--writable"},
		{"a script, by its path", jail, ww, off, 1, "/work/run.sh: line 3: /opt/log: Read-only file system", "write", "/opt/log", "mounts", "--writable /opt"},
		{"python", jail, ww, off, 1, "OSError: [Errno 30] Read-only file system: '/srv/db/x'", "write", "/srv/db/x", "mounts", "--writable /srv/db"},
		{"go", jail, ww, off, 1, "2026/11/21 open /opt/a/b: read-only file system", "write", "/opt/a/b", "mounts", "--writable /opt/a"},
		{"node", jail, ww, off, 1, "Error: EROFS: read-only file system, mkdir '/opt/n'", "write", "/opt/n", "mounts", "--writable /opt"},
		{"git, curly quotes", jail, ww, off, 128, "fatal: Unable to create ‘/repo/.git/index.lock’: Read-only file system", "write", "/repo/.git/index.lock", "mounts", "--writable"},
		{"in the root", jail, ww, off, 1, "mkdir: cannot create directory '/x': Read-only file system", "write", "/x", "mounts", "outside of the sandbox"},
		{"a name in a read-only workspace", jail, ro, off, 1, "touch: cannot touch 'x': Read-only file system", "write", "/work/x", "mounts", "--sandbox workspace-write would"},
		{"elsewhere, read-only", jail, ro, off, 1, "touch: cannot touch '/opt/x': Read-only file system", "write", "/opt/x", "mounts", "--sandbox workspace-write --writable /opt"},
		{"the last error counts", jail, ww, off, 1, "touch: '/opt/a': Read-only file system\ntouch: '/opt/b': Read-only file system\nError 1", "write", "/opt/b", "mounts", ""},
		{"hooks", jail, ww, off, 1, "bash: .git/hooks/pre-commit: Read-only file system", "write", "/work/.git/hooks/pre-commit", "mounts", "a person"},
		{"a host's own read-only folder", jail, ww, off, 1, "touch: cannot touch '/work/cd/x': Read-only file system", "", "", "", ""},
		{"a name after a change of folder", jail, ww, off, 1, "touch: cannot touch 'x': Read-only file system", "write", "", "words", ""},
		{"a copy between two mounts", jail, ww, off, 1, "mv: cannot move '/work/a' to '/tmp/a': Invalid cross-device link", "", "", "", ""},

		{"ordinary permissions of the workspace", jail, ww, off, 1, "cat: /work/secret: Permission denied", "", "", "", ""},
		{"perhaps ordinary permissions", jail, ww, off, 1, "cat: /root/x: Permission denied", "write", "/root/x", "words", "if it was, --show /root/x would let it be read, and --writable /root be"},
		{"a protected file replaced", jail, ww, off, 4, "error: could not write config file .git/config: Device or resource busy", "write", "/work/.git/config", "mounts", "a person"},
		{"its folder away", jail, ww, off, 1, "mv: cannot move '.git' to 'x': Device or resource busy", "write", "/work/.git", "mounts", "a person"},
		{"a mount, not as root", jail, ww, off, 32, "mount: /mnt: must be superuser to use mount.", "syscall", "", "policy", "outside"},
		{"words do not count with a shell's own codes", jail, ww, off, 126, "bash: /root/x: Permission denied", "", "", "", ""},
		{"a word in a path is none", jail, ww, off, 1, "error: /work/sandbox/landlock.c:3: syntax", "", "", "", ""},
		{"a key that is covered", jail, ww, off, 1, "cat: /home/u/.ssh/id_rsa: No such file or directory", "read", "/home/u/.ssh/id_rsa", "mounts", "--show /home/u/.ssh would"},
		{"an engine's socket", jail, ww, off, 1, "dial unix /run/docker.sock: connect: no such file or directory", "read", "/run/docker.sock", "mounts", "--show /run would"},
		{"the host's /tmp", jail, ww, off, 1, "cat: /tmp/x/report: No such file or directory", "read", "/tmp/x/report", "policy", "--show /tmp/x/report"},
		{"the host's /tmp, in dash", jail, ww, off, 2, "sh: 1: cannot create /tmp/x/y: Directory nonexistent", "read", "/tmp/x/y", "policy", "--show"},
		{"a name, in dash", jail, ro, off, 1, "sh: 1: cannot create file: Read-only file system", "write", "/work/file", "mounts", "--sandbox workspace-write would"},
		{"what was never there", jail, ww, off, 1, "cat: /work/nothing: No such file or directory", "", "", "", ""},
		{"mount", jail, ww, off, 32, "mount: /mnt: permission denied.", "syscall", "", "policy", "outside"},
		{"namespaces", jail, ww, off, 1, "unshare: unshare failed: Operation not permitted", "syscall", "", "policy", "outside"},
		{"a debugger", jail, ww, off, 1, "strace: test_ptrace_get_syscall_info: PTRACE_TRACEME: Operation not permitted", "syscall", "", "policy", "outside"},
		{"a foreign system call", jail, ww, off, 159, "", "syscall", "", "kernel", "this machine"},

		{"restricted: outside", restricted, ww, off, 1, "touch: cannot touch '/etc/x': Permission denied", "write", "/etc/x", "mounts", "--writable /etc"},
		{"restricted: inside", restricted, ww, off, 1, "touch: cannot touch '/work/ro/x': Permission denied", "", "", "", ""},
		{"restricted: hidden", restricted, ww, off, 1, "cat: /home/u/.ssh/id_rsa: Permission denied", "read", "/home/u/.ssh/id_rsa", "mounts", "--show /home/u/.ssh would"},
		{"restricted: no socket", restricted, ww, off, 1, "PermissionError: [Errno 1] Operation not permitted: socket", "network", "", "policy", "--network full"},
		{"restricted: a unix socket with a network", restricted, ww, full, 1, "socket: Address family not supported by protocol", "network", "", "policy", "jail"},

		{"curl", jail, ww, off, 6, "curl: (6) Could not resolve host: example.com", "network", "", "policy", "--network full"},
		{"git", jail, ww, off, 128, "fatal: unable to access 'https://x.test/': Could not resolve host: x.test", "network", "", "policy", "--network full"},
		{"python, a name", jail, ww, off, 1, "socket.gaierror: [Errno -3] Temporary failure in name resolution", "network", "", "policy", "--network full"},
		{"an address", jail, ww, off, 1, "bash: connect: Network is unreachable", "network", "", "policy", "--network full"},
		{"go, a name", jail, ww, off, 1, `Get "https://x.test": dial tcp: lookup x.test: no such host`, "network", "", "policy", "--network full"},
		{"the host's loopback", jail, ww, off, 7, "curl: (7) Failed to connect to localhost port 5432: Connection refused", "network", "", "policy", "--network full"},
		{"refused elsewhere", jail, ww, off, 1, "db.internal: Connection refused", "", "", "", ""},
		{"a network that is there", jail, ww, full, 6, "curl: (6) Could not resolve host: example.com", "", "", "", ""},

		{"in a box around us", sandbox.RungExternal, ww, off, 1, "touch: cannot touch '/opt/x': Read-only file system", "write", "/opt/x", "policy", "around this one"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, p := seen(c.rung, c.mode, c.network)
			if c.rung == sandbox.RungExternal {
				r.Writable, r.Protected, r.Hidden = nil, nil, nil
			}
			d, ok := sandbox.Explain(r, p, "/work", c.code, []byte(c.stderr))
			if c.kind == "" {
				if ok {
					t.Errorf("a denial: %+v", d)
				}
				return
			}
			if !ok || d.Kind != c.kind || d.Path != c.path || d.Evidence != c.evidence || !strings.Contains(d.Allow, c.allow) {
				t.Errorf("got %v %+v", ok, d)
			}
			if s := d.String(); strings.ContainsAny(s, "\n\r") || strings.Count(s, ". ") > 0 || !strings.Contains(s, "; ") {
				t.Errorf("not one sentence: %q", s)
			}
		})
	}
}

func TestADenialIsFoundAtTheEndOfMuchOutput(t *testing.T) {
	r, p := seen(sandbox.RungJail, sandbox.WorkspaceWrite, sandbox.NetworkOff)
	noise := strings.Repeat("cc -O2 -c file.c: permission granted\n", 20_000)
	d, ok := sandbox.Explain(r, p, "/work", 1, []byte(noise+"touch: cannot touch '/etc/x': Read-only file system\nmake: *** Error 1\n"))
	if !ok || d.Path != "/etc/x" {
		t.Errorf("got %v %+v", ok, d)
	}
}

func FuzzExplain(f *testing.F) {
	f.Add("touch: cannot touch '/etc/x': Read-only file system", 1)
	f.Add("'\"‘’`: EACCES /: ", 159)
	f.Fuzz(func(t *testing.T, text string, code int) {
		for _, rung := range []sandbox.Rung{sandbox.RungJail, sandbox.RungRestricted, sandbox.RungExternal} {
			r, p := seen(rung, sandbox.WorkspaceWrite, sandbox.NetworkOff)
			if d, ok := sandbox.Explain(r, p, "/work", code, []byte(text)); ok && (code == 0 || d.Denied == "" || d.Allow == "" || d.Evidence == "") {
				t.Errorf("%d: %+v", code, d)
			}
		}
	})
}
