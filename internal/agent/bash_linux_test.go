package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// street is a world whose commands are real ones of this machine, without any container around them.
type street struct {
	*world
	dir string

	mu     sync.Mutex
	shells []*hostedShell
	names  map[string]string // sessions' containers, by name
	ended  []string
	specs  []container.CreateSpec
	most   int      // containers that can be made; 0: any number
	where  []string // the container of each command
}

func newStreet(t *testing.T, rounds ...round) *street {
	t.Helper()
	s := &street{world: newWorld(t, rounds...), dir: t.TempDir(), names: map[string]string{}}
	s.world.agent = newAgent(s.world, s, s.world, s.world.options)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.agent.cancelAll()
		if err := s.agent.Close(ctx); err != nil {
			t.Errorf("close agent: %v", err)
		}
	})
	return s
}

// ask runs a request of the Messages API and waits until all that it was is over.
func (s *street) ask(session, environment string) (*fakeRun, openai.Response) {
	s.t.Helper()
	req := request(s.t, `{"model":"m","input":"go","store":false,"tools":[{"type":"shell","environment":`+environment+`}]}`)
	req.Bash = &openai.Bash{SessionID: session}
	r, live, err := s.agent.begin(context.Background(), principal, req)
	if err != nil {
		s.t.Fatalf("create: %v", err)
	}
	go live()
	run := r.(*fakeRun)
	return run, run.wait(s.t)
}

const auto = `{"type":"container_auto"}`

func (s *street) Create(ctx context.Context, org string, spec container.CreateSpec) (container.Container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most > 0 && len(s.specs) == s.most {
		return container.Container{}, fault.New(fault.Unavailable, "There is no room for a container.")
	}
	c, err := s.world.Create(ctx, org, spec)
	s.specs = append(s.specs, spec)
	if spec.Name != "" {
		s.names[spec.Name] = c.ID
	}
	return c, err
}

func (s *street) List(_ context.Context, _ string, page container.Page) ([]container.Container, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.names[page.Name]; id != "" && page.Limit == 1 {
		return []container.Container{{ID: id, Name: page.Name, Status: container.Active}}, false, nil
	}
	return nil, false, nil
}

func (s *street) End(_ context.Context, _, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, id)
	return nil
}

// local puts what a script has in the container's /tmp into the test's own folder.
func (s *street) local(text string) string {
	return strings.ReplaceAll(text, container.Tmpdir+"/.hardshell-", s.dir+"/")
}

type hostedShell struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (h *hostedShell) Kill()                 { syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL) }
func (h *hostedShell) Done() <-chan struct{} { return h.done }

func (s *street) OpenBash(_ context.Context, _, _ string, c process.Command) (bashJob, error) {
	argv := []string{"-c", "--"}
	for _, a := range c.Argv {
		argv = append(argv, s.local(a))
	}
	h := &hostedShell{cmd: exec.Command("bash", argv...), done: make(chan struct{})}
	h.cmd.Env, h.cmd.Dir = append(os.Environ(), "SHELL=bash"), s.dir
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		h.cmd.Wait()
		close(h.done)
	}()
	s.t.Cleanup(h.Kill)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shells = append(s.shells, h)
	return h, nil
}

// localRun is a command of this machine.
type localRun struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	cancel   context.CancelFunc
	timeout  context.Context
	done     chan struct{}
	killed   bool
	mu       sync.Mutex
}

func (s *street) Exec(ctx context.Context, _, id string, c container.Command) (execution, error) {
	r := &localRun{done: make(chan struct{})}
	limit, stop := context.WithTimeout(context.Background(), c.Timeout)
	r.timeout = limit
	ctx, r.cancel = context.WithCancel(ctx)
	context.AfterFunc(limit, r.cancel)
	r.cmd = exec.CommandContext(ctx, "bash", "-c", "--", s.local(c.Script), "bash")
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = strings.NewReader(c.Stdin), &r.out, &r.err
	r.cmd.WaitDelay = 100 * time.Millisecond // what a command left behind may hold its pipes
	if err := r.cmd.Start(); err != nil {
		stop()
		return nil, err
	}
	s.mu.Lock()
	s.where = append(s.where, id)
	s.mu.Unlock()
	go func() {
		defer stop()
		r.cmd.Wait()
		close(r.done)
	}()
	return r, nil
}

func (r *localRun) Cancel() {
	r.mu.Lock()
	r.killed = true
	r.mu.Unlock()
	r.cancel()
}

func (r *localRun) Release() {}

func (r *localRun) FollowFrom(context.Context, container.Cursor) iter.Seq2[container.Delta, error] {
	return func(yield func(container.Delta, error) bool) {
		<-r.done
		yield(container.Delta{Stdout: r.out.String(), Stderr: r.err.String()}, nil)
	}
}

func (r *localRun) Wait(context.Context) (container.Result, error) {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	out := container.Result{ExitCode: r.cmd.ProcessState.ExitCode(), Stdout: process.View{Text: r.out.String(), Bytes: int64(r.out.Len())},
		Stderr: process.View{Text: r.err.String(), Bytes: int64(r.err.Len())}}
	if out.ExitCode < 0 {
		out.ExitCode, out.Cancelled = exitKilled, true
		out.TimedOut = !r.killed && r.timeout.Err() != nil && errors.Is(r.timeout.Err(), context.DeadlineExceeded)
	}
	return out, nil
}

// entries are the results of a response's calls, in order.
func entries(t *testing.T, o openai.Response) (out []openai.ShellOutput) {
	t.Helper()
	for _, i := range o.Output {
		var c shellOutput
		if i.Type != openai.TypeShellCallOutput {
			continue
		}
		if err := i.Decode(&c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c.Output...)
	}
	return out
}

// results writes them shortly.
func results(t *testing.T, o openai.Response) string {
	t.Helper()
	var b strings.Builder
	for _, e := range entries(t, o) {
		end := e.Outcome.Type
		if e.Outcome.ExitCode != nil {
			end = fmt.Sprint(*e.Outcome.ExitCode)
		}
		fmt.Fprintf(&b, "%q %q %s\n", e.Stdout, e.Stderr, end)
	}
	return b.String()
}

func bashCall(fields map[string]any) round {
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return calls("bash", string(raw))
}

// A folder, variables and functions hold from command to command and from call to call; each command has its own streams
// and exit code, a failure does not stop the rest, and a shell that ends is followed by a new one.
func TestBashRunsInOneShell(t *testing.T) {
	s := newStreet(t,
		bashCall(map[string]any{"command": "cd /tmp; x=5; f() { echo \"f $1\"; }; echo out; echo err >&2; false"}),
		bashCall(map[string]any{"commands": []string{"pwd; f \"$x\"", "if then", "read -r l; echo \"[$l]\"", "printf 'no line\\n0'", "(sleep 0.3; echo late) & echo begun"}}),
		bashCall(map[string]any{"commands": []string{"exit 7", "echo \"<$x>\"", "kill -9 $$", "set -e; false; echo never", "echo still here\ncat <<E\nand here\nE"}}),
		says("Done."))
	_, got := s.ask("", auto)
	want := `"out\n" "err\n" 1
"/tmp\nf 5\n" "" 0
`
	text := results(t, got)
	if !strings.HasPrefix(text, want) {
		t.Errorf("the first commands:\n%s", text)
	}
	lines := strings.SplitAfter(text, "\n")
	for i, want := range map[int]string{3: "\"[]\\n\" \"\" 0\n", 4: "\"no line\\n0\" \"\" 0\n", 6: "\"\" \"\" 7\n", 7: "\"<>\\n\" \"\" 0\n", 8: "\"\" \"\" 137\n", 9: "\"\" \"\" 1\n",
		10: "\"still here\\nand here\\n\" \"\" 0\n"} {
		if len(lines) < 11 || lines[i] != want {
			t.Fatalf("command %d: want %s, got\n%s", i, want, text)
		}
	}
	if !strings.Contains(lines[2], "syntax error") || !strings.HasSuffix(lines[2], " 2\n") || !strings.HasPrefix(lines[5], `"begun`) {
		t.Errorf("%s", text)
	}
	if got.Status != openai.Completed || len(s.shells) != 1 {
		t.Errorf("%s, %d shells", got.Status, len(s.shells))
	}
	// The model reads what the seed has: one object a command.
	var first struct {
		Command, Stdout, Stderr string
		ExitCode                *int `json:"exitCode"`
	}
	for _, i := range s.asked[1].Items {
		var o openai.FunctionCallOutput
		if i.Type == openai.TypeFunctionCallOutput && i.Decode(&o) == nil {
			d := json.NewDecoder(strings.NewReader(string(o.Output)))
			if err := d.Decode(&first); err != nil || first.Stdout != "out\n" || first.Stderr != "err\n" || first.ExitCode == nil || *first.ExitCode != 1 || !strings.HasPrefix(first.Command, "cd /tmp") {
				t.Errorf("the model reads %s: %v", o.Output, err)
			}
		}
	}
	if first.ExitCode == nil || tools(s.asked[0]) != "bash" || s.asked[0].Shell != "" {
		t.Errorf("the model sees the tools %s, a shell %q", tools(s.asked[0]), s.asked[0].Shell)
	}
	s.over(t, 1)
}

// over waits until the shells are gone and so many containers have ended.
func (s *street) over(t *testing.T, containers int) {
	t.Helper()
	for _, h := range s.shells {
		select {
		case <-h.Done():
		case <-time.After(patience):
			t.Fatal("a shell lives on")
		}
	}
	deadline := time.Now().Add(patience)
	for {
		s.mu.Lock()
		n := len(s.ended)
		s.mu.Unlock()
		if n == containers {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d containers have ended, want %d", n, containers)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The time of a call is for all of its commands. At its end the shell goes with what it runs, and the next call gets a new one.
func TestBashTimeIsTheCalls(t *testing.T) {
	s := newStreet(t,
		bashCall(map[string]any{"commands": []string{"x=1; echo begun; sleep 300", "echo never"}, "timeout_ms": 4000}),
		bashCall(map[string]any{"command": "echo \"<$x>\""}), says("Done."))
	_, got := s.ask("", auto)
	all := entries(t, got)
	if len(all) != 3 || all[0].Outcome.Type != "timeout" || all[0].Stdout != "begun\n" || all[1].Outcome.Type != "timeout" || all[1].Stdout != "" || all[2].Stdout != "<>\n" {
		t.Errorf("%s", results(t, got))
	}
	if len(s.shells) != 2 {
		t.Errorf("%d shells", len(s.shells))
	}
	s.over(t, 1)
}

// A shell that is killed under its command is told as that, and the response goes on.
func TestAShellThatIsKilled(t *testing.T) {
	s := newStreet(t, bashCall(map[string]any{"commands": []string{"kill -9 $PPID; sleep 300", "echo again"}}), says("Done."))
	_, got := s.ask("", auto)
	all := entries(t, got)
	if len(all) != 2 || all[0].Outcome.ExitCode == nil || *all[0].Outcome.ExitCode != exitKilled || !strings.Contains(all[0].Stderr, "shell was killed") || all[1].Stdout != "again\n" {
		t.Errorf("%s", results(t, got))
	}
}

// A command that removes what the shell is told by ends it, and nothing goes round in circles.
func TestAShellWhoseFolderIsGone(t *testing.T) {
	s := newStreet(t, bashCall(map[string]any{"commands": []string{`echo gone; rm -rf "$__hs"; exit 3`, "echo again"}}), says("Done."))
	_, got := s.ask("", auto)
	all := entries(t, got)
	if len(all) != 2 || all[0].Stdout != "gone\n" || all[0].Outcome.ExitCode == nil || *all[0].Outcome.ExitCode != exitKilled || all[1].Stdout != "again\n" {
		t.Errorf("%s", results(t, got))
	}
	s.over(t, 1)
}

// A response that is cancelled takes its shell with it.
func TestACancelledBashIsKilled(t *testing.T) {
	s := newStreet(t, bashCall(map[string]any{"command": "echo begun; sleep 300"}), says("Done."))
	req := request(t, `{"model":"m","input":"go","store":false,"tools":[{"type":"shell"}]}`)
	req.Bash = &openai.Bash{}
	r, live, err := s.agent.begin(context.Background(), principal, req)
	if err != nil {
		t.Fatal(err)
	}
	go live()
	deadline := time.Now().Add(patience)
	for len(s.commandsOf()) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no command was begun")
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.Cancel(fault.New(fault.Cancelled, "gone"))
	if got := r.(*fakeRun).wait(t); got.Status != openai.Cancelled {
		t.Errorf("it ended as %s", got.Status)
	}
	s.over(t, 1)
}

func (s *street) commandsOf() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.where)
}

// A container that is named goes before that of the session, which goes before one that ends with the response; a restart
// gives a fresh one, to which a session's name points from then on.
func TestWhereABashRuns(t *testing.T) {
	restart := func() []round {
		return []round{bashCall(map[string]any{"command": "echo a"}), bashCall(map[string]any{"restart": true, "command": "echo b"}), bashCall(map[string]any{"restart": true}), says("Done.")}
	}
	s := newStreet(t, restart()...)
	_, got := s.ask("", auto)
	if w := s.commandsOf(); len(w) != 2 || w[0] == w[1] {
		t.Errorf("commands ran in %v", w)
	}
	if all := entries(t, got); len(all) != 3 || !strings.Contains(all[2].Stdout, "restarted") {
		t.Errorf("%s", results(t, got))
	}
	s.over(t, 3)

	s = newStreet(t, restart()...)
	s.ask("chat", auto)
	w := s.commandsOf()
	if s.names[sessionName("chat")] == w[1] || s.names[sessionName("chat")] == w[0] || len(s.specs) != 3 {
		t.Errorf("the session is in %s, commands ran in %v", s.names[sessionName("chat")], w)
	}
	kept := s.names[sessionName("chat")]
	s.over(t, 2)
	if slices.Contains(s.ended, kept) {
		t.Error("the session's container has ended")
	}

	again := newStreet(t, bashCall(map[string]any{"command": "echo c"}), says("Done."))
	again.names[sessionName("chat")] = kept
	again.ask("chat", auto)
	if w := again.commandsOf(); len(w) == 0 || w[0] != kept || len(again.specs) != 0 {
		t.Errorf("the session's next command ran in %v", w)
	}
	again.over(t, 0)

	named := newStreet(t, restart()...)
	named.names[sessionName("chat")] = "cntr_session"
	named.ask("chat", `{"type":"container_reference","container_id":"cntr_named"}`)
	if w := named.commandsOf(); len(w) == 0 || w[0] != "cntr_named" || slices.Contains(named.ended, "cntr_named") {
		t.Errorf("commands ran in %v, ended %v", w, named.ended)
	}
}

// Where no fresh container can be had the call is refused, told once, and the response goes on where it was.
func TestARestartThatFails(t *testing.T) {
	s := newStreet(t, bashCall(map[string]any{"command": "echo a"}), bashCall(map[string]any{"restart": true, "command": "echo b"}),
		bashCall(map[string]any{"restart": true}), bashCall(map[string]any{"command": "echo c"}), says("Done."))
	s.most = 1
	r, got := s.ask("", auto)
	requireStream(t, r.frames)
	all := entries(t, got)
	if len(all) != 4 || all[0].Stdout != "a\n" || all[3].Stdout != "c\n" {
		t.Fatalf("%s", results(t, got))
	}
	for _, e := range all[1:3] {
		if e.Receipt == nil || e.Receipt.Reason != reasonNotStarted || !strings.Contains(e.Stderr, "no room for a container") {
			t.Errorf("%+v", e)
		}
	}
	if w := s.commandsOf(); len(w) != 2 || w[0] != w[1] || got.Status != openai.Completed {
		t.Errorf("%s: commands ran in %v", got.Status, w)
	}
	s.over(t, 1)
}

// At the limit of rounds the response pauses: its tools were offered to the end.
func TestABashPausesAtTheLimit(t *testing.T) {
	s := newStreet(t, bashCall(map[string]any{"command": "echo 1"}), bashCall(map[string]any{"command": "echo 2"}), says("never"))
	s.agent.options.MaxIterations = 2
	_, got := s.ask("", auto)
	if got.Status != openai.Incomplete || got.IncompleteDetails == nil || got.IncompleteDetails.Reason != openai.ReasonMaxMessages || len(s.asked) != 2 || tools(s.asked[1]) != "bash" {
		t.Errorf("%s %+v, asked %d times", got.Status, got.IncompleteDetails, len(s.asked))
	}
	if text := results(t, got); text != "\"1\\n\" \"\" 0\n\"2\\n\" \"\" 0\n" {
		t.Errorf("%s", text)
	}
	s.over(t, 0) // the turn goes on where it was
}

func TestBashArguments(t *testing.T) {
	for in, want := range map[string]string{
		`{"command":"a"}`:                        `{"command":"a"}`,
		`{"commands":["a","b"," "]}`:             `{"commands":["a","b"]}`,
		`{"command":"a","commands":["b"]}`:       `{"commands":["a","b"]}`,
		`{"restart":true}`:                       `{"restart":true}`,
		`{"command":"a","timeout_ms":5.5}`:       `{"command":"a","timeout_ms":5}`,
		`{"command":"a","max_output_length":-1}`: `{"command":"a"}`,
	} {
		a, err := bashArguments(in)
		if err != nil || bashText(a) != want {
			t.Errorf("%s: %v %s", in, err, bashText(a))
		}
	}
	for _, in := range []string{``, `[]`, `{}`, `{"command":" "}`, `{"command":7}`, `{"commands":"a"}`, `{"command":"a\u0000b"}`,
		`{"commands":[` + strings.Repeat(`"a",`, maxCommands) + `"a"]}`} {
		if a, err := bashArguments(in); err == nil {
			t.Errorf("%s is taken for %+v", in, a)
		}
	}
}

// Arguments that are wrong are answered, and nothing runs.
func TestWrongBashArguments(t *testing.T) {
	s := newStreet(t, calls("bash", `{"order":"a"}`), says("Sorry."))
	_, got := s.ask("", auto)
	all := entries(t, got)
	if len(all) != 1 || !strings.Contains(all[0].Stderr, `"command"`) || *all[0].Outcome.ExitCode != exitUsage || len(s.shells) != 0 {
		t.Errorf("%s", results(t, got))
	}
}

// Where the shell cannot be opened the call fails, and says why.
func TestABashThatCannotBeOpened(t *testing.T) {
	s := newStreet(t, bashCall(map[string]any{"command": "echo a"}), says("Sorry."))
	s.dir = "/dev/null"
	_, got := s.ask("", auto)
	all := entries(t, got)
	if len(all) != 1 || all[0].Receipt == nil || all[0].Receipt.Reason != reasonNotStarted {
		t.Errorf("%s", results(t, got))
	}
}
