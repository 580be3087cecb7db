package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox"
	"golang.org/x/sys/unix"
)

// A spawner that dies costs nobody a box: the process makes its boxes itself from then on.
func TestBoxesOutliveTheSpawner(t *testing.T) {
	p := newPlace(t)
	stop, err := sandbox.StartSpawner(t.Context())
	must(t, err)
	defer stop()
	pid := spawnerOf(t, os.Getpid())
	must(t, unix.Kill(pid, unix.SIGKILL))
	if got := run(t, p.open(t), bash("echo alive")); got.out != "alive\n" {
		t.Errorf("got %+v", got)
	}
}

// spawnerOf finds the child that serves as spawner.
func spawnerOf(t *testing.T, parent int) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if !strings.HasPrefix(string(line), "hardshell-spawner") {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			must(t, err)
			return pid
		}
	}
	t.Fatal("no spawner of ours")
	return 0
}
