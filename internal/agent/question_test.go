package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// desk is where the servers of a house ask, one after the other: a policy, a clock, and what was told.
type desk struct {
	mu      sync.Mutex
	policy  approvals.Policy
	late    time.Duration // how much later it is than the machine's clock says
	service *approvals.Service
	decided []approvals.Approval
}

func newDesk(ask approval.Ask) *desk { return &desk{policy: approvals.Policy{Ask: ask}} }

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Add(d.late)
}

// questions opens the approvals of the next server. A server before it that is only thought dead looks for no answers.
func (h *house) questions() *approvals.Service {
	if h.asks == nil {
		return nil
	}
	if _, before := h.now(); before != nil {
		before.stop()
	}
	d := h.asks
	d.mu.Lock()
	policy := d.policy
	d.mu.Unlock()
	service, err := approvals.New(context.Background(), approvals.Options{DB: h.db, Clock: d.clock, Policies: approvals.Policies{Default: policy},
		Decided: func(a approvals.Approval) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.decided = append(d.decided, a)
		}})
	if err != nil {
		h.t.Error(err)
	}
	d.mu.Lock()
	d.service = service
	d.mu.Unlock()
	return service
}

func (d *desk) now() *approvals.Service {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.service
}

var person = tenant.Principal{Org: "org_a", KeyID: "key_person", Scopes: []tenant.Scope{tenant.ScopeApprove}}

// pending waits until so many questions are open and returns them, the oldest first.
func (d *desk) pending(t testing.TB, n int) (list []approvals.Approval) {
	t.Helper()
	until(t, fmt.Sprintf("%d open questions", n), func() bool {
		var err error
		list, _, err = d.now().List(t.Context(), principal.Org, approvals.Page{Status: "pending", Page: store.Page{Order: "asc"}})
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == n
	})
	return list
}

func (d *desk) answer(t testing.TB, id string, decision approvals.Decision, reason string) {
	t.Helper()
	if _, err := d.now().Answer(t.Context(), person, id, decision, reason); err != nil {
		t.Fatal(err)
	}
}

// parked waits until a response has given its owner back.
func (h *house) parked(t testing.TB, id string) {
	t.Helper()
	until(t, id+" to be parked", func() bool {
		var owner string
		if err := h.db.Read().QueryRow(`SELECT owner FROM response WHERE id = $1`, id).Scan(&owner); err != nil {
			t.Fatal(err)
		}
		return owner == "parked"
	})
}

// riskyGround has a model that wants to remove something, and then says so.
func riskyGround(t testing.TB) *ground {
	g := newGround(t)
	g.scripts["rm -rf build"] = script{deltas: []container.Delta{{Stdout: "gone"}}}
	g.scripts["ls"] = script{deltas: []container.Delta{{Stdout: "files"}}}
	g.rounds[0] = func(t *llm.Turn) {
		t.Call("shell").Write(argumentsOf("rm -rf build", "ls"))
		t.Complete(usage(10, 5))
	}
	g.rounds[1] = func(t *llm.Turn) {
		t.Text([]byte("Done."))
		t.Complete(usage(10, 5))
	}
	return g
}

const riskyRequest = `{"model":"m","input":"clean up","tools":[{"type":"shell"}],"background":true}`

// approvalOf is what a response shows of the question of its call.
func approvalOf(t testing.TB, r *openai.Response) (shown openai.ItemApproval) {
	t.Helper()
	for _, i := range r.Output {
		var c openai.ShellCall
		if i.Type != openai.TypeShellCall {
			continue
		}
		if err := i.Decode(&c); err != nil {
			t.Fatal(err)
		}
		if c.Approval != nil {
			return *c.Approval
		}
	}
	return shown
}

// outputsOf are the entries of all outputs.
func outputsOf(t testing.TB, r *openai.Response) (entries []openai.ShellOutput) {
	t.Helper()
	for _, i := range r.Output {
		var o shellOutput
		if i.Type != openai.TypeShellCallOutput {
			continue
		}
		if err := i.Decode(&o); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, o.Output...)
	}
	return entries
}

// told is all that the model has read.
func (g *ground) told() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	for _, r := range g.asked {
		for _, i := range r.Items {
			b.Write(i.Raw)
		}
	}
	return b.String()
}

func TestNothingRunsBeforeItIsApproved(t *testing.T) {
	d := newDesk(approval.OnRequest)
	h := openHouse(t, riskyGround(t), d)
	r := h.play(t, riskyRequest)
	q := d.pending(t, 1)[0]
	h.parked(t, r.id)
	room, a := h.now()
	resp, err := room.Get(t.Context(), principal.Org, r.id)
	if err != nil {
		t.Fatal(err)
	}
	if got := approvalOf(t, resp); resp.Status != openai.InProgress || got != (openai.ItemApproval{ID: q.ID, Status: "pending"}) {
		t.Errorf("while it waits: %s, %+v", resp.Status, got)
	}
	if q.Response != r.id || q.KeyID != principal.KeyID || q.Digest == "" || len(q.Question.Commands) != 2 || q.Question.Commands[0].Command != "rm -rf build" {
		t.Errorf("the question: %+v", q)
	}
	until(t, "its worker to be free", func() bool {
		a.crew.mu.Lock()
		defer a.crew.mu.Unlock()
		return a.crew.free == defaultWorkers
	})
	if n := h.ground.started("rm -rf build") + h.ground.started("ls"); n != 0 {
		t.Errorf("%d commands were started before the answer", n)
	}
	d.answer(t, q.ID, approvals.Approve, "fine")
	log, resp := h.await(r.id)
	checkLog(t, log)
	if got := approvalOf(t, resp); resp.Status != openai.Completed || got.Status != "approved" {
		t.Errorf("after the answer: %s, %+v", resp.Status, got)
	}
	if h.ground.started("rm -rf build") != 1 || h.ground.started("ls") != 1 {
		t.Error("what was approved did not run once")
	}
	if resp.Usage == nil || resp.Usage.TotalTokens != 30 {
		t.Errorf("usage %+v", resp.Usage)
	}
	if len(d.decided) != 1 || d.decided[0].By != person.KeyID || d.decided[0].Reason != "fine" {
		t.Errorf("told to the audit: %+v", d.decided)
	}
	var statuses []string
	for _, f := range log {
		if f.Type == openai.EventInProgress {
			var ev openai.Lifecycle
			if err := json.Unmarshal(f.Data, &ev); err != nil {
				t.Fatal(err)
			}
			statuses = append(statuses, approvalOf(t, &ev.Response).Status)
		}
	}
	if !slices.Equal(statuses, []string{"", "pending", "approved"}) {
		t.Errorf("response.in_progress tells of %q", statuses)
	}
}

func TestADenialReachesTheModel(t *testing.T) {
	d := newDesk(approval.OnRequest)
	h := openHouse(t, riskyGround(t), d)
	r := h.play(t, riskyRequest)
	d.answer(t, d.pending(t, 1)[0].ID, approvals.Deny, "the build is needed")
	log, resp := h.await(r.id)
	checkLog(t, log)
	entries := outputsOf(t, resp)
	if resp.Status != openai.Completed || approvalOf(t, resp).Status != "denied" || len(entries) != 2 {
		t.Fatalf("%s, %+v, %+v", resp.Status, approvalOf(t, resp), entries)
	}
	for _, e := range entries {
		if *e.Outcome.ExitCode != 126 || !strings.Contains(e.Stderr, "the build is needed") || e.Receipt.Reason != reasonDenied {
			t.Errorf("entry %+v", e)
		}
	}
	if told := h.ground.told(); !strings.Contains(told, "the build is needed") || !strings.Contains(told, "126") {
		t.Errorf("the model was told %s", told)
	}
	if n := h.ground.started("rm -rf build") + h.ground.started("ls"); n != 0 {
		t.Errorf("%d commands of a denied call were started", n)
	}
}

func TestAnUnansweredQuestionIsDenied(t *testing.T) {
	d := newDesk(approval.OnRequest)
	h := openHouse(t, riskyGround(t), d)
	r := h.play(t, riskyRequest)
	q := d.pending(t, 1)[0]
	d.mu.Lock()
	d.late = approvals.DefaultExpiry
	d.mu.Unlock()
	d.now().Nudge() // the clock would
	_, resp := h.await(r.id)
	if entries := outputsOf(t, resp); resp.Status != openai.Completed || approvalOf(t, resp).Status != "expired" || len(entries) != 2 ||
		*entries[0].Outcome.ExitCode != 126 || !strings.Contains(entries[0].Stderr, "nobody gave it in 1h") {
		t.Errorf("%s, %+v, %+v", resp.Status, approvalOf(t, resp), entries)
	}
	if h.ground.started("rm -rf build") != 0 {
		t.Error("it was run")
	}
	if _, err := d.now().Answer(t.Context(), person, q.ID, approvals.Approve, ""); fault.KindOf(err) != fault.Conflict {
		t.Errorf("answered too late: %v", err)
	}
}

func TestAnsweredAfterARestart(t *testing.T) {
	for name, answerFirst := range map[string]bool{"by the next server": false, "while there is none": true} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(approval.OnRequest)
			h := openHouse(t, riskyGround(t), d)
			r := h.play(t, riskyRequest)
			q := d.pending(t, 1)[0]
			h.parked(t, r.id)
			if answerFirst {
				_, a := h.now()
				a.stop()
				d.answer(t, q.ID, approvals.Approve, "")
			}
			h.open()
			if !answerFirst {
				d.answer(t, q.ID, approvals.Approve, "")
			}
			log, resp := h.await(r.id)
			checkLog(t, log)
			if resp.Status != openai.Completed || h.ground.started("rm -rf build") != 1 {
				t.Errorf("%s, started %d times", resp.Status, h.ground.started("rm -rf build"))
			}
		})
	}
}

func TestApprovedForTheContainer(t *testing.T) {
	d := newDesk(approval.OnRequest)
	g := riskyGround(t)
	g.scripts["rm -rf build/x"] = script{}
	again := func(commands ...string) round {
		return func(t *llm.Turn) {
			t.Call("shell").Write(argumentsOf(commands...))
			t.Complete(usage(10, 5))
		}
	}
	g.rounds[1], g.rounds[3] = again("rm -rf build"), g.rounds[1]
	g.rounds[2] = again("rm -rf build/x") // another: it is asked
	h := openHouse(t, g, d)
	r := h.play(t, riskyRequest)
	d.answer(t, d.pending(t, 1)[0].ID, approvals.ApproveForContainer, "")
	q := d.pending(t, 1)[0] // not for what is granted, but for what comes next
	if q.Question.Commands[0].Command != "rm -rf build/x" || g.started("rm -rf build") != 2 {
		t.Errorf("asked about %q when the granted one had run %d times", q.Question.Commands[0].Command, g.started("rm -rf build"))
	}
	d.answer(t, q.ID, approvals.Deny, "")
	if _, resp := h.await(r.id); resp.Status != openai.Completed {
		t.Errorf("status %s", resp.Status)
	}
	// Another response has another container, and there nothing is granted.
	other := h.play(t, riskyRequest)
	for range 3 {
		d.answer(t, d.pending(t, 1)[0].ID, approvals.Deny, "")
	}
	h.await(other.id)
	if n := g.started("rm -rf build"); n != 2 {
		t.Errorf("it ran %d times", n)
	}
}

func TestCancelledWhileItWaits(t *testing.T) {
	d := newDesk(approval.OnRequest)
	h := openHouse(t, riskyGround(t), d)
	r := h.play(t, riskyRequest)
	q := d.pending(t, 1)[0]
	h.parked(t, r.id)
	room, _ := h.now()
	resp, err := room.Cancel(t.Context(), principal.Org, r.id)
	if err != nil || resp.Status != openai.Cancelled {
		t.Fatalf("%+v, %v", resp, err)
	}
	log, _ := h.await(r.id)
	checkLog(t, log)
	if a, err := d.now().Get(t.Context(), principal.Org, q.ID); err != nil || a.Status != approvals.Withdrawn {
		t.Errorf("the question is %s (%v)", a.Status, err)
	}
	if _, err := d.now().Answer(t.Context(), person, q.ID, approvals.Approve, ""); fault.KindOf(err) != fault.Conflict {
		t.Errorf("answered all the same: %v", err)
	}
	if h.ground.started("rm -rf build") != 0 {
		t.Error("it was run")
	}
}

// What the operator has made stricter meanwhile holds: an answer is to the question that was asked, under its policy.
func TestAnAnswerCountsForWhatWasAsked(t *testing.T) {
	d := newDesk(approval.OnRequest)
	h := openHouse(t, riskyGround(t), d)
	r := h.play(t, riskyRequest)
	first := d.pending(t, 1)[0]
	h.parked(t, r.id)
	d.mu.Lock()
	d.policy.Ask = approval.UnlessTrusted
	d.mu.Unlock()
	h.open()
	d.answer(t, first.ID, approvals.Approve, "")
	second := d.pending(t, 1)[0]
	if second.ID == first.ID || second.Digest == first.Digest || h.ground.started("rm -rf build") != 0 {
		t.Fatalf("under another policy: %+v after %+v", second, first)
	}
	h.parked(t, r.id)
	d.mu.Lock()
	rules, err := approval.Load("rules.toml", []byte("[[rule]]\nprefix = [\"rm\"]\ndecision = \"forbid\"\nwhy = \"Nothing is removed here.\"\n"), approval.User)
	if err != nil {
		t.Fatal(err)
	}
	d.policy.Rules = rules
	d.mu.Unlock()
	h.open()
	d.answer(t, second.ID, approvals.Approve, "")
	_, resp := h.await(r.id)
	if entries := outputsOf(t, resp); len(entries) != 2 || *entries[0].Outcome.ExitCode != 126 || !strings.Contains(entries[0].Stderr, "Nothing is removed here.") {
		t.Errorf("%s: %+v", resp.Status, entries)
	}
	if n := h.ground.started("rm -rf build") + h.ground.started("ls"); n != 0 {
		t.Errorf("%d commands ran against a rule that forbids", n)
	}
}

// shellGround is a ground that could have a bash. None is opened for what nobody approved.
type shellGround struct{ *ground }

func (g shellGround) OpenBash(context.Context, string, string, process.Command) (bashJob, error) {
	g.t.Error("a shell was opened")
	return nil, fault.New(fault.Unavailable, "no shell")
}

func (shellGround) List(context.Context, string, container.Page) ([]container.Container, bool, error) {
	return nil, false, nil
}

func (shellGround) End(context.Context, string, string) error { return nil }

// What is not stored cannot wait: the model is told at once.
func TestAQuestionNeedsAStoredResponse(t *testing.T) {
	for name, bash := range map[string]*openai.Bash{"of a shell": nil, "of the one shell of a bash": {SessionID: "s"}} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(approval.OnRequest)
			h := openHouse(t, riskyGround(t), d)
			room, _ := h.now()
			a := newAgent(responseRoom{room}, shellGround{h.ground}, h.ground, Options{Approvals: d.now()})
			t.Cleanup(func() { a.Close(context.Background()) })
			req := request(t, `{"model":"m","input":"go","tools":[{"type":"shell"}],"store":false}`)
			if req.Bash = bash; bash != nil {
				h.ground.rounds[0] = func(t *llm.Turn) {
					t.Call("bash").Write(argumentsOf("rm -rf build", "ls"))
					t.Complete(usage(10, 5))
				}
			}
			run, live, err := a.begin(t.Context(), principal, req)
			if err != nil {
				t.Fatal(err)
			}
			live()
			entries := outputsOf(t, &openai.Response{Output: run.Output()})
			if len(entries) != 2 || *entries[0].Outcome.ExitCode != 126 || !strings.Contains(entries[0].Stderr, "store: true") {
				t.Errorf("%+v", entries)
			}
			if n := h.ground.started("rm -rf build") + h.ground.started("ls"); n != 0 {
				t.Errorf("%d commands ran", n)
			}
			d.pending(t, 0)
		})
	}
}

// A policy that never asks changes nothing, not even in the journal.
func TestWithoutAPolicyNothingChanges(t *testing.T) {
	d := newDesk(approval.Never)
	h := openHouse(t, riskyGround(t), d)
	r := h.play(t, riskyRequest)
	log, resp := h.await(r.id)
	if resp.Status != openai.Completed || h.ground.started("rm -rf build") != 1 {
		t.Errorf("%s, started %d times", resp.Status, h.ground.started("rm -rf build"))
	}
	for _, f := range log {
		if strings.Contains(string(f.Data), `"approval"`) {
			t.Errorf("event %s", f.Data)
		}
	}
	d.pending(t, 0)
}
