package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	plainShell = `{"model":"m","input":"go","tools":[{"type":"shell"}]}`
	mixedShell = `{"model":"m","input":"go","tools":[{"type":"shell"},{"type":"function","name":"weather","parameters":{"type":"object"}}]}`
)

var noJail = fault.New(fault.Isolation, "No jail can be had here: user namespaces are forbidden.").
	WithTry("sysctl user.max_user_namespaces=1000")

// TestStreams holds whole event streams, byte for byte but for ids and numbers.
func TestStreams(t *testing.T) {
	timedOut := printed("half\n", "", 124)
	timedOut.result.TimedOut = true
	timedOut.result.Timeout = 50 * time.Millisecond
	cut := printed("", "", 0)
	cut.result.Stdout.Text, cut.result.Stdout.Bytes = "a\n[… 1,234 characters left out …]\nz", 1236
	second := printed("2\n", "", 0)
	second.after = `"command_index":0,"output":[`
	lateDone := printed("b\n", "", 0, file("b.csv", 7))
	lateDone.after = `"output_files":[{`
	lateDone.boots = `"status":"completed","action":{"commands":["a"]`
	first := printed("a\n", "", 0, file("a.csv", 5))
	first.after = `"status":"completed","action":{"commands":["b"]`

	for _, c := range []struct {
		name     string
		body     string
		options  Options
		rounds   []round
		commands map[string]command
		prepare  func(w *world)
		status   string
	}{
		{name: "single", body: plainShell, status: "completed",
			rounds:   []round{runs("ls"), says("There is out.csv here.")},
			commands: map[string]command{"ls": printed("out.csv\n", "", 0, file("out.csv", 3))}},
		{name: "two_commands", body: plainShell, status: "completed",
			rounds:   []round{runs("one", "two"), says("Done.")},
			commands: map[string]command{"one": printed("1\n", "w\n", 3), "two": second}},
		{name: "parallel_calls", body: plainShell, status: "completed",
			rounds:   []round{calls("shell", argumentsOf("a"), "shell", argumentsOf("b")), says("Both ran.")},
			commands: map[string]command{"a": first, "b": lateDone}},
		{name: "mixed_turn", body: mixedShell, status: "completed",
			rounds: []round{func(t *llm.Turn) {
				t.Text([]byte("Looking."))
				t.Call("weather").Write(`{"city":"Bern"}`)
				t.Call("shell").Write(argumentsOf("date"))
				t.Complete(usage(3, 4))
			}},
			commands: map[string]command{"date": printed("now\n", "", 0)}},
		{name: "malformed_arguments", body: plainShell, status: "completed",
			rounds:   []round{calls("shell", `{"commands": "ls`), calls("shell", `{"commands":[]}`), runs("ls"), says("Repaired.")},
			commands: map[string]command{"ls": printed("", "", 0)}},
		{name: "boot_failure", body: plainShell, status: "completed",
			rounds:   []round{runs("a"), says("I could not run it.")},
			commands: map[string]command{"a": {start: noJail}}},
		{name: "boot_failure_persists", body: plainShell, status: "failed",
			rounds:   []round{runs("a"), runs("a"), says("")},
			commands: map[string]command{"a": {start: noJail}}},
		{name: "no_container", body: plainShell, status: "completed",
			rounds:  []round{runs("a"), says("No disk.")},
			prepare: func(w *world) { w.makeErr = fault.New(fault.Unavailable, "The disk is full.") }},
		{name: "timeout", body: plainShell, status: "completed",
			rounds:   []round{calls("shell", `{"commands":["sleep","echo"],"timeout_ms":50,"max_output_length":100}`), says("Too slow.")},
			commands: map[string]command{"sleep": timedOut, "echo": func() command { c := cut; c.after = `"type":"timeout"`; return c }()}},
		{name: "loop_bound", body: plainShell, status: "incomplete", options: Options{MaxIterations: 2},
			rounds:   []round{runs("ls"), runs("ls")},
			commands: map[string]command{"ls": printed("x\n", "", 0)}},
		{name: "upstream_fails_after_a_command", body: plainShell, status: "failed",
			rounds: []round{runs("ls"), func(t *llm.Turn) {
				t.Reasoning([]byte("hm"))
				t.Text([]byte("So "))
				t.Fail(fault.New(fault.Upstream, "The provider answered 429.").WithCode("rate_limit_exceeded"))
			}},
			commands: map[string]command{"ls": printed("x\n", "", 0)}},
		{name: "upstream_fails_in_a_call", body: mixedShell, status: "failed",
			rounds: []round{func(t *llm.Turn) {
				t.Call("weather").Write(`{"ci`)
				t.Call("shell").Write(`{"comm`)
				t.Fail(fault.New(fault.Upstream, "The provider hung up."))
			}}},
		{name: "length", body: mixedShell, status: "incomplete",
			rounds: []round{func(t *llm.Turn) {
				t.Text([]byte("A long"))
				t.Call("shell").Write(argumentsOf("rm -rf x"))
				t.Stop(openai.ReasonMaxOutputTokens, usage(1, 2))
			}}},
		{name: "refusal", body: plainShell, status: "completed",
			rounds: []round{func(t *llm.Turn) {
				t.Refusal([]byte("I "))
				t.Refusal([]byte("won't."))
				t.Complete(usage(1, 2))
			}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.rounds...)
			w.options = c.options
			w.commands = c.commands
			if c.prepare != nil {
				c.prepare(w)
			}
			r, o := w.run(c.body)
			if o.Status != c.status {
				t.Errorf("status = %s, want %s (error %+v)", o.Status, c.status, o.Error)
			}
			golden(t, c.name, r.transcript())
		})
	}
}

func TestCancelStopsEveryCommand(t *testing.T) {
	w := newWorld(t, runs("hang", "also"), says("never"))
	hang := printed("so far\n", "", 0)
	hang.hangs = true
	also := command{hangs: true}
	w.commands = map[string]command{"hang": hang, "also": also}
	r, err := w.create(request(t, plainShell))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.await(ctx, "so far")
	r.Cancel(fault.New(fault.Cancelled, "the client went away"))
	o := r.wait(t) // a command that is not cancelled hangs for ever
	if o.Status != openai.Cancelled {
		t.Errorf("status = %s, want cancelled", o.Status)
	}
	var out openai.ShellCallOutput
	if err := o.Output[1].Decode(&out); err != nil {
		t.Fatal(err)
	}
	if out.Status != openai.Incomplete || out.Output[0].Stdout != "so far\n" || out.Output[0].Receipt.Reason != reasonCancelled {
		t.Errorf("output = %+v", out)
	}
	if len(w.asked) != 1 {
		t.Errorf("the model was asked %d times", len(w.asked))
	}
}

func TestCancelInMidAnswer(t *testing.T) {
	gate := make(chan struct{})
	w := newWorld(t, func(turn *llm.Turn) {
		turn.Text([]byte("first "))
		<-gate
		turn.Text([]byte("second"))
		turn.Complete(nil)
	})
	r, err := w.create(request(t, `{"model":"m","input":"go"}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.await(ctx, "first ")
	r.Cancel(nil)
	close(gate)
	o := r.wait(t)
	var m openai.Message
	if err := o.Output[0].Decode(&m); err != nil {
		t.Fatal(err)
	}
	if o.Status != openai.Cancelled || m.Status != openai.Incomplete || m.Content.Text() != "first " {
		t.Errorf("status %s, message %+v", o.Status, m)
	}
}

// Create runs what nobody reads as it comes before it returns, and cancels it when its caller goes away.
func TestCreateWaitsWhereNobodyReads(t *testing.T) {
	w := newWorld(t, runs("hang"))
	w.commands = map[string]command{"hang": {hangs: true}}
	if _, err := w.create(request(t, `{"model":"gone","input":"x"}`)); err == nil { // makes the agent
		t.Fatal("a model that is not there was served")
	}
	ctx, leave := context.WithCancel(context.Background())
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		w.agent.Create(ctx, principal, request(t, plainShell)) // refuses the fake run, when it has ended
	}()
	begun := func() *fakeRun {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.runs) == 0 {
			return nil
		}
		return w.runs[0]
	}
	for deadline := time.Now().Add(patience); begun() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was begun")
		}
	}
	soon, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begun().await(soon, "shell_call_output")
	select {
	case <-returned:
		t.Error("Create returned while the response ran")
	default:
	}
	leave()
	if o := begun().wait(t); o.Status != openai.Cancelled {
		t.Errorf("status %s", o.Status)
	}
	<-returned
}

func TestCloseEndsWhatRuns(t *testing.T) {
	w := newWorld(t, runs("hang"))
	w.commands = map[string]command{"hang": {hangs: true}}
	r, err := w.create(request(t, plainShell))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.await(ctx, "shell_call_output")
	// It does not end by itself. Where there is no limit to wait for, it is cancelled at once.
	if err := w.agent.Close(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	if o := r.wait(t); o.Status != openai.Cancelled {
		t.Errorf("status = %s", o.Status)
	}
	if _, err := w.create(request(t, plainShell)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("create after close: %v", err)
	}
}

func TestLostContainerKeepsWhatWasPrinted(t *testing.T) {
	w := newWorld(t, runs("x"), says("It was lost."))
	lost := printed("part\n", "", 0)
	lost.lost = fault.New(fault.Unavailable, "The container's keeper is gone.")
	w.commands = map[string]command{"x": lost}
	_, o := w.run(plainShell)
	var out openai.ShellCallOutput
	if err := o.Output[1].Decode(&out); err != nil {
		t.Fatal(err)
	}
	e := out.Output[0]
	if e.Stdout != "part\n" || e.Receipt.Reason != reasonInterrupted || !strings.Contains(e.Stderr, "keeper is gone") ||
		out.Status != openai.Incomplete {
		t.Errorf("output = %+v", out)
	}
}

// TestLogFails: when the response takes no more events, nothing more is run and the loop ends.
func TestLogFails(t *testing.T) {
	w := newWorld(t, func(turn *llm.Turn) {
		turn.Text([]byte("a"))
		turn.Call("shell").Write(argumentsOf("ls"))
		turn.Complete(nil)
	})
	w.commands = map[string]command{"ls": printed("", "", 0)}
	broken := &brokenLog{w}
	a := newAgent(broken, w, w, Options{})
	r, live, err := a.begin(context.Background(), principal, request(t, plainShell))
	if err != nil {
		t.Fatal(err)
	}
	go live()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r.(*fakeRun).await(ctx, "never said")
	if len(w.started) != 0 {
		t.Errorf("%d commands were started", len(w.started))
	}
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// brokenLog begins responses that take no event.
type brokenLog struct{ *world }

func (b *brokenLog) Begin(ctx context.Context, begin response.Begin) (run, error) {
	r, err := b.world.Begin(ctx, begin)
	r.(*fakeRun).emitErr = fault.New(fault.Unavailable, "The disk is full.")
	return r, err
}
