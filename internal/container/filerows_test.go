package container

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// paths are the files of a container that rows name, by what is known of them.
func (b *bench) paths(t *testing.T, id, condition string) (paths []string) {
	t.Helper()
	rows, err := b.fileRows(b.ctx, condition+` AND container = $1 ORDER BY path`, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rows {
		paths = append(paths, f.path)
	}
	return paths
}

// TestOnlyRowsOfFilesThatAreGoneAreDropped: one may have come back, and another may be in an archive, since it was looked for.
func TestOnlyRowsOfFilesThatAreGoneAreDropped(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	for _, name := range []string{"archived", "back", "deleted", "gone"} {
		b.put(t, c.ID, name, "x")
	}
	rows, err := b.fileRows(b.ctx, `container = $1`, c.ID)
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	workspace := filepath.Join(b.dir, c.ID, "workspace")
	for _, name := range []string{"archived", "deleted", "gone"} {
		must(t, os.Remove(filepath.Join(workspace, name)))
	}
	must(t, b.db.Write(b.ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE container_file SET at = CASE path WHEN 'archived' THEN 7 ELSE -1 END WHERE path IN ('archived', 'deleted')`)
		return err
	}))
	root, err := os.OpenRoot(workspace)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	must(t, b.dropFileRows(b.ctx, root, rows))
	if got := b.paths(t, c.ID, "TRUE"); !slices.Equal(got, []string{"archived", "back", "deleted"}) {
		t.Errorf("left %q", got)
	}
	for _, f := range rows {
		must(t, b.dropFileRow(b.ctx, f.id))
	}
	if got := b.paths(t, c.ID, "at = -1"); !slices.Equal(got, []string{"archived", "deleted"}) {
		t.Errorf("hidden %q", got)
	}
	if got := b.paths(t, c.ID, "TRUE"); len(got) != 2 {
		t.Errorf("left %q", got)
	}
}

// TestAFileThatIsDeletedWhileItIsArchived is deleted, though the archive has it; what comes under its path is another one.
func TestAFileThatIsDeletedWhileItIsArchived(t *testing.T) {
	b, w := withBlobs(t, Limits{})
	c := b.create(t)
	b.run(t, c.ID, "write")
	before, _, err := b.Files(b.ctx, "org", c.ID, Page{Order: "asc"})
	if err != nil || len(before) != 2 {
		t.Fatalf("before: %+v, %v", before, err)
	}
	w.mu.Lock()
	w.written = make(chan struct{})
	w.mu.Unlock()
	told := func() {
		t.Helper()
		select {
		case <-w.written:
		case <-b.ctx.Done():
			t.Fatal("no archive is written")
		}
	}
	b.clock.advance(b.limits.DefaultIdleTTL + time.Second)
	eventually(t, "the archive begins", func() bool {
		if err := b.reap(b.ctx); err != nil {
			t.Fatal(err)
		}
		return b.moves.moving(c.ID)
	})
	told()
	must(t, b.DeleteFile(b.ctx, "org", c.ID, before[0].ID))
	told()
	b.archived(t, c.ID)
	if _, err := b.File(b.ctx, "org", c.ID, before[0].ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it is found: %v", err)
	}
	if after, _, err := b.Files(b.ctx, "org", c.ID, Page{}); err != nil || len(after) != 1 || after[0] != before[1] {
		t.Errorf("archived: %+v, %v", after, err)
	}
	if _, err := b.Restore(b.ctx, "org", c.ID); err != nil {
		t.Fatal(err)
	}
	if after, _, err := b.Files(b.ctx, "org", c.ID, Page{}); err != nil || len(after) != 1 || after[0] != before[1] {
		t.Errorf("restored: %+v, %v", after, err)
	}
	name := filepath.Join(b.dir, c.ID, "workspace", before[0].Path[len(Workdir):])
	must(t, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("new"), 0o644))
	b.restart(t, Limits{}) // which looks for it
	after, _, err := b.Files(b.ctx, "org", c.ID, Page{})
	if err != nil || len(after) != 2 || slices.ContainsFunc(after, func(f File) bool { return f.ID == before[0].ID }) {
		t.Errorf("with a new one: %+v, %v", after, err)
	}
}
