package container

import (
	"archive/tar"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// plant fills a workspace with what survives and what does not.
func plant(t *testing.T, dir string) {
	t.Helper()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	do(os.MkdirAll(at("deep/er"), 0o755))
	do(os.Mkdir(at("empty"), 0o700))
	do(os.Mkdir(at("sticky"), 0o777))
	do(os.Chmod(at("sticky"), 0o777|fs.ModeSticky))
	do(os.WriteFile(at("deep/er/a.txt"), []byte("alpha"), 0o644))
	do(os.WriteFile(at("run.sh"), []byte("#!/bin/sh\n"), 0o755))
	do(os.WriteFile(at("none"), nil, 0o400))
	do(os.WriteFile(at("$(touch x); \n name"), []byte("odd"), 0o644))
	do(os.WriteFile(at("not-utf8-\xff"), []byte("bytes"), 0o644))
	do(os.WriteFile(at(strings.Repeat("x", 255)), []byte("long"), 0o644))
	do(os.Symlink("run.sh", at("link")))
	do(os.Symlink("/etc/passwd", at("outward")))
	do(os.Symlink("nowhere", at("dangling")))
	do(os.Symlink("..", at("up")))
	do(syscall.Mkfifo(at("fifo"), 0o644))
	do(os.WriteFile(at(".hardshell-incoming-X"), []byte("half an upload"), 0o600))
	old := time.Unix(1_500_000_000, 123_000_000)
	do(os.Chtimes(at("deep/er/a.txt"), old, old))
	do(os.WriteFile(at("closed"), []byte("secret"), 0o000))
	do(os.Mkdir(at("shut"), 0o755))
	do(os.WriteFile(at("shut/in"), []byte("in"), 0o644))
	do(os.Chmod(at("shut"), 0o000))
	t.Cleanup(func() { os.Chmod(at("shut"), 0o755) })
}

// picture is all that an archive has to keep, by path.
func picture(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	modes := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := e.Info()
		if err != nil {
			return err
		}
		modes[rel] = info.Mode()
		if info.IsDir() && info.Mode().Perm()&0o500 != 0o500 {
			if err := os.Chmod(p, 0o700); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for rel, mode := range modes {
		p := filepath.Join(dir, rel)
		info, err := os.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		text := mode.String()
		switch {
		case mode.IsRegular():
			os.Chmod(p, 0o600)
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			text += " " + string(data) + " " + info.ModTime().UTC().Truncate(time.Microsecond).String()
		case mode&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			text += " " + to
		}
		out[rel] = text
	}
	return out
}

func TestArchiveKeepsWhatMatters(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	plant(t, from)
	root, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var blob bytes.Buffer
	index := map[string]archived{}
	if err := writeArchive(context.Background(), root, &blob, func(f archived) { index[f.path] = f }); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"deep/er/a.txt": "alpha", "none": "", "$(touch x); \n name": "odd", "not-utf8-\xff": "bytes", "closed": "secret", "shut/in": "in"} {
		f, ok := index[path]
		if !ok || f.bytes != int64(len(want)) || string(blob.Bytes()[f.at:f.at+f.bytes]) != want {
			t.Errorf("%q: in the index %t as %+v", path, ok, f)
		}
	}
	if err := readArchive(context.Background(), Workspace{Dir: to}, bytes.NewReader(blob.Bytes()), map[string]bool{"run.sh": true}); err != nil {
		t.Fatal(err)
	}
	want, got := picture(t, from), picture(t, to)
	for _, gone := range []string{"fifo", ".hardshell-incoming-X", "run.sh"} {
		delete(want, gone)
	}
	// What stood in the way of reading it was opened for that; the mode in the archive is the one of before.
	want["shut"], want["closed"] = "d---------", strings.Replace(want["closed"], "-rw-------", "----------", 1)
	for path, text := range want {
		if got[path] != text && path != "." {
			t.Errorf("%q came back as %q, was %q", path, got[path], text)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%q came from nowhere", path)
		}
	}
}

// TestAnArchiveWritesNothingOutside: even one that somebody else wrote.
func TestAnArchiveWritesNothingOutside(t *testing.T) {
	base := t.TempDir()
	inside := filepath.Join(base, "workspace")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, headers := range [][]*tar.Header{
		{{Name: "../out", Typeflag: tar.TypeReg, Mode: 0o644}},
		{{Name: "/out", Typeflag: tar.TypeReg, Mode: 0o644}},
		{{Name: "l", Linkname: "..", Typeflag: tar.TypeSymlink}, {Name: "l/out", Typeflag: tar.TypeReg, Mode: 0o644}},
		{{Name: "m", Linkname: base, Typeflag: tar.TypeSymlink}, {Name: "m/out", Typeflag: tar.TypeReg, Mode: 0o644}},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		if err := readArchive(context.Background(), Workspace{Dir: inside}, &b, nil); err == nil {
			t.Errorf("%s was put back", headers[len(headers)-1].Name)
		}
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the workspace: %v, %v", entries, err)
	}
}

func TestSetIDBitsAreLeftOut(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	file := filepath.Join(from, "su")
	if err := os.WriteFile(file, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o755|fs.ModeSetuid|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var b bytes.Buffer
	if err := writeArchive(context.Background(), root, &b, func(archived) {}); err != nil {
		t.Fatal(err)
	}
	if err := readArchive(context.Background(), Workspace{Dir: to}, &b, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(to, "su")); err != nil || info.Mode() != 0o755 {
		t.Errorf("came back as %v, %v", info.Mode(), err)
	}
}

func TestFreeNames(t *testing.T) {
	taken := map[string]bool{}
	var got []string
	for _, name := range []string{"a/b.csv", `c\b.csv`, "..", "b.csv", "/", "nul\x00", "x"} {
		got = append(got, free(baseName(name), taken))
	}
	want := []string{"b.csv", "b-2.csv", "file", "b-3.csv", "file-2", "file-3", "x"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
