package container

import (
	"io"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
)

// withUploads is a bench whose clients keep three files, one of them another organisation's.
func withUploads(t *testing.T, limits Limits) (b *bench, first, second, foreign string) {
	t.Helper()
	b = newBench(t, limits)
	first, second, foreign = id.New(id.File), id.New(id.File), id.New(id.File)
	if err := b.Service.Close(b.ctx); err != nil {
		t.Fatal(err)
	}
	b.uploads = shelf{first: {"org", "dir/data.csv", "1,2"}, second: {"org", "data.csv", "3,4"}, foreign: {"other", "secret", "x"}}
	b.restart(t, limits)
	return b, first, second, foreign
}

func TestCreateWithFiles(t *testing.T) {
	b, first, second, foreign := withUploads(t, Limits{})
	c, err := b.Create(b.ctx, "org", CreateSpec{FileIDs: []string{first, second}})
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := b.Files(b.ctx, "org", c.ID, Page{Order: "asc"})
	if err != nil || len(files) != 2 || files[0].Path != "/mnt/data/data.csv" || files[1].Path != "/mnt/data/data-2.csv" || files[0].Source != SourceUser {
		t.Fatalf("files %+v, %v", files, err)
	}
	if got := b.text(t, c.ID, files[1].ID); got != "3,4" {
		t.Errorf("the second holds %q", got)
	}
	if b.fake.boxes() != 0 {
		t.Error("something was started")
	}
	for _, bad := range []struct{ id, code string }{{"x", "invalid_file_id"}, {"", "invalid_file_id"}, {c.ID, "invalid_file_id"},
		{foreign, "file_not_found"}, {id.New(id.File), "file_not_found"}} {
		_, err := b.Create(b.ctx, "org", CreateSpec{FileIDs: []string{first, bad.id}})
		wantFault(t, err, fault.Invalid, bad.code)
		if f, _ := fault.As(err); f == nil || f.Param != "file_ids[1]" {
			t.Errorf("%q: %v names no field", bad.id, err)
		}
	}
	if list, _, err := b.List(b.ctx, "org", Page{}); err != nil || len(list) != 1 {
		t.Errorf("refused containers are there: %+v, %v", list, err)
	}
}

func TestPutUpload(t *testing.T) {
	b, first, second, foreign := withUploads(t, Limits{})
	c := b.create(t)
	if f, err := b.PutUpload(b.ctx, "org", c.ID, first, ""); err != nil || f.Path != "/mnt/data/data.csv" || f.Bytes != 3 || f.Source != SourceUser {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := b.PutUpload(b.ctx, "org", c.ID, second, "/mnt/data/in/x.csv"); err != nil || f.Path != "/mnt/data/in/x.csv" {
		t.Errorf("under a path: %+v, %v", f, err)
	}
	for name, tt := range map[string]struct {
		container, file, path string
		kind                  fault.Kind
		code                  string
	}{
		"foreign file":      {c.ID, foreign, "", fault.NotFound, "file_not_found"},
		"no id":             {c.ID, "../x", "", fault.Invalid, "invalid_file_id"},
		"path":              {c.ID, first, "../x", fault.Invalid, "invalid_path"},
		"unknown container": {id.New(id.Container), first, "", fault.NotFound, "container_not_found"},
	} {
		_, err := b.PutUpload(b.ctx, "org", tt.container, tt.file, tt.path)
		t.Run(name, func(t *testing.T) { wantFault(t, err, tt.kind, tt.code) })
	}
}

func TestContainersWithoutUploads(t *testing.T) {
	b := newBench(t, Limits{})
	_, err := b.Create(b.ctx, "org", CreateSpec{FileIDs: []string{id.New(id.File)}})
	wantFault(t, err, fault.Invalid, "file_not_found")
}

func TestLimitsOfAnOrganisation(t *testing.T) {
	b := newBench(t, Limits{MaxOrgContainers: 2, MaxOrgBytes: 1 << 20})
	first := b.create(t)
	b.create(t)
	_, err := b.Create(b.ctx, "org", CreateSpec{})
	wantFault(t, err, fault.RateLimited, "too_many_containers")
	if _, err := b.Create(b.ctx, "other", CreateSpec{}); err != nil {
		t.Errorf("another organisation: %v", err)
	}
	if err := b.Delete(b.ctx, "org", first.ID); err != nil {
		t.Fatal(err)
	}
	c := b.create(t)
	// What the organisation's containers take is what was counted last.
	b.fake.programs["big"] = func(p *proc) int {
		p.file("big", string(make([]byte, 2<<20)))
		<-p.killed
		return 0
	}
	e := b.exec(t, c.ID, "big")
	defer e.Wait(b.ctx)
	defer e.Cancel()
	eventually(t, "its bytes are counted", func() bool {
		b.clock.advance(time.Millisecond)
		if err := b.flush(b.ctx); err != nil {
			t.Fatal(err)
		}
		var used int64
		if err := b.db.Read().QueryRow(`SELECT used FROM container WHERE id = $1`, c.ID).Scan(&used); err != nil {
			t.Fatal(err)
		}
		return used > 2<<20
	})
	if list, _, err := b.List(b.ctx, "org", Page{}); err != nil || len(list) != 2 {
		t.Fatalf("list %+v, %v", list, err)
	} else if err := b.Delete(b.ctx, "org", list[1].ID); err != nil {
		t.Fatal(err)
	}
	_, err = b.Create(b.ctx, "org", CreateSpec{})
	wantFault(t, err, fault.RateLimited, "organization_bytes_exceeded")
}

// zeros are so many bytes.
func zeros(n int) io.Reader { return io.LimitReader(zero{}, int64(n)) }

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestUploadsRespectTheDiskLimit(t *testing.T) {
	b, _, _, _ := withUploads(t, Limits{DiskBytes: 1 << 20})
	c := b.create(t)
	put := func(name string, n int) error {
		_, err := b.Put(b.ctx, "org", c.ID, name, zeros(n), SourceUser)
		return err
	}
	if err := put("a", 700<<10); err != nil {
		t.Fatal(err)
	}
	wantFault(t, put("b", 700<<10), fault.TooLarge, "disk_limit")
	if err := put("c", 100<<10); err != nil {
		t.Errorf("what fits: %v", err)
	}
	files, _, err := b.Files(b.ctx, "org", c.ID, Page{})
	if err != nil || len(files) != 2 {
		t.Errorf("files %+v, %v", files, err)
	}
}

// TestAContainerThatComesBackCounts like a new one.
func TestAContainerThatComesBackCounts(t *testing.T) {
	b := newBench(t, Limits{MaxOrgContainers: 1, MaxOrgBytes: 1, DefaultIdleTTL: time.Minute})
	first := b.create(t)
	b.clock.advance(2 * time.Minute)
	if err := b.reap(b.ctx); err != nil {
		t.Fatal(err)
	}
	second := b.create(t)
	_, err := b.Restore(b.ctx, "org", first.ID)
	wantFault(t, err, fault.RateLimited, "too_many_containers")
	if err := b.Delete(b.ctx, "org", second.ID); err != nil {
		t.Fatal(err)
	}
	if c, err := b.Restore(b.ctx, "org", first.ID); err != nil || c.Status != Active {
		t.Errorf("with room again: %+v, %v", c, err)
	}
}
