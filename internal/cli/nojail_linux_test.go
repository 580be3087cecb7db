package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
)

// jailless is a machine on which no jail can be made: a shell line that makes it, in a user namespace of its own, and
// what the program says there.
type jailless struct {
	name  string
	flags uintptr
	make  string
	cause string
	try   string
}

var machinesWithoutAJail = []jailless{
	{name: "no user namespaces", make: "echo 0 >/proc/sys/user/max_user_namespaces",
		cause: "no space left on device", try: "sysctl -w user.max_user_namespaces=65536"},
	{name: "a masked proc", flags: unix.CLONE_NEWNS, make: "mount --bind /dev/null /proc/keys",
		cause: "/proc: operation not permitted", try: "give the container a whole /proc: docker run --security-opt systempaths=unconfined, in Kubernetes procMount: Unmasked"},
}

// start runs the program on such a machine.
func (m jailless) start(t *testing.T, home string, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	program, err := exec.LookPath("hardshell")
	if err != nil {
		t.Fatal(err)
	}
	become := "exec"
	if uid := os.Geteuid(); uid != 0 { // what makes the machine is root in its namespace; what runs on it is not
		become = fmt.Sprintf("exec unshare --user --map-user=%d --map-group=%d", uid, os.Getegid())
		if m.flags == 0 {
			become = "exec" // the second namespace is what this machine forbids
		}
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", m.make + " || exit 99; " + become + ` "$0" "$@"`, program}, args...)...)
	cmd.Dir = filepath.Join(home, "work")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "HARDSHELL_DATA=" + filepath.Join(home, "data"), "OLLAMA_HOST=127.0.0.1:1", "TMPDIR=" + os.TempDir()}
	all := []syscall.SysProcIDMap{{Size: 1<<32 - 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | m.flags, UidMappings: all, GidMappings: all, Pdeathsig: syscall.SIGKILL}
	cmd.SysProcAttr.GidMappingsEnableSetgroups = os.Geteuid() == 0
	if uid := os.Geteuid(); uid != 0 {
		inside := 0
		if m.flags == 0 {
			inside = uid
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_RESOURCE}
		}
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: inside, HostID: os.Getegid(), Size: 1}}
	}
	var out, note bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &note
	err = cmd.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		require.Feature(t, "user-namespaces", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, &out, &note
}

// run waits for the program's end.
func (m jailless) run(t *testing.T, home string, args ...string) (code int, out, note string) {
	t.Helper()
	cmd, o, n := m.start(t, home, args...)
	cmd.Wait()
	if code = cmd.ProcessState.ExitCode(); code == 99 {
		require.Feature(t, "nested-mounts", errors.New(n.String()))
	}
	return code, o.String(), n.String()
}

func newHome(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestWithoutAJailDoctorNamesTheRemedy(t *testing.T) {
	for _, m := range machinesWithoutAJail {
		t.Run(m.name, func(t *testing.T) {
			code, out, _ := m.run(t, newHome(t), "doctor")
			if code != 1 || !strings.Contains(out, "✗") || !strings.Contains(out, "try: "+m.try) || !strings.Contains(out, m.cause) ||
				!strings.Contains(out, "hosted shells cannot run here: a sandbox cannot be made on this machine") {
				t.Errorf("exit %d\n%s", code, out)
			}
			code, out, _ = m.run(t, newHome(t), "doctor", "--json")
			var found struct {
				Shell struct {
					Available  bool
					Error, Try string
				} `json:"hosted_shells"`
			}
			if err := json.Unmarshal([]byte(out), &found); err != nil || code != 1 || found.Shell.Available || found.Shell.Try != m.try {
				t.Errorf("exit %d, %v\n%s", code, err, out)
			}
		})
	}
}

// A server without a jail answers, says why its shells do not run, and tells the model so instead of a success.
func TestWithoutAJailServeRefusesHostedShells(t *testing.T) {
	for _, m := range machinesWithoutAJail {
		t.Run(m.name, func(t *testing.T) {
			home := newHome(t)
			cmd, out, note := m.start(t, home, "serve", "--listen", "127.0.0.1:0")
			stopped := false
			stop := func() {
				if !stopped {
					stopped = true
					cmd.Process.Signal(syscall.SIGTERM)
					cmd.Wait()
				}
			}
			t.Cleanup(stop)
			var address struct{ URL string }
			for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				raw, err := os.ReadFile(filepath.Join(home, "data", "server.json"))
				if err == nil && json.Unmarshal(raw, &address) == nil && address.URL != "" {
					break
				}
				if time.Now().After(deadline) {
					stop()
					t.Fatalf("no server\n%s%s", out, note)
				}
			}
			answer, err := http.Get(address.URL + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			var health bytes.Buffer
			if _, err := health.ReadFrom(answer.Body); err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode != http.StatusOK || !strings.Contains(health.String(), `"available":false`) || !strings.Contains(health.String(), m.try) {
				t.Errorf("health %d: %s", answer.StatusCode, health.String())
			}
			ask := exec.Command("hardshell", "ask", "--model", "scripted", "$ echo hello")
			ask.Dir = cmd.Dir
			ask.Env = cmd.Env
			text, _ := ask.CombinedOutput()
			if strings.Contains(string(text), "\nhello") || !strings.Contains(string(text), "a sandbox cannot be made on this machine") || !strings.Contains(string(text), "not started") {
				t.Errorf("ask: %s", text)
			}
			stop()
			if !strings.Contains(note.String(), m.try) {
				t.Errorf("the banner:\n%s", note)
			}
		})
	}
}

// A command on such a machine runs on the weaker rung and says so, or is refused and says what to do. It never runs as
// if nothing were amiss.
func TestWithoutAJailRunSaysWhatItGot(t *testing.T) {
	for _, m := range machinesWithoutAJail {
		t.Run(m.name, func(t *testing.T) {
			home := newHome(t)
			if os.Geteuid() == 0 { // without a jail commands can only be the folder's owner, and never root
				code, out, note := m.run(t, home, "run", "--", "/bin/echo", "hello")
				if code != 125 || out != "" || !strings.Contains(note, "commands never run as root") {
					t.Errorf("in root's folder: exit %d\n%s%s", code, out, note)
				}
				for dir := filepath.Join(home, "work"); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
					if err := os.Chmod(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Chown(filepath.Join(home, "work"), 65534, 65534); err != nil {
					t.Fatal(err)
				}
			}
			code, out, note := m.run(t, home, "run", "--", "/bin/echo", "hello")
			ran := code == 0 && out == "hello\n" && strings.Contains(note, "restricted")
			refused := code == 125 && out == "" && strings.Contains(note, "\ntry: ")
			if resident.LandlockABI() > 0 && !ran || !ran && !refused {
				t.Errorf("exit %d\n%s%s", code, out, note)
			}
		})
	}
}

// A command in a box that runs hardshell itself gets the box around it, and its receipt says so. A variable says nothing.
func TestRunInsideABoxSaysExternal(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	program, err := exec.LookPath("hardshell")
	if err != nil {
		t.Fatal(err)
	}
	run := func(home string, variables []string, args ...string) (out, note string) {
		cmd := exec.Command(program, append([]string{"run"}, args...)...)
		cmd.Dir = filepath.Join(home, "work")
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, variables...)
		var o, n bytes.Buffer
		cmd.Stdout, cmd.Stderr = &o, &n
		cmd.Run()
		return o.String(), n.String()
	}
	for _, c := range []struct {
		around, asked, rung string
		writes              bool
	}{
		{"workspace-write", "workspace-write", "external", true},
		{"read-only", "read-only", "external", false},
		{"read-only", "workspace-write", "external", false},
		{"workspace-write", "read-only", "restricted", false}, // what is around is not as tight as what was asked
	} {
		t.Run(c.asked+" in "+c.around, func(t *testing.T) {
			home := newHome(t)
			self, err := os.ReadFile(program)
			if err == nil {
				err = os.WriteFile(filepath.Join(home, "work", "hardshell"), self, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			out, note := run(home, nil, "--sandbox", c.around, "--", "./hardshell", "run", "--sandbox", c.asked, "--",
				"/bin/sh", "-c", "echo rung $HARDSHELL_SANDBOX; echo x >file && echo wrote; echo x >/etc/file && echo escaped; exec 3<>/dev/tcp/127.0.0.1/1")
			if !strings.Contains(out, "rung "+c.rung+"\n") || strings.Contains(out, "wrote") != c.writes || strings.Contains(out, "escaped") {
				t.Errorf("out %q\n%s", out, note)
			}
			if !strings.Contains(note, "got "+c.rung) || !strings.Contains(note, "· jail ·") {
				t.Errorf("the receipts:\n%s", note)
			}
		})
	}
	t.Run("a variable alone", func(t *testing.T) {
		_, note := run(newHome(t), []string{"HARDSHELL_SANDBOX=jail", "CODEX_SANDBOX=seatbelt"}, "--", "/bin/true")
		if !strings.Contains(note, "· jail ·") || strings.Contains(note, "external") {
			t.Errorf("the receipt:\n%s", note)
		}
	})
}
