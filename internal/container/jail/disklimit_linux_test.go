package jail

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// TestDiskLimit fills a container's disk by a command, and by a process that a command left behind.
func TestDiskLimit(t *testing.T) {
	s, ctx := limited(t, t.TempDir(), container.Limits{DiskBytes: 32 << 20})
	id := create(t, s, ctx)
	r := run(t, s, ctx, id, "while :; do head -c 100000 /dev/zero; sleep 0.005; done >big")
	if r.Breach != container.BreachDisk || r.ExitCode != 137 {
		t.Errorf("a command that fills it: %+v", r)
	}
	run(t, s, ctx, id, "rm big; (while :; do head -c 100000 /dev/zero; sleep 0.005; done >late) >/dev/null 2>&1 & echo begun")
	deadline := time.Now().Add(time.Minute)
	for last := int64(-1); ; time.Sleep(300 * time.Millisecond) {
		files, _, err := s.Files(ctx, org, id, container.Page{})
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 1 && files[0].Bytes == last && last > 16<<20 {
			break // it grows no more
		}
		if len(files) == 1 {
			last = files[0].Bytes
		}
		if time.Now().After(deadline) {
			t.Fatalf("a process that was left behind writes on: %+v", files)
		}
	}
	if r := run(t, s, ctx, id, "rm late; echo on"); r.Stdout.Text != "on\n" {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestNobodyIsShutOut: a command that takes the whole disk, on which the database is too, does not keep anybody from
// making and deleting containers.
func TestNobodyIsShutOut(t *testing.T) {
	data := t.TempDir()
	require.Feature(t, "mount", unix.Mount("tmpfs", data, "tmpfs", 0, "size=24m,mode=755"))
	t.Cleanup(func() { unix.Unmount(data, unix.MNT_DETACH) })
	s, ctx := limited(t, data, container.Limits{})
	hog := create(t, s, ctx)
	run(t, s, ctx, hog, "head -c 100000000 /dev/zero >big; echo $?")
	other, err := s.Create(ctx, org, container.CreateSpec{})
	if err != nil {
		t.Fatalf("another container: %v", err)
	}
	if err := s.Delete(ctx, org, hog); err != nil {
		t.Fatalf("the way out: %v", err)
	}
	if _, err := os.Stat(filepath.Join(data, "containers", hog)); !os.IsNotExist(err) {
		t.Errorf("its files are still there: %v", err)
	}
	if r := run(t, s, ctx, other.ID, "echo fine >f && cat f"); r.Stdout.Text != "fine\n" {
		t.Errorf("with room again: %+v", r)
	}
}

// limited is a service over the jail with limits of its own.
func limited(t *testing.T, data string, limits container.Limits) (*container.Service, context.Context) {
	t.Helper()
	r := New(Options{})
	require.Feature(t, "jail", r.Supported(t.Context()))
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(data, "hardshell.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := container.New(ctx, container.Options{DB: db, Runtime: r, Dir: filepath.Join(data, "containers"), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, ctx
}

// TestProcessLimitIsNamed fills a container's table of processes.
func TestProcessLimitIsNamed(t *testing.T) {
	s, ctx := limited(t, t.TempDir(), container.Limits{Pids: 64})
	id := create(t, s, ctx)
	if r := run(t, s, ctx, id, "exec perl -e 'while (1) { fork }'"); r.Breach != container.BreachProcesses || r.ExitCode != 137 || r.TimedOut {
		t.Errorf("a bomb: %+v", r)
	}
	if r := run(t, s, ctx, id, "echo on"); r.Stdout.Text != "on\n" || r.Restarted {
		t.Errorf("afterwards: %+v", r)
	}
}
