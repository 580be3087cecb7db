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

// TestBallast: what frees space can be written on a full disk, and at a start on one; with room again the ballast is
// taken back.
func TestBallast(t *testing.T) {
	dir := t.TempDir()
	require.Feature(t, "mount", unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path, room := filepath.Join(dir, "hardshell.db"), filepath.Join(dir, "room")
	held := func() bool {
		info, err := os.Stat(path + ".ballast")
		return err == nil && info.Size() == 2<<20
	}
	fill := func() {
		t.Helper()
		if err := os.WriteFile(room, make([]byte, 32<<20), 0o600); err == nil {
			t.Fatal("the disk is not full")
		}
	}
	db := openAt(t, path)
	write := func(query string, args ...any) error {
		return db.Write(context.Background(), execs(query, args...))
	}
	if err := write(`CREATE TABLE note (id BIGINT PRIMARY KEY, text TEXT NOT NULL)`); err != nil || !held() {
		t.Fatalf("the start: %v, ballast held %t", err, held())
	}
	fill()
	for n := range 50 { // far more than the log's last page has room for
		if err := write(`INSERT INTO note (id, text) VALUES ($1, $2)`, n, strings.Repeat("x", 10_000)); err != nil {
			t.Fatalf("write %d on a full disk: %v", n, err)
		}
	}
	if held() {
		t.Error("the ballast was not given")
	}
	os.Remove(room)
	for n := range lookEvery {
		if err := write(`INSERT INTO note (id, text) VALUES ($1, 'x')`, 1000+n); err != nil {
			t.Fatal(err)
		}
	}
	if !held() {
		t.Error("with room again the ballast was not taken back")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	fill()
	db = openAt(t, path)
	if err := write(`DELETE FROM note`); err != nil {
		t.Errorf("a start on a full disk: %v", err)
	}
}
