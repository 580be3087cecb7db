package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// handshake makes a request that asks for an upgrade.
func handshake(r *http.Request) {
	r.Body, r.ContentLength = nil, 0
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
}

// socket is a client's side.
type socket struct {
	*websocket.Conn
	t *testing.T
}

func dial(t *testing.T, url string) socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url+"/v1/responses", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + keyOne}}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(-1)
	t.Cleanup(func() { c.CloseNow() })
	return socket{c, t}
}

func (s socket) say(text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patient)
	defer cancel()
	if err := s.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s socket) hear() string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patient)
	defer cancel()
	kind, text, err := s.Read(ctx)
	if err != nil || kind != websocket.MessageText {
		s.t.Fatalf("%v: %s, %v", kind, text, err)
	}
	return string(text)
}

// closed is how the other side says goodbye.
func (s socket) closed() websocket.StatusCode {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patient)
	defer cancel()
	_, text, err := s.Read(ctx)
	if err == nil {
		s.t.Fatalf("more is said: %s", text)
	}
	return websocket.CloseStatus(err)
}

// refused is an error event.
type refused struct {
	Type   string
	Status int
	Number *int64 `json:"sequence_number"`
	Lane   string `json:"stream_id"`
	Error  struct{ Type, Code, Message, Param string }
}

func (s socket) refusal() refused {
	s.t.Helper()
	text := s.hear()
	var r refused
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Type != "error" || r.Error.Message == "" || r.Error.Type == "" {
		s.t.Fatalf("this is no error event: %s, %v", text, err)
	}
	return r
}

// ran is a run that has said everything. What is not stored has an input and an answer.
func ran(id, status string, stored bool) *fakeRun {
	run := newRun()
	run.input = []wire.Item{wire.NewItem(wire.Message{Type: "message", ID: "in_" + id, Role: "user"})}
	run.final = &wire.Response{ID: id, Object: "response", Status: status, Store: stored, ContainerID: "cntr_" + id,
		Output: []wire.Item{wire.NewItem(wire.Message{Type: "message", ID: "out_" + id, Role: "assistant"})}}
	run.play(0, "response.created", map[string]string{wire.Completed: wire.EventCompleted, wire.Incomplete: wire.EventIncomplete,
		wire.Cancelled: wire.EventIncomplete, wire.Failed: wire.EventFailed}[status])
	close(run.frames)
	return run
}

func TestASocketSaysWhatAStreamSays(t *testing.T) {
	h := open(t, time.Minute)
	run := newRun()
	run.play(0, "response.created", "response.in_progress")
	run.play(2, "response.completed")
	close(run.frames)
	h.agent.run = run
	s := dial(t, h.url)
	for range 2 { // one after the other
		s.say(`{"type":"response.create","model":"m","stream":false,"store":true}`)
		for line := range strings.Lines(golden) {
			if data, is := strings.CutPrefix(line, "data: "); is && !strings.Contains(data, "[DONE]") {
				if got := s.hear(); got+"\n" != data {
					t.Errorf("the socket says %s, a stream %s", got, data)
				}
			}
		}
		h.agent.mu.Lock()
		again := newRun()
		again.play(0, "response.created", "response.in_progress")
		again.play(2, "response.completed")
		close(again.frames)
		h.agent.run = again
		if !h.agent.last.Streams() || h.agent.last.Model != "m" {
			t.Errorf("the agent was asked for %+v", h.agent.last)
		}
		h.agent.mu.Unlock()
	}
	select {
	case <-run.cancelled:
		t.Error("a response that was read to its end was cancelled")
	default:
	}
}

func TestASocketRefusesAndGoesOn(t *testing.T) {
	h := open(t, time.Minute)
	h.agent.make = func(req *wire.CreateRequest) (*fakeRun, error) {
		if req.Model == "gone" {
			return nil, fault.New(fault.NotFound, "Previous response not found.").WithCode("previous_response_not_found").WithParam("previous_response_id")
		}
		if req.Model == "broken" {
			return nil, errBroken
		}
		return ran("resp_1", wire.Completed, true), nil
	}
	s := dial(t, h.url)
	for _, c := range []struct {
		name, said  string
		status      int
		code, param string
		lane        string
	}{
		{"nothing", ``, 400, "invalid_body", "", ""},
		{"no JSON", `hello`, 400, "invalid_body", "", ""},
		{"half of it", `{"type":"response.create",`, 400, "invalid_body", "", ""},
		{"a list", `[{"type":"response.create"}]`, 400, "invalid_body", "", ""},
		{"no type", `{"model":"m"}`, 400, "missing_required_parameter", "type", ""},
		{"a type that is none", `{"type":7}`, 400, "invalid_type", "type", ""},
		{"an event that nobody knows", `{"type":"response.cancel"}`, 400, "unknown_event_type", "type", ""},
		{"one of another API", `{"type":"session.update","stream_id":"a"}`, 400, "unknown_event_type", "type", "a"},
		{"steering", `{"type":"response.steer","previous_response_id":"resp_1","input":"left"}`, 400, "steering_not_supported", "type", ""},
		{"a stream of its own", `{"type":"response.create","model":"m","stream_id":"left.1"}`, 400, "unsupported_parameter", "stream_id", "left.1"},
		{"a field of another type", `{"type":"response.create","model":7}`, 400, "invalid_type", "model", ""},
		{"one in a list", `{"type":"response.create","model":"m","tools":[{"type":"function"},{"type":1}]}`, 400, "invalid_type", "tools[1].type", ""},
		{"what the agent refuses", `{"type":"response.create","model":"gone","previous_response_id":"x"}`, 404, "previous_response_not_found", "previous_response_id", ""},
		{"what breaks", `{"type":"response.create","model":"broken"}`, 500, "", "", ""},
	} {
		s.say(c.said)
		if r := s.refusal(); r.Status != c.status || r.Error.Code != c.code || r.Error.Param != c.param || r.Lane != c.lane || r.Number != nil ||
			strings.Contains(r.Error.Message, errBroken.Error()) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	s.say(`{"type":"response.create","model":"m","stream_id":null}`)
	s.hear()
	if got := s.hear(); !strings.Contains(got, "response.completed") {
		t.Errorf("after the refusals: %s", got)
	}
}

func TestAResponseThatBreaksOffIsTold(t *testing.T) {
	h := open(t, time.Minute)
	run := newRun()
	run.failure = fault.Wrap(fault.Unavailable, errBroken, "The log broke.")
	run.play(0, "response.created", "response.in_progress")
	close(run.frames)
	h.agent.make = func(*wire.CreateRequest) (*fakeRun, error) { return run, nil }
	s := dial(t, h.url)
	s.say(`{"type":"response.create","model":"m"}`)
	s.hear()
	s.hear()
	if r := s.refusal(); r.Status != 503 || r.Error.Code != "unavailable" || r.Number == nil || *r.Number != 1 || !strings.Contains(r.Error.Message, "The log broke.") {
		t.Errorf("%+v", r)
	}
	awaitCancel(t, run)
	run = ran("resp_2", wire.Completed, true)
	s.say(`{"type":"response.create","model":"m"}`)
	s.hear()
	if got := s.hear(); !strings.Contains(got, "response.completed") {
		t.Errorf("the next response: %s", got)
	}
}

// TestASocketKeepsWhatIsNotStored: what a connection knows is the previous response of the next message, until that fails.
func TestASocketKeepsWhatIsNotStored(t *testing.T) {
	h := open(t, time.Minute)
	var run *fakeRun
	var failure error
	h.agent.make = func(*wire.CreateRequest) (*fakeRun, error) { return run, failure }
	s := dial(t, h.url)
	turn := func(previous, id, status string, stored bool, err error) (known string) {
		t.Helper()
		run, failure = ran(id, status, stored), err
		s.say(fmt.Sprintf(`{"type":"response.create","model":"m","store":%v,"previous_response_id":%q}`, stored, previous))
		if err != nil {
			s.refusal()
		} else {
			s.hear()
			s.hear()
		}
		h.agent.mu.Lock()
		defer h.agent.mu.Unlock()
		c := h.agent.last.Carried
		if c == nil {
			return ""
		}
		for _, i := range c.Items {
			known += i.ID + " "
		}
		return known + c.ContainerID
	}
	refusal := fault.New(fault.Invalid, "No tool call found.")
	for _, c := range []struct {
		name, previous, id, status string
		stored                     bool
		err                        error
		want                       string
	}{
		{name: "what nobody knows", previous: "other", id: "one", status: wire.Completed},
		{name: "the one before", previous: "one", id: "two", status: wire.Incomplete, want: "in_one out_one cntr_one"},
		{name: "the whole chain", previous: "two", id: "three", status: wire.Cancelled, want: "in_one out_one in_two out_two cntr_two"},
		{name: "one that was cancelled", previous: "three", id: "four", status: wire.Completed},
		{name: "an earlier one", previous: "one", id: "five", status: wire.Completed, stored: true, want: "in_one out_one cntr_one"},
		{name: "one that is stored", previous: "five", id: "six", status: wire.Completed},
		{name: "a refusal", previous: "two", id: "", err: refusal, want: "in_one out_one in_two out_two cntr_two"},
		{name: "what was refused", previous: "two", id: "seven", status: wire.Completed},
		{name: "a failure", previous: "one", id: "eight", status: wire.Failed, want: "in_one out_one cntr_one"},
		{name: "what failed", previous: "one", id: "nine", status: wire.Completed},
		{name: "one that failed itself", previous: "eight", id: "ten", status: wire.Completed},
		{name: "what went on from nothing known", previous: "four", id: "eleven", status: wire.Completed, want: "in_four out_four cntr_four"},
	} {
		if got := turn(c.previous, c.id, c.status, c.stored, c.err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	other := dial(t, h.url)
	run, failure = ran("x", wire.Completed, true), nil
	other.say(`{"type":"response.create","model":"m","previous_response_id":"four"}`)
	other.hear()
	h.agent.mu.Lock()
	defer h.agent.mu.Unlock()
	if h.agent.last.Carried != nil {
		t.Error("another connection knows what this one was told")
	}
}

func TestAClientOfASocketThatGoesAway(t *testing.T) {
	for _, background := range []bool{false, true} {
		h := open(t, time.Minute)
		run := newRun()
		run.play(0, "response.created")
		h.agent.run = run
		s := dial(t, h.url)
		s.say(fmt.Sprintf(`{"type":"response.create","model":"m","background":%v}`, background))
		s.hear()
		s.CloseNow()
		if !background {
			awaitCancel(t, run)
			continue
		}
		// The end of the connection is seen by a second one's turn at the latest: the gateway waits for it below.
		if err := h.gateway.CloseSockets()(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-run.cancelled:
			t.Error("a background response ended with its connection")
		default:
		}
	}
}

func TestAStopLetsAResponseEnd(t *testing.T) {
	h := open(t, time.Minute)
	run := newRun()
	run.play(0, "response.created")
	h.agent.make = func(*wire.CreateRequest) (*fakeRun, error) { return run, nil }
	s := dial(t, h.url)
	s.say(`{"type":"response.create","model":"m"}`)
	s.hear()
	wait := h.gateway.CloseSockets()
	run.play(1, "response.completed")
	close(run.frames)
	if got := s.hear(); !strings.Contains(got, "response.completed") {
		t.Errorf("a response that ran: %s", got)
	}
	if code := s.closed(); code != websocket.StatusServiceRestart {
		t.Errorf("closed with %d", code)
	}
	if err := wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// fickle is a key that can be revoked.
type fickle struct{ revoked atomic.Bool }

func (k *fickle) Authenticate(ctx context.Context, token string) (tenant.Principal, error) {
	if k.revoked.Load() {
		token = "revoked"
	}
	return keys{}.Authenticate(ctx, token)
}

func TestARevokedKeyEndsItsSocket(t *testing.T) {
	k := &fickle{}
	g := gateway.New(gateway.Options{Tenants: k})
	agent := &fakeAgent{run: ran("resp_1", wire.Completed, true)}
	Register(g, Door{Agent: agent, Responses: &fakeResponses{}, Containers: &fakeContainers{}, Models: fakeModels{}})
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	s := dial(t, server.URL)
	s.say(`{"type":"response.create","model":"m"}`)
	s.hear()
	s.hear()
	k.revoked.Store(true)
	agent.mu.Lock()
	agent.last = nil
	agent.mu.Unlock()
	s.say(`{"type":"response.create","model":"m"}`)
	if r := s.refusal(); r.Status != 401 || r.Error.Code != "invalid_api_key" {
		t.Errorf("%+v", r)
	}
	if code := s.closed(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d", code)
	}
	agent.mu.Lock()
	defer agent.mu.Unlock()
	if agent.last != nil {
		t.Error("the agent was asked")
	}
}
