package container

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	blobdisk "github.com/hardshell-dev/hardshell/internal/blob/disk"
	"github.com/hardshell-dev/hardshell/internal/file"
)

// warehouse is a blob store that a test can make refuse, and hold.
type warehouse struct {
	blob.Store
	dir string

	mu   sync.Mutex
	fail error
	hold chan struct{}
	// written is told twice: that a blob is there, and that its writer goes on.
	written chan struct{}
}

func (w *warehouse) set(fail error, hold chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail, w.hold = fail, hold
}

func (w *warehouse) Put(ctx context.Context, key string, r io.Reader) (int64, error) {
	w.mu.Lock()
	fail, hold, written := w.fail, w.hold, w.written
	w.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	if fail != nil {
		return 0, fail
	}
	n, err := w.Store.Put(ctx, key, r)
	for range 2 {
		if written != nil {
			select {
			case written <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}
	return n, err
}

// count is the number of blobs.
func (w *warehouse) count(t testing.TB) (n int) {
	t.Helper()
	err := filepath.WalkDir(w.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// withBlobs is a bench whose expired containers are archived.
func withBlobs(t testing.TB, limits Limits) (*bench, *warehouse) {
	t.Helper()
	b := newBench(t, limits)
	dir := filepath.Join(t.TempDir(), "files")
	d, err := blobdisk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w := &warehouse{Store: d, dir: dir}
	if err := b.Service.Close(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.blobs = blob.NewStores("disk", map[string]blob.Store{"disk": w})
	b.restart(t, limits)
	b.fake.programs["write"] = func(p *proc) int {
		p.file("out/a.txt", "alpha")
		p.file("b.txt", "beta")
		if err := os.Symlink("b.txt", filepath.Join(p.workspace, "link")); err != nil {
			p.t.Error(err)
		}
		return 0
	}
	return b, w
}

// expireNow makes a container's time pass and waits until its folder is gone.
func (b *bench) expireNow(t testing.TB, id string) {
	t.Helper()
	b.clock.advance(b.limits.DefaultIdleTTL + time.Second)
	b.archived(t, id)
}

func (b *bench) archived(t testing.TB, id string) {
	t.Helper()
	eventually(t, "the folder goes", func() bool {
		if err := b.reap(b.ctx); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(b.dir, id))
		return os.IsNotExist(err) && !b.moves.moving(id)
	})
}

func (b *bench) text(t testing.TB, containerID, fileID string) string {
	t.Helper()
	r, _, err := b.OpenFile(b.ctx, "org", containerID, fileID)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFilesSurviveExpiryUnderTheirIDs(t *testing.T) {
	b, w := withBlobs(t, Limits{})
	c := b.create(t)
	r := b.run(t, c.ID, "write")
	before, _, err := b.Files(b.ctx, "org", c.ID, Page{Order: "asc"})
	if err != nil || len(before) != 2 || len(r.Changed) != 2 {
		t.Fatalf("before: %+v, %v; changed %+v", before, err, r.Changed)
	}
	b.expireNow(t, c.ID)
	after, more, err := b.Files(b.ctx, "org", c.ID, Page{Order: "asc"})
	if err != nil || more || len(after) != 2 || after[0] != before[0] || after[1] != before[1] {
		t.Errorf("after: %+v, %t, %v; before %+v", after, more, err, before)
	}
	for _, f := range after {
		want := map[string]string{"/mnt/data/out/a.txt": "alpha", "/mnt/data/b.txt": "beta"}[f.Path]
		if got := b.text(t, c.ID, f.ID); got != want {
			t.Errorf("%s holds %q", f.Path, got)
		}
		if got, err := b.File(b.ctx, "org", c.ID, f.ID); err != nil || got != f {
			t.Errorf("file: %+v, %v", got, err)
		}
	}
	// A restart of the server changes nothing of that.
	b.restart(t, Limits{})
	if got := b.text(t, c.ID, after[0].ID); got == "" {
		t.Error("after a restart the file is empty")
	}
	// Its files may be deleted one by one, and are not brought back then.
	if err := b.DeleteFile(b.ctx, "org", c.ID, after[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.File(b.ctx, "org", c.ID, after[0].ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a deleted file: %v", err)
	}
	if _, err := b.Restore(b.ctx, "other", c.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("another organisation restores it: %v", err)
	}
	got, err := b.Restore(b.ctx, "org", c.ID)
	if err != nil || got.Status != Active || got.ID != c.ID {
		t.Fatalf("restore: %+v, %v", got, err)
	}
	files, _, err := b.Files(b.ctx, "org", c.ID, Page{Order: "asc"})
	if err != nil || len(files) != 1 || files[0] != after[1] {
		t.Errorf("restored: %+v, %v, want %+v", files, err, after[1])
	}
	if to, err := os.Readlink(filepath.Join(b.dir, c.ID, "workspace", "link")); err != nil || to != "b.txt" {
		t.Errorf("its link: %q, %v", to, err)
	}
	if n := w.count(t); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	if r := b.run(t, c.ID, "true"); r.ExitCode != 0 {
		t.Errorf("a command in it: %+v", r)
	}
	if again, err := b.Restore(b.ctx, "org", c.ID); err != nil || again.Status != Active {
		t.Errorf("restore of an active one: %+v, %v", again, err)
	}
}

func TestExpiredErrorNamesTheSurvivors(t *testing.T) {
	for _, when := range []string{"before it is archived", "after"} {
		t.Run(when, func(t *testing.T) {
			b, _ := withBlobs(t, Limits{})
			c := b.create(t)
			b.run(t, c.ID, "write")
			if when == "after" {
				b.expireNow(t, c.ID)
			} else {
				b.clock.advance(b.limits.DefaultIdleTTL + time.Second)
			}
			for name, try := range map[string]func() error{
				"usable": func() error { _, err := b.Usable(b.ctx, "org", c.ID); return err },
				"exec":   func() error { _, err := b.Exec(b.ctx, "org", c.ID, Command{Script: "true"}); return err },
				"put": func() error {
					_, err := b.Put(b.ctx, "org", c.ID, "x", strings.NewReader("x"), SourceUser)
					return err
				},
			} {
				err := try()
				wantFault(t, err, fault.Expired, "container_expired")
				var left *Survivors
				if !errors.As(err, &left) || len(left.Files) != 2 || left.ContainerID != c.ID || !left.Until.After(b.clock.time()) {
					t.Errorf("%s: survivors %+v of %v", name, left, err)
				}
				f, _ := fault.As(err)
				if f != nil && (!strings.Contains(f.Message, "/mnt/data/b.txt") || !strings.Contains(f.Try, `"restore": true`)) {
					t.Errorf("%s: %s", name, f.Public())
				}
			}
		})
	}
}

func TestAnArchiveEndsWithItsTime(t *testing.T) {
	b, w := withBlobs(t, Limits{KeepExpired: time.Hour})
	c := b.create(t)
	b.run(t, c.ID, "write")
	b.expireNow(t, c.ID)
	if n := w.count(t); n != 1 {
		t.Fatalf("%d blobs, want 1", n)
	}
	b.clock.advance(time.Hour + time.Second)
	if err := b.reap(b.ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	if files, _, err := b.Files(b.ctx, "org", c.ID, Page{}); err != nil || len(files) != 0 {
		t.Errorf("files: %+v, %v", files, err)
	}
	_, err := b.Restore(b.ctx, "org", c.ID)
	wantFault(t, err, fault.Expired, "container_expired")
}

func TestDeleteOfAnArchivedContainerRemovesItsBytes(t *testing.T) {
	b, w := withBlobs(t, Limits{})
	c := b.create(t)
	r := b.run(t, c.ID, "write")
	b.expireNow(t, c.ID)
	if err := b.Delete(b.ctx, "org", c.ID); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	if _, _, err := b.OpenFile(b.ctx, "org", c.ID, r.Changed[0].ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("content: %v", err)
	}
}

func TestAnArchiveThatCannotBeStoredLosesNothing(t *testing.T) {
	b, w := withBlobs(t, Limits{})
	c := b.create(t)
	r := b.run(t, c.ID, "write")
	w.set(errors.New("the bucket is away"), nil)
	b.clock.advance(b.limits.DefaultIdleTTL + time.Second)
	for range 3 {
		if err := b.reap(b.ctx); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the attempt ends", func() bool { return !b.moves.moving(c.ID) })
	}
	if got := b.text(t, c.ID, r.Changed[0].ID); got == "" {
		t.Error("the file is empty")
	}
	w.set(nil, nil)
	b.clock.advance(retryCapture)
	b.archived(t, c.ID)
	if got := b.text(t, c.ID, r.Changed[0].ID); got == "" || w.count(t) != 1 {
		t.Errorf("later: %q, %d blobs", got, w.count(t))
	}
}

// TestRestoreAndDeleteInterruptAnArchive: whoever wants the container does not wait for its archive.
func TestRestoreAndDeleteInterruptAnArchive(t *testing.T) {
	for _, what := range []string{"restore", "delete"} {
		t.Run(what, func(t *testing.T) {
			b, w := withBlobs(t, Limits{})
			c := b.create(t)
			b.run(t, c.ID, "write")
			w.set(nil, make(chan struct{})) // never
			b.clock.advance(b.limits.DefaultIdleTTL + time.Second)
			eventually(t, "the archive begins", func() bool {
				if err := b.reap(b.ctx); err != nil {
					t.Fatal(err)
				}
				return b.moves.moving(c.ID)
			})
			if what == "delete" {
				if err := b.Delete(b.ctx, "org", c.ID); err != nil {
					t.Fatal(err)
				}
				_, err := b.Get(b.ctx, "org", c.ID)
				wantFault(t, err, fault.NotFound, "container_not_found")
			} else {
				if got, err := b.Restore(b.ctx, "org", c.ID); err != nil || got.Status != Active {
					t.Fatalf("restore: %+v, %v", got, err)
				}
				if files, _, err := b.Files(b.ctx, "org", c.ID, Page{}); err != nil || len(files) != 2 {
					t.Errorf("files: %+v, %v", files, err)
				}
			}
			b.sweepBlobs(b.ctx, "")
			if n := w.count(t); n != 0 {
				t.Errorf("%d blobs are left", n)
			}
		})
	}
}

// TestWhoWaitsToBeArchivedMoves already, so that not every round of the reaper sends for it again.
func TestWhoWaitsToBeArchivedMoves(t *testing.T) {
	b, w := withBlobs(t, Limits{})
	w.set(nil, make(chan struct{})) // never
	var ids []string
	for range maxArchiving + 1 {
		c := b.create(t)
		b.run(t, c.ID, "true")
		ids = append(ids, c.ID)
	}
	b.clock.advance(b.limits.DefaultIdleTTL + time.Second)
	eventually(t, "all move", func() bool {
		if err := b.reap(b.ctx); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(ids, func(id string) bool { return !b.moves.moving(id) })
	})
	for _, id := range ids {
		if _, err := b.Restore(b.ctx, "org", id); err != nil {
			t.Errorf("it is not let go: %v", err)
		}
	}
}

// TestASweepLeavesAnArchiveThatBecameNeeded: one that was listed while it was written, and is whole before it is looked at.
func TestASweepLeavesAnArchiveThatBecameNeeded(t *testing.T) {
	b, w := withBlobs(t, Limits{})
	c := b.create(t)
	r := b.run(t, c.ID, "write")
	b.expireNow(t, c.ID)
	row, err := b.row(b.ctx, "org", c.ID)
	if err != nil || row.archive == "" {
		t.Fatalf("%+v, %v", row, err)
	}
	if err := b.removeGarbage(b.ctx, row.backend, row.archive); err != nil {
		t.Error(err)
	}
	if n := w.count(t); n != 1 || b.text(t, c.ID, r.Changed[0].ID) == "" {
		t.Errorf("%d blobs are left", n)
	}
}

// TestKilledBetweenTheSteps: what a killed server had written half is gone after the next start, and nothing else.
func TestKilledBetweenTheSteps(t *testing.T) {
	b, w := withBlobs(t, Limits{})
	c := b.create(t)
	r := b.run(t, c.ID, "write")
	// A blob that was noted and written, and a row that does not know it.
	key := archiveKey(c.ID)
	if err := b.discardLater(b.ctx, "disk", key); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Put(b.ctx, key, strings.NewReader("half")); err != nil {
		t.Fatal(err)
	}
	b.restart(t, Limits{})
	if err := b.reap(b.ctx); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
	if got := b.text(t, c.ID, r.Changed[0].ID); got == "" {
		t.Error("the file is empty")
	}
	// A row that has its archive, and a folder that was not removed.
	b.expireNow(t, c.ID)
	if err := os.MkdirAll(filepath.Join(b.dir, c.ID, "workspace"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.restart(t, Limits{})
	if _, err := os.Stat(filepath.Join(b.dir, c.ID)); !os.IsNotExist(err) {
		t.Errorf("the stray folder: %v", err)
	}
	if got, err := b.Restore(b.ctx, "org", c.ID); err != nil || got.Status != Active {
		t.Errorf("restore: %+v, %v", got, err)
	}
}

// shelf is a room of uploads with a few files.
type shelf map[string]struct{ org, name, text string }

func (s shelf) Get(_ context.Context, org, id string) (file.File, error) {
	f, ok := s[id]
	if !ok || f.org != org {
		return file.File{}, fault.New(fault.NotFound, "no such file").WithCode("file_not_found")
	}
	return file.File{ID: id, Org: org, Name: f.name, Bytes: int64(len(f.text))}, nil
}

type text struct{ *strings.Reader }

func (text) Close() error { return nil }

func (s shelf) Open(ctx context.Context, org, id string) (io.ReadSeekCloser, file.File, error) {
	f, err := s.Get(ctx, org, id)
	return text{strings.NewReader(s[id].text)}, f, err
}
