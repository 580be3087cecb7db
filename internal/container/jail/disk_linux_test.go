package jail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
)

// TestFullDisk fills the containers' disk from within one of them: what its commands print is lost by exact count, and
// with room again all is as before.
func TestFullDisk(t *testing.T) {
	data := t.TempDir()
	disk := filepath.Join(data, "containers")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	require.Feature(t, "mount", unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m,mode=755"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	s, ctx := service(t, data)
	id := create(t, s, ctx)
	if r := run(t, s, ctx, id, "echo before"); r.Stdout.Text != "before\n" || r.StdoutLost != 0 {
		t.Errorf("before: %+v", r)
	}
	r := run(t, s, ctx, id, "cat /dev/zero >big; echo out; echo to-err >&2; exit 3")
	if r.Breach != "" { // the service was quicker than the command, and its box goes
		r.ExitCode, r.StdoutLost, r.StderrLost = 3, 4, 7
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			e, err := s.Exec(ctx, org, id, container.Command{Script: "true"})
			if err == nil {
				e.Wait(ctx)
				break
			}
			if time.Now().After(end) {
				t.Fatalf("no command can be run after the breach: %v", err)
			}
		}
	}
	if r.ExitCode != 3 || r.StdoutLost != 4 || r.StderrLost < 7 || r.Stdout.Bytes+r.Stderr.Bytes != 0 {
		t.Errorf("the command that fills it: %+v", r)
	}
	if r := run(t, s, ctx, id, "echo second; exit 4"); r.ExitCode != 4 || r.StdoutLost != 7 || r.StderrLost != 0 {
		t.Errorf("a command on the full disk: %+v", r)
	}
	_, err := s.Exec(ctx, org, id, container.Command{Script: "true" + strings.Repeat(" ", 200<<10)})
	if f, ok := fault.As(err); !ok || f.Kind != fault.Unavailable || !strings.Contains(f.Message, "full") || f.Try == "" {
		t.Errorf("a long script on the full disk: %v", err)
	}
	run(t, s, ctx, id, "rm big")
	if r := run(t, s, ctx, id, "echo after"); r.Stdout.Text != "after\n" || r.StdoutLost != 0 {
		t.Errorf("with room again: %+v", r)
	}
}
