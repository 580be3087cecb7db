package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
)

// sow makes so many files in a workspace, a thousand to a folder.
func sow(t testing.TB, workspace string, count int) {
	t.Helper()
	for i := range count {
		dir := filepath.Join(workspace, fmt.Sprintf("d%04d", i/1000))
		if i%1000 == 0 {
			must(t, os.Mkdir(dir, 0o755))
		}
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("f%03d", i%1000)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

func (b *bench) fileRowCount(t testing.TB) (n int) {
	t.Helper()
	if err := b.db.Read().QueryRow(`SELECT COUNT(*) FROM container_file`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// everyFile pages through a container's files.
func (b *bench) everyFile(t testing.TB, id string) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for page := (Page{Limit: 100}); ; {
		files, more, err := b.Files(b.ctx, "org", id, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if seen[f.Path] {
				t.Fatalf("%s is listed twice", f.Path)
			}
			seen[f.Path] = true
		}
		if !more {
			return seen
		}
		page.After = files[len(files)-1].ID
	}
}

// hold keeps the look behind the requests from beginning.
func (b *bench) hold(id string, until time.Time) {
	c := &b.known(id).catching
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = until
}

// largeTree is a container whose workspace holds so many files that nobody has seen.
func largeTree(t *testing.T, count int) (*bench, string) {
	b := newBench(t, Limits{})
	b.ctx = context.Background() // to make a million takes its time
	c := b.create(t)
	b.put(t, c.ID, "first", "x")
	sow(t, filepath.Join(b.dir, c.ID, "workspace"), count)
	b.restart(t, Limits{}) // a new service knows nothing of the tree
	return b, c.ID
}

// untilKnown lists until nothing is missing.
func (b *bench) untilKnown(t *testing.T, id string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, _, err := b.Files(b.ctx, "org", id, Page{}); err != nil {
			t.Fatal(err)
		}
		if !b.Partial(id) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it is never known")
		}
		b.hold(id, time.Time{}) // the next look need not wait until the last one is paid off
	}
}

// TestALargeTreeIsLookedThroughBehindTheRequest: what one request does has a bound, and nothing is missing in the end.
func TestALargeTreeIsLookedThroughBehindTheRequest(t *testing.T) {
	const count = 2 * maxScan
	b, id := largeTree(t, count)
	if b.untilKnown(t, id); b.fileRowCount(t) != count+1 {
		t.Errorf("%d rows, want %d", b.fileRowCount(t), count+1)
	}
	if seen := b.everyFile(t, id); len(seen) != count+1 {
		t.Errorf("%d files are listed, want %d", len(seen), count+1)
	}
	// The same once more, where the look behind the requests is kept from beginning.
	b, id = largeTree(t, count)
	if _, _, err := b.Files(b.ctx, "org", id, Page{After: "cfile_none"}); err == nil {
		t.Error("a page behind nothing")
	}
	if _, err := b.Usable(b.ctx, "org", id); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.prepare(b.ctx, id); err != nil {
		t.Fatal(err)
	}
	b.hold(id, time.Now().Add(time.Hour))
	for range 3 {
		files, more, err := b.Files(b.ctx, "org", id, Page{})
		if err != nil || len(files) != 20 || !more || !b.Partial(id) {
			t.Fatalf("%d files, more %v, partial %v, %v", len(files), more, b.Partial(id), err)
		}
	}
	if n := b.fileRowCount(t); n > maxScan+1 {
		t.Errorf("a request made %d rows", n)
	}
	// A command in it is held up by none of it.
	b.fake.programs["write"] = func(p *proc) int { p.file("new", "x"); return 0 }
	if r := b.run(t, id, "write"); r.ExitCode != 0 {
		t.Errorf("a command: %+v", r)
	}
	if b.untilKnown(t, id); b.fileRowCount(t) != count+2 {
		t.Errorf("%d rows, want %d", b.fileRowCount(t), count+2)
	}
}

func (b *bench) lookedThrough(id string) bool {
	c := &b.known(id).catching
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.walked && !c.behind
}

// TestListsWhileALookGoesOn: one that was partial when it was made stays so, whatever is known by the time that somebody
// asks.
func TestListsWhileALookGoesOn(t *testing.T) {
	const count = maxScan + 2000
	b, id := largeTree(t, count)
	if _, _, err := b.Files(b.ctx, "org", id, Page{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); !b.lookedThrough(id); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is never looked through")
		}
	}
	if !b.Partial(id) {
		t.Error("the list is told as whole")
	}
	// What is missed while a look goes on is looked for by another one: the first may have been past it.
	b.run(t, id, "true") // it is watched from here on
	if b.untilKnown(t, id); b.fileRowCount(t) != count+1 {
		t.Errorf("%d rows, want %d", b.fileRowCount(t), count+1)
	}
	p := b.known(id)
	c, tree := &p.catching, p.watched()
	set := func(behind bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.behind, c.walked, c.capped = behind, true, false
	}
	set(true) // a look that has seen every folder, and is not over
	root, err := p.workspace()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	files, _, err := walk(b.ctx, root, maxKnown)
	if err != nil {
		t.Fatal(err)
	}
	last := path.Dir(files[len(files)-1]) // no request comes that far
	must(t, root.WriteFile(path.Join(last, "late"), nil, 0o644))
	tree.news(maxNews)
	tree.missed() // the kernel has dropped it
	if _, _, err := b.Files(b.ctx, "org", id, Page{}); err != nil || !b.Partial(id) {
		t.Fatalf("partial %v, %v", b.Partial(id), err)
	}
	set(false) // that look is over, and has found nothing
	if b.untilKnown(t, id); b.fileRowCount(t) != count+2 {
		t.Errorf("%d rows, want %d", b.fileRowCount(t), count+2)
	}
}

// TestRowsOfFilesThatAreGone do not hold lists up for ever.
func TestRowsOfFilesThatAreGone(t *testing.T) {
	const count = maxGone + 1000
	b, id := largeTree(t, count)
	if b.untilKnown(t, id); b.fileRowCount(t) != count+1 {
		t.Fatalf("%d rows, want %d", b.fileRowCount(t), count+1)
	}
	workspace := filepath.Join(b.dir, id, "workspace")
	dirs, err := filepath.Glob(filepath.Join(workspace, "d*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		must(t, os.RemoveAll(dir))
	}
	files, more, err := b.Files(b.ctx, "org", id, Page{})
	if err != nil || len(files) != 1 || more {
		t.Fatalf("%d files, more %v, %v", len(files), more, err)
	}
	first := files[0].ID
	eventually(t, "their rows are gone", func() bool { return b.fileRowCount(t) == 1 })
	if files, _, err := b.Files(b.ctx, "org", id, Page{}); err != nil || len(files) != 1 || files[0].ID != first {
		t.Errorf("the file that stayed: %+v, %v", files, err)
	}
}

// TestAMillionFiles is the tree of a mistake: it is listed in part and says so, and it can be deleted.
func TestAMillionFiles(t *testing.T) {
	if os.Getenv("HARDSHELL_SUITES") != "all" {
		require.Feature(t, "all-suites", errors.New("only with HARDSHELL_SUITES=all"))
	}
	b, id := largeTree(t, 1_000_000)
	for begun, walked := time.Now(), false; !walked; time.Sleep(100 * time.Millisecond) {
		if _, _, err := b.Files(b.ctx, "org", id, Page{}); err != nil {
			t.Fatal(err)
		}
		if time.Since(begun) > 5*time.Minute {
			t.Fatal("it is never known")
		}
		c := &b.known(id).catching
		c.mu.Lock()
		walked = c.walked
		c.mu.Unlock()
	}
	if n := b.fileRowCount(t); n > maxKnown+maxScan || n < maxKnown/2 || !b.Partial(id) {
		t.Errorf("%d rows, partial %v", n, b.Partial(id))
	}
	b.fake.programs["write"] = func(p *proc) int { p.file("d0500/f500", "changed"); p.file("new", "x"); return 0 }
	if r := b.run(t, id, "write"); r.ExitCode != 0 {
		t.Errorf("a command in it: %+v", r)
	}
	if data, err := os.ReadFile(filepath.Join(b.dir, id, "workspace", "d0500", "f500")); err != nil || string(data) != "changed" {
		t.Errorf("%q, %v", data, err)
	}
	if err := b.Delete(b.ctx, "org", id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, id)); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
}
