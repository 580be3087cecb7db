package container

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// fills writes to a file of the workspace until it is killed.
func fills(name string) func(*proc) int {
	return func(p *proc) int {
		f, err := os.OpenFile(filepath.Join(p.workspace, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			p.t.Errorf("program: %v", err)
			return 1
		}
		defer f.Close()
		for piece := make([]byte, 32<<10); ; {
			select {
			case <-p.killed:
				return 0
			case <-time.After(time.Millisecond):
				f.Write(piece)
			}
		}
	}
}

func TestDiskLimitStopsTheCommandAndNamesItself(t *testing.T) {
	b := newBench(t, Limits{DiskBytes: 4 << 20})
	full, other := b.create(t), b.create(t)
	b.fake.programs["fill"] = fills("big")
	bystander := b.exec(t, other.ID, "block")
	r := b.run(t, full.ID, "fill")
	if r.Breach != BreachDisk || !r.Cancelled || !strings.Contains(r.BreachText, "4.0 MiB are allowed") {
		t.Fatalf("the filling command ended as %q %q, cancelled %t", r.Breach, r.BreachText, r.Cancelled)
	}
	// Above its limit it can still clean up, and may not grow again.
	if r := b.run(t, full.ID, "true"); r.ExitCode != 0 || r.Breach != "" {
		t.Errorf("a command that takes nothing: %+v", r)
	}
	if r := b.run(t, full.ID, "fill"); r.Breach != BreachDisk {
		t.Errorf("a command that takes still more ended as %q", r.Breach)
	}
	if err := os.Remove(filepath.Join(b.dir, full.ID, "workspace", "big")); err != nil {
		t.Fatal(err)
	}
	if r := b.run(t, full.ID, "hello"); r.ExitCode != 0 || r.Breach != "" {
		t.Errorf("with room again: %+v", r)
	}
	select {
	case <-bystander.Done():
		t.Error("another container's command was stopped")
	default:
	}
	bystander.Cancel()
	if _, err := bystander.Wait(b.ctx); err != nil {
		t.Error(err)
	}
}

func TestOneContainerDoesNotFillTheDisk(t *testing.T) {
	b := newBench(t, Limits{DiskBytes: -1, ReserveBytes: 1 << 40})
	b.Service.disk.mu.Lock() // the disk is said to have lost everything but a little, whatever it really has
	b.Service.disk.room = func(string) (int64, int64, bool) { return 1 << 20, 1 << 40, true }
	b.Service.disk.mu.Unlock()
	filler, quiet := b.create(t), b.create(t)
	b.fake.programs["fill"] = fills("big")
	waits := b.exec(t, quiet.ID, "block")
	if r := b.run(t, filler.ID, "fill"); r.Breach != BreachFull {
		t.Errorf("the filling command ended as %q", r.Breach)
	}
	select {
	case <-waits.Done():
		t.Error("a command that took nothing was stopped")
	default:
	}
	waits.Cancel()
	waits.Wait(b.ctx)
}

// TestDeleteOnAFullDatabase: the workspace goes before the row is written, because it may be what fills the disk.
func TestDeleteOnAFullDatabase(t *testing.T) {
	b := newBench(t, Limits{})
	c := b.create(t)
	b.fake.programs["big"] = func(p *proc) int { p.file("big", "x"); return 0 }
	b.run(t, c.ID, "big")
	// A limit on the file's pages is as near to a full disk as a database comes without one. Where a row can be changed
	// in place the deletion goes through all the same.
	restore := fillDatabase(t, b)
	err := b.Delete(b.ctx, "org", c.ID)
	if _, statErr := os.Stat(filepath.Join(b.dir, c.ID)); statErr == nil {
		t.Errorf("the workspace is still there; delete answered %v", err)
	}
	restore()
	if err != nil {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("delete: %v", err)
		}
		if err := b.Delete(b.ctx, "org", c.ID); err != nil {
			t.Errorf("delete with room again: %v", err)
		}
	}
	if _, err := b.Get(b.ctx, "org", c.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the deleted container: %v", err)
	}
}

func TestDiskUsedCountsWhatIsTaken(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	used := func() int64 {
		t.Helper()
		n, err := diskUsed(dir)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	write("a/b/c", 1<<20)
	base := used()
	if base < 1<<20 || base > 1<<20+64<<10 {
		t.Fatalf("a file of a megabyte counts %d", base)
	}
	if err := os.Link(filepath.Join(dir, "a/b/c"), filepath.Join(dir, "second")); err != nil {
		t.Fatal(err)
	}
	if n := used(); n != base {
		t.Errorf("a second name of it makes %d of %d", n, base)
	}
	if err := os.Symlink("/usr", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if n := used(); n > base+64<<10 {
		t.Errorf("a link out of the tree counts: %d of %d", n, base)
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	sparse.Truncate(1 << 30)
	sparse.Close()
	if n := used(); n > base+64<<10 {
		t.Errorf("a hole counts: %d of %d", n, base)
	}
	before := used()
	for _, mode := range []os.FileMode{0, 0o400, 0o200} {
		if err := os.Chmod(filepath.Join(dir, "a"), mode); err != nil {
			t.Fatal(err)
		}
		if n := used(); n != before {
			t.Errorf("behind a folder of mode %v %d of %d are seen", mode, n, before)
		}
		info, err := os.Stat(filepath.Join(dir, "a"))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("the count left the folder as %v, %v", info, err)
		}
	}
	os.Chmod(filepath.Join(dir, "a"), 0o755)
	if n, err := diskUsed(filepath.Join(dir, "absent")); n != 0 || err != nil {
		t.Errorf("an absent tree: %d, %v", n, err)
	}
}

// fillDatabase makes the database's disk look full until the returned function is called.
func fillDatabase(t *testing.T, b *bench) (restore func()) {
	t.Helper()
	pragma := func(value string) {
		t.Helper()
		if err := b.db.Write(b.ctx, func(tx *sql.Tx) error {
			_, err := tx.Exec(`PRAGMA max_page_count = ` + value)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var pages int
	if err := b.db.Read().QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	pragma(strconv.Itoa(pages))
	// What free pages there are, too.
	for err := error(nil); err == nil; {
		_, err = b.Create(b.ctx, "org", CreateSpec{Name: strings.Repeat("x", 200)})
	}
	return func() { pragma("1000000") }
}
