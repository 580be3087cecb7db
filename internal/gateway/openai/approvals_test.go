package openai

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// bench is a house with the real rooms of responses and approvals, and an agent whose every response waits for a person.
type bench struct {
	*house
	responses *response.Service
	questions *approvals.Service
	bell      chan time.Time
}

// openDesk opens one.
func openDesk(t testing.TB) *bench {
	t.Helper()
	db, _, _ := rooms(t)
	c := &bench{bell: make(chan time.Time, 1)}
	var err error
	if c.responses, err = response.New(t.Context(), response.Options{DB: db}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.responses.Close(ctx)
	})
	if c.questions, err = approvals.New(t.Context(), approvals.Options{DB: db}); err != nil {
		t.Fatal(err)
	}
	c.house = openOver(t, 0, func(d *Door) {
		real := Rooms(waiting{c: c}, c.responses, d.Containers, d.Models)
		d.Agent, d.Responses, d.Approvals = real.Agent, real.Responses, c.questions
		d.Bell = func() <-chan time.Time { return c.bell }
	})
	return c
}

// waiting begins responses that ask and are parked.
type waiting struct {
	Creator
	c *bench
}

func (w waiting) Create(ctx context.Context, p tenant.Principal, req *wire.CreateRequest) (*response.Run, error) {
	ctx = context.WithoutCancel(ctx) // as the agent's effects are
	run, err := w.c.responses.Begin(ctx, response.Begin{Org: p.Org, KeyID: p.KeyID, Store: true, Background: req.InBackground(),
		Work: func() ([]byte, error) { return []byte("work"), nil }})
	if err != nil {
		return nil, err
	}
	call := wire.ShellCall{Type: wire.TypeShellCall, ID: "sh_1", CallID: "call_1", Status: wire.InProgress, Action: wire.ShellAction{Commands: []string{"make"}}}
	if err := run.Announce(); err != nil {
		return nil, err
	}
	if err := run.Emit(wire.NewItemEvent(wire.EventItemAdded, 0, wire.NewItem(call))); err != nil {
		return nil, err
	}
	question := approvals.Approval{ID: id.New(id.Approval), Org: p.Org, KeyID: p.KeyID, Item: call.ID, Call: call.CallID, Container: "cntr_1", Digest: "sha256:1",
		Question: approvals.Question{Cwd: "/mnt/data", Commands: []approvals.Command{{Command: "make", Asks: true, Reasons: []string{"It is not proven."}}}}}
	if err := w.c.questions.Ask(ctx, run.ID(), []approvals.Approval{question}); err != nil {
		return nil, err
	}
	call.Approval = &wire.ItemApproval{ID: question.ID, Status: "pending"}
	if err := run.Show(map[int]wire.Item{0: wire.NewItem(call)}); err != nil {
		return nil, err
	}
	return run, run.Park(ctx)
}

// goOn wakes a response and ends it as the agent would.
func (c *bench) goOn(t testing.TB, id string) {
	t.Helper()
	c.end(t, id, wire.Completed)
}

// end ends the next response that is to go on, woken if it is named, and returns why its context ended before, if it did.
func (c *bench) end(t testing.TB, wake, status string) error {
	t.Helper()
	for deadline := time.Now().Add(patient); ; time.Sleep(time.Millisecond) {
		if _, err := c.responses.Wake(t.Context(), wake); err != nil { // it may not be parked yet
			t.Fatal(err)
		}
		claim, err := c.responses.Claim(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		if claim != nil {
			cause := context.Cause(claim.Run.Context())
			if err := claim.Run.Finish(t.Context(), response.End{Status: status}); err != nil {
				t.Fatal(err)
			}
			return cause
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is to go on")
		}
	}
}

func as(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// pending returns the only open question.
func (c *bench) pending(t testing.TB) wire.Approval {
	t.Helper()
	var page struct{ Data []wire.Approval }
	for deadline := time.Now().Add(patient); len(page.Data) != 1; time.Sleep(time.Millisecond) {
		res, body := c.do(t, "GET", "/v1/approvals?status=pending", nil, as(keyApprove))
		if err := json.Unmarshal([]byte(body), &page); err != nil || res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		if time.Now().After(deadline) {
			t.Fatalf("questions: %s", body)
		}
	}
	return page.Data[0]
}

func TestApprovalsAPI(t *testing.T) {
	c := openDesk(t)
	if res, body := c.do(t, "POST", "/v1/responses", []byte(`{"model":"m","input":"hi","background":true}`), nil); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	q := c.pending(t)
	if q.Object != "approval" || q.Status != "pending" || q.ContainerID != "cntr_1" || len(q.Commands) != 1 || q.Commands[0].Command != "make" || q.DecidedAt != nil ||
		q.ExpiresAt-q.CreatedAt != 3600 {
		t.Errorf("the question: %+v", q)
	}
	at := "/v1/approvals/" + q.ID
	for _, refused := range []struct {
		method, path, body, key string
		status                  int
	}{
		{"GET", "/v1/approvals", "", keyOne, 403},
		{"GET", at, "", keyOne, 403},
		{"POST", at, `{"decision":"approve"}`, keyOne, 403},
		{"GET", "/v1/approvals/appr_none", "", keyApprove, 404},
		{"POST", "/v1/approvals/appr_none", `{"decision":"approve"}`, keyApprove, 404},
		{"POST", at, `{"decision":"perhaps"}`, keyApprove, 400},
		{"POST", at, `{"decision":true}`, keyApprove, 400},
		{"POST", at, `{}`, keyApprove, 400},
		{"POST", at, ``, keyApprove, 400},
		{"GET", "/v1/approvals?status=open", "", keyApprove, 400},
		{"GET", "/v1/approvals?limit=0", "", keyApprove, 400},
		{"DELETE", at, "", keyApprove, 405},
	} {
		if res, text := c.do(t, refused.method, refused.path, []byte(refused.body), as(refused.key)); res.StatusCode != refused.status {
			t.Errorf("%s %s %s: %d %s, want %d", refused.method, refused.path, refused.body, res.StatusCode, text, refused.status)
		}
	}
	res, body := c.do(t, "POST", at, []byte(`{"decision":"deny","reason":"not <today>"}`), as(keyApprove))
	var answered wire.Approval
	if err := json.Unmarshal([]byte(body), &answered); err != nil || res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	if answered.Status != "denied" || answered.Reason == nil || *answered.Reason != "not <today>" || answered.DecidedBy == nil || *answered.DecidedBy != "key_approve" ||
		answered.DecidedAt == nil || answered.Scope != nil {
		t.Errorf("answered: %s", body)
	}
	if res, body := c.do(t, "POST", at, []byte(`{"decision":"approve"}`), as(keyApprove)); res.StatusCode != 409 {
		t.Errorf("answered twice: %d %s", res.StatusCode, body)
	}
	if _, again := c.do(t, "GET", at, nil, as(keyApprove)); again != body {
		t.Errorf("read again: %s", again)
	}
}

func TestAClientWithoutAStreamIsAnsweredWhileItWaits(t *testing.T) {
	c := openDesk(t)
	c.bell <- time.Time{}
	res, body := c.do(t, "POST", "/v1/responses", []byte(`{"model":"m","input":"hi"}`), nil)
	var r wire.Response
	if err := json.Unmarshal([]byte(body), &r); err != nil || res.StatusCode != 200 || r.Status != wire.InProgress || !strings.Contains(body, `"approval":{"id":"appr_`) {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	if claim, err := c.responses.Claim(t.Context(), false); claim != nil || err != nil {
		t.Fatalf("its answer has cancelled it: %+v, %v", claim, err)
	}
	c.goOn(t, r.ID)
	if _, body := c.do(t, "GET", "/v1/responses/"+r.ID, nil, nil); !strings.Contains(body, `"status":"completed"`) {
		t.Errorf("polled: %s", body)
	}
}

func TestAClientWithoutAStreamThatIsApprovedInTime(t *testing.T) {
	c := openDesk(t)
	answer := c.post(t.Context(), `{"model":"m","input":"hi"}`)
	c.goOn(t, c.pending(t).ResponseID)
	if body := <-answer; !strings.Contains(body, `"status":"completed"`) {
		t.Error(body)
	}
}

// post creates a response beside the test, which gets the body of the answer.
func (c *bench) post(ctx context.Context, body string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		req, err := http.NewRequestWithContext(ctx, "POST", c.url+"/v1/responses", strings.NewReader(body))
		if err != nil {
			answer <- err.Error()
			return
		}
		req.Header.Set("Authorization", "Bearer "+keyOne)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			text = append(text, err.Error()...)
		}
		answer <- string(text)
	}()
	return answer
}

// A stream stays: it has seen the question, and goes on to the end.
func TestAStreamWaitsForAnApproval(t *testing.T) {
	c := openDesk(t)
	answer := c.post(t.Context(), `{"model":"m","input":"hi","stream":true}`)
	c.goOn(t, c.pending(t).ResponseID)
	body := <-answer
	for _, want := range []string{`"approval":{"id":"appr_`, "event: response.completed", "data: [DONE]"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func TestAClientThatHangsUpWhileItWaitsCancels(t *testing.T) {
	for name, stream := range map[string]string{"with a stream": "true", "without": "false"} {
		t.Run(name, func(t *testing.T) {
			c := openDesk(t)
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			gone := c.post(ctx, `{"model":"m","input":"hi","stream":`+stream+`}`)
			c.pending(t)
			hangUp()
			<-gone
			if cause := c.end(t, "", wire.Cancelled); fault.KindOf(cause) != fault.Cancelled {
				t.Errorf("it goes on: %v", cause)
			}
		})
	}
}
