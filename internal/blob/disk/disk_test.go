package disk

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/blobtest"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestDisk(t *testing.T) {
	blobtest.Run(t, func(t testing.TB) blob.Store { return open(t, filepath.Join(t.TempDir(), "files")) })
}

func TestFilesAreOurOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "files")
	s := open(t, dir)
	if _, err := s.Put(context.Background(), "file/a", bytes.NewReader([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAHalfWrittenBlobIsForgotten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "files")
	open(t, dir)
	half := filepath.Join(dir, incoming, "half")
	if err := os.WriteFile(half, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestALinkThatLeadsOutIsNotFollowed(t *testing.T) {
	base := t.TempDir()
	s := open(t, filepath.Join(base, "files"))
	if err := os.WriteFile(filepath.Join(base, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(base, "files", "link")); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Open(context.Background(), "link", 0, -1); err == nil {
		r.Close()
		t.Error("it was opened")
	}
}
