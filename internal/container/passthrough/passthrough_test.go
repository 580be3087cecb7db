package passthrough

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
)

// vendor keeps containers in memory under ids of its own.
type vendor struct {
	containers map[string]*openai.Container
	files      map[string][]openai.ContainerFile
	bytes      map[string][]byte
	made       []openai.ContainerRequest
	reads      []int64 // from where contents were read
	fail       error
	n          int
}

func newVendor() *vendor {
	return &vendor{containers: map[string]*openai.Container{}, files: map[string][]openai.ContainerFile{}, bytes: map[string][]byte{}}
}

func (v *vendor) id(prefix string) string { v.n++; return fmt.Sprintf("%s_up%08d", prefix, v.n) }

func (v *vendor) absent(id string) error {
	return fault.New(fault.NotFound, "Container with id '%s' not found, nor cntr_other12345.", id)
}

func (v *vendor) CreateContainer(_ context.Context, r openai.ContainerRequest) (openai.Container, error) {
	if v.fail != nil {
		return openai.Container{}, v.fail
	}
	v.made = append(v.made, r)
	o := &openai.Container{ID: v.id("cntr"), Status: "running", Name: r.Name, CreatedAt: time.Now().Unix(), LastActiveAt: time.Now().Unix(), ExpiresAfter: r.ExpiresAfter,
		MemoryLimit: r.MemoryLimit}
	if r.NetworkPolicy != nil {
		o.NetworkPolicy = &openai.NetworkPolicy{Type: r.NetworkPolicy.Type, AllowedDomains: r.NetworkPolicy.AllowedDomains}
	}
	v.containers[o.ID] = o
	return *o, nil
}

func (v *vendor) Container(_ context.Context, id string) (openai.Container, error) {
	if o := v.containers[id]; o != nil {
		return *o, v.fail
	}
	return openai.Container{}, v.absent(id)
}

func (v *vendor) DeleteContainer(_ context.Context, id string) error {
	if v.containers[id] == nil {
		return v.absent(id)
	}
	delete(v.containers, id)
	return nil
}

func (v *vendor) ContainerFiles(_ context.Context, id string, limit int, after, order string) (l openai.List[openai.ContainerFile], err error) {
	if v.containers[id] == nil {
		return l, v.absent(id)
	}
	all := slices.Clone(v.files[id])
	if order != "asc" {
		slices.Reverse(all)
	}
	if at := slices.IndexFunc(all, func(f openai.ContainerFile) bool { return f.ID == after }); at >= 0 {
		all = all[at+1:]
	}
	more := limit > 0 && len(all) > limit
	if more {
		all = all[:limit]
	}
	return openai.NewList(all, more, func(f openai.ContainerFile) string { return f.ID }), nil
}

func (v *vendor) ContainerFile(_ context.Context, id, file string) (openai.ContainerFile, error) {
	for _, f := range v.files[id] {
		if f.ID == file {
			return f, nil
		}
	}
	return openai.ContainerFile{}, v.absent(file)
}

func (v *vendor) PutContainerFile(_ context.Context, id, name string, r io.Reader) (openai.ContainerFile, error) {
	raw, err := io.ReadAll(r)
	if v.containers[id] == nil {
		err = v.absent(id)
	}
	f := openai.ContainerFile{ID: v.id("cfile"), Bytes: int64(len(raw)), ContainerID: id, Path: "/mnt/data/" + name, Source: "user", CreatedAt: 1}
	if err == nil {
		v.files[id], v.bytes[f.ID] = append(v.files[id], f), raw
	}
	return f, err
}

func (v *vendor) DeleteContainerFile(_ context.Context, id, file string) error {
	if _, err := v.ContainerFile(context.Background(), id, file); err != nil {
		return err
	}
	v.files[id] = slices.DeleteFunc(v.files[id], func(f openai.ContainerFile) bool { return f.ID == file })
	return nil
}

func (v *vendor) ContainerFileContent(_ context.Context, id, file string, from int64) (io.ReadCloser, int64, error) {
	v.reads = append(v.reads, from)
	return io.NopCloser(bytes.NewReader(v.bytes[file][from:])), int64(len(v.bytes[file])), nil
}

// shelf has one upload.
type shelf struct{}

func (shelf) Open(_ context.Context, org, id string) (io.ReadSeekCloser, file.File, error) {
	if org != "org_a" {
		return nil, file.File{}, fault.New(fault.NotFound, "no file %s", id)
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{strings.NewReader("uploaded"), io.NopCloser(nil)}, file.File{ID: id, Name: "dir/up.txt"}, nil
}

func open(t *testing.T, path string, v *vendor) (*Service, *store.DB) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := New(t.Context(), Options{DB: db, Upstreams: map[string]Upstream{"vendor": v}, Uploads: shelf{}})
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

func setUp(t *testing.T) (*Service, *vendor) {
	v := newVendor()
	s, _ := open(t, filepath.Join(t.TempDir(), "db"), v)
	return s, v
}

// hidden fails if an id of the vendor's is in what a client may see.
func hidden(t *testing.T, v any) {
	t.Helper()
	if text := fmt.Sprintf("%+v", v); strings.Contains(text, "_up0") || strings.Contains(text, "other12345") {
		t.Errorf("an id of the vendor's got out: %s", text)
	}
}

func TestWhatIsAskedOfTheVendor(t *testing.T) {
	s, v := setUp(t)
	c, err := s.Make(t.Context(), "org_a", "vendor", container.CreateSpec{Name: "n", MemoryLimit: "4g", IdleTTL: 90 * time.Second,
		Network: &container.NetworkPolicy{Type: "allowlist", AllowedDomains: []string{"a.test"}},
		Secrets: []container.DomainSecret{{Name: "KEY", Value: egress.NewValue("canary"), Given: true, Hosts: []string{"a.test"}}},
		FileIDs: []string{id.New(id.File)}, Skills: []container.SkillRequest{{Type: "inline", Name: "k", Source: &container.SkillSource{Type: "base64", Data: "AA=="}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := v.made[0]
	if r.Name != "n" || *r.MemoryLimit != "4g" || r.ExpiresAfter.Minutes != 1 || r.NetworkPolicy.AllowedDomains[0] != "a.test" ||
		string(r.NetworkPolicy.DomainSecrets) != `[{"domain":"a.test","name":"KEY","value":"canary"}]` || !strings.Contains(string(r.Skills), `"name":"k"`) {
		t.Errorf("asked %+v", r)
	}
	hidden(t, c.Container)
	files, more, err := s.Files(t.Context(), "org_a", c.ID, container.Page{})
	if err != nil || more || len(files) != 1 || files[0].Path != "/mnt/data/up.txt" {
		t.Errorf("files %+v, %v", files, err)
	}
	for name, spec := range map[string]container.CreateSpec{
		"the operator's secret": {Network: &container.NetworkPolicy{Type: "allowlist"}, Secrets: []container.DomainSecret{{Name: "KEY"}}},
		"a skill of ours":       {Skills: []container.SkillRequest{{Type: "skill_reference", SkillID: "skill_1"}}},
	} {
		if _, err := s.Make(t.Context(), "org_a", "vendor", spec); fault.KindOf(err) != fault.Invalid || len(v.made) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A file that is not there: no container is left behind.
	if _, err := s.Make(t.Context(), "org_b", "vendor", container.CreateSpec{FileIDs: []string{id.New(id.File)}}); err == nil || len(v.containers) != 1 {
		t.Errorf("%v, %d containers", err, len(v.containers))
	}
	v.fail = fault.New(fault.Invalid, "vendor refused the request: memory_limit of cntr_up99999999 is wrong")
	if _, err := s.Make(t.Context(), "org_a", "vendor", container.CreateSpec{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v", err)
	} else {
		hidden(t, err)
	}
}

// Ids are the same each time, also after a restart, and another organisation's are absent.
func TestNamesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	v := newVendor()
	s, db := open(t, path, v)
	theirs, err := v.CreateContainer(t.Context(), openai.ContainerRequest{Name: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Met(t.Context(), "org_a", "vendor", theirs.ID)
	if err != nil {
		t.Fatal(err)
	}
	f, err := v.PutContainerFile(t.Context(), theirs.ID, "a.txt", strings.NewReader("0123456789"))
	if err != nil {
		t.Fatal(err)
	}
	fileID, err := s.MetFile(t.Context(), "org_a", "vendor", theirs.ID, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	s, _ = open(t, path, v)
	again, err := s.Met(t.Context(), "org_a", "vendor", theirs.ID)
	same, fileErr := s.MetFile(t.Context(), "org_a", "vendor", theirs.ID, f.ID)
	if err != nil || fileErr != nil || again != first || same != fileID {
		t.Errorf("%s and %s, then %s and %s: %v %v", first, fileID, again, same, err, fileErr)
	}
	if _, err := s.Met(t.Context(), "org_b", "vendor", theirs.ID); fault.KindOf(err) != fault.Upstream {
		t.Errorf("of another organisation: %v", err)
	}
	for name, call := range map[string]func() error{
		"get":         func() error { _, err := s.Get(t.Context(), "org_b", first); return err },
		"use":         func() error { _, err := s.Usable(t.Context(), "org_b", first); return err },
		"delete":      func() error { return s.Delete(t.Context(), "org_b", first) },
		"put":         func() error { _, err := s.Put(t.Context(), "org_b", first, "x", strings.NewReader("x")); return err },
		"list":        func() error { _, _, err := s.Files(t.Context(), "org_b", first, container.Page{}); return err },
		"file":        func() error { _, err := s.File(t.Context(), "org_b", first, fileID); return err },
		"content":     func() error { _, _, err := s.OpenFile(t.Context(), "org_b", first, fileID); return err },
		"delete file": func() error { return s.DeleteFile(t.Context(), "org_b", first, fileID) },
		"no such":     func() error { _, err := s.File(t.Context(), "org_a", first, id.New(id.ContainerFile)); return err },
		"theirs":      func() error { _, err := s.Get(t.Context(), "org_a", theirs.ID); return err },
		"their file":  func() error { _, err := s.File(t.Context(), "org_a", first, f.ID); return err },
	} {
		if err := call(); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(v.containers) != 1 || len(v.files[theirs.ID]) != 1 {
		t.Errorf("%d containers, %d files are left", len(v.containers), len(v.files[theirs.ID]))
	}
}

func TestFilesOfAVendor(t *testing.T) {
	s, v := setUp(t)
	c, err := s.Make(t.Context(), "org_a", "vendor", container.CreateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{"a.csv", "b.csv", "c.csv"} {
		f, err := s.Put(t.Context(), "org_a", c.ID, name, strings.NewReader("0123456789"))
		if err != nil {
			t.Fatal(err)
		}
		hidden(t, f)
	}
	for after, more := "", true; more; {
		var page []container.File
		if page, more, err = s.Files(t.Context(), "org_a", c.ID, container.Page{Limit: 1, After: after, Order: "asc"}); err != nil || len(page) != 1 {
			t.Fatalf("%+v, %v", page, err)
		}
		names, after = append(names, page[0].Path), page[0].ID
		hidden(t, page)
	}
	if fmt.Sprint(names) != "[/mnt/data/a.csv /mnt/data/b.csv /mnt/data/c.csv]" {
		t.Errorf("%v", names)
	}
	files, _, err := s.Files(t.Context(), "org_a", c.ID, container.Page{})
	if err != nil {
		t.Fatal(err)
	}
	r, f, err := s.OpenFile(t.Context(), "org_a", c.ID, files[0].ID)
	if err != nil || f.Bytes != 10 {
		t.Fatalf("%+v, %v", f, err)
	}
	defer r.Close()
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header.Set("Range", "bytes=3-5")
	http.ServeContent(w, req, "x.csv", time.Time{}, r)
	if w.Code != http.StatusPartialContent || w.Body.String() != "345" || fmt.Sprint(v.reads) != "[0 3]" {
		t.Errorf("%d %q, read from %v", w.Code, w.Body, v.reads)
	}
	if err := s.DeleteFile(t.Context(), "org_a", c.ID, f.ID); err != nil {
		t.Error(err)
	}
	if _, err := s.File(t.Context(), "org_a", c.ID, f.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("deleted: %v", err)
	}
	for _, page := range []container.Page{{Limit: 101}, {After: "x"}, {Order: "up"}} {
		if _, _, err := s.Files(t.Context(), "org_a", c.ID, page); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", page, err)
		}
	}
}

// What the vendor says is gone is gone, and stays in the list as such until it is deleted.
func TestAVendorForgets(t *testing.T) {
	s, v := setUp(t)
	c, err := s.Make(t.Context(), "org_a", "vendor", container.CreateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	clear(v.containers)
	if _, err := s.Put(t.Context(), "org_a", c.ID, "a", strings.NewReader("x")); fault.KindOf(err) != fault.Expired {
		t.Errorf("put: %v", err)
	} else {
		hidden(t, err)
	}
	now, err := s.Get(t.Context(), "org_a", c.ID)
	if err != nil || now.Status != container.Expired || now.Ended.IsZero() {
		t.Errorf("%+v, %v", now, err)
	}
	if _, err := s.Usable(t.Context(), "org_a", c.ID); fault.KindOf(err) != fault.Expired {
		t.Errorf("use: %v", err)
	}
	if err := s.Delete(t.Context(), "org_a", c.ID); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "org_a", c.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("deleted: %v", err)
	}
}

func TestAskedIsADigestOfSettings(t *testing.T) {
	set := container.CreateSpec{MemoryLimit: "4g"}
	if Asked(container.CreateSpec{Name: "x"}) != "" || Asked(set) == "" || Asked(set) != Asked(container.CreateSpec{MemoryLimit: "4g", Name: "y"}) ||
		Asked(set) == Asked(container.CreateSpec{MemoryLimit: "1g"}) {
		t.Error("digests")
	}
	secret := func(value string) string {
		return Asked(container.CreateSpec{Secrets: []container.DomainSecret{{Name: "A", Value: egress.NewValue(value), Given: true, Hosts: []string{"h"}}}})
	}
	if secret("one") != secret("two") || secret("one") == "" {
		t.Error("a secret's value is in the digest")
	}
}
