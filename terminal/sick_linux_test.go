package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// TestASandboxThatIsStopped is the restart with a real sandbox: its resident is stopped, so that nothing in it is
// answered, and the session starts again in another one.
func TestASandboxThatIsStopped(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	before := residents(t)
	first := r.call(ToolExecCommand, `{"cmd":"echo up; sleep 3621","tty":true,"process_id":"web","wait_for":{"pattern":"up"}}`)
	var ours []int
	for pid := range residents(t) {
		if !before[pid] {
			ours = append(ours, pid)
		}
	}
	if len(ours) == 0 {
		t.Fatal("there is no resident")
	}
	for _, pid := range ours {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGCONT)
	}
	if got := r.call(ToolWriteStdin, `{"process_id":"web","yield_time_ms":250}`); got.Failure != "io" || got.Stage != "probe" {
		t.Errorf("%+v", got)
	}
	old, err := r.session.Live().Get(first.SessionID)
	if err != nil {
		t.Fatal(err)
	}
	old.Kill()
	<-old.Done()
	if again := r.call(ToolExecCommand, `{"cmd":"echo again; sleep 3621","tty":true,"process_id":"web","wait_for":{"pattern":"again"}}`); !again.living() || again.ProcessID != "web" || again.SessionID == first.SessionID {
		t.Errorf("%+v", again)
	}
}

// residents are those that this process, or one that it started, has started.
func residents(t *testing.T) map[int]bool {
	t.Helper()
	out, parent := map[int]bool{}, map[int]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		parent[pid], _ = strconv.Atoi(string(fields[1]))
	}
	for pid := range parent {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if name, _, _ := bytes.Cut(line, []byte{0}); err != nil || string(name) != resident.Name {
			continue
		}
		for up := parent[pid]; up > 1; up = parent[up] {
			if up == os.Getpid() {
				out[pid] = true
				break
			}
		}
	}
	return out
}
