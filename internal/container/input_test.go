package container

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

// wantText checks what stands in a workspace; "" is nothing.
func wantText(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if string(b) != want || (err == nil) != (want != "") {
		t.Errorf("%s holds %q, %v, want %q", filepath.Base(path), b, err, want)
	}
}

func TestAnInputIsPutOnce(t *testing.T) {
	b, first, _, foreign := withUploads(t, Limits{})
	c := b.create(t)
	_, ws, err := b.prepare(b.ctx, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(ws.Dir, "data.csv")
	in := Input{Name: "data.csv", Key: "k1", Data: []byte("1,2")}
	put := func(in Input) {
		t.Helper()
		if err := b.PutInput(b.ctx, "org", c.ID, in); err != nil {
			t.Errorf("%+v: %v", in, err)
		}
	}
	if name, err := b.InputAt(b.ctx, "org", c.ID, "k1"); err != nil || name != "" {
		t.Errorf("before it was put: %q, %v", name, err)
	}
	put(in)
	wantText(t, at, "1,2")
	if name, err := b.InputAt(b.ctx, "org", c.ID, "k1"); err != nil || name != "data.csv" {
		t.Errorf("it is at %q, %v", name, err)
	}
	if name, err := b.InputAt(b.ctx, "other", c.ID, "k1"); err != nil || name != "" {
		t.Errorf("another organisation is told of %q, %v", name, err)
	}
	if err := os.WriteFile(at, []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	put(in)
	wantText(t, at, "edited")
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	put(in)
	wantText(t, at, "1,2")
	put(Input{Name: "up.csv", Key: "k2", Upload: first})
	wantText(t, filepath.Join(ws.Dir, "up.csv"), "1,2")
	if err := b.PutInput(b.ctx, "org", c.ID, Input{Name: "x", Key: "k3", Upload: foreign}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a foreign upload: %v", err)
	}
	wantFault(t, b.PutInput(b.ctx, "other", c.ID, in), fault.NotFound, "container_not_found")
	for name, want := range map[string]bool{"data.csv": true, "none": false} {
		if got, err := b.HasFile(b.ctx, "org", c.ID, name); err != nil || got != want {
			t.Errorf("%s is there: %v, %v", name, got, err)
		}
	}
}

// What has the name of an input is never replaced, whatever it is.
func TestAnInputReplacesNothing(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	_, ws, err := b.prepare(b.ctx, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(string) error{
		"file":   func(at string) error { return os.WriteFile(at, []byte("the model's"), 0o644) },
		"longer": func(at string) error { return os.WriteFile(at, []byte("1,2,3"), 0o644) },
		"folder": func(at string) error { return os.Mkdir(at, 0o755) },
		"link":   func(at string) error { return os.Symlink(outside, at) },
		"broken": func(at string) error { return os.Symlink("nowhere", at) },
	} {
		at := filepath.Join(ws.Dir, name)
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(at)
		wantFault(t, b.PutInput(b.ctx, "org", c.ID, Input{Name: name, Key: name, Data: []byte("1,2")}), fault.Conflict, codeTaken)
		if after, err := os.Lstat(at); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was replaced: %v", name, err)
		}
		if has, err := b.HasFile(b.ctx, "org", c.ID, name); err != nil || !has {
			t.Errorf("%s: %v, %v", name, has, err)
		}
		if at, err := b.InputAt(b.ctx, "org", c.ID, name); err != nil || at != "" {
			t.Errorf("%s is said to be put: %q, %v", name, at, err)
		}
	}
	wantText(t, filepath.Join(ws.Dir, "file"), "the model's")
	wantText(t, outside, "outside")
	// What an owner put there and died before it noted it, is taken for what it is.
	if err := os.WriteFile(filepath.Join(ws.Dir, "same"), []byte("1,2"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.PutInput(b.ctx, "org", c.ID, Input{Name: "same", Key: "same", Data: []byte("1,2")}); err != nil {
		t.Error(err)
	}
	if at, err := b.InputAt(b.ctx, "org", c.ID, "same"); err != nil || at != "same" {
		t.Errorf("at %q, %v", at, err)
	}
	if entries, err := os.ReadDir(ws.Dir); err != nil || len(entries) != 6 {
		t.Errorf("%v, %v", entries, err) // nothing of an attempt is left
	}
}
