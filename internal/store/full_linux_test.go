package store

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
)

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	require.Feature(t, "mount", unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	db := openAt(t, filepath.Join(dir, "hardshell.db"))
	write := func(query string, args ...any) error {
		return db.Write(context.Background(), execs(query, args...))
	}
	if err := write(`CREATE TABLE note (id BIGINT PRIMARY KEY, text TEXT NOT NULL)`); err != nil {
		t.Fatal(err)
	}
	room := filepath.Join(dir, "room")
	if err := os.WriteFile(room, make([]byte, 128<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		err = write(`INSERT INTO note (id, text) VALUES ($1, $2)`, n, strings.Repeat("x", 10_000))
	}
	if f, ok := fault.As(err); !ok || f.Kind != fault.Unavailable || f.Try == "" {
		t.Fatalf("after %d writes: %v, want fault.Unavailable with a try line", n, err)
	}
	if err := os.Remove(room); err != nil {
		t.Fatal(err)
	}
	if err := write(`INSERT INTO note (id, text) VALUES (5000, 'x')`); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if got := notes(t, db); got != n {
		t.Errorf("%d notes, want %d", got, n)
	}
}

// TestOpenOnAFullDisk: SQLite cannot make its shared memory then, which it calls an error of the disk.
func TestOpenOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	require.Feature(t, "mount", unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "hardshell.db")
	if err := openAt(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	room := filepath.Join(dir, "room")
	if err := os.WriteFile(room, make([]byte, 4<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	for _, name := range []string{path, filepath.Join(dir, "new", "hardshell.db")} {
		db, err := Open(context.Background(), Options{Path: name})
		if err == nil {
			db.Close()
		}
		if f, ok := fault.As(err); !ok || f.Kind != fault.Unavailable || !strings.Contains(f.Message, "full") || f.Try == "" {
			t.Errorf("%s: %v, want a fault that says that the disk is full", name, err)
		}
	}
	if err := os.Remove(room); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
}

func execs(query string, args ...any) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	}
}
