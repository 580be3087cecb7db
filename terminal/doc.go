// Package terminal is an agent's hands on this machine: the tools by which a model runs commands, and all that stands
// between the model's words and the processor: who is asked, in what sandbox it runs, what the model is told.
//
// # A session and its tools
//
// A [Session] is one agent's place. A [Turn] is one turn of its conversation. A [Registry] serves the tools.
//
//	s, err := terminal.Open(terminal.SessionConfig{Cwd: "/home/ann/project", SandboxPolicy: terminal.DefaultSandbox()})
//	if err != nil {
//		return err
//	}
//	defer s.Close()
//	turn, err := s.Begin(ctx, s.TurnContext())
//	if err != nil {
//		return err
//	}
//	defer turn.End()
//	out, err := terminal.NewRegistry().Dispatch(ctx, terminal.ToolInvocation{Session: s, Turn: turn, CallID: "call_1",
//		ToolName: "shell_command", Payload: terminal.FunctionPayload{Arguments: `{"command": "go test ./..."}`}})
//
// out.Text() is what the model reads. [Specs] is the model's tool list. shell, container.exec and shell_command run a
// command to its end and keep nothing; exec_command starts one that may live on, and write_stdin types into it, waits for
// it and looks at it. Each understands the spellings of its older and newer selves; what no tool has is refused, so that
// no argument can weaken anything unseen.
//
// # Who is asked
//
// [SessionConfig.ApprovalPolicy] says when a person is asked, [SessionConfig.Approver] is the way to that person. The
// table of what runs, asks and is refused is docs/decisions/0017 in the repository. Without an approver, what would be
// asked is refused. An approval holds for exactly what was shown: bytes, folder, terminal, permissions and all that
// confines it. Rules ([approval.Load]) save questions and forbid; the sandbox is the boundary, and no rule leaves it.
//
// # What happens to a call
//
// Every request goes through [Orchestrate]: the approval that its policy asks for, the sandbox that its policy selects,
// the attempt and, where the sandbox denied it something and both policy and person allow it, one more outside. What went
// wrong is typed: [TimeoutError], [DeniedError], [SignalError], [IoError], [RejectedError]. The result says what was asked
// and what was got: sandbox, time-out as applied, folders, bytes, what was denied and what would allow it.
//
// What the machinery itself gets wrong is an [IoError] that names its stage, within seconds: a sandbox that cannot be made,
// that starts nothing, or that does not answer any more. Such a sandbox serves no further call, so the same call made
// again, under the same process_id, runs in another one. Output that is mostly no text is told by type, size and digest.
//
// # Commands that live on
//
// exec_command answers with a session once its yield time is over, and write_stdin goes on with it: typing, or waiting for
// an exit, a pattern, a port or silence (wait_for), so that a long build costs two calls. [Session.Live] has them all; see
// package session for what is known of each, for passwords, and for how many there may be.
//
// # Making it yours
//
//   - a shell: implement [Shell], and find it by [SessionConfig.Shells]
//   - a sandbox: implement [SandboxBackend], or wrap [LocalBackend]
//   - an approval policy, with the text that tells a model of it: implement [ApprovalPolicy]
//   - a tool: implement [ToolHandler] and register it; what it runs is a [ToolRuntime] of its own
//   - logs, metrics, audit: implement [Observer]
//
// # What holds
//
// No argument of a model widens anything: the workspace, the policies and the environment are the embedding program's. A
// call's folder moves the command and never what may be written. A command that has ended leaves no process behind, but
// where it was started in the background; and closing a session leaves none at all. A command never runs weaker confined than its policy accepts. What runs is what
// was decided about, byte for byte.
package terminal
