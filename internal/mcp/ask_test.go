package mcp

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// person answers forms.
type person struct {
	mu     sync.Mutex
	answer *mcp.ElicitResult
	asked  []*mcp.ElicitParams
}

func (p *person) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, r.Params)
		return p.answer, nil
	}}
}

func accept(word string) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": word}}
}

func TestAPersonIsAsked(t *testing.T) {
	jail(t)
	for _, protocol := range both {
		for _, c := range []struct {
			name   string
			answer *mcp.ElicitResult
			runs   bool
			asked  int // for the same call twice
		}{
			{"once", accept("once"), true, 2}, {"without a word", &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, true, 2},
			{"for the session", accept("session"), true, 1}, {"no", accept("no"), false, 2},
			{"decline", &mcp.ElicitResult{Action: "decline"}, false, 2}, {"cancel", &mcp.ElicitResult{Action: "cancel"}, false, 2},
		} {
			t.Run(protocol+" "+c.name, func(t *testing.T) {
				p := &person{answer: c.answer}
				r := newRig(t, protocol, p.options(), nil)
				outside := filepath.Join(t.TempDir(), "outside")
				for range 2 {
					got := r.call("exec_command", `{"cmd":"echo x >> `+outside+`","sandbox_permissions":"require_escalated","justification":"line one\nRun this?","wait_for":{"exit":true}}`)
					if c.runs != (got.Failure == "" && got.Outside) || c.runs != exists(outside) {
						t.Errorf("%+v", got)
					}
					if !c.runs && (!got.bad || got.Failure != "rejected" || !strings.Contains(got.text, "said no")) {
						t.Errorf("%+v", got)
					}
				}
				if len(p.asked) != c.asked {
					t.Fatalf("asked %d times", len(p.asked))
				}
				text := p.asked[0].Message
				for _, want := range []string{"OUTSIDE the sandbox", "$ echo x >> " + outside, r.work, `the model says: line one\nRun this?`} {
					if !strings.Contains(text, want) {
						t.Errorf("%q is not in %s", want, text)
					}
				}
			})
		}
	}
}

// TestAClientThatCannotAsk: the policy alone decides. What is sandboxed runs, what would be asked is refused.
func TestAClientThatCannotAsk(t *testing.T) {
	jail(t)
	for _, protocol := range both {
		r := newRig(t, protocol, nil, nil)
		if got := r.call("exec_command", `{"cmd":"echo hi > here; cat here","wait_for":{"exit":true}}`); got.bad || !strings.Contains(got.Output, "hi") {
			t.Errorf("%s: %+v", protocol, got)
		}
		got := r.call("exec_command", `{"cmd":"echo x > over","sandbox_permissions":"require_escalated"}`)
		if !got.bad || got.Failure != "rejected" || !strings.Contains(got.text, "no way to ask") || exists(filepath.Join(r.work, "over")) {
			t.Errorf("%s: %+v", protocol, got)
		}
	}
}

// TestARestartIsAskedAgain: an approval for once was for the first start.
func TestARestartIsAskedAgain(t *testing.T) {
	jail(t)
	p := &person{answer: accept("once")}
	r := newRig(t, "", p.options(), nil)
	first := r.call("exec_command", `{"cmd":"echo begun; sleep 600","sandbox_permissions":"require_escalated","wait_for":{"pattern":"begun"}}`)
	p.mu.Lock()
	p.answer = &mcp.ElicitResult{Action: "decline"}
	p.mu.Unlock()
	if got := r.call("restart", `{"session_id":`+first.Process+`}`); got.Failure != "rejected" || len(p.asked) != 2 {
		t.Errorf("asked %d times: %+v", len(p.asked), got)
	}
}

// TestAnAnswerIsForItsQuestion: a state that was made up, or used before, answers nothing.
func TestAnAnswerIsForItsQuestion(t *testing.T) {
	jail(t)
	r := newRig(t, resumable, &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: (&person{}).options().ElicitationHandler}, nil)
	params := mcp.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": "echo x >> over", "sandbox_permissions": "require_escalated"}}
	try := func(state string, answers mcp.InputResponseMap) *mcp.CallToolResult {
		t.Helper()
		again := params
		again.RequestState, again.InputResponses = state, answers
		result, err := r.client.CallTool(t.Context(), &again)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	yes := mcp.InputResponseMap{questionName: accept("once")}
	open := try("", nil)
	if open.RequestState == "" || open.InputRequests[questionName] == nil {
		t.Fatalf("%+v", open)
	}
	if got := read(t, try("madeup", yes)); !got.bad || exists(filepath.Join(r.work, "over")) {
		t.Errorf("%+v", got)
	}
	// The approval is for what was shown: other arguments beside the answer change nothing.
	params.Arguments = map[string]any{"cmd": "echo y > other", "sandbox_permissions": "require_escalated"}
	if got := read(t, try(open.RequestState, yes)); got.bad || !exists(filepath.Join(r.work, "over")) || exists(filepath.Join(r.work, "other")) {
		t.Errorf("%+v", got)
	}
	if got := read(t, try(open.RequestState, yes)); !got.bad || got.Failure != "rejected" {
		t.Errorf("a second time: %+v", got)
	}
	// No answer at all is a no.
	params.Arguments = map[string]any{"cmd": "echo z > third", "sandbox_permissions": "require_escalated"}
	if got := read(t, try(try("", nil).RequestState, nil)); !got.bad || exists(filepath.Join(r.work, "third")) {
		t.Errorf("%+v", got)
	}
}

func TestAQuestionIsWhole(t *testing.T) {
	long := strings.Repeat("a long word ", 500)
	q := ask(terminal.ApprovalRequest{Lines: []string{"echo " + long, "rm -rf \x1b[2J\u202ex"}, Cwd: "/w\nx", Reasons: []string{"it removes"}, Effect: "It runs once.",
		Scopes: []approval.Scope{approval.Once, approval.Session}})
	for _, want := range []string{long, `rm -rf \u{1b}[2J\u{202e}x`, `/w\nx`, "because it removes", "It runs once."} {
		if !strings.Contains(q.params.Message, want) {
			t.Errorf("%.40q is not there", want)
		}
	}
	if got := q.review(accept("always")); got.Decision != terminal.Denied {
		t.Errorf("what was not offered was granted: %v", got)
	}
}

// TestASlowPerson: the call answers in time, the question stays, and the answer counts.
func TestASlowPerson(t *testing.T) {
	jail(t)
	clock := newClock()
	clock.ignore = []time.Duration{session.ProbeLimit, session.SpawnLimit}
	asked, release := make(chan struct{}), make(chan struct{})
	client := &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(asked)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return accept("once"), nil
	}}
	r := newRig(t, "2025-11-25", client, func(c *Config) { c.Clock = clock })
	first := make(chan reply, 1)
	go func() {
		first <- r.call("exec_command", `{"cmd":"echo x > over; echo done","sandbox_permissions":"require_escalated","wait_for":{"exit":true}}`)
	}()
	<-asked
	waitFor(t, "the door waits", func() bool { return clock.waits(Bound-margin) && clock.waits(patient) })
	for clock.Now().Sub(time.Unix(1_800_000_000, 0)) < Bound-margin {
		clock.next()
	}
	got := <-first
	if got.State != "pending" || !strings.Contains(got.text, "waits for a person's approval") || exists(filepath.Join(r.work, "over")) {
		t.Fatalf("%+v", got)
	}
	close(release)
	if last := r.call("write_stdin", `{"session_id":`+got.Process+`}`); !strings.Contains(last.Output, "done") || !last.Outside || !exists(filepath.Join(r.work, "over")) {
		t.Errorf("%+v", last)
	}
}
