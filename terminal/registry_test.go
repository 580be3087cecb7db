package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// TestPayloads calls each tool in every way that it can be called.
func TestPayloads(t *testing.T) {
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Form = Bare })
	half := int64(500)
	for _, c := range []struct {
		tool    string
		payload ToolPayload
		want    string // what the model reads
	}{
		{ToolShell, FunctionPayload{`{"command":["echo","a"]}`}, "a\n"},
		{ToolContainer, FunctionPayload{`{"command":["echo","a"]}`}, "a\n"},
		{ToolShell, LocalShellPayload{ShellToolCallParams{Command: []string{"echo", "a"}, TimeoutMS: &half, SandboxPermissions: process.UseDefault}}, "a\n"},
		{ToolShell, McpPayload{Server: "s", Tool: "shell", RawArguments: `{"command":["echo","a"]}`}, "a\n"},
		{ToolShellCommand, CustomPayload{"echo $((1+1))"}, "2\n"},
		{ToolShellCommand, McpPayload{RawArguments: `{"command":"echo a"}`}, "a\n"},
		{ToolExecCommand, CustomPayload{"echo a"}, `{"output":"a\n","process_id":null,"exit_code":0}`},
		{ToolShell, CustomPayload{"echo a"}, "shell cannot be called this way"},
		{ToolWriteStdin, CustomPayload{"x"}, "write_stdin cannot be called this way"},
		{ToolWriteStdin, LocalShellPayload{}, "write_stdin cannot be called this way"},
		{"apply_patch", FunctionPayload{`{}`}, "unsupported call: apply_patch"},
		{ToolShell, FunctionPayload{`{"command":[]}`}, "failed to parse function arguments: `command` is empty"},
		{ToolShell, FunctionPayload{`{"command":["a\u0000b"]}`}, "shell failed: The command contains a NUL byte."},
		{ToolShellCommand, FunctionPayload{`{"command":"ls","shell":"/no/such/shell"}`}, "shell_command failed: "},
		{ToolShellCommand, FunctionPayload{`{"command":"ls","login":true}`}, "shell_command failed: Login shells are disabled here. Try: login: false"},
	} {
		out, err := r.tools.Dispatch(t.Context(), ToolInvocation{Session: r.session, Turn: r.turn, CallID: "c", ToolName: c.tool, Payload: c.payload})
		if err != nil {
			t.Errorf("%s %+v: %v", c.tool, c.payload, err)
			continue
		}
		if got := out.Text(); got != c.want && !(strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s %+v: %q, want %q", c.tool, c.payload, got, c.want)
		}
		_, mcp := c.payload.(McpPayload)
		if m, ok := out.(McpOutput); ok != mcp || ok && (m.Result.IsError || m.Result.StructuredContent == nil) {
			t.Errorf("%s %+v: answered by %T", c.tool, c.payload, out)
		}
	}
	out, err := r.tools.Dispatch(t.Context(), ToolInvocation{Session: r.session, Turn: r.turn, ToolName: ToolShell, Payload: McpPayload{RawArguments: `{"command":["false"]}`}})
	if m, ok := out.(McpOutput); err != nil || !ok || !m.Result.IsError {
		t.Errorf("a command that failed: %+v %v", out, err)
	} else if text, err := json.Marshal(m.Result); err != nil || !strings.Contains(string(text), `"exit_code":1`) {
		t.Errorf("%s %v", text, err)
	}
}

func TestWhatMayChangeSomething(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	for _, c := range []struct {
		tool, arguments string
		want            bool
	}{
		{ToolShell, `{"command":["ls"]}`, false}, {ToolShell, `{"command":["touch","x"]}`, true}, {ToolShellCommand, `{"command":"cat x | sort"}`, false}, {ToolShellCommand, `{"command":"cat x > y"}`, true},
		{ToolExecCommand, `{"cmd":"git status"}`, false}, {ToolExecCommand, `{"cmd":"make"}`, true}, {ToolExecCommand, `{"cmd":["bash","-lc","ls"]}`, false}, {ToolWriteStdin, `{"session_id":1}`, false},
		{ToolWriteStdin, `{"session_id":1,"chars":"x"}`, true}, {ToolShell, `{"command":`, false},
	} {
		i := r.invocation(c.tool, c.arguments)
		if got := r.tools.handlers[c.tool].IsMutating(t.Context(), i); got != c.want {
			t.Errorf("%s %s: %v", c.tool, c.arguments, got)
		}
	}
}

// TestACallEndsWithItsContext: who cancels is told so, and the command is gone.
func TestACallEndsWithItsContext(t *testing.T) {
	var events recorder
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Observer = &events })
	for _, tool := range []string{ToolShell, ToolExecCommand} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := errors.New("the client went away")
		ctx, end := context.WithCancelCause(ctx)
		go func() {
			for !r.exists("begun-"+tool) && t.Context().Err() == nil {
				time.Sleep(time.Millisecond)
			}
			end(gone)
		}()
		i := r.invocation(tool, `{"command":"touch begun-`+tool+`; sleep 600","timeout_ms":600000,"max_output_tokens":1}`)
		if out, err := r.tools.Dispatch(ctx, i); !errors.Is(err, gone) {
			t.Errorf("%s: %v %v", tool, out, err)
		}
		cancel()
	}
	for end := time.Now().Add(30 * time.Second); len(eventsOf[ExecCommandEnd](&events)) < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the commands go on: %+v", events.list)
		}
	}
}

func TestASandboxThatCannotBeMadeIsAnInfrastructureError(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	c := r.session.TurnContext()
	c.SandboxExe = "/opt/another"
	turn, err := r.session.Begin(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r.turn = turn
	for _, tool := range []string{ToolShell, ToolExecCommand} {
		if got := r.call(tool, `{"command":"touch x"}`); got.Failure != "io" || got.Stage != "sandbox" || !strings.Contains(got.Format(Labelled), "infrastructure: sandbox: ") || r.exists("x") {
			t.Errorf("%s: %+v", tool, got)
		}
	}
}

func TestPromptsTellWhatIsAskedAndRefused(t *testing.T) {
	seen := map[string]bool{}
	for _, ask := range []approval.Ask{approval.Never, approval.OnRequest, approval.OnFailure, approval.UnlessTrusted} {
		p := AskFor(approval.Policy{Ask: ask})
		if p.Prompt() == "" || seen[p.Prompt()] || p.Name() != ask.String() {
			t.Errorf("%v: %q", ask, p.Prompt())
		}
		seen[p.Prompt()] = true
	}
	text := AskFor(approval.Policy{Granular: &approval.Granular{Removal: true}, Locked: true}).Prompt()
	if !strings.Contains(text, "Refused without a question: leaving the sandbox, what a rule asks about, what is not proven to only read.") || !strings.Contains(text, "locked") {
		t.Error(text)
	}
}

func TestRequirementsOfDecisions(t *testing.T) {
	if got := RequirementOf(approval.Allow{Bypass: true}); got != (Skip{BypassSandbox: true}) {
		t.Errorf("%#v", got)
	}
	if got := RequirementOf(approval.Forbid{Why: "no"}); got != (Forbidden{Reason: "no"}) {
		t.Errorf("%#v", got)
	}
	if got, ok := RequirementOf(approval.Question{Reasons: []string{"a", "b"}, Outside: true}).(NeedsApproval); !ok || got.Reason != "a b" || !got.Question.Outside {
		t.Errorf("%#v", got)
	}
	if _, ok := RequirementOf(nil).(Forbidden); !ok {
		t.Error("no decision lets run")
	}
}
