package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/disk"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/skill"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// patient is how long a test waits for what must happen. Reaching it is the failure.
const patient = 20 * time.Second

type keys struct{}

// The keys of two organisations, and one of a scope that may run nothing.
const (
	keyOne     = "key-of-one"
	keyTwo     = "key-of-two"
	keyApprove = "key-that-approves"
)

func (keys) Authenticate(_ context.Context, token string) (tenant.Principal, error) {
	switch token {
	case keyOne:
		return tenant.Principal{Org: "one", KeyID: "key_one", Scopes: []tenant.Scope{tenant.ScopeRun}}, nil
	case keyTwo:
		return tenant.Principal{Org: "two", Scopes: []tenant.Scope{tenant.ScopeRun}}, nil
	case keyApprove:
		return tenant.Principal{Org: "one", KeyID: "key_approve", Scopes: []tenant.Scope{tenant.ScopeApprove, tenant.ScopeAdmin}}, nil
	}
	return tenant.Principal{}, fault.New(fault.Unauthenticated, "This key is not valid.").WithCode("invalid_api_key")
}

// house is a door over fakes, served on loopback.
type house struct {
	agent      *fakeAgent
	responses  *fakeResponses
	containers *fakeContainers
	gateway    *gateway.Gateway
	url        string
}

func open(t testing.TB, keepalive time.Duration) *house { return openImpatient(t, keepalive, 0) }

func openImpatient(t testing.TB, keepalive, patience time.Duration) *house {
	return openOver(t, patience, func(d *Door) { d.Keepalive = keepalive })
}

// openOver is a house whose door is changed before it opens: by a real room, say.
func openOver(t testing.TB, patience time.Duration, change func(*Door)) *house {
	t.Helper()
	h := &house{agent: &fakeAgent{}, responses: &fakeResponses{runs: map[string]*fakeRun{}}, containers: &fakeContainers{}}
	h.gateway = gateway.New(gateway.Options{Tenants: keys{}, MaxBody: 1 << 20, Patience: patience})
	door := Door{Agent: h.agent, Responses: h.responses, Containers: h.containers, Models: fakeModels{}}
	change(&door)
	Register(h.gateway, door)
	s := httptest.NewUnstartedServer(h.gateway)
	s.Config = gateway.NewServer(h.gateway, nil)
	s.Start()
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

// rooms is what a real room stands on.
func rooms(t testing.TB) (db *store.DB, blobs *blob.Stores, dir string) {
	t.Helper()
	dir = t.TempDir()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(dir, "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	bytes, err := disk.Open(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bytes.Close() })
	return db, blob.NewStores("disk", map[string]blob.Store{"disk": bytes}), dir
}

// do sends a request with the key of organisation one and returns the answer with its body read.
func (h *house) do(t testing.TB, method, path string, body []byte, mutate func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+keyOne)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if mutate != nil {
		mutate(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return res, string(text)
}

// fakeAgent hands out the run that a test prepared.
type fakeAgent struct {
	mu   sync.Mutex
	run  *fakeRun
	err  error
	last *wire.CreateRequest
	make func(*wire.CreateRequest) (*fakeRun, error) // nil: run and err
}

func (a *fakeAgent) Create(_ context.Context, _ tenant.Principal, req *wire.CreateRequest) (Run, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = req
	if a.make != nil {
		run, err := a.make(req)
		if err != nil {
			return nil, err
		}
		return run, nil
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.run, nil
}

// fakeRun plays frames that the test feeds it.
type fakeRun struct {
	frames    chan []response.Frame // closed after the terminal event
	final     *wire.Response
	failure   error // of Wait and Next
	cancelled chan struct{}
	once      sync.Once
	input     []wire.Item
}

func newRun() *fakeRun {
	return &fakeRun{frames: make(chan []response.Frame, 1000), cancelled: make(chan struct{}),
		final: &wire.Response{ID: "resp_1", Object: "response", Status: wire.Completed, Output: []wire.Item{}}}
}

// play queues frames of the given types, one batch, numbered from first.
func (r *fakeRun) play(first int64, types ...string) {
	var batch []response.Frame
	for i, typ := range types {
		n := first + int64(i)
		batch = append(batch, response.Frame{Seq: n, Type: typ, Data: fmt.Appendf(nil, `{"type":%q,"sequence_number":%d,"note":"<ü>"}`, typ, n)})
	}
	r.frames <- batch
}

func (r *fakeRun) Input() []wire.Item { return r.input }
func (r *fakeRun) ID() string         { return "resp_1" }
func (r *fakeRun) Cancel(error)       { r.once.Do(func() { close(r.cancelled) }) }

// Abandon is Cancel: a fake waits for nobody.
func (r *fakeRun) Abandon(_ context.Context, cause error) { r.Cancel(cause) }

func (r *fakeRun) Subscribe(after int64) Stream { return &fakeStream{run: r, after: after} }

func (r *fakeRun) Wait(ctx context.Context) (*wire.Response, error) {
	for {
		select {
		case _, more := <-r.frames:
			if !more {
				return r.final, r.failure
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

type fakeStream struct {
	run   *fakeRun
	after int64
}

func (s *fakeStream) Close() {}

func (s *fakeStream) Next(ctx context.Context) ([]response.Frame, error) {
	for {
		select {
		case batch, more := <-s.run.frames:
			if !more {
				if s.run.failure != nil {
					return nil, s.run.failure
				}
				return nil, io.EOF
			}
			for len(batch) > 0 && batch[0].Seq <= s.after {
				batch = batch[1:]
			}
			if len(batch) > 0 {
				return batch, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *fakeRun) Response() *wire.Response {
	queued := *r.final
	queued.Status, queued.Background = wire.Queued, true
	return &queued
}

// fakeResponses keeps the runs of organisation one.
type fakeResponses struct {
	runs  map[string]*fakeRun
	keys  map[string][2]string // digest and id, by organisation and key
	items []wire.Item
}

func (f *fakeResponses) Keyed(_ context.Context, org, key, digest string) (string, error) {
	known := f.keys[org+" "+key]
	if known[0] != "" && known[0] != digest {
		return "", fault.New(fault.Invalid, "Used for another request.").WithCode("idempotency_key_reused")
	}
	return known[1], nil
}

func (f *fakeResponses) Attend(ctx context.Context, org, id string, _ <-chan time.Time) (*wire.Response, error) {
	run, err := f.find(org, id)
	if err != nil {
		return nil, err
	}
	return run.Wait(ctx)
}

func (f *fakeResponses) find(org, id string) (*fakeRun, error) {
	if run, ok := f.runs[id]; ok && org == "one" {
		return run, nil
	}
	return nil, fault.New(fault.NotFound, "There is no such response.").WithCode("response_not_found")
}

func (f *fakeResponses) Get(_ context.Context, org, id string) (*wire.Response, error) {
	run, err := f.find(org, id)
	if err != nil {
		return nil, err
	}
	return run.final, nil
}

func (f *fakeResponses) Subscribe(_ context.Context, org, id string, after int64) (Stream, error) {
	run, err := f.find(org, id)
	if err != nil {
		return nil, err
	}
	return run.Subscribe(after), nil
}

func (f *fakeResponses) Delete(_ context.Context, org, id string) error {
	_, err := f.find(org, id)
	return err
}

func (f *fakeResponses) Cancel(_ context.Context, org, id string) (*wire.Response, error) {
	run, err := f.find(org, id)
	if err != nil {
		return nil, err
	}
	run.Cancel(nil)
	return run.final, nil
}

func (f *fakeResponses) InputItems(_ context.Context, org, id string) ([]wire.Item, error) {
	if _, err := f.find(org, id); err != nil {
		return nil, err
	}
	return f.items, nil
}

type fakeModels struct{}

func (fakeModels) Models(context.Context, string) []wire.Model {
	return []wire.Model{
		{ID: "scripted/scripted", Object: "model", OwnedBy: "scripted"},
		{ID: "a/shared", Object: "model", OwnedBy: "a"},
		{ID: "b/shared", Object: "model", OwnedBy: "b"},
		{ID: "b/deep/name", Object: "model", OwnedBy: "b"},
	}
}

// fakeContainers has one container of organisation one, "cntr_1", with one file, "cfile_1".
type fakeContainers struct {
	mu      sync.Mutex
	spec    container.CreateSpec
	page    container.Page
	putName string
	putBody []byte
	path    string // of the file
	body    []byte
	kind    string
}

var errNoContainer = fault.New(fault.NotFound, "There is no such container.").WithCode("container_not_found")

var anyContainer = container.Container{
	ID: "cntr_1", Org: "one", Name: "box", Status: container.Active, MemoryLimit: "1g", IdleTTL: 20 * time.Minute,
	Created: time.Unix(1000, 0), LastActive: time.Unix(2000, 0),
}

func (f *fakeContainers) Create(_ context.Context, _ string, spec container.CreateSpec) (container.Container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spec = spec
	c := anyContainer
	c.Name, c.Network = spec.Name, spec.Network
	return c, nil
}

func (f *fakeContainers) Skills(_ context.Context, org, id string) ([]container.Skill, error) {
	return []container.Skill{{Manifest: skill.Manifest{Name: "maps", Description: "draws maps"}, SkillID: "skill_1", Version: 2},
		{Manifest: skill.Manifest{Name: "note", Description: "is a note"}}}, nil
}

func (f *fakeContainers) Get(_ context.Context, org, id string) (container.Container, error) {
	if org != "one" || id != "cntr_1" {
		return container.Container{}, errNoContainer
	}
	return anyContainer, nil
}

func (f *fakeContainers) List(_ context.Context, org string, page container.Page) ([]container.Container, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.page = page
	if org != "one" {
		return nil, false, nil
	}
	return []container.Container{anyContainer}, true, nil
}

func (f *fakeContainers) Delete(ctx context.Context, org, id string) error {
	_, err := f.Get(ctx, org, id)
	return err
}

func (f *fakeContainers) Put(ctx context.Context, org, id, name string, r io.Reader, source string) (container.File, error) {
	if _, err := f.Get(ctx, org, id); err != nil {
		return container.File{}, err
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return container.File{}, fault.Wrap(fault.Unavailable, err, "The file could not be written.")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.putName, f.putBody = name, body
	return container.File{ID: "cfile_1", ContainerID: id, Path: "/mnt/data/" + name, Bytes: int64(len(body)), Created: time.Unix(3000, 0), Source: source}, nil
}

func (f *fakeContainers) Partial(string) bool { return false }

func (f *fakeContainers) Files(ctx context.Context, org, id string, page container.Page) ([]container.File, bool, error) {
	file, err := f.File(ctx, org, id, "cfile_1")
	if err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.page = page
	return []container.File{file}, false, nil
}

func (f *fakeContainers) File(ctx context.Context, org, id, fileID string) (container.File, error) {
	if _, err := f.Get(ctx, org, id); err != nil {
		return container.File{}, err
	}
	if fileID != "cfile_1" {
		return container.File{}, fault.New(fault.NotFound, "There is no such file.").WithCode("file_not_found")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return container.File{ID: fileID, ContainerID: id, Path: f.path, Bytes: int64(len(f.body)), Created: time.Unix(3000, 0),
		Source: container.SourceAssistant, ContentType: f.kind}, nil
}

func (f *fakeContainers) OpenFile(ctx context.Context, org, id, fileID string) (io.ReadSeekCloser, container.File, error) {
	file, err := f.File(ctx, org, id, fileID)
	if err != nil {
		return nil, file, err
	}
	return readSeekNoCloser{bytes.NewReader(f.body)}, file, nil
}

func (f *fakeContainers) DeleteFile(ctx context.Context, org, id, fileID string) error {
	_, err := f.File(ctx, org, id, fileID)
	return err
}

func (f *fakeContainers) PutUpload(ctx context.Context, org, id, fileID, name string) (container.File, error) {
	if fileID != "file_1" {
		return container.File{}, fault.New(fault.NotFound, "There is no such file.").WithCode("file_not_found").WithParam("file_id")
	}
	return f.Put(ctx, org, id, cmp.Or(name, "own.txt"), strings.NewReader("by id"), container.SourceUser)
}

func (f *fakeContainers) Restore(ctx context.Context, org, id string) (container.Container, error) {
	if id == "cntr_gone" {
		return container.Container{}, fault.Wrap(fault.Expired, survivorsOf(id), "Container %s has expired.", id).WithCode("container_expired")
	}
	return f.Get(ctx, org, id)
}

func (f *fakeContainers) MaxFileBytes() int64 { return 64 << 10 }

func survivorsOf(id string) *container.Survivors {
	return &container.Survivors{ContainerID: id, Until: time.Unix(5000, 0), More: true, Files: []container.File{{ID: "cfile_1", ContainerID: id,
		Path: "/mnt/data/a.txt", Bytes: 3, Created: time.Unix(3000, 0), Source: container.SourceAssistant}}}
}

type readSeekNoCloser struct{ io.ReadSeeker }

func (readSeekNoCloser) Close() error { return nil }

var errBroken = errors.New("the log broke: disk 7")
