package terminal_test

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/command"
	"github.com/hardshell-dev/hardshell/terminal/shell"
)

// call runs one call of a tool in a session of its own and prints what the model reads.
func call(config terminal.SessionConfig, registry *terminal.Registry, tool, arguments string) {
	ctx := context.Background()
	work, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(work)
	config.Cwd = work
	s, err := terminal.Open(config)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	turn, err := s.Begin(ctx, s.TurnContext())
	if err != nil {
		log.Fatal(err)
	}
	defer turn.End()
	out, err := registry.Dispatch(ctx, terminal.ToolInvocation{Session: s, Turn: turn, CallID: "call_1", ToolName: tool,
		Payload: terminal.FunctionPayload{Arguments: arguments}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Text())
}

// A model runs a command: in the workspace, in a sandbox, without a question. The bare form is the output alone.
func Example() {
	config := terminal.SessionConfig{SandboxPolicy: terminal.DefaultSandbox(), Form: terminal.Bare, DisableLogin: true}
	call(config, terminal.NewRegistry(), "shell_command", `{"command": "echo made >here && cat here"}`)
	// Output: made
}

// A command that lives on: one call starts it, others type and wait. Here the whole life is played in one turn.
func Example_session() {
	ctx := context.Background()
	work, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(work)
	s, err := terminal.Open(terminal.SessionConfig{Cwd: work, SandboxPolicy: terminal.DefaultSandbox(), DisableLogin: true})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	turn, err := s.Begin(ctx, s.TurnContext())
	if err != nil {
		log.Fatal(err)
	}
	defer turn.End()
	turn.Tracker = terminal.NewTurnDiffTracker(work)
	tools := terminal.NewRegistry()
	for _, c := range [][2]string{
		{"exec_command", `{"cmd": "read -p 'name? ' name; echo hello $name >greeting; exit 3", "tty": true, "process_id": "greeter", "wait_for": {"pattern": "name"}}`},
		{"write_stdin", `{"process_id": "greeter", "chars": "ann\n", "wait_for": "exit"}`},
	} {
		out, err := tools.Dispatch(ctx, terminal.ToolInvocation{Session: s, Turn: turn, CallID: "call_1", ToolName: c[0], Payload: terminal.FunctionPayload{Arguments: c[1]}})
		if err != nil {
			log.Fatal(err)
		}
		r := out.(terminal.FunctionOutput).Result
		if r.ExitCode == nil {
			fmt.Printf("%s lives on\n", r.ProcessID)
		} else {
			fmt.Printf("%s %s with code %d\n", r.ProcessID, r.State, *r.ExitCode)
		}
	}
	changes, err := turn.Tracker.Changes()
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range changes {
		fmt.Println(c.Kind, c.Path)
	}
	// Output:
	// greeter lives on
	// greeter exited with code 3
	// created greeting
}

// A person is asked before files are removed without asking. What is shown is every part, whole.
func ExampleApprover() {
	ask := terminal.ApproverFunc(func(_ context.Context, r terminal.ApprovalRequest) (terminal.Review, error) {
		fmt.Println(strings.Join(r.Lines, "\n"))
		fmt.Println(r.Effect)
		return terminal.Review{Decision: terminal.Denied, Reason: "Not the build folder, please."}, nil
	})
	config := terminal.SessionConfig{SandboxPolicy: terminal.DefaultSandbox(), Approver: ask, DisableLogin: true}
	call(config, terminal.NewRegistry(), "shell_command", `{"command": "cd . && rm -rf build"}`)
	// Output:
	// cd .
	// rm -rf build
	// It runs once, inside the sandbox.
	// shell_command failed: Not the build folder, please.
}

// upper is a shell type of one's own: its whole language is to say what it is given in capitals.
type upper struct{}

func (upper) Name() string { return "upper" }

func (upper) Prepare(c shell.Call) (shell.Invocation, error) {
	return shell.Invocation{Argv: []string{"/bin/echo", strings.ToUpper(c.Command)}, Env: c.Policy.Apply(c.Environ)}, nil
}

// Nobody here can read its command lines before they run, so nothing about them is proven.
func (upper) Grammar() (command.Dialect, bool) { return 0, false }

// A shell of one's own is found by name. No shell is taken for another one.
func ExampleShell() {
	config := terminal.SessionConfig{SandboxPolicy: terminal.DefaultSandbox(), Form: terminal.Bare, DisableLogin: true}
	config.Shells = func(name string) (terminal.Shell, error) {
		if name == "upper" {
			return upper{}, nil
		}
		return terminal.LocalShells()(name)
	}
	call(config, terminal.NewRegistry(), "shell_command", `{"command": "hello", "shell": "upper"}`)
	// Output: HELLO
}

// counted is a sandbox backend that wraps the local one: it puts a word into each environment, and knows a denial that
// the local one does not.
type counted struct{ terminal.LocalBackend }

func (b counted) Transform(spec process.ExecParams, p sandbox.Policy, t process.SandboxType) (process.ExecEnv, error) {
	env, err := b.LocalBackend.Transform(spec, p, t)
	if err == nil {
		env.Env["MY_SANDBOX"] = t.String()
	}
	return env, err
}

func (b counted) Denial(place terminal.Place, spec terminal.PlaceSpec, dir string, code int, said []byte) (sandbox.Denial, bool) {
	if strings.Contains(string(said), "quota") {
		return sandbox.Denial{Kind: sandbox.DenialWrite, Evidence: sandbox.ByPolicy, Denied: "the quota is used up", Allow: "fewer files would fit"}, true
	}
	return b.LocalBackend.Denial(place, spec, dir, code, said)
}

// A sandbox backend of one's own, on a system where it selects a mechanism of its own, transforms the command for it,
// and says what was denied.
func ExampleSandboxBackend() {
	config := terminal.SessionConfig{SandboxPolicy: terminal.DefaultSandbox(), Backend: counted{}, Form: terminal.Bare, DisableLogin: true}
	call(config, terminal.NewRegistry(), "shell_command", `{"command": "echo $MY_SANDBOX"}`)
	config.Observer = observer(func(e terminal.Event) {
		if end, ok := e.(terminal.ExecCommandEnd); ok {
			fmt.Println(end.Error, "-", end.Message)
		}
	})
	call(config, terminal.NewRegistry(), "shell_command", `{"command": "echo quota >&2; exit 1"}`)
	// Output:
	// LinuxSeccomp
	//
	// denied - the quota is used up; fewer files would fit
	// quota
}

type observer func(terminal.Event)

func (o observer) Observe(e terminal.Event) { o(e) }

// officeHours is an approval policy of one's own: as on request, and nothing leaves the sandbox at night.
type officeHours struct {
	terminal.ApprovalPolicy
	night bool
}

func (o officeHours) Name() string { return "office-hours" }

func (o officeHours) Decide(call approval.Call, rules []approval.Rule, grants approval.Grants) approval.Decision {
	if o.night && call.Escalate {
		return approval.Forbid{Why: "It is night: nothing leaves the sandbox before eight."}
	}
	return o.ApprovalPolicy.Decide(call, rules, grants)
}

func (o officeHours) Prompt() string {
	return o.ApprovalPolicy.Prompt() + " Between eight in the evening and eight in the morning nobody can be asked."
}

// An approval policy of one's own decides, and brings the text that tells the model how to live with it.
func ExampleApprovalPolicy() {
	policy := officeHours{terminal.AskFor(approval.Policy{Ask: approval.OnRequest}), true}
	config := terminal.SessionConfig{SandboxPolicy: terminal.DefaultSandbox(), ApprovalPolicy: policy, DisableLogin: true}
	call(config, terminal.NewRegistry(), "shell_command", `{"command": "make install", "sandbox_permissions": "require_escalated"}`)
	fmt.Println(policy.Prompt()[len(policy.ApprovalPolicy.Prompt())+1:])
	// Output:
	// shell_command failed: It is night: nothing leaves the sandbox before eight.
	// Between eight in the evening and eight in the morning nobody can be asked.
}

// renameTool is a tool of one's own, and the runtime behind it: it renames a file, in the sandbox if there is one.
type renameTool struct{}

func (renameTool) Kind() terminal.ToolKind                                  { return terminal.KindFunction }
func (renameTool) MatchesKind(terminal.ToolPayload) bool                    { return true }
func (renameTool) IsMutating(context.Context, terminal.ToolInvocation) bool { return true }
func (renameTool) SandboxPreference() terminal.SandboxPreference            { return terminal.SandboxRequire }
func (renameTool) EscalateOnFailure() bool                                  { return false }
func (renameTool) ApprovalKeys(r [2]string) []terminal.ApprovalKey {
	return []terminal.ApprovalKey{terminal.ApprovalKey("rename " + r[0])}
}

func (renameTool) StartApproval(ctx context.Context, r [2]string, a terminal.ApprovalCtx) (terminal.Review, error) {
	fmt.Printf("asked: rename %s to %s? %s\n", r[0], r[1], a.Need.Reason)
	return terminal.Review{Decision: terminal.ApprovedForSession}, nil
}

func (renameTool) Run(ctx context.Context, r [2]string, attempt terminal.SandboxAttempt, t terminal.ToolCtx) (string, error) {
	place, release, err := attempt.Place(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	env, err := attempt.EnvFor(process.ExecParams{Command: []string{"/bin/mv", "--", r[0], r[1]}, Cwd: t.Turn.Cwd})
	if err != nil {
		return "", err
	}
	out, err := env.Run(ctx, place, t.CallID, 0)
	return fmt.Sprintf("mv exited with %d: %s", out.ExitCode, out.Stderr.Text), err
}

func (h renameTool) Handle(ctx context.Context, i terminal.ToolInvocation) (terminal.ToolOutput, error) {
	t := terminal.ToolCtx{Session: i.Session, Turn: i.Turn, CallID: i.CallID, ToolName: i.ToolName}
	text, err := terminal.Orchestrate(ctx, terminal.ToolRuntime[[2]string, string](h), [2]string{"a", "b"}, t)
	return terminal.FunctionOutput{Content: text}, err
}

// A tool of one's own goes the same way as those for commands: approval, sandbox, attempt.
func ExampleToolRuntime() {
	registry := terminal.NewRegistry()
	registry.Register("rename", renameTool{})
	policy := terminal.AskFor(approval.Policy{Ask: approval.UnlessTrusted})
	config := terminal.SessionConfig{SandboxPolicy: terminal.DefaultSandbox(), ApprovalPolicy: policy, DisableLogin: true}
	call(config, registry, "rename", `{}`)
	// Output:
	// asked: rename a to b? It is not proven to only read.
	// mv exited with 1: /bin/mv: cannot stat 'a': No such file or directory
}

// Rules are read once, with their examples; a rule that does not bear out its own examples is not taken.
func Example_rules() {
	rules, err := approval.Load("rules.toml", []byte(`
[[rule]]
prefix = ["git", "push"]
decision = "forbid"
why = "a person pushes"
match = ["git -C sub push", "sudo git push"]
not_match = ["git status"]
`), approval.User)
	if err != nil {
		log.Fatal(err)
	}
	config := terminal.SessionConfig{SandboxPolicy: terminal.DefaultSandbox(), Rules: rules, DisableLogin: true}
	call(config, terminal.NewRegistry(), "shell_command", `{"command": "cd . ; bash -c 'git push'"}`)
	// Output: shell_command failed: a person pushes
}

// TestMain skips the examples by name where no box can be made: an example cannot skip itself.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := sandbox.Supported(context.Background()); err != nil {
		if require.Demanded("jail") {
			log.Fatalf("required feature \"jail\" is not to be had: %v", err)
		}
		fmt.Println("SKIPPED feature=jail: the examples:", err)
		flag.Set("test.skip", "^Example")
	}
	os.Exit(m.Run())
}
