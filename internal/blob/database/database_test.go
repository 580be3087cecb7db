package database

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/blobtest"
	"github.com/hardshell-dev/hardshell/internal/store"
)

func TestDatabase(t *testing.T) {
	blobtest.Run(t, func(t testing.TB) blob.Store {
		s, _ := open(t)
		return s
	})
}

func open(t testing.TB) (*Store, *store.DB) {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := Open(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

// TestNothingIsLeftBehind: a deleted, a replaced and a half-written blob take no rows.
func TestNothingIsLeftBehind(t *testing.T) {
	s, db := open(t)
	ctx := context.Background()
	for range 2 {
		if _, err := s.Put(ctx, "a", bytes.NewReader(make([]byte, 3*pieceSize))); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		if err := db.Read().QueryRow(`SELECT COUNT(*) FROM blob_piece`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO blob_piece (version, piece, data) VALUES ('killed', 0, x'00')`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, db); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 3 {
		t.Errorf("%d pieces after a restart, want 3", n)
	}
	if err := s.Delete(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 {
		t.Errorf("%d pieces are left", n)
	}
}
