package terminal

import (
	"errors"
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
