package container

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func names(files []File) []string {
	out := []string{}
	for _, f := range files {
		out = append(out, strings.TrimPrefix(f.Path, "/mnt/data/"))
	}
	slices.Sort(out)
	return out
}

func TestChangedFiles(t *testing.T) {
	tests := []struct {
		name string
		do   func(t testing.TB, ws string)
		want []string
	}{
		{"nothing", func(testing.TB, string) {}, []string{}},
		{"a new file", func(t testing.TB, ws string) { must(t, os.WriteFile(ws+"/a", []byte("x"), 0o644)) }, []string{"a"}},
		{"an old one", func(t testing.TB, ws string) { must(t, os.WriteFile(ws+"/old", []byte("y"), 0o644)) }, []string{"old"}},
		{"only read", func(t testing.TB, ws string) { os.ReadFile(ws + "/old") }, []string{}},
		{"made and removed", func(t testing.TB, ws string) { must(t, os.WriteFile(ws+"/a", nil, 0o644), os.Remove(ws+"/a")) }, []string{}},
		{"removed", func(t testing.TB, ws string) { must(t, os.Remove(ws+"/old")) }, []string{}},
		{"renamed", func(t testing.TB, ws string) { must(t, os.Rename(ws+"/old", ws+"/new")) }, []string{"new"}},
		{"in a new folder", func(t testing.TB, ws string) {
			must(t, os.MkdirAll(ws+"/p/q/r", 0o755), os.WriteFile(ws+"/p/q/r/f", nil, 0o644))
		}, []string{"p/q/r/f"}},
		{"in an old folder", func(t testing.TB, ws string) { must(t, os.WriteFile(ws+"/dir/b", nil, 0o644)) }, []string{"dir/b"}},
		{"a folder is renamed", func(t testing.TB, ws string) { must(t, os.Rename(ws+"/dir", ws+"/moved")) }, []string{"moved/in"}},
		{"and written to", func(t testing.TB, ws string) {
			must(t, os.Rename(ws+"/dir", ws+"/moved"), os.WriteFile(ws+"/moved/x", nil, 0o644), os.Mkdir(ws+"/dir", 0o755), os.WriteFile(ws+"/dir/y", nil, 0o644))
		}, []string{"dir/y", "moved/in", "moved/x"}},
		{"a hard link", func(t testing.TB, ws string) { must(t, os.Link(ws+"/old", ws+"/same")) }, []string{"same"}},
		{"a link is no file", func(t testing.TB, ws string) { must(t, os.Symlink("old", ws+"/link")) }, []string{}},
		{"a folder that is a link is not entered", func(t testing.TB, ws string) {
			must(t, os.Symlink("/etc", ws+"/etc"))
		}, []string{}},
		{"not valid UTF-8", func(t testing.TB, ws string) { must(t, os.WriteFile(ws+"/\xff", nil, 0o644)) }, []string{"\uFFFD"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Limits{})
			c := b.create(t)
			b.put(t, c.ID, "old", "x")
			b.put(t, c.ID, "dir/in", "x")
			b.fake.programs["do"] = func(p *proc) int { tt.do(t, p.workspace); return 0 }
			b.run(t, c.ID, "true") // boots
			r := b.run(t, c.ID, "do")
			if got := names(r.Changed); !slices.Equal(got, tt.want) || r.ChangedMore != 0 || r.ChangedPartial {
				t.Errorf("changed %q (%d more, partial %v), want %q", got, r.ChangedMore, r.ChangedPartial, tt.want)
			}
			for _, f := range r.Changed {
				if f.Source != SourceAssistant || f.ID == "" {
					t.Errorf("%+v", f)
				}
				again, err := b.File(b.ctx, "org", c.ID, f.ID)
				if err != nil || again != f {
					t.Errorf("looked up: %+v, %v", again, err)
				}
			}
			if r := b.run(t, c.ID, "true"); len(r.Changed) != 0 {
				t.Errorf("the next command changed %q", names(r.Changed))
			}
		})
	}
}

func TestTheFirstCommandsFilesAreSeen(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.put(t, c.ID, "sent", "x")
	b.fake.programs["do"] = func(p *proc) int { p.file("made", "x"); return 0 }
	if r := b.run(t, c.ID, "do"); !slices.Equal(names(r.Changed), []string{"made"}) || r.ChangedPartial {
		t.Errorf("changed %q, partial %v", names(r.Changed), r.ChangedPartial)
	}
}

func TestManyChangesAreCounted(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.fake.programs["do"] = func(p *proc) int {
		for i := range 500 {
			p.file(fmt.Sprintf("deep/er/%03d", i), "x")
		}
		p.file("report.csv", "x")
		return 0
	}
	b.run(t, c.ID, "true")
	r := b.run(t, c.ID, "do")
	if len(r.Changed) != maxChanged || r.ChangedMore != 501-maxChanged || r.ChangedPartial {
		t.Errorf("%d and %d more, partial %v", len(r.Changed), r.ChangedMore, r.ChangedPartial)
	}
	if r.Changed[0].Path != "/mnt/data/report.csv" {
		t.Errorf("the first is %s", r.Changed[0].Path)
	}
	// All of them are listed, in pages, once.
	seen := map[string]bool{}
	page := Page{Limit: 100}
	for {
		files, more, err := b.Files(b.ctx, "org", c.ID, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if seen[f.Path] {
				t.Errorf("%s is listed twice", f.Path)
			}
			seen[f.Path] = true
		}
		if !more {
			break
		}
		page.After = files[len(files)-1].ID
	}
	if len(seen) != 501 {
		t.Errorf("%d files are listed", len(seen))
	}
	for _, f := range r.Changed {
		if !seen[f.Path] {
			t.Errorf("%s is not listed", f.Path)
		}
	}
}

func TestIdsAreStable(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.fake.programs["write"] = func(p *proc) int { p.file("a", "x"); return 0 }
	b.fake.programs["remove"] = func(p *proc) int { os.Remove(p.workspace + "/a"); return 0 }
	first := b.run(t, c.ID, "write").Changed
	b.run(t, c.ID, "remove")
	if files, _, err := b.Files(b.ctx, "org", c.ID, Page{}); len(files) != 0 || err != nil {
		t.Errorf("listed after removal: %v, %v", files, err)
	}
	if _, err := b.read(t, c.ID, first[0].ID); err == nil {
		t.Error("a removed file was opened")
	}
	second := b.run(t, c.ID, "write").Changed
	if len(first) != 1 || len(second) != 1 || first[0].ID != second[0].ID {
		t.Errorf("%v, then %v", first, second)
	}
	sent := b.put(t, c.ID, "a", "y")
	if sent.ID != first[0].ID || sent.Source != SourceUser {
		t.Errorf("sent: %+v", sent)
	}
	b.Close(b.ctx)
	b.restart(t, Limits{})
	if files, _, err := b.Files(b.ctx, "org", c.ID, Page{}); err != nil || len(files) != 1 || files[0] != sent {
		t.Errorf("after a restart: %+v, %v, want %+v", files, err, sent)
	}
}

func TestUploadsAreNotTheCommandsChanges(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	e := b.exec(t, c.ID, "block")
	b.put(t, c.ID, "sent", "x")
	e.Cancel()
	r, err := e.Wait(b.ctx)
	if err != nil || len(r.Changed) != 0 {
		t.Errorf("changed %v, %v", names(r.Changed), err)
	}
}

func TestFilesMadeBetweenCommandsAreListed(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.run(t, c.ID, "true")
	for i := range 3 { // a process that was left behind
		name := fmt.Sprintf("bg/%d", i)
		(&proc{t: t, workspace: b.workspace(c.ID)}).file(name, "x")
		files, _, err := b.Files(b.ctx, "org", c.ID, Page{})
		if err != nil || len(files) != i+1 {
			t.Errorf("after %d: %v, %v", i, names(files), err)
		}
	}
}

func TestAnOverflowIsMadeGoodAndSaid(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	overflow := func() {
		b.watch.mu.Lock()
		defer b.watch.mu.Unlock()
		b.watch.event(-1, 0x4000 /* IN_Q_OVERFLOW */, "")
	}
	b.put(t, c.ID, "old", "x")
	b.fake.programs["do"] = func(p *proc) int {
		p.file("a", "x")
		p.file("new/b", "x")
		b.watch.drain() // those events are taken, and now they are forgotten
		b.watch.mu.Lock()
		for tree := range b.watch.trees {
			for span := range tree.spans {
				clear(span.paths)
			}
			clear(tree.fresh)
		}
		b.watch.mu.Unlock()
		overflow()
		return 0
	}
	b.run(t, c.ID, "true")
	r := b.run(t, c.ID, "do")
	got := names(r.Changed)
	if !r.ChangedPartial || !slices.Contains(got, "a") || !slices.Contains(got, "new/b") {
		t.Errorf("changed %q, partial %v", got, r.ChangedPartial)
	}
	files, _, err := b.Files(b.ctx, "org", c.ID, Page{})
	if err != nil || len(files) != 3 {
		t.Errorf("listed %q, %v", names(files), err)
	}
	b.fake.programs["more"] = func(p *proc) int { p.file("new/c", "x"); return 0 }
	if r := b.run(t, c.ID, "more"); !slices.Equal(names(r.Changed), []string{"new/c"}) || r.ChangedPartial {
		t.Errorf("afterwards: %q, partial %v", names(r.Changed), r.ChangedPartial)
	}
}

func TestWatchUnderConcurrency(t *testing.T) {
	b := newBench(t, Limits{})
	var wg sync.WaitGroup
	b.fake.programs["churn"] = func(p *proc) int {
		for i := range 40 {
			dir := fmt.Sprintf("%s/d%d", p.command.Key, i%5)
			p.file(dir+"/f", "x")
			os.Rename(filepath.Join(p.workspace, dir), filepath.Join(p.workspace, dir+"m"))
			os.RemoveAll(filepath.Join(p.workspace, dir+"m"))
		}
		p.file("kept "+p.command.Key, "x")
		return 0
	}
	for range 3 {
		c := b.create(t)
		for range 3 {
			wg.Go(func() {
				e, err := b.Exec(b.ctx, "org", c.ID, Command{Script: "churn"})
				if err != nil {
					t.Error(err)
					return
				}
				r, err := e.Wait(b.ctx)
				if err != nil || !slices.Contains(names(r.Changed), "kept "+e.job.Key()) || r.ChangedPartial {
					t.Errorf("changed %q, partial %v, %v", names(r.Changed), r.ChangedPartial, err)
				}
			})
		}
		wg.Go(func() { b.Files(b.ctx, "org", c.ID, Page{}) })
	}
	wg.Wait()
	b.watch.mu.Lock()
	defer b.watch.mu.Unlock()
	for tree := range b.watch.trees {
		for dir, wd := range tree.dirs {
			if b.watch.dirs[wd].rel != dir {
				t.Errorf("%s is watched as %s", dir, b.watch.dirs[wd].rel)
			}
		}
	}
}
