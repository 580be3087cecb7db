package container

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/require"
)

func (b *bench) put(t testing.TB, id, name, text string) File {
	t.Helper()
	f, err := b.Put(b.ctx, "org", id, name, strings.NewReader(text), SourceUser)
	if err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
	return f
}

func (b *bench) read(t testing.TB, id, fileID string) (string, error) {
	t.Helper()
	r, _, err := b.OpenFile(b.ctx, "org", id, fileID)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func (b *bench) workspace(id string) string { return filepath.Join(b.dir, id, "workspace") }

func TestPutAndRead(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	names := []string{"a.txt", "deep/er/b.csv", "/mnt/data/abs.json", "with space", "$(touch x)", "-rf", "a\nb", "ü.png", "a/./c", ".hidden", "..."}
	for _, name := range names {
		f := b.put(t, c.ID, name, "content of "+name)
		want := "/mnt/data/" + filepath.Clean(strings.TrimPrefix(name, "/mnt/data/"))
		if f.Path != want || f.Bytes != int64(len("content of "+name)) || f.Source != SourceUser || f.ContainerID != c.ID {
			t.Errorf("%q: %+v", name, f)
		}
		got, err := b.read(t, c.ID, f.ID)
		if err != nil || got != "content of "+name {
			t.Errorf("%q: read %q, %v", name, got, err)
		}
		info, err := os.Stat(filepath.Join(b.workspace(c.ID), strings.TrimPrefix(f.Path, "/mnt/data/")))
		if err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%q on disk: %v, %v", name, info, err)
		}
	}
	if b.fake.opens != 0 {
		t.Error("an upload booted the container")
	}
	again := b.put(t, c.ID, "a.txt", "longer than before, and new")
	if got, _ := b.read(t, c.ID, again.ID); got != "longer than before, and new" {
		t.Errorf("replaced: %q", got)
	}
	files, _, err := b.Files(b.ctx, "org", c.ID, Page{Limit: 100})
	if err != nil || len(files) != len(names) {
		t.Errorf("%d files listed, %v", len(files), err)
	}
	for _, f := range files {
		if f.Path == "/mnt/data/a.txt" && f.ID != again.ID {
			t.Error("the same path has another id")
		}
	}
	types := map[string]string{"/mnt/data/deep/er/b.csv": "text/csv", "/mnt/data/ü.png": "image/png", "/mnt/data/-rf": "application/octet-stream"}
	for _, f := range files {
		if want := types[f.Path]; want != "" && f.ContentType != want {
			t.Errorf("%s is %s", f.Path, f.ContentType)
		}
	}
}

func TestPutRefusesBadNames(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.put(t, c.ID, "file", "x")
	b.put(t, c.ID, "dir/file", "x")
	ws := b.workspace(c.ID)
	outside := t.TempDir()
	for link, to := range map[string]string{"out": outside, "up": "../tmp", "abs": "/etc"} {
		if err := os.Symlink(to, filepath.Join(ws, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"", ".", "/", "..", "../x", "a/../../x", "a/..", "/etc/passwd", "/mnt/data", "/mnt/data/", "/mnt/data/../x", "/mnt/database/x",
		"a\x00b", "dir/", "dir/.", "\xff", strings.Repeat("n", 256), strings.Repeat("d/", 2100) + "f", "file/below", "dir", "out/x", "up/x", "abs/x",
		incomingPrefix + "x"} {
		_, err := b.Put(b.ctx, "org", c.ID, name, strings.NewReader("x"), SourceUser)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.40q: %v", name, err)
		} else {
			wantFault(t, err, fault.Invalid, "invalid_path")
		}
	}
	if left, _ := os.ReadDir(outside); len(left) != 0 {
		t.Errorf("written outside: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(ws, incomingPrefix+"*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := b.Put(b.ctx, "org", c.ID, "ok", strings.NewReader(""), "model"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bad source: %v", err)
	}
}

func TestPutIsWholeOrNothing(t *testing.T) {
	b := newBench(t, Limits{MaxFileBytes: 10})
	c := b.create(t)
	f := b.put(t, c.ID, "a", "0123456789")
	_, err := b.Put(b.ctx, "org", c.ID, "a", strings.NewReader("0123456789x"), SourceUser)
	wantFault(t, err, fault.TooLarge, "file_too_large")
	broken := errors.New("connection lost")
	if _, err := b.Put(b.ctx, "org", c.ID, "a", io.MultiReader(strings.NewReader("half"), failing{broken}), SourceUser); !errors.Is(err, broken) {
		t.Errorf("a broken upload: %v", err)
	}
	if got, _ := b.read(t, c.ID, f.ID); got != "0123456789" {
		t.Errorf("the old file is %q", got)
	}
	left, err := os.ReadDir(b.workspace(c.ID))
	if err != nil || len(left) != 1 {
		t.Errorf("the workspace holds %v, %v", left, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// What the container puts in the place of a listed file must not be opened, and must not block.
func TestOpenFileOpensRegularFilesOnly(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	ws := b.workspace(c.ID)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		swap func(path string) error
	}{
		{"gone", func(string) error { return nil }},
		{"fifo", func(p string) error { return syscall.Mkfifo(p, 0o666) }},
		{"socket", func(p string) error { return syscall.Mknod(p, syscall.S_IFSOCK|0o666, 0) }},
		{"device", func(p string) error { return syscall.Mknod(p, syscall.S_IFCHR|0o666, 1<<8|3) }},
		{"folder", func(p string) error { return os.Mkdir(p, 0o755) }},
		{"link out", func(p string) error { return os.Symlink(secret, p) }},
		{"link in", func(p string) error { return os.Symlink("other", p) }},
		{"link up", func(p string) error { return os.Symlink("../tmp", p) }},
	}
	b.put(t, c.ID, "other", "x")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := b.put(t, c.ID, "victim "+tt.name, "x")
			path := filepath.Join(ws, "victim "+tt.name)
			err := os.Remove(path)
			if err == nil {
				err = tt.swap(path)
			}
			if tt.name == "device" && err != nil {
				require.Feature(t, "mknod", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.read(t, c.ID, f.ID)
			if fault.KindOf(err) != fault.NotFound {
				t.Errorf("opened: %q, %v", got, err)
			}
			if err := b.DeleteFile(b.ctx, "org", c.ID, f.ID); fault.KindOf(err) != fault.NotFound {
				t.Errorf("deleted: %v", err)
			}
		})
	}
	// A folder of the path that became a link out of the workspace.
	f := b.put(t, c.ID, "d/secret", "mine")
	if err := os.RemoveAll(filepath.Join(ws, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(ws, "d")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.read(t, c.ID, f.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("opened through a link: %q, %v", got, err)
	}
	if err := b.DeleteFile(b.ctx, "org", c.ID, f.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("deleted through a link: %v", err)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Error(err)
	}
}

func TestDeleteFile(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	f := b.put(t, c.ID, "a", "x")
	if err := b.DeleteFile(b.ctx, "org", c.ID, f.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.workspace(c.ID), "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on disk: %v", err)
	}
	_, err := b.File(b.ctx, "org", c.ID, f.ID)
	wantFault(t, err, fault.NotFound, "file_not_found")
	err = b.DeleteFile(b.ctx, "org", c.ID, f.ID)
	wantFault(t, err, fault.NotFound, "file_not_found")
}

func TestAFileThatGrowsKeepsItsAnnouncedLength(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	f := b.put(t, c.ID, "log", "0123456789")
	r, info, err := b.OpenFile(b.ctx, "org", c.ID, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.WriteFile(filepath.Join(b.workspace(c.ID), "log"), bytes.Repeat([]byte("y"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Seek(0, io.SeekEnd); n != info.Bytes || err != nil {
		t.Errorf("length %d, %v", n, err)
	}
	r.Seek(0, io.SeekStart)
	if data, err := io.ReadAll(r); int64(len(data)) != info.Bytes || err != nil {
		t.Errorf("read %d, %v", len(data), err)
	}
}

func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"a", "../a", "/mnt/data/x", "a/../b", "a//b", "\x00", "./.", "....", "a/b/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		rel, err := cleanName(name)
		if err != nil {
			return
		}
		if !filepath.IsLocal(rel) || rel == "." || strings.IndexByte(rel, 0) >= 0 || strings.HasPrefix(rel, "/") {
			t.Errorf("%q became %q", name, rel)
		}
		if again, err := cleanName(rel); again != rel || err != nil {
			t.Errorf("%q became %q, then %q, %v", name, rel, again, err)
		}
	})
}
