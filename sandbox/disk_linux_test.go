package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// newSmallPlace is a place whose state folder, with the spools, lies on a disk of 1 MiB.
func newSmallPlace(t testing.TB) (p place, disk string) {
	t.Helper()
	p, disk = newPlace(t), t.TempDir()
	require.Feature(t, "mount", unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	p.spec.Dir = filepath.Join(disk, "box")
	return p, disk
}

// fillDisk leaves no byte of room.
func fillDisk(t testing.TB, disk string) (free func()) {
	t.Helper()
	name := filepath.Join(disk, "filler")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	return func() { must(t, os.Remove(name)) }
}

func TestFullDiskLosesOutputByCount(t *testing.T) {
	p, disk := newSmallPlace(t)
	box := p.open(t)

	// The disk is full before the command begins, and has room again for the next.
	free := fillDisk(t, disk)
	if got := run(t, box, bash("echo first; exit 4")); got.Code != 4 || got.Stdout != 0 || got.StdoutLost != 6 || got.StderrLost != 0 {
		t.Errorf("on a full disk: got %+v", got)
	}
	free()
	if got := run(t, box, bash("echo second")); got.out != "second\n" || got.StdoutLost != 0 {
		t.Errorf("with room again: got %+v", got)
	}

	// The command's own output fills the disk: what was kept and what was lost are all of it.
	const printed = 8_000_000
	got := run(t, box, bash("head -c 8000000 /dev/zero; echo to-err >&2; exit 3"))
	if got.Code != 3 || got.Stdout == 0 || got.StdoutLost == 0 || got.Stdout+got.StdoutLost != printed {
		t.Errorf("exit %d with %d bytes kept and %d lost of %d", got.Code, got.Stdout, got.StdoutLost, printed)
	}
	if int64(len(got.out)) != got.Stdout {
		t.Errorf("%d bytes in the spool, %d are said to be", len(got.out), got.Stdout)
	}
	if got.Stderr != 0 || got.StderrLost != 7 || got.err != "" {
		t.Errorf("stderr: %d bytes kept, %d lost, %q", got.Stderr, got.StderrLost, got.err)
	}
}

// An owner that comes later reads the end from the job's folder, and the counts with it.
func TestLostCountsOutliveTheOwner(t *testing.T) {
	p, disk := newSmallPlace(t)
	p.spec.Grace = patience
	box := p.open(t)
	free := fillDisk(t, disk)
	c := bash("echo lost; echo too >&2; touch said; until [ -e go ]; do sleep 0.01; done")
	c.Dir = "/mnt/data"
	job := start(t, box, c)
	eventually(t, "the command has printed", func() bool {
		_, err := os.Stat(p.data("said"))
		return err == nil
	})
	free() // the exit file has room; the stream that was broken off stays so
	must(t, os.WriteFile(p.data("go"), nil, 0o644))
	if got := wait(t, job); got.StdoutLost != 5 || got.StderrLost != 4 {
		t.Errorf("got %+v", got)
	}
	must(t, box.Detach())
	again, err := sandbox.Attach(t.Context(), p.spec.Dir, p.spec.Fence)
	must(t, err)
	t.Cleanup(func() { again.Close() })
	if got := run(t, again, c); got.StdoutLost != 5 || got.StderrLost != 4 {
		t.Errorf("from the job's folder: got %+v", got)
	}
}
