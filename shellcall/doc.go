// Package shellcall runs the shell calls that a Responses endpoint leaves to its client: OpenAI's, with
// {"type": "shell", "environment": {"type": "local"}}, or any server of that shape. The commands of shell_call items go
// through package terminal, so that a sandbox, rules and a person stand before each of them, and what became of them comes
// back as shell_call_output items; apply_patch_call items change files of the workspace.
//
//	e, err := shellcall.New(shellcall.Options{Terminal: terminal.SessionConfig{Cwd: dir, SandboxPolicy: terminal.DefaultSandbox()}})
//	if err != nil {
//		return err
//	}
//	defer e.Close()
//	for {
//		response := ask(model, e.Instructions(), input, previous) // POST /v1/responses, tools: [{"type": "shell", …}]
//		input, err = e.Answer(ctx, response.Output)
//		if err != nil || len(input) == 0 {
//			return err
//		}
//		previous = response.ID
//	}
//
// It is no client: how a request is sent is the caller's, and it knows nothing of models. It does not cut output to what a
// model should read: that is the endpoint's, which is told the call's max_output_length again.
//
// # What holds
//
// Every call gets exactly one output, and every command of it one result, whatever happens: success, refusal, time-out,
// cancel, a sandbox that breaks. A time-out keeps what was printed and is {"type": "timeout"}. What was not allowed to run
// has exit code 126 ([ExitDenied]) and says why on stderr; it never looks like success. What this package itself has to say
// stands at the end of stderr, on lines that begin with "hardshell:"; the rest is the command's, byte for byte but for
// what is no UTF-8.
//
// Commands get no terminal, no standard input, and an environment in which programs neither ask nor page. When the context
// ends they are killed, and all that they started.
//
// No item widens anything: workspace, sandbox, policies and lists are those of [Options]. A patch is held to what commands
// may write, cannot leave the workspace by any spelling or link, and changes its file in one step or not at all.
//
// # Two ways to run
//
// By default each command has a shell of its own and all run at the same time, as the vendor recommends. With
// [Options.Persistent] one bash gets them in order, and keeps folder, variables, functions and background jobs from one to
// the next, until exit, a time-out or a cancel ends it; the result then says that the next command starts in a new one. What
// background jobs print between two commands comes with the next.
package shellcall
