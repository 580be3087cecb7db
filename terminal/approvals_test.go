package terminal

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// TestAlwaysIsWhatWasShown: the rules that the question proposed are saved, answer in a later session, and end.
func TestAlwaysIsWhatWasShown(t *testing.T) {
	book := approval.OpenBook(filepath.Join(t.TempDir(), "grants.toml"))
	now := time.Now()
	p := &person{answer: ApprovedAlways}
	var events recorder
	open := func() *rig {
		return newRig(t, approval.UnlessTrusted, func(c *SessionConfig) {
			c.Approver, c.Grants, c.Observer, c.Now = p, book, &events, func() time.Time { return now }
		})
	}
	first := open()
	first.call(ToolShell, `{"command":"touch a","prefix_rule":["touch"]}`)
	if p.questions() != 1 || len(p.asked[0].Proposed) != 1 || !slices.Contains(p.asked[0].Scopes, approval.Always) {
		t.Fatalf("%+v", p.asked)
	}
	shown := p.asked[0].Proposed[0].String()
	if told := eventsOf[ApprovalRequested](&events); len(told) != 1 || len(told[0].Rules) != 1 || told[0].Rules[0] != shown {
		t.Errorf("%+v", told)
	}
	second := open()
	if got := second.call(ToolShell, `{"command":"touch a"}`); code(got) != 0 || p.questions() != 1 {
		t.Errorf("asked again in a later session: %+v", got)
	}
	// What is never granted by prefix is not, whatever the model proposes; and what cannot be granted for always is once.
	second.call(ToolShell, `{"command":"rm -rf a","prefix_rule":["rm"]}`)
	if last := p.asked[1]; len(last.Proposed) != 1 || !last.Proposed[0].Exact {
		t.Errorf("%+v", last.Proposed)
	}
	for range 2 {
		second.call(ToolShell, `{"command":"touch $HOME/b"}`)
	}
	if p.questions() != 4 || slices.Contains(p.asked[3].Scopes, approval.Always) {
		t.Errorf("asked %d times, %v", p.questions(), p.asked[3].Scopes)
	}
	now = now.Add(31 * 24 * time.Hour)
	second.call(ToolShell, `{"command":"touch a"}`)
	if p.questions() != 5 {
		t.Error("an approval for always had no end")
	}
}

// TestASessionsApprovalIsRevocable by its grant, which the event of the next run names.
func TestASessionsApprovalIsRevocable(t *testing.T) {
	p := &person{answer: ApprovedForSession}
	var events recorder
	r := newRig(t, approval.UnlessTrusted, func(c *SessionConfig) { c.Approver, c.Observer = p, &events })
	r.call(ToolShell, `{"command":"touch a"}`)
	r.call(ToolShell, `{"command":"touch a"}`)
	begins := eventsOf[ExecCommandBegin](&events)
	grant := begins[1].Decision.Grant
	if p.questions() != 1 || grant == "" || begins[1].Decision.By != "grant" {
		t.Fatalf("asked %d times, %+v", p.questions(), begins[1].Decision)
	}
	if !r.session.Revoke(grant) || r.session.Revoke(grant) || r.session.Revoke("nothing") {
		t.Error("a grant is revoked once")
	}
	r.call(ToolShell, `{"command":"touch a"}`)
	if p.questions() != 2 {
		t.Errorf("asked %d times", p.questions())
	}
}

func TestClearDecidesForOthers(t *testing.T) {
	p := &person{answer: Denied}
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Approver = p })
	if outside, err := r.session.Clear(t.Context(), r.turn, "run", Question{Argv: []string{"ls"}}); err != nil || outside {
		t.Errorf("%v %v", outside, err)
	}
	var rejected *RejectedError
	if _, err := r.session.Clear(t.Context(), r.turn, "run", Question{Script: "rm -rf x"}); !errors.As(err, &rejected) {
		t.Errorf("%v", err)
	}
	p.answer = Approved
	if outside, err := r.session.Clear(t.Context(), r.turn, "run", Question{Script: "make", Escalate: true}); err != nil || !outside {
		t.Errorf("%v %v", outside, err)
	}
}

// TestTypingOutsideIsAskedAbout: whoever let a shell out of the sandbox has not approved all that it can be told.
func TestTypingOutsideIsAskedAbout(t *testing.T) {
	p := &person{answer: Approved}
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Approver = p })
	first := r.call(ToolExecCommand, `{"cmd":"while read line; do echo \"got $line\"; done","tty":true,"yield_time_ms":250,"sandbox_permissions":"require_escalated"}`)
	if first.SessionID == 0 || !first.Outside || p.questions() != 1 {
		t.Fatalf("%+v", first)
	}
	write := func(text string) *ExecResult {
		return r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"chars":"`+text+`"}`)
	}
	p.answer = Denied
	if got := write(`one\n`); got.Failure != "rejected" || p.questions() != 2 || p.asked[1].Lines[0] != `"one\n"` || !p.asked[1].Outside {
		t.Errorf("%+v %+v", got, p.asked)
	}
	if got := r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"yield_time_ms":250}`); got.Failure != "" || got.Text() != "" || p.questions() != 2 {
		t.Errorf("a look is asked about, or something was typed: %+v", got)
	}
	p.answer = ApprovedForSession
	r.until(first.ProcessID, "got two", write(`two\n`))
	r.until(first.ProcessID, "got three", write(`three\n`))
	if p.questions() != 3 {
		t.Errorf("asked %d times", p.questions())
	}
	p.answer = Denied
	write(`\u0004`) // its end is always allowed
	if p.questions() != 3 {
		t.Error("a control character was asked about")
	}
	inside := r.call(ToolExecCommand, `{"cmd":"read line","tty":true,"yield_time_ms":250}`)
	r.call(ToolWriteStdin, `{"session_id":`+inside.ProcessID+`,"chars":"x\n"}`)
	if p.questions() != 3 {
		t.Error("typing inside the sandbox was asked about")
	}
}

// TestTheCacheKeepsItsWord plays random questions and answers against a model: a person is asked unless exactly this was
// approved for the session, not revoked since, and not too long ago; and what may run is what the answer says.
func TestTheCacheKeepsItsWord(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 11))
		now := time.Now()
		var answer ReviewDecision
		asked := 0
		work := t.TempDir()
		if err := os.Mkdir(filepath.Join(work, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := Open(SessionConfig{Cwd: work, SandboxPolicy: DefaultSandbox(), ApprovalPolicy: AskFor(approval.Policy{Ask: approval.UnlessTrusted}), Backend: linux{},
			Environ: []string{}, Shells: bashOnly, Now: func() time.Time { return now }, Approver: ApproverFunc(func(context.Context, ApprovalRequest) (Review, error) {
				asked++
				return Review{Decision: answer}, nil
			})})
		if err != nil {
			t.Fatal(err)
		}
		turn, err := s.Begin(t.Context(), s.TurnContext())
		if err != nil {
			t.Fatal(err)
		}
		type exactly struct {
			script, dir   string
			tty, escalate bool
		}
		until := map[exactly]time.Time{} // what the session covers, and for how long
		ids := map[exactly]string{}
		for step := range 200 {
			switch k := r.IntN(20); {
			case k == 0:
				now = now.Add(time.Duration(r.IntN(20)) * time.Hour)
				continue
			case k == 1:
				for q, id := range ids {
					if !s.Revoke(id) {
						t.Fatalf("seed %d: %+v could not be revoked", seed, q)
					}
					delete(until, q)
					delete(ids, q)
					break
				}
				continue
			}
			q := exactly{[]string{"touch a", "touch b", "touch a; true"}[r.IntN(3)], []string{"", "sub"}[r.IntN(2)], r.IntN(2) == 0, r.IntN(2) == 0}
			answer = []ReviewDecision{Denied, Approved, ApprovedForSession, ApprovedAlways + 7}[r.IntN(4)]
			before := asked
			outside, err := s.Clear(t.Context(), turn, "test", Question{Script: q.script, Workdir: q.dir, TTY: q.tty, Escalate: q.escalate})
			covered := now.Before(until[q])
			if (asked == before) != covered {
				t.Fatalf("seed %d, step %d: %+v: asked %v, covered %v", seed, step, q, asked != before, covered)
			}
			runs := covered || answer == Approved || answer == ApprovedForSession
			if (err == nil) != runs || outside != (runs && q.escalate) {
				t.Fatalf("seed %d, step %d: %+v: %v, outside %v; covered %v, answered %v", seed, step, q, err, outside, covered, answer)
			}
			if !covered && answer == ApprovedForSession {
				until[q] = now.Add(sessionGrant)
				grants := s.approved.all()
				ids[q] = grants[len(grants)-1].ID
			}
		}
		s.Close()
	}
}
