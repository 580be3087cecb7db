package approvals

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// desk is a service with a clock that the test moves.
type desk struct {
	*Service
	t testing.TB

	mu      sync.Mutex
	now     time.Time
	decided []Approval
}

func newDesk(t testing.TB) *desk {
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "a.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d := &desk{t: t, now: noon}
	d.Service, err = New(t.Context(), Options{DB: db, Clock: d.clock, Decided: func(a Approval) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.decided = append(d.decided, a)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) sleep(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

// ask puts a question of a response there.
func (d *desk) ask(org, response, script string) Approval {
	d.t.Helper()
	r := Policy{Ask: approval.UnlessTrusted}.Judge(call(script))
	a := Approval{ID: id.At(id.Approval, d.clock()), Org: org, KeyID: "key_runs", Item: "sh_1", Call: "call_1", Container: "cntr_a",
		Digest: r.Digest, Parts: r.Parts, Question: r.Question}
	if err := d.Ask(d.t.Context(), response, []Approval{a}); err != nil {
		d.t.Fatal(err)
	}
	return a
}

var person = tenant.Principal{Org: "org_a", KeyID: "key_person", Scopes: []tenant.Scope{tenant.ScopeApprove}}

// code is what a refusal is called.
func code(err error) string {
	if f, ok := fault.As(err); ok {
		return f.Code
	}
	return fmt.Sprint(err)
}

func TestWhoMayAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		who  tenant.Principal
		kind fault.Kind
		code string
	}{
		"a person":              {person, 0, ""},
		"another organisation":  {tenant.Principal{Org: "org_b", KeyID: "key_b", Scopes: person.Scopes}, fault.NotFound, "approval_not_found"},
		"the key that runs":     {tenant.Principal{Org: "org_a", KeyID: "key_runs", Scopes: []tenant.Scope{tenant.ScopeRun}}, fault.Forbidden, "insufficient_scope"},
		"the same, of a person": {tenant.Principal{Org: "org_a", KeyID: "key_runs", Scopes: []tenant.Scope{tenant.ScopeRun, tenant.ScopeApprove}}, fault.Forbidden, "approval_own_response"},
		"an admin":              {tenant.Principal{Org: "org_a", KeyID: "key_admin", Scopes: []tenant.Scope{tenant.ScopeAdmin}}, fault.Forbidden, "insufficient_scope"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			q := d.ask("org_a", "resp_1", "make")
			_, err := d.Answer(t.Context(), c.who, q.ID, Approve, "")
			if c.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if fault.KindOf(err) != c.kind || code(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			if a, err := d.Get(t.Context(), "org_a", q.ID); err != nil || a.Status != Pending {
				t.Errorf("it is %s (%v) after a refusal", a.Status, err)
			}
			if len(d.decided) > 0 {
				t.Errorf("a refusal was told as an answer: %+v", d.decided)
			}
		})
	}
}

func TestAQuestionIsAnsweredOnce(t *testing.T) {
	for _, first := range []Decision{Approve, ApproveForContainer, Deny} {
		for _, second := range []Decision{Approve, ApproveForContainer, Deny} {
			d := newDesk(t)
			q := d.ask("org_a", "resp_1", "make")
			a, err := d.Answer(t.Context(), person, q.ID, first, "because")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Answer(t.Context(), person, q.ID, second, ""); fault.KindOf(err) != fault.Conflict {
				t.Errorf("%s after %s: %v", second, first, err)
			}
			again, err := d.Get(t.Context(), "org_a", q.ID)
			if err != nil || again.Status != a.Status || again.By != "key_person" || again.Reason != "because" || !again.Decided.Equal(noon) {
				t.Errorf("%s became %+v, %v", first, again, err)
			}
			granted, err := d.Granted(t.Context(), "org_a", "cntr_a")
			if want := first == ApproveForContainer; err != nil || (len(granted) == 1) != want {
				t.Errorf("%s then %s grants %q (%v)", first, second, granted, err)
			}
			if len(d.decided) != 1 || d.decided[0].Status != a.Status {
				t.Errorf("told: %+v", d.decided)
			}
		}
	}
}

func TestAGrantIsTheContainersAndTheOrganisations(t *testing.T) {
	d := newDesk(t)
	q := d.ask("org_a", "resp_1", "make")
	if _, err := d.Answer(t.Context(), person, q.ID, ApproveForContainer, ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		org, container string
		want           int
	}{{"org_a", "cntr_a", 1}, {"org_a", "cntr_b", 0}, {"org_b", "cntr_a", 0}} {
		if list, err := d.Granted(t.Context(), c.org, c.container); err != nil || len(list) != c.want {
			t.Errorf("%s, %s: %q (%v)", c.org, c.container, list, err)
		}
	}
	d.sleep(31 * 24 * time.Hour)
	if list, err := d.Granted(t.Context(), "org_a", "cntr_a"); err != nil || len(list) > 0 {
		t.Errorf("after its time: %q (%v)", list, err)
	}
}

func TestWhatNobodyAnswersExpires(t *testing.T) {
	d := newDesk(t)
	q := d.ask("org_a", "resp_1", "make")
	d.sleep(DefaultExpiry - time.Second)
	if err := d.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, _ := d.Get(t.Context(), "org_a", q.ID); a.Status != Pending {
		t.Fatalf("before its time it is %s", a.Status)
	}
	d.sleep(time.Second)
	// Also where nobody has looked yet.
	if a, _ := d.Get(t.Context(), "org_a", q.ID); a.Status != Expired {
		t.Errorf("after its time it is %s", a.Status)
	}
	if _, err := d.Answer(t.Context(), person, q.ID, Approve, ""); fault.KindOf(err) != fault.Conflict || code(err) != "approval_expired" {
		t.Errorf("answered too late: %v", err)
	}
	if list, _, err := d.List(t.Context(), "org_a", Page{Status: "pending"}); err != nil || len(list) > 0 {
		t.Errorf("pending: %+v (%v)", list, err)
	}
	for range 2 {
		if err := d.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.decided) != 1 || d.decided[0].Status != Expired || d.decided[0].By != "" {
		t.Errorf("told: %+v", d.decided)
	}
	answered, err := d.Answered(t.Context())
	if err != nil || !slices.Equal(answered, []string{"resp_1"}) {
		t.Errorf("answered: %q (%v)", answered, err)
	}
}

func TestAResponseHasItsAnswersWhenAllAreThere(t *testing.T) {
	d := newDesk(t)
	var both []Approval
	for _, item := range []string{"sh_1", "sh_2"} {
		both = append(both, Approval{ID: id.New(id.Approval), Org: "org_a", KeyID: "key_runs", Item: item})
	}
	if err := d.Ask(t.Context(), "resp_1", both); err != nil {
		t.Fatal(err)
	}
	for i, q := range both {
		if answered, err := d.Answered(t.Context()); err != nil || len(answered) > 0 {
			t.Errorf("after %d answers: %q (%v)", i, answered, err)
		}
		if _, err := d.Answer(t.Context(), person, q.ID, Deny, ""); err != nil {
			t.Fatal(err)
		}
	}
	if answered, err := d.Answered(t.Context()); err != nil || len(answered) != 1 {
		t.Errorf("answered: %q (%v)", answered, err)
	}
	if err := d.Settle(t.Context(), "resp_1"); err != nil {
		t.Fatal(err)
	}
	if answered, err := d.Answered(t.Context()); err != nil || len(answered) > 0 {
		t.Errorf("after it took note: %q (%v)", answered, err)
	}
}

func TestAskedAgainAQuestionStays(t *testing.T) {
	d := newDesk(t)
	first := d.ask("org_a", "resp_1", "make")
	if _, err := d.Answer(t.Context(), person, first.ID, Approve, ""); err != nil {
		t.Fatal(err)
	}
	if err := d.Ask(t.Context(), "resp_1", []Approval{first}); err != nil {
		t.Fatal(err)
	}
	if a, err := d.Get(t.Context(), "org_a", first.ID); err != nil || a.Status != Approved {
		t.Errorf("asked again it is %s (%v)", a.Status, err)
	}
	open := d.ask("org_a", "resp_1", "make all")
	d.ask("org_a", "resp_1", "make install")
	if a, err := d.Get(t.Context(), "org_a", open.ID); err != nil || a.Status != Withdrawn {
		t.Errorf("what is asked no more is %s (%v)", a.Status, err)
	}
	if _, err := d.Answer(t.Context(), person, open.ID, Approve, ""); fault.KindOf(err) != fault.Conflict {
		t.Errorf("it was answered: %v", err)
	}
}

func TestListsOfQuestions(t *testing.T) {
	d := newDesk(t)
	var ids []string
	for i := range 5 {
		d.sleep(time.Second)
		ids = append(ids, d.ask("org_a", fmt.Sprint("resp_", i), "make").ID)
	}
	d.ask("org_b", "resp_b", "make")
	if _, err := d.Answer(t.Context(), person, ids[3], Deny, ""); err != nil {
		t.Fatal(err)
	}
	list := func(p Page) (out []string, more bool) {
		t.Helper()
		l, more, err := d.List(t.Context(), "org_a", p)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range l {
			out = append(out, a.ID)
		}
		return out, more
	}
	if got, more := list(Page{Page: store.Page{Limit: 2, Order: "asc"}}); more != true || !slices.Equal(got, ids[:2]) {
		t.Errorf("the first two: %q, more %v", got, more)
	}
	if got, more := list(Page{Page: store.Page{Limit: 3, Order: "asc", After: ids[1]}}); more || !slices.Equal(got, ids[2:]) {
		t.Errorf("the rest: %q, more %v", got, more)
	}
	if got, _ := list(Page{Status: "pending"}); !slices.Equal(got, []string{ids[4], ids[2], ids[1], ids[0]}) {
		t.Errorf("pending, newest first: %q", got)
	}
	if got, _ := list(Page{Status: "denied"}); !slices.Equal(got, ids[3:4]) {
		t.Errorf("denied: %q", got)
	}
	for _, p := range []Page{{Status: "maybe"}, {Page: store.Page{After: "resp_x"}}, {Page: store.Page{Limit: 1000}}} {
		if _, _, err := d.List(t.Context(), "org_a", p); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := d.Get(t.Context(), "org_b", ids[0]); fault.KindOf(err) != fault.NotFound {
		t.Errorf("of another organisation: %v", err)
	}
}

func TestOldAnswersAreForgotten(t *testing.T) {
	d := newDesk(t)
	q := d.ask("org_a", "resp_1", "make")
	if err := d.Withdraw(t.Context(), "resp_1"); err != nil {
		t.Fatal(err)
	}
	d.sleep(keep)
	if err := d.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(t.Context(), "org_a", q.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after %s: %v", keep, err)
	}
}

func TestBadAnswers(t *testing.T) {
	d := newDesk(t)
	q := d.ask("org_a", "resp_1", "make")
	for decision, reason := range map[Decision]string{"always": "", "": "", Deny: string(make([]byte, maxReason+1))} {
		if _, err := d.Answer(t.Context(), person, q.ID, decision, reason); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", decision, err)
		}
	}
}
