package skill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/disk"
	"github.com/hardshell-dev/hardshell/internal/store"
)

const org = "org_a"

type bench struct {
	*Service
	ctx   context.Context
	blobs *disk.Store
	dir   string
	db    *store.DB
	fail  error // of the store's Put and Delete
}

type failing struct {
	blob.Store
	b *bench
}

func (f failing) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	if f.b.fail != nil {
		return 0, f.b.fail
	}
	return f.Store.Put(ctx, key, r)
}

func (f failing) Delete(ctx context.Context, key string) error {
	if f.b.fail != nil {
		return f.b.fail
	}
	return f.Store.Delete(ctx, key)
}

func open(t testing.TB, limits Limits) *bench {
	t.Helper()
	base := t.TempDir()
	b := &bench{ctx: t.Context(), dir: filepath.Join(base, "blobs")}
	var err error
	if b.db, err = store.Open(context.Background(), store.Options{Path: filepath.Join(base, "x.db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.db.Close() })
	if b.blobs, err = disk.Open(b.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.blobs.Close() })
	b.restart(t, limits)
	return b
}

func (b *bench) restart(t testing.TB, limits Limits) {
	t.Helper()
	var err error
	b.Service, err = New(b.ctx, Options{DB: b.db, Blobs: blob.NewStores("disk", map[string]blob.Store{"disk": failing{b.blobs, b}}),
		Dir: t.TempDir(), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
}

// kept counts the files on disk.
func (b *bench) kept(t testing.TB) (n int) {
	t.Helper()
	filepath.WalkDir(b.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return nil
	})
	return n
}

func skillOf(name, extra string) []Entry {
	return []Entry{text("SKILL.md", "---\nname: "+name+"\ndescription: does "+name+"\n---\n"),
		{Name: "bin/run", Executable: true, Open: text("", extra).Open}}
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestVersions(t *testing.T) {
	b := open(t, Limits{})
	s := must(b.Create(b.ctx, org, skillOf("one", "v1")))(t)
	if s.Default.Number != 1 || s.Latest != 1 || s.Default.Name != "one" || s.Default.Bytes == 0 {
		t.Fatalf("%+v", s)
	}
	two := must(b.AddVersion(b.ctx, org, s.ID, skillOf("renamed", "v2"), false))(t)
	three := must(b.AddVersion(b.ctx, org, s.ID, skillOf("one", "v3"), true))(t)
	if s = must(b.Get(b.ctx, org, s.ID))(t); two.Number != 2 || three.Number != 3 || s.Default.ID != three.ID || s.Latest != 3 {
		t.Fatalf("%+v", s)
	}
	s = must(b.SetDefault(b.ctx, org, s.ID, 2))(t)
	for ref, want := range map[string]int64{"": 2, "latest": 3, "1": 1} {
		if v, err := b.Resolve(b.ctx, org, s.ID, ref); err != nil || v.Number != want {
			t.Errorf("version %q: %+v, %v", ref, v, err)
		}
	}
	for ref, code := range map[string]string{"4": "unsupported_skill_version", "0": "unsupported_skill_version", "-1": "unsupported_skill_version",
		"1.0": "unsupported_skill_version", "newest": "unsupported_skill_version"} {
		if _, err := b.Resolve(b.ctx, org, s.ID, ref); codeOf(err) != code {
			t.Errorf("version %q: %v", ref, err)
		}
	}
	if _, err := b.DeleteVersion(b.ctx, org, s.ID, 2); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the default was deleted: %v", err)
	}
	must(b.DeleteVersion(b.ctx, org, s.ID, 3))(t)
	if v, err := b.Resolve(b.ctx, org, s.ID, "latest"); err != nil || v.Number != 2 {
		t.Errorf("latest after a deletion: %+v, %v", v, err)
	}
	if four := must(b.AddVersion(b.ctx, org, s.ID, skillOf("one", "v4"), false))(t); four.Number != 4 {
		t.Errorf("the number of a deleted version was given again: %d", four.Number)
	}
	list, more, err := b.Versions(b.ctx, org, s.ID, Page{Limit: 2})
	if err != nil || !more || len(list) != 2 || list[0].Number != 4 || list[1].Number != 2 {
		t.Errorf("%+v %v %v", list, more, err)
	}
	list, more, err = b.Versions(b.ctx, org, s.ID, Page{Limit: 2, After: list[1].ID})
	if err != nil || more || len(list) != 1 || list[0].Number != 1 {
		t.Errorf("%+v %v %v", list, more, err)
	}
	if n := b.kept(t); n != 3 {
		t.Errorf("%d archives", n)
	}
	if err := b.Delete(b.ctx, org, s.ID); err != nil || b.kept(t) != 0 {
		t.Errorf("%v, %d archives left", err, b.kept(t))
	}
	if _, err := b.Get(b.ctx, org, s.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a deleted skill: %v", err)
	}
}

func codeOf(err error) string {
	if e, ok := fault.As(err); ok {
		return e.Code
	}
	return ""
}

func TestAnotherOrganisationsSkillLooksAbsent(t *testing.T) {
	b := open(t, Limits{})
	s := must(b.Create(b.ctx, org, skillOf("one", "x")))(t)
	const other = "org_b"
	for name, err := range map[string]error{
		"get":            second(b.Get(b.ctx, other, s.ID)),
		"version":        second(b.Version(b.ctx, other, s.ID, 1)),
		"versions":       third(b.Versions(b.ctx, other, s.ID, Page{})),
		"add":            second(b.AddVersion(b.ctx, other, s.ID, skillOf("one", "y"), true)),
		"default":        second(b.SetDefault(b.ctx, other, s.ID, 1)),
		"delete":         b.Delete(b.ctx, other, s.ID),
		"delete version": second(b.DeleteVersion(b.ctx, other, s.ID, 1)),
	} {
		if fault.KindOf(err) != fault.NotFound || codeOf(err) != "skill_not_found" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := second(b.Resolve(b.ctx, other, s.ID, "")); codeOf(err) != "invalid_skill_reference" {
		t.Errorf("resolve: %v", err)
	}
	if list, _, err := b.List(b.ctx, other, Page{}); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestLists(t *testing.T) {
	b := open(t, Limits{MaxSkills: 5})
	var want []string
	for i := range 5 {
		want = append(want, must(b.Create(b.ctx, org, skillOf(fmt.Sprint("s", i), "x")))(t).ID)
	}
	if _, err := b.Create(b.ctx, org, skillOf("six", "x")); codeOf(err) != "too_many_skills" {
		t.Errorf("a sixth: %v", err)
	}
	if b.kept(t) != 5 {
		t.Errorf("%d archives", b.kept(t))
	}
	var got []string
	for page := (Page{Limit: 2, Order: "asc"}); ; {
		list, more, err := b.List(b.ctx, org, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			got = append(got, s.ID)
		}
		if !more {
			break
		}
		page.After = got[len(got)-1]
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%v, want %v", got, want)
	}
	for _, page := range []Page{{Limit: 101}, {Limit: -1}, {After: "file_x"}, {Order: "up"}} {
		if _, _, err := b.List(b.ctx, org, page); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", page, err)
		}
	}
}

// Whatever fails, no archive is left that no row knows, and what is left over goes at the next start.
func TestNothingIsLeftBehind(t *testing.T) {
	b := open(t, Limits{})
	s := must(b.Create(b.ctx, org, skillOf("one", "x")))(t)
	b.fail = errors.New("the store is ill")
	if _, err := b.AddVersion(b.ctx, org, s.ID, skillOf("one", "y"), true); err == nil {
		t.Error("a version without bytes was taken")
	}
	if err := b.Delete(b.ctx, org, s.ID); err != nil {
		t.Errorf("delete while the store is ill: %v", err)
	}
	if _, err := b.Get(b.ctx, org, s.ID); fault.KindOf(err) != fault.NotFound || b.kept(t) != 1 {
		t.Errorf("%v, %d archives", err, b.kept(t))
	}
	b.fail = nil
	b.restart(t, Limits{})
	if n := b.kept(t); n != 0 {
		t.Errorf("%d archives after a restart", n)
	}
	if _, err := b.Create(b.ctx, org, []Entry{text("SKILL.md", "no front matter")}); codeOf(err) != "invalid_skill" || b.kept(t) != 0 {
		t.Errorf("without a name: %v, %d archives", err, b.kept(t))
	}
}

func TestManyVersionsAtOnce(t *testing.T) {
	b := open(t, Limits{})
	s := must(b.Create(b.ctx, org, skillOf("one", "x")))(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := b.AddVersion(b.ctx, org, s.ID, skillOf("one", fmt.Sprint(i)), i%2 == 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, _, err := b.Versions(b.ctx, org, s.ID, Page{Order: "asc"})
	if err != nil || len(list) != 9 {
		t.Fatalf("%d versions, %v", len(list), err)
	}
	for i, v := range list {
		if v.Number != int64(i+1) {
			t.Errorf("version %d has number %d", i, v.Number)
		}
	}
}

func tree(t testing.TB, dir string) (out []string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		info, _ := d.Info()
		rel, _ := filepath.Rel(dir, path)
		data, _ := os.ReadFile(path)
		out = append(out, fmt.Sprint(rel, " ", info.Mode(), " ", string(data)))
		return nil
	})
	return out
}

func TestMounts(t *testing.T) {
	b := open(t, Limits{})
	s := must(b.Create(b.ctx, org, skillOf("one", "run me")))(t)
	md := "---\nname: one\ndescription: does one\n---\n"
	zip := must(b.Inline(Manifest{"other", "said by\n the request"}, "application/zip", zipped(t, "one/SKILL.md", md, "one/bin/run@exec", "run me")))(t)
	alone := must(b.Inline(Manifest{"alone", "x"}, "text/markdown", []byte("# just text")))(t)
	stored := []string{". drwxr-xr-x ", "SKILL.md -rw-r--r-- " + md, "bin drwxr-xr-x ", "bin/run -rwxr-xr-x run me"}
	for _, c := range []struct {
		m    Mount
		name string
		want []string
	}{
		{b.Mount(s.Default), "one", stored},
		{zip, "other", stored},
		{alone, "alone", []string{". drwxr-xr-x ", "SKILL.md -rw-r--r-- # just text"}},
	} {
		dir := filepath.Join(t.TempDir(), c.name)
		if err := c.m.Write(b.ctx, dir); err != nil || c.m.Name != c.name {
			t.Fatalf("%s: %v", c.m.Name, err)
		}
		if got := tree(t, dir); strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%s:\n%q\n%q", c.name, got, c.want)
		}
		if err := c.m.Write(b.ctx, dir); err == nil {
			t.Errorf("%s: written over what was there", c.name)
		}
		if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) != 1 {
			t.Errorf("%s: %v is left beside it", c.name, left)
		}
	}
	if zip.Description != "said by the request" {
		t.Errorf("description %q", zip.Description)
	}
	same := must(b.Inline(Manifest{"third", "x"}, "application/zip", zipped(t, "bin/run@exec", "run me", "SKILL.md", md)))(t)
	if same.Key != zip.Key || alone.Key == zip.Key {
		t.Error("the key does not name the files")
	}
	for name, err := range map[string]error{
		"unsupported_inline_skill_media_type": second(b.Inline(Manifest{"a", "x"}, "application/x-tar", nil)),
		"invalid_inline_skill":                second(b.Inline(Manifest{"A b", "x"}, "text/markdown", []byte("x"))),
		"invalid_inline_skill ":               second(b.Inline(Manifest{"a", "x"}, "application/zip", zipped(t, "SKILL.md@link", "/etc/passwd"))),
		"invalid_inline_skill  ":              second(b.Inline(Manifest{"a", "x"}, "text/markdown", []byte("\xff"))),
	} {
		if codeOf(err) != strings.TrimSpace(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
