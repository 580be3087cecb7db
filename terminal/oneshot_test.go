package terminal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// TestHowOneShotCommandsEnd is case 1 and 2 of the black-box list, and what the model is told.
func TestHowOneShotCommandsEnd(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	if err := os.WriteFile(filepath.Join(r.work, "plain"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arguments string
		code      int
		failure   string
		shows     string
	}{
		{`{"command":"echo hi"}`, 0, "", "hi\n"}, {`{"command":["echo","a b"]}`, 0, "", "a b\n"}, {`{"command":"exit 7"}`, 7, "", ""},
		{`{"command":["sh","-c","kill -9 $$"]}`, 137, "signal", ""}, {`{"command":["sh","-c","kill -TERM $$"]}`, 143, "signal", ""},
		{`{"command":["nosuchprogram"]}`, 127, "", ""}, {`{"command":["./plain"]}`, 126, "", ""},
		{`{"command":"echo begun; sleep 600","timeout_ms":300}`, 124, "timeout", "begun\n"},
		{`{"command":"echo begun; (sleep 600) & sleep 600","timeout_ms":300}`, 124, "timeout", "begun\n"},
		{`{"command":"echo out; echo err >&2"}`, 0, "", "out\nerr\n"}, {`{"command":"cat"}`, 0, "", ""},
		{`{"command":"exit 124"}`, 124, "", ""},
	} {
		got := r.call(ToolShell, c.arguments)
		if code(got) != c.code || got.Failure != c.failure || !strings.HasPrefix(got.Text(), c.shows) || got.TimedOut != (c.failure == "timeout") {
			t.Errorf("%s: %d, %q, %q; want %d, %q, %q", c.arguments, code(got), got.Failure, got.Text(), c.code, c.failure, c.shows)
		}
		if got.CwdBefore != r.turn.Cwd || got.CwdAfter != "" || got.SessionID != 0 || got.Sandbox.Got != sandbox.RungJail || got.Profile != r.turn.Profile() {
			t.Errorf("%s: %+v", c.arguments, got)
		}
	}
}

// TestOneShotToolsKeepNothing: what a call changed of itself is not the next one's, and what it started is gone.
func TestOneShotToolsKeepNothing(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	if err := os.Mkdir(filepath.Join(r.work, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.call(ToolShellCommand, `{"command":"cd sub; export A=b; setsid sleep 3607 >/dev/null 2>&1 & sleep 3607 & echo x >/tmp/kept"}`)
	got := r.call(ToolShellCommand, `{"command":"pwd; echo [$A]; cat /tmp/kept; for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done | grep -c '^sleep 3607'"}`)
	if want := r.turn.Cwd + "\n[]\nx\n0\n"; got.Text() != want {
		t.Errorf("%q, want %q", got.Text(), want)
	}
	if got := r.call(ToolShellCommand, `{"command":"pwd","workdir":"sub"}`); got.Text() != r.turn.Cwd+"/sub\n" || got.CwdBefore != r.turn.Cwd+"/sub" {
		t.Errorf("%+v", got)
	}
}

func TestDenialsAreToldWithTheirCure(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	got := r.call(ToolShellCommand, `{"command":"echo x > /usr/hardshell-test"}`)
	if got.Failure != "denied" || got.Denial == nil || got.Denial.Path != "/usr/hardshell-test" || code(got) == 0 {
		t.Fatalf("%+v", got)
	}
	if text := got.Format(Labelled); !strings.Contains(text, "Denied: ") || !strings.Contains(text, "require_escalated") {
		t.Error(text)
	}
	// Case 30: words in the output are no denial.
	for _, c := range []string{`{"command":"echo permission denied in sandbox; exit 1"}`, `{"command":"echo landlock: operation not permitted >/dev/null; cat sandbox/none; exit 1"}`} {
		if got := r.call(ToolShellCommand, c); got.Failure != "" || got.Denial != nil {
			t.Errorf("%s: %+v", c, got.Denial)
		}
	}
}

// TestDenialsUnderEachPolicy: who is offered the retry, and what then runs where.
func TestDenialsUnderEachPolicy(t *testing.T) {
	target := filepath.Join(t.TempDir(), "outside")
	arguments := `{"command":"echo x > ` + target + `"}`
	for _, c := range []struct {
		ask     approval.Ask
		answer  ReviewDecision
		asked   int // what of it is the retry comes last
		written bool
	}{
		{approval.Never, Approved, 0, false}, {approval.OnRequest, Approved, 0, false},
		{approval.OnFailure, Approved, 1, true}, {approval.OnFailure, Denied, 1, false}, {approval.UnlessTrusted, Approved, 2, true},
	} {
		p := &person{answer: c.answer}
		r := newRig(t, c.ask, func(config *SessionConfig) { config.Approver = p })
		os.Remove(target)
		got := r.call(ToolShellCommand, arguments)
		_, err := os.Stat(target)
		if p.questions() != c.asked || (err == nil) != c.written || got.Retried != c.written || (got.Failure == "denied") == c.written {
			t.Errorf("%v, %v: asked %d, written %v, %+v", c.ask, c.answer, p.questions(), err == nil, got)
		}
		if c.asked > 0 {
			if last := p.asked[c.asked-1]; last.Retry == "" || !last.Outside || !strings.Contains(last.Effect, "OUTSIDE") || slices.Contains(last.Scopes, approval.Always) {
				t.Errorf("%v: %+v", c.ask, last)
			}
		}
	}
}

func TestEscalation(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	arguments := `{"command":"echo x > ` + outside + `","sandbox_permissions":"require_escalated","justification":"I need it there"}`
	t.Run("never", func(t *testing.T) { // case 30: nothing runs, nobody is asked
		p := &person{answer: Approved}
		r := newRig(t, approval.Never, func(c *SessionConfig) { c.Approver = p })
		if got := r.call(ToolShellCommand, arguments); got.Failure != "rejected" || got.ExitCode != nil || p.questions() != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("on request", func(t *testing.T) {
		p := &person{answer: ApprovedForSession}
		r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Approver = p })
		for range 2 { // approved for the session: the second is not asked
			os.Remove(outside)
			got := r.call(ToolShellCommand, arguments)
			if _, err := os.Stat(outside); err != nil || code(got) != 0 || !got.Outside || got.Retried || got.Sandbox.Got != sandbox.RungNone {
				t.Errorf("%v %+v", err, got)
			}
		}
		if p.questions() != 1 || p.asked[0].Justification != "I need it there" || !p.asked[0].Outside {
			t.Errorf("%+v", p.asked)
		}
		// The same command without the wish stays inside, and another one is asked again.
		os.Remove(outside)
		if got := r.call(ToolShellCommand, `{"command":"echo x > `+outside+`"}`); got.Outside || got.Failure != "denied" {
			t.Errorf("%+v", got)
		}
		r.call(ToolShellCommand, strings.Replace(arguments, "echo x", "echo x; true", 1))
		if p.questions() != 2 {
			t.Errorf("asked %d times", p.questions())
		}
	})
	t.Run("an allow rule does not answer it", func(t *testing.T) {
		p := &person{answer: Denied}
		rules, err := approval.Load("r.toml", []byte("[[rule]]\nprefix = [\"touch\"]\ndecision = \"allow\"\n"), approval.User)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Approver, c.Rules = p, rules })
		if got := r.call(ToolShell, `{"command":["touch","`+outside+`"],"sandbox_permissions":"require_escalated"}`); got.Failure != "rejected" || p.questions() != 1 {
			t.Errorf("%+v", got)
		}
		if got := r.call(ToolShell, `{"command":["touch","`+outside+`"]}`); got.Failure != "denied" || got.Outside {
			t.Errorf("%+v", got)
		}
	})
}

func TestAbortEndsTheTurn(t *testing.T) {
	p := &person{answer: Abort}
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Approver = p })
	began := make(chan struct{})
	sleeping := make(chan error, 1)
	p.whenever = func(ApprovalRequest) { <-began }
	go func() {
		_, err := NewRegistry().Dispatch(context.Background(), ToolInvocation{Session: r.session, Turn: r.turn, CallID: "other", ToolName: ToolShell,
			Payload: FunctionPayload{`{"command":"touch begun; sleep 600","timeout_ms":600000}`}})
		sleeping <- err
	}()
	go func() {
		for !r.exists("begun") && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		close(began)
	}()
	_, err := r.tools.Dispatch(t.Context(), r.invocation(ToolShell, `{"command":"rm -rf x"}`))
	if !errors.Is(err, ErrTurnAborted) || !r.turn.Aborted() {
		t.Errorf("%v, aborted %v", err, r.turn.Aborted())
	}
	if err := <-sleeping; !errors.Is(err, ErrTurnAborted) {
		t.Errorf("a call beside it: %v", err)
	}
	if _, err := r.tools.Dispatch(t.Context(), r.invocation(ToolShell, `{"command":"ls"}`)); !errors.Is(err, ErrTurnAborted) {
		t.Errorf("a later call of the turn: %v", err)
	}
	turn, err := r.session.Begin(t.Context(), r.session.TurnContext())
	if err != nil {
		t.Fatal(err)
	}
	r.turn = turn
	if got := r.call(ToolShell, `{"command":"echo next"}`); got.Text() != "next\n" {
		t.Errorf("the next turn: %+v", got)
	}
}

// TestApprovalsBindToWhatWasShown is case 29: the same again is silent; other folders, words and permissions ask.
func TestApprovalsBindToWhatWasShown(t *testing.T) {
	p := &person{answer: ApprovedForSession}
	r := newRig(t, approval.UnlessTrusted, func(c *SessionConfig) { c.Approver = p })
	if err := os.Mkdir(filepath.Join(r.work, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for n, c := range []struct {
		arguments string
		asks      bool
	}{
		{`{"command":"touch a"}`, true}, {`{"command":"touch a"}`, false}, {`{"command":"touch a","timeout_ms":5000}`, false},
		{`{"command":"touch a","workdir":"sub"}`, true}, {`{"command":"touch a; true"}`, true}, {`{"command":"touch  a"}`, true},
		{`{"command":["touch","a"]}`, true}, {`{"command":"touch a","sandbox_permissions":"require_escalated"}`, true}, {`{"command":"touch a"}`, false},
	} {
		before := p.questions()
		if got := r.call(ToolShell, c.arguments); code(got) != 0 {
			t.Errorf("%d %s: %+v", n, c.arguments, got)
		}
		if asked := p.questions() > before; asked != c.asks {
			t.Errorf("%d %s: asked %v", n, c.arguments, asked)
		}
	}
}

// TestAnApproverCannotChangeWhatRuns: what it is shown is a copy, and what runs is compared with what was decided.
func TestAnApproverCannotChangeWhatRuns(t *testing.T) {
	p := &person{answer: Approved, whenever: func(r ApprovalRequest) {
		for i := range r.Command {
			r.Command[i] = "touch changed"
		}
	}}
	r := newRig(t, approval.UnlessTrusted, func(c *SessionConfig) { c.Approver = p })
	r.call(ToolShell, `{"command":["touch","asked"]}`)
	if !r.exists("asked") || r.exists("changed") {
		t.Error("what ran is not what was asked")
	}
	request, err := r.invocation(ToolShell, "").ctx().request(t.Context(), wanted{argv: []string{"touch", "asked"}})
	if err != nil {
		t.Fatal(err)
	}
	request.params.Command[1] = "changed"
	var rejected *RejectedError
	if _, err := (oneShot{}).Run(t.Context(), request, ToolCtx{Session: r.session, Turn: r.turn}.attempt(0, false, false), ToolCtx{Session: r.session, Turn: r.turn}); !errors.As(err, &rejected) || r.exists("changed") {
		t.Errorf("%v", err)
	}
}

func TestWithoutAnybodyToAskNothingIsApproved(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	if got := r.call(ToolShell, `{"command":"rm -rf x"}`); got.Failure != "rejected" || got.ExitCode != nil {
		t.Errorf("%+v", got)
	}
	p := &person{answer: Approved, err: errors.New("the line is dead")}
	r = newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Approver = p })
	if out, err := r.tools.Dispatch(t.Context(), r.invocation(ToolShell, `{"command":"touch x; rm -rf x"}`)); err == nil || out != nil || r.exists("x") {
		t.Errorf("%v %v", out, err)
	}
}
