package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// patient is how long a test waits for what must happen. Reaching it is the failure.
const patient = 20 * time.Second

const (
	keyOne     = "key-of-one"
	keyTwo     = "key-of-two"
	keyApprove = "key-that-approves"
)

type keys struct{}

func (keys) Authenticate(_ context.Context, token string) (tenant.Principal, error) {
	switch token {
	case keyOne:
		return tenant.Principal{Org: "one", Scopes: []tenant.Scope{tenant.ScopeRun}}, nil
	case keyTwo:
		return tenant.Principal{Org: "two", Scopes: []tenant.Scope{tenant.ScopeRun}}, nil
	case keyApprove:
		return tenant.Principal{Org: "one", Scopes: []tenant.Scope{tenant.ScopeApprove}}, nil
	}
	return tenant.Principal{}, fault.New(fault.Unauthenticated, "This key is not valid.").WithCode("invalid_api_key")
}

// house is a door over fakes, served on loopback, beside another vendor's routes of the same paths.
type house struct {
	agent  *fakeAgent
	routes *gateway.Dialect
	url    string
}

func open(t testing.TB, ping time.Duration) *house {
	t.Helper()
	h := &house{agent: &fakeAgent{}}
	g := gateway.New(gateway.Options{Tenants: keys{}, MaxBody: 1 << 20})
	other := func(w http.ResponseWriter, _ *http.Request, _ tenant.Principal) error {
		_, err := io.WriteString(w, "the other vendor's")
		return err
	}
	for _, pattern := range []string{"GET /v1/models", "GET /v1/models/{id...}", "GET /v1/files/{id}", "GET /v1/skills"} {
		g.Handle(pattern, tenant.ScopeRun, other, nil)
	}
	h.routes = Register(g, Door{Agent: h.agent, Containers: fakeContainers{}, Models: fakeModels{}, Ping: ping})
	s := httptest.NewUnstartedServer(g)
	s.Config = gateway.NewServer(g, nil)
	s.Start()
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

// do sends a request as an SDK does and returns the answer with its body read.
func (h *house) do(t testing.TB, method, path, body string, mutate func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", keyOne)
	req.Header.Set("Anthropic-Version", wire.Version2023)
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

// refusal reads an error's envelope.
func refusal(t testing.TB, res *http.Response, body string) wire.Error {
	t.Helper()
	var e wire.ErrorBody
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil || e.Type != "error" || e.RequestID == "" || e.RequestID != res.Header.Get("Request-Id") {
		t.Errorf("not the vendor's envelope: %v %s, request-id %q", err, body, res.Header.Get("Request-Id"))
	}
	return e.Error
}

const hello = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`

// fakeAgent hands out runs that play what a test prepared.
type fakeAgent struct {
	mu   sync.Mutex
	play func(*player)
	hold bool            // the run ends when it is cancelled
	late <-chan struct{} // nil, or closed when the run may end
	err  error
	last *openai.CreateRequest
	run  *fakeRun
}

func (a *fakeAgent) Create(_ context.Context, _ tenant.Principal, req *openai.CreateRequest) (Run, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = req
	if a.err != nil {
		return nil, a.err
	}
	p := &player{}
	if a.play != nil {
		a.play(p)
	}
	a.run = &fakeRun{frames: p.frames, hold: a.hold, late: a.late, failure: p.failure, cancelled: make(chan struct{})}
	return a.run, nil
}

// player makes the frames of a run.
type player struct {
	frames  []response.Frame
	object  openai.Response
	failure error // in place of an end
	places  int
}

func (p *player) emit(ev openai.Event) {
	ev.SetSequence(int64(len(p.frames)))
	raw, err := openai.AppendEvent(nil, ev)
	if err != nil {
		panic(err)
	}
	p.frames = append(p.frames, response.Frame{Seq: int64(len(p.frames)), Type: ev.EventType(), Data: raw})
}

// turn plays one turn of a model's, as a provider writes it. Its items go out as they come.
func (p *player) turn(say func(*llm.Turn)) {
	base := p.places
	t := llm.NewTurn(func(ev openai.Event, err error) bool {
		switch e := ev.(type) {
		case *openai.Lifecycle:
			return true
		case *openai.ItemEvent:
			e.OutputIndex += base
			p.places = max(p.places, e.OutputIndex+1)
			if e.Type == openai.EventItemDone {
				p.object.Output = append(p.object.Output, e.Item)
			}
		case *openai.PartEvent:
			e.OutputIndex += base
		case *openai.DeltaEvent:
			e.OutputIndex += base
		case *openai.DoneEvent:
			e.OutputIndex += base
		}
		p.emit(ev)
		return true
	}, counter())
	say(t)
}

// counter mints ids that are the same in every run.
func counter() func(prefix string) string {
	n := 0
	return func(prefix string) string { n++; return prefix + "_" + string(rune('a'+n-1)) }
}

// end plays the terminal event.
func (p *player) end(status, reason string, usage *openai.Usage) {
	r := p.object
	r.ID, r.Status, r.Usage = "resp_1", status, usage
	typ := openai.EventCompleted
	switch status {
	case openai.Incomplete, openai.Cancelled:
		typ = openai.EventIncomplete
		r.IncompleteDetails = &openai.IncompleteDetails{Reason: reason}
	case openai.Failed:
		typ = openai.EventFailed
		r.Error = &openai.ResponseError{Code: reason, Message: "the provider said no"}
	}
	p.emit(openai.NewLifecycle(typ, r))
}

type fakeRun struct {
	frames    []response.Frame
	hold      bool
	late      <-chan struct{}
	failure   error
	cancelled chan struct{}
	once      sync.Once
	cause     error
}

func (r *fakeRun) ID() string { return "resp_1" }

func (r *fakeRun) Cancel(cause error) { r.once.Do(func() { r.cause = cause; close(r.cancelled) }) }

func (r *fakeRun) Subscribe(int64) Stream { return &fakeStream{run: r} }

// fakeStream hands out one frame at a time.
type fakeStream struct {
	run *fakeRun
	at  int
}

func (s *fakeStream) Close() {}

func (s *fakeStream) Next(ctx context.Context) ([]response.Frame, error) {
	if s.at < len(s.run.frames) {
		s.at++
		return s.run.frames[s.at-1 : s.at], nil
	}
	if s.run.late != nil {
		<-s.run.late
	}
	if s.run.failure != nil {
		return nil, s.run.failure
	}
	if s.run.hold {
		select {
		case <-s.run.cancelled:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, io.EOF
}

type fakeModels struct{}

func (fakeModels) Models(context.Context, string) []openai.Model {
	return []openai.Model{{ID: "a/one", Created: 1000}, {ID: "a/shared"}, {ID: "b/shared"}, {ID: "b/deep/name"}}
}

// fakeContainers has one container of organisation one, with one file.
type fakeContainers struct{}

var errNoFile = fault.New(fault.NotFound, "File was not found.").WithCode("file_not_found")

func (fakeContainers) Get(_ context.Context, org, id string) (container.Container, error) {
	if org != "one" || id != "cntr_1" {
		return container.Container{}, fault.New(fault.NotFound, "There is no such container.")
	}
	return container.Container{ID: id, Org: org, Status: container.Active, IdleTTL: time.Minute, LastActive: time.Unix(2000, 0)}, nil
}

func (fakeContainers) FileByID(_ context.Context, org, fileID string) (container.File, error) {
	if org != "one" || fileID != "cfile_1" {
		return container.File{}, errNoFile
	}
	return container.File{ID: fileID, ContainerID: "cntr_1", Path: "/mnt/data/out/a.csv", Bytes: 3, Created: time.Unix(3000, 0), ContentType: "text/csv"}, nil
}

func (c fakeContainers) OpenFile(ctx context.Context, org, id, fileID string) (io.ReadSeekCloser, container.File, error) {
	f, err := c.FileByID(ctx, org, fileID)
	return closing{bytes.NewReader([]byte("a,b"))}, f, err
}

type closing struct{ io.ReadSeeker }

func (closing) Close() error { return nil }
