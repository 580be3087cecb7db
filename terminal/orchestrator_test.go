package terminal

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// probe is a runtime that runs nothing and remembers how it was run.
type probe struct {
	preference  SandboxPreference
	escalates   bool
	requirement ExecApprovalRequirement
	keys        []ApprovalKey
	answers     []Review
	denies      bool // the first attempt in a sandbox is denied something
	outsideOnly bool

	asked    []ApprovalCtx
	attempts []SandboxAttempt
}

func (p *probe) SandboxPreference() SandboxPreference { return p.preference }
func (p *probe) EscalateOnFailure() bool              { return p.escalates }
func (p *probe) ApprovalKeys(string) []ApprovalKey    { return p.keys }
func (p *probe) SandboxModeForFirstAttempt(string) SandboxOverride {
	if p.outsideOnly {
		return BypassSandboxFirstAttempt
	}
	return NoOverride
}

func (p *probe) ExecApprovalRequirement(string, ToolCtx) ExecApprovalRequirement {
	return p.requirement
}

func (p *probe) StartApproval(_ context.Context, _ string, a ApprovalCtx) (Review, error) {
	p.asked = append(p.asked, a)
	answer := p.answers[0]
	p.answers = p.answers[1:]
	return answer, nil
}

func (p *probe) Run(_ context.Context, r string, attempt SandboxAttempt, _ ToolCtx) (string, error) {
	p.attempts = append(p.attempts, attempt)
	if p.denies && attempt.Sandbox != process.SandboxNone {
		return "", &DeniedError{Denial: sandbox.Denial{Denied: "it was denied", Allow: "nothing allows it"}}
	}
	return "ran " + r, nil
}

// linux is a backend that opens nothing, on whatever system.
type linux struct{ LocalBackend }

func (linux) Select(p sandbox.Policy, _ SandboxPreference) process.SandboxType {
	return sandbox.SelectType(p, "linux")
}

func contextOf(t *testing.T, mode sandbox.Mode, p approval.Policy) ToolCtx {
	t.Helper()
	s, err := Open(SessionConfig{Cwd: t.TempDir(), SandboxPolicy: sandbox.Policy{Mode: mode}, ApprovalPolicy: AskFor(p), Backend: linux{}, Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	turn, err := s.Begin(t.Context(), s.TurnContext())
	if err != nil {
		t.Fatal(err)
	}
	return ToolCtx{Session: s, Turn: turn, CallID: "c", ToolName: "probe"}
}

// outsideQuestion is a question whose approval leaves the sandbox.
var outsideQuestion = NeedsApproval{Reason: "it asks", Question: approval.Question{Outside: true}}

func TestOrchestrate(t *testing.T) {
	yes, no := Review{Decision: Approved}, Review{Decision: Denied}
	for _, c := range []struct {
		name    string
		runtime probe
		mode    sandbox.Mode
		ask     approval.Ask
		want    string // how it ended
		types   []process.SandboxType
		asked   int
	}{
		{"nothing to ask", probe{requirement: Skip{}}, sandbox.WorkspaceWrite, approval.OnRequest, "ran", []process.SandboxType{process.SandboxLinuxSeccomp}, 0},
		{"full access", probe{requirement: Skip{BypassSandbox: true}}, sandbox.DangerFullAccess, approval.OnRequest, "ran", []process.SandboxType{process.SandboxNone}, 0},
		{"somebody else's sandbox", probe{requirement: Skip{BypassSandbox: true}}, sandbox.ExternalSandbox, approval.OnRequest, "ran", []process.SandboxType{process.SandboxNone}, 0},
		{"forbidden", probe{requirement: Forbidden{"no such thing"}}, sandbox.WorkspaceWrite, approval.OnRequest, "rejected", nil, 0},
		{"no answer at all", probe{}, sandbox.WorkspaceWrite, approval.OnRequest, "rejected", nil, 0},
		{"approved inside", probe{requirement: NeedsApproval{}, answers: []Review{yes}}, sandbox.WorkspaceWrite, approval.OnRequest, "ran", []process.SandboxType{process.SandboxLinuxSeccomp}, 1},
		{"approved outside", probe{requirement: outsideQuestion, outsideOnly: true, answers: []Review{yes}}, sandbox.WorkspaceWrite, approval.OnRequest, "ran", []process.SandboxType{process.SandboxNone}, 1},
		{"approved inside, and it would bypass", probe{requirement: NeedsApproval{}, outsideOnly: true, answers: []Review{yes}}, sandbox.WorkspaceWrite, approval.OnRequest, "ran", []process.SandboxType{process.SandboxLinuxSeccomp}, 1},
		{"denied by the person", probe{requirement: NeedsApproval{}, answers: []Review{no}}, sandbox.WorkspaceWrite, approval.OnRequest, "rejected", nil, 1},
		{"aborted", probe{requirement: NeedsApproval{}, answers: []Review{{Decision: Abort}}}, sandbox.WorkspaceWrite, approval.OnRequest, "aborted", nil, 1},
		{"cannot run in a sandbox", probe{requirement: Skip{}, preference: SandboxForbid}, sandbox.WorkspaceWrite, approval.OnRequest, "rejected", nil, 0},
		{"cannot run in a sandbox, and there is none", probe{requirement: Skip{}, preference: SandboxForbid}, sandbox.DangerFullAccess, approval.OnRequest, "ran", []process.SandboxType{process.SandboxNone}, 0},

		{"denial, never", probe{requirement: Skip{}, escalates: true, denies: true}, sandbox.WorkspaceWrite, approval.Never, "denied", []process.SandboxType{process.SandboxLinuxSeccomp}, 0},
		{"denial, on request", probe{requirement: Skip{}, escalates: true, denies: true}, sandbox.WorkspaceWrite, approval.OnRequest, "denied", []process.SandboxType{process.SandboxLinuxSeccomp}, 0},
		{"denial, on failure, yes", probe{requirement: Skip{}, escalates: true, denies: true, answers: []Review{yes}}, sandbox.WorkspaceWrite, approval.OnFailure, "ran", []process.SandboxType{process.SandboxLinuxSeccomp, process.SandboxNone}, 1},
		{"denial, on failure, no", probe{requirement: Skip{}, escalates: true, denies: true, answers: []Review{no}}, sandbox.WorkspaceWrite, approval.OnFailure, "denied", []process.SandboxType{process.SandboxLinuxSeccomp}, 1},
		{"denial, on failure, abort", probe{requirement: Skip{}, escalates: true, denies: true, answers: []Review{{Decision: Abort}}}, sandbox.WorkspaceWrite, approval.OnFailure, "aborted", []process.SandboxType{process.SandboxLinuxSeccomp}, 1},
		{"denial, untrusted, yes twice", probe{requirement: NeedsApproval{}, escalates: true, denies: true, answers: []Review{yes, yes}}, sandbox.ReadOnly, approval.UnlessTrusted, "ran", []process.SandboxType{process.SandboxLinuxSeccomp, process.SandboxNone}, 2},
		{"denial, on failure, and it does not escalate", probe{requirement: Skip{}, denies: true}, sandbox.WorkspaceWrite, approval.OnFailure, "denied", []process.SandboxType{process.SandboxLinuxSeccomp}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := contextOf(t, c.mode, approval.Policy{Ask: c.ask})
			rt := c.runtime
			out, err := Orchestrate(t.Context(), ToolRuntime[string, string](&rt), "x", ctx)
			if got := ending(out, err); got != c.want || ctx.Turn.Aborted() != (c.want == "aborted") {
				t.Errorf("%s (%v, %v), aborted %v; want %s", got, out, err, ctx.Turn.Aborted(), c.want)
			}
			var types []process.SandboxType
			for _, a := range rt.attempts {
				types = append(types, a.Sandbox)
				if a.Sandbox == process.SandboxNone && c.mode != sandbox.ExternalSandbox && a.Policy.Mode != sandbox.DangerFullAccess {
					t.Errorf("an attempt without a sandbox under %v", a.Policy.Mode)
				}
				if a.Outside != (a.Sandbox == process.SandboxNone && confines(ctx.Turn.SandboxPolicy)) {
					t.Errorf("outside: %+v", a)
				}
			}
			if !slices.Equal(types, c.types) || len(rt.asked) != c.asked {
				t.Errorf("attempts %v, want %v; asked %d times, want %d", types, c.types, len(rt.asked), c.asked)
			}
		})
	}
}

func ending(out string, err error) string {
	var rejected *RejectedError
	var denied *DeniedError
	switch {
	case err == nil && out == "ran x":
		return "ran"
	case errors.As(err, &rejected) && rejected.Abort:
		return "aborted"
	case errors.As(err, &rejected):
		return "rejected"
	case errors.As(err, &denied):
		return "denied"
	}
	return "something else"
}

func TestWhatWasApprovedForTheSessionIsNotAskedAgain(t *testing.T) {
	ctx := contextOf(t, sandbox.WorkspaceWrite, approval.Policy{Ask: approval.OnFailure})
	rt := &probe{requirement: NeedsApproval{}, keys: []ApprovalKey{"a", "b"}, escalates: true, denies: true,
		answers: []Review{{Decision: ApprovedForSession}, {Decision: ApprovedForSession}}}
	for range 2 {
		if out, err := Orchestrate(t.Context(), ToolRuntime[string, string](rt), "x", ctx); ending(out, err) != "ran" {
			t.Fatal(out, err)
		}
	}
	if len(rt.asked) != 2 || rt.asked[1].RetryReason == "" {
		t.Errorf("asked %d times, want once inside and once for the retry", len(rt.asked))
	}
	rt.keys, rt.answers = []ApprovalKey{"a", "c"}, []Review{{Decision: Denied}} // one of its keys is new
	if out, err := Orchestrate(t.Context(), ToolRuntime[string, string](rt), "x", ctx); ending(out, err) != "rejected" {
		t.Error(out, err)
	}
	rt.keys, rt.answers = nil, []Review{{Decision: Denied}} // nothing names what would be approved
	if out, err := Orchestrate(t.Context(), ToolRuntime[string, string](rt), "x", ctx); ending(out, err) != "rejected" {
		t.Error(out, err)
	}
}

func TestARuntimeWithoutARequirementHasTheDefaults(t *testing.T) {
	for _, c := range []struct {
		ask  approval.Ask
		mode sandbox.Mode
		want ExecApprovalRequirement
	}{
		{approval.Never, sandbox.WorkspaceWrite, Skip{}}, {approval.OnRequest, sandbox.ReadOnly, Skip{}}, {approval.OnFailure, sandbox.WorkspaceWrite, Skip{}},
		{approval.UnlessTrusted, sandbox.WorkspaceWrite, NeedsApproval{Reason: "It is not proven to only read."}},
		{approval.OnRequest, sandbox.DangerFullAccess, Skip{BypassSandbox: true}}, {approval.Never, sandbox.ExternalSandbox, Skip{BypassSandbox: true}},
	} {
		got := contextOf(t, c.mode, approval.Policy{Ask: c.ask}).defaultRequirement()
		if skip, ok := c.want.(Skip); ok && got != skip {
			t.Errorf("%v under %v: %#v", c.ask, c.mode, got)
		} else if _, ok := got.(NeedsApproval); !ok && c.ask == approval.UnlessTrusted {
			t.Errorf("%v under %v: %#v", c.ask, c.mode, got)
		}
	}
}

func TestAnAnswerAfterTheEndCountsForNothing(t *testing.T) {
	ctx := contextOf(t, sandbox.WorkspaceWrite, approval.Policy{})
	rt := &probe{requirement: NeedsApproval{}, answers: []Review{{Decision: Approved}}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Orchestrate(ended, ToolRuntime[string, string](rt), "x", ctx); !errors.Is(err, context.Canceled) || len(rt.attempts) > 0 {
		t.Errorf("%v, %d attempts", err, len(rt.attempts))
	}
}
