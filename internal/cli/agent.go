package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/audit"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/shellcall"
	tools "github.com/hardshell-dev/hardshell/terminal"
)

type agentCommand struct {
	globals
	policyFlags
	Model      string   `short:"m" help:"provider/model, an alias, or a name that only one provider has. scripted is built in and needs no key: it runs the prompt's lines that begin with '$ '."`
	URL        string   `name:"url" placeholder:"URL" help:"A Responses endpoint: of another server, or https://api.openai.com/v1 (default: the server that runs on the data folder, else one for this turn only)."`
	Previous   string   `placeholder:"ID" help:"Go on with a conversation, from one of its responses."`
	Network    string   `enum:"off,full" default:"off" placeholder:"off|full" help:"What commands may reach: off (nothing but their own loopback) or full. Default: off."`
	Writable   []string `placeholder:"DIR" sep:"none" help:"A further folder that commands may write, with workspace-write. May be given more than once."`
	Allow      []string `placeholder:"COMMAND" sep:"none" help:"Run nothing but this, by its beginning ('git status'). May be given more than once."`
	Deny       []string `placeholder:"COMMAND" sep:"none" help:"Never run this. May be given more than once."`
	Timeout    span     `placeholder:"DURATION" help:"End a command after this long, unless its call says otherwise. Default: 1m."`
	Persistent bool     `help:"One shell for the whole turn: folder and variables last from one command to the next, and commands run in order."`
	Rounds     int      `default:"100" placeholder:"N" help:"Ask the model at most this often. Default: 100."`
	JSON       bool     `help:"Write what happens as JSON on stdout, an object per line."`
	Prompt     []string `arg:"" optional:"" help:"What to do; - or nothing reads it from stdin."`
}

func (agentCommand) Help() string {
	return `The commands run here, in this folder, in a sandbox; the model may be anywhere. Each command is shown before it runs, asked about
as the policy says, and accounted for as by hardshell run. The model's text is stdout, the rest stderr. Ctrl-C stops the
command that runs; once more, or when none runs, it ends the turn. Exit code 0: completed; 1: failed or incomplete; 2: wrong
usage.

Example:

  hardshell agent --model scripted '$ ls -la'
  hardshell agent --approval untrusted 'make the tests pass'
  hardshell agent --url https://api.openai.com/v1 --model gpt-5.1 'find the largest PDF in this folder'
`
}

// Run works until the model has no further call.
func (c agentCommand) Run(ctx context.Context, p *program) (err error) {
	ask := askCommand{globals: c.globals, Model: c.Model, URL: c.URL, Prompt: c.Prompt}
	prompt, err := ask.prompt(p)
	if err != nil {
		return err
	}
	if c.Rounds < 1 {
		return usageError{fault.New(fault.Invalid, "there is at least one round").WithTry("--rounds 100")}
	}
	loaded, err := p.load(c.globals)
	if err != nil {
		return err
	}
	w := &agentWork{c: c, p: p, view: newAgentView(p, c)}
	defer func() { w.view.end(err) }()
	stop, err := w.open(loaded.Config.Storage.Data, loaded.Path)
	if err != nil {
		return err
	}
	defer stop()
	if c.URL != "" {
		key, err := p.agentKey(c.URL, loaded.Config.Storage.Data)
		if err != nil {
			return err
		}
		w.api = &asked{client: newClient(c.URL, key, "")}
	} else {
		local := *p
		local.local = true
		api, close, err := ask.server(ctx, &local, loaded.Config)
		if err != nil {
			return err
		}
		defer close()
		w.api = api
	}
	if w.model, err = chooseModel(ctx, p, w.api, c.Model, loaded.Config.Models.Default); err != nil {
		return err
	}
	input := []json.RawMessage{}
	if c.Previous != "" {
		if input, err = w.unanswered(ctx, c.Previous); err != nil {
			return err
		}
	}
	user, err := openai.Marshal(map[string]any{"type": "message", "role": "user", "content": prompt})
	if err != nil {
		return fmt.Errorf("write the prompt: %w", err)
	}
	return w.turn(ctx, append(input, user))
}

// agentWork is one turn of an agent.
type agentWork struct {
	c     agentCommand
	p     *program
	api   *asked
	model string
	view  *agentView
	hands *shellcall.Executor
	plain bool // the server has no apply_patch
}

// open makes what runs the commands.
func (w *agentWork) open(data, settings string) (stop func(), err error) {
	hand := mcpServeCommand{policyFlags: w.c.policyFlags, Network: w.c.Network, Writable: w.c.Writable, NoLogin: true}
	config, err := hand.terminal(w.p)
	if err != nil {
		return nil, err
	}
	if err := hand.guard(w.p, data, settings, &config); err != nil {
		return nil, err
	}
	record, err := audit.Open(filepath.Join(data, auditFolder), audit.Options{Writer: "agent", Mask: telemetry.Redact, Failed: func(err error) {
		fmt.Fprintln(w.p.Err, "hardshell: the audit cannot be written:", err)
	}})
	if err != nil {
		return nil, err
	}
	config.Observer, config.Approver, config.Backend = record, w.view, w.view.boxes
	w.hands, err = shellcall.New(shellcall.Options{Terminal: config, Allow: w.c.Allow, Deny: w.c.Deny, Timeout: time.Duration(w.c.Timeout),
		Persistent: w.c.Persistent, Observer: w.view})
	if err != nil {
		return nil, errors.Join(err, record.Close())
	}
	w.view.sandbox = config.SandboxPolicy
	return func() {
		if err := w.hands.Close(); err != nil {
			fmt.Fprintln(w.p.Err, "hardshell:", err)
		}
		if err := record.Close(); err != nil {
			fmt.Fprintln(w.p.Err, "hardshell: the audit is not complete:", err)
		}
	}, nil
}

// turn asks and runs, by turns, until nothing is left to run.
func (w *agentWork) turn(ctx context.Context, input []json.RawMessage) error {
	previous := w.c.Previous
	defer func() {
		if previous != "" {
			w.view.say("go on    --previous " + previous + "\n")
		}
	}()
	for range w.c.Rounds {
		final, err := w.ask(ctx, input, previous)
		if err != nil {
			return err
		}
		if final.ID != "" {
			previous = final.ID
		}
		output := make([]json.RawMessage, len(final.Output))
		for i, item := range final.Output {
			output[i] = item.Raw
		}
		waiting, err := shellcall.Pending(output)
		if err != nil {
			return err
		}
		if waiting == 0 || final.Status != openai.Completed {
			return w.view.verdict()
		}
		if input, err = w.run(ctx, output); err != nil {
			return err
		}
	}
	return fault.New(fault.Upstream, "the model was asked %d times and wants to go on", w.c.Rounds).WithTry("--previous %s, to go on", previous)
}

// ask sends one request and shows its answer.
func (w *agentWork) ask(ctx context.Context, input []json.RawMessage, previous string) (*openai.Response, error) {
	answer, err := w.api.post(ctx, "/v1/responses", w.request(input, previous))
	if fault.KindOf(err) == fault.Invalid && !w.plain && strings.Contains(err.Error(), "apply_patch") {
		w.plain = true // nothing has run: the request was refused as it stands
		answer, err = w.api.post(ctx, "/v1/responses", w.request(input, previous))
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if err := w.view.watch(ctx, answer.Body); err != nil {
		return nil, err
	}
	if w.view.final == nil {
		return nil, w.view.verdict()
	}
	w.view.response()
	return w.view.final, nil
}

func (w *agentWork) request(input []json.RawMessage, previous string) map[string]any {
	list := []map[string]any{{"type": "shell", "environment": map[string]string{"type": "local"}}}
	if !w.plain {
		list = append(list, map[string]any{"type": "apply_patch"})
	}
	body := map[string]any{"model": w.model, "stream": true, "instructions": w.hands.Instructions(), "tools": list, "input": input}
	if previous != "" {
		body["previous_response_id"] = previous
	}
	return body
}

// errStopped is why commands end at the first Ctrl-C.
var errStopped = errors.New("the user pressed Ctrl-C")

// run runs what the response left to us. Ctrl-C ends it and not the turn: the model is told.
func (w *agentWork) run(ctx context.Context, output []json.RawMessage) ([]json.RawMessage, error) {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer takeInterrupts(ctx, func() bool {
		if running.Err() != nil {
			return false
		}
		cancel(errStopped) // first: a question that stands is shown under the view's lock
		w.view.note("stopping the command; Ctrl-C again ends the turn")
		return true
	})()
	defer w.view.tick("running")()
	input, err := w.hands.Answer(running, output)
	switch {
	case errors.Is(err, tools.ErrTurnAborted):
		return nil, fault.New(fault.Forbidden, "you ended the turn")
	case errors.Is(err, errStopped) && ctx.Err() == nil:
		return input, nil
	}
	return input, err
}

// unanswered makes answers for the calls of an earlier response that were never answered: whoever was to run them was
// stopped. Nobody knows here how far they came, and they are not run again.
func (w *agentWork) unanswered(ctx context.Context, id string) ([]json.RawMessage, error) {
	var earlier openai.Response
	if err := w.api.get(ctx, "/v1/responses/"+url.PathEscape(id), &earlier); err != nil {
		return nil, err
	}
	answered := func(typ, call string) bool {
		return slices.ContainsFunc(earlier.Output, func(i openai.Item) bool { return i.Type == typ && i.CallID == call })
	}
	input := []json.RawMessage{}
	const why = "hardshell: The turn was ended before this was done; whether it was begun is not known.\n"
	for _, item := range earlier.Output {
		var answer any
		switch {
		case item.Type == shellcall.TypeCall && !answered(shellcall.TypeCallOutput, item.CallID):
			var call shellcall.Call
			if err := item.Decode(&call); err != nil {
				return nil, err
			}
			code := shellcall.ExitCancelled
			out := shellcall.CallOutput{Type: shellcall.TypeCallOutput, CallID: call.CallID, MaxOutputLength: call.Action.MaxOutputLength}
			for range call.Action.Commands {
				out.Output = append(out.Output, shellcall.Result{Stderr: why, Outcome: shellcall.Outcome{Type: shellcall.OutcomeExit, ExitCode: &code}})
			}
			answer = out
		case item.Type == shellcall.TypePatch && !answered(shellcall.TypePatchOutput, item.CallID):
			answer = shellcall.PatchOutput{Type: shellcall.TypePatchOutput, CallID: item.CallID, Status: shellcall.PatchFailed, Output: why}
		default:
			continue
		}
		raw, err := openai.Marshal(answer)
		if err != nil {
			return nil, err
		}
		input = append(input, raw)
	}
	return input, nil
}

// agentKey is the key for an endpoint. OpenAI's own key goes to OpenAI's own address, or to the one that the environment
// names for it, and to no other.
func (p *program) agentKey(base, data string) (string, error) {
	if key := p.getenv("HARDSHELL_API_KEY"); key != "" {
		return key, nil
	}
	if key := p.getenv("OPENAI_API_KEY"); key != "" {
		u, err := url.Parse(base)
		named := p.getenv("OPENAI_BASE_URL")
		if err == nil && u.Scheme == "https" && u.Hostname() == "api.openai.com" || named != "" && strings.TrimRight(named, "/") == strings.TrimRight(base, "/") {
			return key, nil
		}
	}
	return p.apiKey(base, data)
}
