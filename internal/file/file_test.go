package file

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/disk"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// bench is a service over a real database and a real folder.
type bench struct {
	*Service
	ctx   context.Context
	db    *store.DB
	dir   string
	disk  *disk.Store
	mu    sync.Mutex
	clock time.Time
	fail  error // of the store's Delete
}

func (b *bench) time() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clock
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = b.clock.Add(d)
}

// Delete fails when a test says so.
type failing struct {
	blob.Store
	b *bench
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
	b := &bench{ctx: context.Background(), dir: filepath.Join(base, "files"), clock: time.UnixMilli(1_900_000_000_000)}
	var err error
	if b.db, err = store.Open(b.ctx, store.Options{Path: filepath.Join(base, "x.db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.db.Close() })
	if b.disk, err = disk.Open(b.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.disk.Close() })
	b.restart(t, limits)
	return b
}

func (b *bench) restart(t testing.TB, limits Limits) {
	t.Helper()
	s, err := New(b.ctx, Options{DB: b.db, Blobs: blob.NewStores("disk", map[string]blob.Store{"disk": failing{b.disk, b}}),
		Limits: limits, Clock: b.time})
	if err != nil {
		t.Fatal(err)
	}
	b.Service = s
	t.Cleanup(s.Close)
}

func (b *bench) upload(t testing.TB, org, name, text string, expires time.Duration) File {
	t.Helper()
	d, err := b.Begin(b.ctx, org, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard(b.ctx)
	f, err := d.Commit(b.ctx, Upload{Name: name, Purpose: "user_data", Expires: expires})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// blobs counts the files on the disk.
func (b *bench) blobs(t testing.TB) (n int) {
	t.Helper()
	err := filepath.WalkDir(b.dir, func(_ string, e fs.DirEntry, err error) error {
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

func (b *bench) read(t testing.TB, id string) string {
	t.Helper()
	r, _, err := b.Open(b.ctx, "org", id)
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

func TestUploadReadDelete(t *testing.T) {
	b := open(t, Limits{})
	f := b.upload(t, "org", "a b$(x).csv", "1,2\n", 0)
	if got, err := b.Get(b.ctx, "org", f.ID); err != nil || got != f || got.Bytes != 4 || got.Name != "a b$(x).csv" {
		t.Errorf("get: %+v, %v; uploaded %+v", got, err, f)
	}
	if got := b.read(t, f.ID); got != "1,2\n" {
		t.Errorf("content %q", got)
	}
	for name, try := range map[string]func() error{
		"get":    func() error { _, err := b.Get(b.ctx, "other", f.ID); return err },
		"open":   func() error { _, _, err := b.Open(b.ctx, "other", f.ID); return err },
		"delete": func() error { return b.Delete(b.ctx, "other", f.ID) },
		"bad id": func() error { return b.Delete(b.ctx, "org", "../"+f.ID) },
	} {
		if err := try(); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s of another organisation: %v", name, err)
		}
	}
	if err := b.Delete(b.ctx, "org", f.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(b.ctx, "org", f.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after delete: %v", err)
	}
	if n := b.blobs(t); n != 0 {
		t.Errorf("%d blobs are left", n)
	}
}

func TestUploadRefusals(t *testing.T) {
	b := open(t, Limits{})
	for _, c := range []struct {
		u     Upload
		param string
	}{
		{Upload{Name: "a"}, "purpose"}, {Upload{Name: "a", Purpose: "spying"}, "purpose"}, {Upload{Purpose: "user_data"}, "file"},
		{Upload{Name: strings.Repeat("x", 256), Purpose: "user_data"}, "file"}, {Upload{Name: "a\x00", Purpose: "user_data"}, "file"},
		{Upload{Name: "\xff", Purpose: "user_data"}, "file"},
		{Upload{Name: "a", Purpose: "user_data", Expires: time.Minute}, "expires_after.seconds"},
		{Upload{Name: "a", Purpose: "user_data", Expires: 31 * 24 * time.Hour}, "expires_after.seconds"},
		{Upload{Name: "a", Purpose: "user_data", Expires: -time.Hour}, "expires_after.seconds"},
	} {
		d, err := b.Begin(b.ctx, "org", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Commit(b.ctx, c.u)
		if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid || f.Param != c.param {
			t.Errorf("%+v: %v, want a refusal of %s", c.u, err, c.param)
		}
		d.Discard(b.ctx)
	}
	if list, _, err := b.List(b.ctx, "org", Page{}); err != nil || len(list) != 0 || b.blobs(t) != 0 {
		t.Errorf("refused uploads left %d rows and %d blobs, %v", len(list), b.blobs(t), err)
	}
}

func TestLimitsOfBytes(t *testing.T) {
	b := open(t, Limits{MaxBytes: 10, MaxOrgBytes: 15})
	b.upload(t, "org", "ten", strings.Repeat("x", 10), 0)
	wants := func(org string, n int, kind fault.Kind, code string) {
		t.Helper()
		_, err := b.Begin(b.ctx, org, strings.NewReader(strings.Repeat("x", n)))
		if f, ok := fault.As(err); !ok || f.Kind != kind || f.Code != code {
			t.Errorf("%d bytes: %v, want %v %s", n, err, kind, code)
		}
	}
	wants("org", 6, fault.RateLimited, "organization_bytes_exceeded")
	wants("other", 11, fault.TooLarge, "file_too_large")
	b.upload(t, "org", "five", "12345", 0)
	wants("org", 1, fault.RateLimited, "organization_bytes_exceeded")
	b.upload(t, "other", "ten", strings.Repeat("x", 10), 0)
	if n := b.blobs(t); n != 3 {
		t.Errorf("%d blobs, want 3", n)
	}
}

func TestExpiry(t *testing.T) {
	b := open(t, Limits{})
	f := b.upload(t, "org", "a", "x", 2*time.Hour)
	stays := b.upload(t, "org", "b", "x", 0)
	if !f.Expires.Equal(f.Created.Add(2 * time.Hour)) {
		t.Errorf("expires %v", f.Expires)
	}
	b.advance(2*time.Hour - time.Second)
	if _, err := b.Get(b.ctx, "org", f.ID); err != nil {
		t.Errorf("before its time: %v", err)
	}
	b.advance(time.Second)
	if _, _, err := b.Open(b.ctx, "org", f.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after its time: %v", err)
	}
	if list, _, err := b.List(b.ctx, "org", Page{}); err != nil || len(list) != 1 || list[0].ID != stays.ID {
		t.Errorf("list %+v, %v", list, err)
	}
	if err := b.Sweep(b.ctx); err != nil || b.blobs(t) != 1 {
		t.Errorf("after the sweep: %d blobs, %v", b.blobs(t), err)
	}
}

func TestPaging(t *testing.T) {
	b := open(t, Limits{})
	var ids []string
	for range 5 {
		ids = append(ids, b.upload(t, "org", "a", "x", 0).ID)
		b.advance(time.Second)
	}
	walk := func(order string) (got []string) {
		for after := ""; ; {
			list, more, err := b.List(b.ctx, "org", Page{Limit: 2, After: after, Order: order})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range list {
				got = append(got, f.ID)
				after = f.ID
			}
			if !more {
				return got
			}
		}
	}
	asc, desc := walk("asc"), walk("")
	for i, id := range ids {
		if len(asc) != 5 || len(desc) != 5 || asc[i] != id || desc[4-i] != id {
			t.Fatalf("asc %v, desc %v, want %v", asc, desc, ids)
		}
	}
	if list, _, err := b.List(b.ctx, "org", Page{Purpose: "batch"}); err != nil || len(list) != 0 {
		t.Errorf("another purpose: %v, %v", list, err)
	}
	for _, page := range []Page{{Limit: -1}, {Limit: 10_001}, {After: "cntr_x"}, {Order: "up"}} {
		_, _, err := b.List(b.ctx, "org", page)
		if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid || f.Code == "" {
			t.Errorf("%+v: %v", page, err)
		}
	}
}

// TestKilledUploadsAndDeletionsAreFinished: bytes never outlive their row for long.
func TestKilledUploadsAndDeletionsAreFinished(t *testing.T) {
	b := open(t, Limits{})
	f := b.upload(t, "org", "a", "x", 0)
	b.fail = errors.New("the bucket is away")
	if err := b.Delete(b.ctx, "org", f.ID); err != nil {
		t.Fatalf("delete while the store does not answer: %v", err)
	}
	if _, err := b.Get(b.ctx, "org", f.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := b.Begin(b.ctx, "org", bytes.NewReader([]byte("never committed"))); err != nil {
		t.Fatal(err)
	}
	if n := b.blobs(t); n != 2 {
		t.Fatalf("%d blobs, want 2", n)
	}
	if err := b.Sweep(b.ctx); err != nil || b.blobs(t) != 2 {
		t.Errorf("a sweep took what is being uploaded: %d blobs, %v", b.blobs(t), err)
	}
	b.fail = nil
	b.restart(t, Limits{}) // which knows of no upload
	if err := b.Sweep(b.ctx); err != nil || b.blobs(t) != 0 {
		t.Errorf("after a restart: %d blobs, %v", b.blobs(t), err)
	}
}

// TestBytesThatAreGone are told before anything is answered, and not as a file that never was.
func TestBytesThatAreGone(t *testing.T) {
	b := open(t, Limits{})
	f := b.upload(t, "org", "a", "x", 0)
	if err := b.disk.Delete(b.ctx, key(f.ID)); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.Open(b.ctx, "org", f.ID)
	if e, ok := fault.As(err); !ok || e.Kind != fault.Internal || e.Code != "file_content_unavailable" {
		t.Errorf("open: %v", err)
	}
	if err := b.Delete(b.ctx, "org", f.ID); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// TestAPlaceThatIsNotConfiguredAnyMore is told as such; the file itself is still there.
func TestAPlaceThatIsNotConfiguredAnyMore(t *testing.T) {
	b := open(t, Limits{})
	f := b.upload(t, "org", "a", "x", 0)
	s, err := New(b.ctx, Options{DB: b.db, Blobs: blob.NewStores("other", map[string]blob.Store{"other": b.disk}), Clock: b.time})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, _, err = s.Open(b.ctx, "org", f.ID)
	if e, ok := fault.As(err); !ok || e.Kind != fault.Unavailable || e.Code != "file_content_unavailable" || e.Try == "" {
		t.Errorf("open: %v", err)
	}
	if got, err := s.Get(b.ctx, "org", f.ID); err != nil || got.Bytes != 1 {
		t.Errorf("get: %+v, %v", got, err)
	}
}

// TestASweepLeavesWhatWasCommittedMeanwhile: it lists uploads that go on, and some are whole before it has looked at them.
func TestASweepLeavesWhatWasCommittedMeanwhile(t *testing.T) {
	b := open(t, Limits{})
	d, err := b.Begin(b.ctx, "org", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if stale, err := b.dropStale(b.ctx, "file_none"); stale || err != nil {
		t.Errorf("what is not there: %t, %v", stale, err)
	}
	f, err := d.Commit(b.ctx, Upload{Name: "a", Purpose: "user_data"})
	if err != nil {
		t.Fatal(err)
	}
	if stale, err := b.dropStale(b.ctx, f.ID); stale || err != nil {
		t.Errorf("a file that was listed as an upload: dropped %t, %v", stale, err)
	}
	if got := b.read(t, f.ID); got != "x" {
		t.Errorf("it holds %q", got)
	}
}

func TestAClientThatGoesAwayLeavesNothing(t *testing.T) {
	b := open(t, Limits{})
	gone := errors.New("gone")
	_, err := b.Begin(b.ctx, "org", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(gone)))
	if !errors.Is(err, gone) || b.blobs(t) != 0 {
		t.Errorf("%v, %d blobs", err, b.blobs(t))
	}
}
