package jail

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
)

// smallDisk is a data folder whose containers have four megabytes.
func smallDisk(t *testing.T) (data string) {
	t.Helper()
	data = t.TempDir()
	disk := filepath.Join(data, "containers")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	require.Feature(t, "mount", unix.Mount("tmpfs", disk, "tmpfs", 0, "size=4m,mode=755"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	return data
}

// TestFullDisk fills the containers' disk from within one of them, where nothing is kept free: what its commands print
// is lost by exact count, and with room again all is as before.
func TestFullDisk(t *testing.T) {
	s, ctx := limited(t, smallDisk(t), container.Limits{ReserveBytes: -1})
	id := create(t, s, ctx)
	if r := run(t, s, ctx, id, "echo before"); r.Stdout.Text != "before\n" || r.StdoutLost != 0 {
		t.Errorf("before: %+v", r)
	}
	r := run(t, s, ctx, id, "cat /dev/zero >big; echo out; echo to-err >&2; exit 3")
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

// TestFullDiskUnderWatch does the same where the service keeps some free. Whenever it strikes, before, during or after a
// command, each has a result: its own, or one that names the breach.
func TestFullDiskUnderWatch(t *testing.T) {
	s, ctx := limited(t, smallDisk(t), container.Limits{})
	id := create(t, s, ctx)
	run(t, s, ctx, id, "true")
	for range 5 {
		for _, script := range []string{"cat /dev/zero >big; exit 3", "exit 4", "(cat /dev/zero >late) >/dev/null 2>&1 & exit 5", "rm -f big late; exit 6"} {
			r := run(t, s, ctx, id, script)
			if ended := r.ExitCode == int(script[len(script)-1]-'0') && r.Breach == ""; !ended && (r.Breach != container.BreachFull || !r.Cancelled || r.BreachText == "") {
				t.Fatalf("%q: %+v", script, r)
			}
		}
	}
}
