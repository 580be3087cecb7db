package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// workplace is a folder for a local box, which belongs to an ordinary user.
func workplace(t testing.TB) (base, work string) {
	t.Helper()
	base = t.TempDir()
	must(t, os.Chmod(filepath.Dir(base), 0o755))
	must(t, os.Chmod(base, 0o755))
	work = filepath.Join(base, "work")
	must(t, os.Mkdir(work, 0o755))
	if os.Geteuid() == 0 {
		must(t, os.Chown(work, hostUID, hostUID))
	}
	return base, work
}

func landlock(t testing.TB) {
	t.Helper()
	var err error
	if resident.LandlockABI() == 0 {
		err = fault.New(fault.Isolation, "no landlock in this kernel")
	}
	require.Feature(t, "landlock", err)
}

// restricted opens a box without a jail.
func restricted(t testing.TB, policy sandbox.Policy) (box *sandbox.Box, base, work string) {
	t.Helper()
	landlock(t)
	base, work = workplace(t)
	box, err := sandbox.OpenRung(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: policy}, sandbox.RungRestricted)
	must(t, err)
	t.Cleanup(func() { box.Close() })
	return box, base, work
}

func TestRestrictedSaysWhatItIs(t *testing.T) {
	box, _, work := restricted(t, sandbox.Policy{Mode: sandbox.WorkspaceWrite})
	r := box.Report()
	if r.Asked != sandbox.RungJail || r.Got != sandbox.RungRestricted || r.Network != "off" || !slices.Contains(r.Writable, work) {
		t.Errorf("report %+v", r)
	}
	for _, what := range []string{"/proc:", "modes and times:", "unix sockets:", "loopback:", "/tmp:"} {
		if !slices.ContainsFunc(r.Missing, func(m string) bool { return strings.HasPrefix(m, what) }) {
			t.Errorf("%q is not named: %q", what, r.Missing)
		}
	}
	if got := run(t, box, bash("echo $HARDSHELL_SANDBOX; id -u")); !strings.HasPrefix(got.out, "restricted\n") || strings.HasSuffix(got.out, "\n0\n") {
		t.Errorf("got %+v", got)
	}
}

func TestWhatARestrictedCommandMayDo(t *testing.T) {
	box, _, work := restricted(t, sandbox.Policy{Mode: sandbox.WorkspaceWrite})
	for _, c := range []struct{ name, script, out string }{
		{"write the workspace", "mkdir -p a/b && echo x >a/b/c && mv a/b/c d && ln d e && cat e && rm -r a d e", "x\n"},
		{"make a script and run it", "printf '#!/bin/sh\necho ran\n' >s && chmod +x s && ./s && touch -d 2001-01-01Z s && stat -c %Y s && rm s", "ran\n978307200\n"},
		{"keep temporary files", "f=$(mktemp) && echo $f | grep -c \"^$TMPDIR/\" && rm $f", "1\n"},
		{"jobs and signals among its own", "sleep 100 & kill $! && wait $!; echo $?; yes | head -1", "143\ny\n"},
		{"read the system", "head -c 4 /bin/true | tail -c 3; ls / >/dev/null && cat /proc/self/comm", "ELFcat\n"},
		{"the harmless devices", "head -c 2 /dev/zero | wc -c; echo x >/dev/null; echo y >/dev/full || echo full", "2\nfull\n"},
		{"a document in the script", "cat <<X\n$(echo in)\nX", "in\n"},
		{"python with children", "python3 -c 'import subprocess\nprint(subprocess.run([\"echo\",\"sub\"],capture_output=True).stdout)'", "b'sub\\n'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := bash(c.script)
			command.Dir = work
			if got := run(t, box, command); got.Code != 0 || got.out != c.out {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// outlive is every way to signal the resident, by each of its threads.
const outlive = `p=$PPID
python3 - $p <<'PY'
import os, sys, ctypes
p = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, f):
    try: f(); print("did", name)
    except OSError as e: print("refused", name, e.errno)
for t in [int(t) for t in os.listdir("/proc/%d/task" % p)]:
    attempt("kill", lambda: os.kill(t, 9))
    for nr in (200, 234, 129, 297):
        args = (t, 9, 0) if nr == 200 else (p, t, 9, 0)
        if libc.syscall(nr, *args) == 0: print("did", nr)
attempt("everybody", lambda: os.kill(-1, 9))
attempt("its group", lambda: os.kill(-p, 9))
attempt("pidfd", lambda: os.pidfd_open(p))
PY
echo alive`

func TestARestrictedCommandCannotOutliveItsResident(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		require.Feature(t, "amd64", errors.New("the numbers of the calls are those of amd64"))
	}
	box, _, _ := restricted(t, sandbox.Policy{Mode: sandbox.WorkspaceWrite})
	got := run(t, box, bash(outlive))
	if !strings.Contains(got.out, "alive") || !strings.Contains(got.out, "refused") || strings.Contains(got.out, "did") {
		t.Errorf("got %+v", got)
	}
	select {
	case <-box.Done():
		t.Error("the resident is gone")
	default:
	}
}

func TestARestrictedCallDiesWhole(t *testing.T) {
	box, base, _ := restricted(t, sandbox.Policy{Mode: sandbox.WorkspaceWrite})
	mark := "HARDSHELL_MARK=" + base
	c := bash("setsid setsid sleep 1000 & (sleep 1000 &); sleep 1000")
	c.Env = append([]string{mark}, c.Env...)
	c.Timeout = 500 * time.Millisecond
	if got := run(t, box, c); !got.TimedOut {
		t.Errorf("got %+v", got)
	}
	if n := len(marked(mark)); n != 0 {
		t.Errorf("%d processes of the call live on", n)
	}
	server := bash("setsid sleep 1000 >/dev/null 2>&1 & echo up")
	server.Env = append([]string{mark}, server.Env...)
	run(t, box, server)
	must(t, box.Close())
	eventually(t, "nothing left", func() bool { return len(marked(mark)) == 0 })
}

func TestARestrictedCommandCannotFalsifyItsJob(t *testing.T) {
	box, base, _ := restricted(t, sandbox.Policy{Mode: sandbox.WorkspaceWrite})
	got := run(t, box, bash("echo fake >"+base+"/box/jobs/x; cat "+base+"/box/report.json; echo done"))
	if got.out != "done\n" {
		t.Errorf("got %+v", got)
	}
	if _, err := os.Stat(filepath.Join(base, "box", "jobs", "x")); err == nil {
		t.Error("it wrote among the jobs")
	}
}

func TestARestrictedBoxHasATerminal(t *testing.T) {
	box, _, _ := restricted(t, sandbox.Policy{Mode: sandbox.WorkspaceWrite})
	c := bash("test -t 0 && test -t 1 && stty size && echo here >/dev/tty")
	c.TTY = &process.Size{Rows: 30, Cols: 99}
	if got := run(t, box, c); got.Code != 0 || got.out != "30 99\r\nhere\r\n" {
		t.Errorf("got %+v", got)
	}
}

func TestARestrictedBoxHidesSecrets(t *testing.T) {
	landlock(t)
	base, work := workplace(t)
	secret := filepath.Join(base, "secrets")
	must(t, os.Mkdir(secret, 0o755))
	must(t, os.WriteFile(filepath.Join(secret, "key"), []byte("swordfish"), 0o644))
	must(t, os.WriteFile(filepath.Join(base, "plain"), []byte("plain"), 0o644))
	box, err := sandbox.OpenRung(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work,
		Policy: sandbox.Policy{SharedTmp: true, Hidden: []string{secret}}}, sandbox.RungRestricted)
	must(t, err)
	defer box.Close()
	if got := run(t, box, bash("cat "+base+"/plain; cat "+secret+"/key")); got.out != "plain" || got.Code == 0 {
		t.Errorf("got %+v", got)
	}
}

func TestARestrictedBoxIsRefusedWhereItCannotHold(t *testing.T) {
	landlock(t)
	base, work := workplace(t)
	must(t, os.Mkdir(filepath.Join(work, "keys"), 0o755))
	write := sandbox.Policy{Mode: sandbox.WorkspaceWrite}
	cases := map[string]sandbox.Spec{
		"a hidden folder in the workspace":    {Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite, Hidden: []string{work + "/keys"}}},
		"the box's own folder in a workspace": {Cwd: base, Policy: write},
	}
	if os.Geteuid() == 0 {
		cases["a workspace of root's"] = sandbox.Spec{Cwd: base, Policy: write}
	}
	for name, spec := range cases {
		t.Run(name, func(t *testing.T) {
			spec.Dir = filepath.Join(base, "box")
			_, err := sandbox.OpenRung(t.Context(), spec, sandbox.RungRestricted)
			if f, ok := fault.As(err); !ok || f.Kind != fault.Isolation || f.Try == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// asBoxUser makes a command of the host run as whoever owns the folders of boxes.
func asBoxUser(c *exec.Cmd) {
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: hostUID, Gid: hostUID}}
	}
}

func TestARestrictedBoxIsFoundAgain(t *testing.T) {
	landlock(t)
	base, work := workplace(t)
	spec := sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}, Grace: time.Minute,
		Limits: sandbox.Limits{Pids: 50}}
	box, err := sandbox.OpenRung(t.Context(), spec, sandbox.RungRestricted)
	must(t, err)
	if r := box.Report(); slices.ContainsFunc(r.Missing, func(m string) bool { return strings.Contains(m, "RLIMIT_NPROC") }) {
		t.Errorf("report %+v", r)
	}
	must(t, box.Detach())
	again, err := sandbox.Attach(t.Context(), spec.Dir, 1)
	must(t, err)
	defer again.Close()
	if got := run(t, again, bash("echo $HARDSHELL_SANDBOX; touch $TMPDIR/x && echo kept; touch /etc/x")); got.out != "restricted\nkept\n" || got.Code == 0 {
		t.Errorf("got %+v", got)
	}
}
