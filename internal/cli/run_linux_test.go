package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// What a full disk swallowed is in the receipt, to the byte.
func TestRunTellsWhatAFullDiskLost(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	disk := t.TempDir()
	require.Feature(t, "mount", unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m,mode=1777"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	const printed = 8_000_000
	run := func(flags ...string) (stdout, stderr []byte) {
		t.Helper()
		c := exec.Command("hardshell", append(append([]string{"run"}, flags...), "--", "head", "-c", "8000000", "/dev/zero")...)
		var out, told bytes.Buffer
		c.Dir, c.Env, c.Stdout, c.Stderr = t.TempDir(), append(os.Environ(), "TMPDIR="+disk), &out, &told
		if err := c.Run(); err != nil {
			t.Fatalf("%v: %s", err, told.Bytes())
		}
		return out.Bytes(), told.Bytes()
	}
	stdout, raw := run("--json")
	var receipt struct {
		Bytes int64 `json:"stdout_bytes"`
		Lost  int64 `json:"stdout_lost"`
	}
	if err := json.Unmarshal(raw, &receipt); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	if receipt.Lost == 0 || receipt.Bytes+receipt.Lost != printed || int64(len(stdout)) != receipt.Bytes {
		t.Errorf("%d bytes shown, receipt %s", len(stdout), raw)
	}
	if _, told := run(); !bytes.Contains(told, []byte(" lost, the disk is full")) {
		t.Errorf("the receipt says %q", told)
	}
	if left, err := filepath.Glob(filepath.Join(disk, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
