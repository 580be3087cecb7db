package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"golang.org/x/sys/unix"
)

// A box that a spare became is like any other: all its threads and commands have its uid, no group and no capability;
// no two boxes share a resident; a spare dies with its spawner.
func TestSparesServeOneBoxEach(t *testing.T) {
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0); e != 0 {
		require.Feature(t, "purego", e) // with C code linked in, as by -race, there are no spares
	}
	p := newPlace(t)
	stop, err := sandbox.StartSpawner(t.Context())
	must(t, err)
	defer stop()
	pid := spawnerOf(t, os.Getpid())
	run(t, p.open(t), bash("true"))
	first := awaitSpare(t, pid)
	b := newPlace(t).open(t)
	if isSpareOf(first, pid, t) {
		t.Error("the spare was not taken")
	}
	second := awaitSpare(t, pid)
	if second == first {
		t.Error("a resident in use is still a spare")
	}
	got := run(t, b, bash("grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs)' /proc/self/status; cat /proc/self/uid_map"))
	uid := ""
	for line := range strings.Lines(got.out) {
		f := strings.Fields(line)
		switch {
		case f[0] == "Uid:":
			uid = f[1]
			fallthrough
		case f[0] == "Gid:":
			if f[1] != uid || f[2] != uid || f[3] != uid || f[4] != uid || uid == "65534" && os.Geteuid() == 0 {
				t.Errorf("got %s", line)
			}
		case f[0] == "Groups:" && os.Geteuid() == 0 && len(f) > 1, strings.HasPrefix(f[0], "Cap") && f[1] != "0000000000000000", f[0] == "NoNewPrivs:" && f[1] != "1":
			t.Errorf("got %s", line)
		}
	}
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(first) + "/task/*/status")
	must(t, err)
	if len(tasks) < 3 {
		t.Errorf("the resident has %d threads", len(tasks))
	}
	for _, path := range tasks {
		status, err := os.ReadFile(path)
		must(t, err)
		for line := range strings.Lines(string(status)) {
			f := strings.Fields(line)
			if (f[0] == "Uid:" || f[0] == "Gid:") && (f[1] == "0" || f[1] != f[2] || f[1] != f[3] || f[1] != f[4]) || f[0] == "Groups:" && os.Geteuid() == 0 && len(f) > 1 ||
				strings.HasPrefix(f[0], "Cap") && f[1] != "0000000000000000" && f[0] != "CapBnd:" {
				t.Errorf("%s: %s", path, line)
			}
		}
	}
	must(t, unix.Kill(pid, unix.SIGKILL))
	awaitTrue(t, "the spare's end", func() bool { return unix.Kill(second, 0) == unix.ESRCH || stateOf(second) == "Z" })
}

// A spare has a copy of the host's mounts. One that is older than the last change of them serves nobody.
func TestABoxSeesTheHostsMountsAsTheyAre(t *testing.T) {
	if _, _, e := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0); e != 0 {
		require.Feature(t, "purego", e)
	}
	p := newPlace(t)
	late, err := os.MkdirTemp("/var", "hardshell-test-") // a box has a /tmp of its own
	require.Feature(t, "mount", err)
	t.Cleanup(func() { os.Remove(late) })
	must(t, os.Chmod(late, 0o755))
	stop, err := sandbox.StartSpawner(t.Context())
	must(t, err)
	defer stop()
	run(t, p.open(t), bash("true"))
	awaitSpare(t, spawnerOf(t, os.Getpid()))
	require.Feature(t, "mount", unix.Mount("tmpfs", late, "tmpfs", 0, "mode=755"))
	defer unix.Unmount(late, unix.MNT_DETACH)
	must(t, os.WriteFile(filepath.Join(late, "file"), []byte("here"), 0o644))
	q := newPlace(t)
	q.spec.Hosted.ReadOnlyBinds = []string{late}
	if got := run(t, q.open(t), bash("cat "+late+"/file")); got.out != "here" {
		t.Errorf("got %+v", got)
	}
}

func awaitSpare(t *testing.T, spawner int) (pid int) {
	t.Helper()
	awaitTrue(t, "a spare", func() bool { pid = spareOf(t, spawner); return pid > 0 })
	return pid
}

func awaitTrue(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// spareOf finds the child of a spawner that waits, its uid not yet mapped; 0 is none.
func spareOf(t *testing.T, spawner int) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range found {
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && isSpareOf(pid, spawner, t) {
			return pid
		}
	}
	return 0
}

func isSpareOf(pid, spawner int, t *testing.T) bool {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid)
	line, _ := os.ReadFile(dir + "/cmdline")
	maps, _ := os.ReadFile(dir + "/uid_map")
	status, _ := os.ReadFile(dir + "/status")
	return strings.HasPrefix(string(line), "hardshell-resident") && len(maps) == 0 && strings.Contains(string(status), "\nPPid:\t"+strconv.Itoa(spawner)+"\n")
}

func stateOf(pid int) string {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(f) == 0 {
		return ""
	}
	return f[0]
}
