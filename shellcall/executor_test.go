package shellcall

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// The vendor's guide, "Handling common errors" and what it says of calls and outputs, one by one.
func TestTheGuide(t *testing.T) {
	r := newRig(t, nil)
	t.Run("a non-zero exit keeps stdout and stderr", func(t *testing.T) {
		if got := say(r.one("echo out; echo err >&2; exit 3")); got != `{"stdout":"out\n","stderr":"err\n","outcome":{"type":"exit","exit_code":3}}` {
			t.Error(got)
		}
	})
	t.Run("exit code 0 is on the wire", func(t *testing.T) {
		if got := say(r.one("true")); got != `{"stdout":"","stderr":"","outcome":{"type":"exit","exit_code":0}}` {
			t.Error(got)
		}
	})
	t.Run("a time-out is a time-out, with partial output of both streams", func(t *testing.T) {
		out, err := r.e.Run(t.Context(), Call{CallID: "c", Action: Action{Commands: []string{"echo out; echo err >&2; touch begun; exec sleep 1000"}, TimeoutMS: new(int64(6000))}})
		if err != nil {
			t.Fatal(err)
		}
		if got := say(out[0].Output[0]); got != `{"stdout":"out\n","stderr":"err\n","outcome":{"type":"timeout"}}` {
			t.Error(got)
		}
	})
	t.Run("max_output_length comes back, and is cut by nobody here", func(t *testing.T) {
		out, err := r.e.Run(t.Context(), Call{CallID: "c", Action: Action{Commands: []string{"head -c 50000 /dev/zero | tr '\\0' x"}, MaxOutputLength: new(int64(10))}},
			Call{CallID: "d", Action: Action{Commands: []string{"true"}, MaxOutputLength: new(int64(0))}}, Call{CallID: "e", Action: Action{Commands: []string{"true"}}})
		if err != nil {
			t.Fatal(err)
		}
		if out[0].MaxOutputLength == nil || *out[0].MaxOutputLength != 10 || len(out[0].Output[0].Stdout) != 50000 {
			t.Errorf("%v, %d bytes", out[0].MaxOutputLength, len(out[0].Output[0].Stdout))
		}
		if out[1].MaxOutputLength == nil || out[2].MaxOutputLength != nil {
			t.Errorf("%v, %v", out[1].MaxOutputLength, out[2].MaxOutputLength)
		}
	})
	t.Run("commands of a call, and calls, run at the same time", func(t *testing.T) {
		// Each waits for the other: one after the other they would never end.
		wait := func(mine, others string) string {
			return "touch " + mine + "; until [ -e " + others + " ]; do sleep 0.02; done; echo " + mine
		}
		out, err := r.e.Run(t.Context(), callOf(wait("a", "b"), wait("b", "c")), Call{CallID: "call_2", Action: Action{Commands: []string{wait("c", "a")}}})
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Output[0].Stdout != "a\n" || out[0].Output[1].Stdout != "b\n" || out[1].Output[0].Stdout != "c\n" || out[1].CallID != "call_2" {
			t.Errorf("%+v", out)
		}
	})
	t.Run("nobody answers prompts, editors or pagers", func(t *testing.T) {
		for _, command := range []string{"read -r line; echo got $?; test -t 0 && echo terminal; true", "cat", "$EDITOR file; test $? -ne 0", "test $PAGER = cat && test $GIT_TERMINAL_PROMPT = 0"} {
			if got := r.one(command); code(got) != 0 || strings.Contains(got.Stdout, "terminal") {
				t.Errorf("%s: %s", command, say(got))
			}
		}
	})
	t.Run("signals and what cannot be started have codes", func(t *testing.T) {
		for command, want := range map[string]int{"kill -TERM $$": 143, "no-such-program-here": 127, "touch f; ./f": 126, "exit 124": 124} {
			if got := r.one(command); code(got) != want {
				t.Errorf("%s: %s", command, say(got))
			}
		}
	})
	t.Run("what is no UTF-8 does not break the answer", func(t *testing.T) {
		if got := r.one(`printf 'a\377b'`); got.Stdout != "a\uFFFDb" {
			t.Error(say(got))
		}
	})
	t.Run("a call without commands has an output", func(t *testing.T) {
		out, err := r.e.Run(t.Context(), Call{CallID: "c"})
		text, _ := json.Marshal(out)
		if err != nil || string(text) != `[{"type":"shell_call_output","call_id":"c","output":[]}]` {
			t.Errorf("%s, %v", text, err)
		}
	})
}

func TestTheTimeOutThatApplies(t *testing.T) {
	r := bareRig(t, func(o *Options) { o.MaxTimeout = 2 * time.Minute })
	for _, test := range []struct {
		asked *int64
		want  time.Duration
	}{{nil, time.Minute}, {new(int64(0)), time.Minute}, {new(int64(-5)), time.Minute}, {new(int64(1500)), 1500 * time.Millisecond}, {new(int64(1 << 60)), 2 * time.Minute}} {
		if got := r.e.timeout(test.asked); got != test.want {
			t.Errorf("%v: %v, want %v", test.asked, got, test.want)
		}
	}
	if r = bareRig(t, func(o *Options) { o.Timeout = 5 * time.Second }); r.e.timeout(nil) != 5*time.Second {
		t.Error(r.e.timeout(nil))
	}
}

func TestAnswer(t *testing.T) {
	r := newRig(t, nil)
	got, err := r.e.Answer(t.Context(), raw(t,
		`{"type":"reasoning","id":"rs_1","summary":[]}`,
		`{"type":"shell_call","id":"sh_1","call_id":"a","action":{"commands":["cat f; echo x"],"timeout_ms":null,"max_output_length":4096},"status":"completed","environment":{"type":"local"}}`,
		`{"type":"apply_patch_call","call_id":"p","status":"completed","operation":{"type":"create_file","path":"f","diff":"+one"}}`,
		`{"type":"shell_call","call_id":"b","action":{"commands":["cat f"]},"status":"in_progress"}`,
		`{"type":"shell_call","call_id":"done","action":{"commands":["touch never"]},"status":"completed"}`,
		`{"type":"shell_call_output","call_id":"done","output":[]}`,
		`{"type":"shell_call","call_id":"theirs","action":{"commands":["touch never"]},"environment":{"type":"container_reference","container_id":"cntr_1"}}`,
		`{"type":"shell_call","call_id":"half","action":{"commands":["touch never"]},"status":"incomplete"}`,
		`{"type":"message","role":"assistant","content":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"type":"shell_call_output","call_id":"a","max_output_length":4096,"output":[{"stdout":"x\n","stderr":"cat: f: No such file or directory\n","outcome":{"type":"exit","exit_code":0}}]}`,
		`{"type":"apply_patch_call_output","call_id":"p","status":"completed","output":"Created f (1 lines)."}`,
		`{"type":"shell_call_output","call_id":"b","output":[{"stdout":"one\n","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`,
	}
	if len(got) != len(want) {
		t.Fatalf("%s", got)
	}
	for i := range want {
		if string(got[i]) != want[i] {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
	if r.exists("never") {
		t.Error("a call that is not ours was run")
	}
	if got, err := r.e.Answer(t.Context(), raw(t, `{"type":"message"}`)); got != nil || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := r.e.Answer(t.Context(), raw(t, `[]`)); err == nil {
		t.Error("what is no item was taken")
	}
	if _, err := r.e.Answer(t.Context(), raw(t, `{"type":"shell_call","call_id":"a","action":{"commands":"ls"}}`)); err == nil {
		t.Error("a call of another form was taken")
	}
}

// What is not allowed to run is exit 126 with the reason, and never looks like success.
func TestRefused(t *testing.T) {
	forbid := []approval.Rule{{Prefix: [][]string{{"git"}, {"push"}}, Verdict: approval.Forbidden, Why: "a person pushes"}}
	untrusted := terminal.AskFor(approval.Policy{Ask: approval.UnlessTrusted})
	no := &person{review: terminal.Review{Decision: terminal.Denied, Reason: "not now"}}
	for _, test := range []struct {
		name, command, why string
		change             func(*Options)
	}{
		{"a rule", "cd . && git push", "a person pushes", func(o *Options) { o.Terminal.Rules = forbid }},
		{"the deny list", "touch f; sudo rm -rf x", "`rm` is on the deny list.", func(o *Options) { o.Deny = []string{"rm", "git push"} }},
		{"not on the allow list", "echo fine && touch f", "`touch f` is not on the allow list.", func(o *Options) { o.Allow = []string{"echo"} }},
		{"a redirection is not on the allow list", "echo fine > f", "is not on the allow list.", func(o *Options) { o.Allow = []string{"echo"} }},
		{"reading is not on the allow list", "cat /etc/hostname", "is not on the allow list.", func(o *Options) { o.Allow = []string{"echo"} }},
		{"a person", "touch f", "not now", func(o *Options) { o.Terminal.ApprovalPolicy, o.Terminal.Approver = untrusted, no }},
		{"nobody to ask", "touch f", "there is nobody to ask", func(o *Options) { o.Terminal.ApprovalPolicy = untrusted }},
		{"an approver who fails", "touch f", "Nobody could be asked: no terminal", func(o *Options) {
			o.Terminal.ApprovalPolicy = untrusted
			o.Terminal.Approver = terminal.ApproverFunc(func(context.Context, terminal.ApprovalRequest) (terminal.Review, error) {
				return terminal.Review{}, errors.New("no terminal")
			})
		}},
		{"a NUL", "touch f\x00", "NUL", nil},
		{"too long", "touch f #" + strings.Repeat("x", 200<<10), "the limit is", nil},
	} {
		for _, persistent := range []bool{false, true} {
			name := test.name
			if persistent {
				name += ", in a kept shell"
			}
			t.Run(name, func(t *testing.T) {
				r := newRig(t, func(o *Options) {
					if o.Persistent = persistent; test.change != nil {
						test.change(o)
					}
				})
				got := r.one(test.command)
				if code(got) != ExitDenied || got.Stdout != "" {
					t.Error(say(got))
				}
				has(t, got.Stderr, "hardshell: ", test.why)
				if r.exists("f") {
					t.Error("it has run")
				}
				if e := eventsOf[Ended](r.seen); len(e) != 1 || e[0].Refused == "" || e[0].Exit.Code != ExitDenied {
					t.Errorf("%+v", e)
				}
			})
		}
	}
}

func TestTheAllowListLetsRun(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Allow, o.Deny = []string{"echo", "seq", "git status"}, []string{"echo secret"} })
	for command, want := range map[string]int{"echo a; echo b": 0, "seq 3 | echo c": 0, "echo secret": ExitDenied, "git status": 128, "git push": ExitDenied, "echo $(touch f)": ExitDenied,
		"echo() { touch f; }; echo": ExitDenied, "bash -c 'echo d'": 0, "PATH=. echo d": ExitDenied} {
		if got := r.one(command); code(got) != want {
			t.Errorf("%s: %s, want %d", command, say(got), want)
		}
	}
	if r.exists("f") {
		t.Error("something else has run")
	}
	for _, list := range [][]string{{""}, {" "}} {
		if _, err := New(Options{Allow: list, Terminal: terminal.SessionConfig{Cwd: t.TempDir()}}); err == nil {
			t.Errorf("the list %q was taken", list)
		}
	}
}

func TestAPersonIsAskedOnceAtATime(t *testing.T) {
	asking := make(chan struct{}, 1)
	r := newRig(t, func(o *Options) {
		o.Terminal.ApprovalPolicy = terminal.AskFor(approval.Policy{Ask: approval.UnlessTrusted})
		o.Terminal.Approver = terminal.ApproverFunc(func(_ context.Context, q terminal.ApprovalRequest) (terminal.Review, error) {
			select {
			case asking <- struct{}{}:
			default:
				t.Error("two questions at once")
			}
			defer func() { <-asking }()
			if q.Tool != toolName || q.CallID != "call_1" {
				t.Errorf("%+v", q)
			}
			return terminal.Review{Decision: terminal.Approved}, nil
		})
	})
	for _, got := range r.run("touch a", "touch b", "touch c", "touch d") {
		if code(got) != 0 {
			t.Error(say(got))
		}
	}
}

func TestAPersonEndsTheTurn(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Terminal.ApprovalPolicy = terminal.AskFor(approval.Policy{Ask: approval.UnlessTrusted})
		o.Terminal.Approver = &person{review: terminal.Review{Decision: terminal.Abort}}
	})
	out, err := r.e.Run(t.Context(), callOf("touch a"))
	if !errors.Is(err, terminal.ErrTurnAborted) || code(out[0].Output[0]) != ExitDenied {
		t.Errorf("%v, %+v", err, out)
	}
	if out, err := r.e.Run(t.Context(), callOf("echo on")); err != nil || code(out[0].Output[0]) != 0 {
		t.Errorf("the next turn: %v, %+v", err, out)
	}
}

// A cancel kills what runs and what it started, keeps what was printed, and leaves no command without a result.
func TestCancel(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Persistent, o.Parallel = persistent, 1 })
		r.seen.told = make(chan Event, 100)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for e := range r.seen.told {
				if p, ok := e.(Printed); ok && strings.Contains(string(p.Data), "up") {
					cancel(errors.New("Ctrl-C"))
				}
			}
		}()
		// The second waits for the only place, or for the shell.
		out, err := r.e.Run(ctx, callOf("(sleep 1000; touch late) & echo up; sleep 1000", "(sleep 1000; touch late) & echo up; sleep 1000"))
		close(r.seen.told)
		r.seen.told = nil
		if err == nil || err.Error() != "Ctrl-C" {
			t.Errorf("%v", err)
		}
		began, never := out[0].Output[0], out[0].Output[1]
		if began.Stdout == "" {
			began, never = never, began
		}
		if code(began) != ExitCancelled || began.Stdout != "up\n" {
			t.Errorf("persistent %v: %s", persistent, say(began))
		}
		has(t, began.Stderr, "hardshell: It was cancelled: Ctrl-C.")
		if code(never) != ExitCancelled {
			t.Errorf("persistent %v: %s", persistent, say(never))
		}
		has(t, never.Stderr, "before it began")
		if got := r.one(lookForSleep); got.Stdout != "" {
			t.Errorf("persistent %v: something is left: %s", persistent, say(got))
		}
	}
}

func TestAuditOfACommand(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.AuditBytes, o.Persistent = 64, persistent })
		r.one("seq 1000; echo problem >&2; exit 4")
		ends := eventsOf[Ended](r.seen)
		if len(ends) != 1 || len(eventsOf[Begun](r.seen)) != 1 {
			t.Fatalf("%+v", ends)
		}
		e := ends[0]
		if e.Command != "seq 1000; echo problem >&2; exit 4" || e.CallID != "call_1" || e.Exit.Code != 4 || e.Exit.Stdout != 3893 || e.Exit.Stderr != 8 || e.Cwd != r.work ||
			e.Report.Got == "" || e.Exit.Ended.Before(e.Exit.Started) {
			t.Errorf("%+v", e)
		}
		if len(e.Stdout) > 64+100 || !strings.HasPrefix(e.Stdout, "1\n2\n") || !strings.HasPrefix(e.Stderr, "problem\n") {
			t.Errorf("%q %q", e.Stdout, e.Stderr)
		}
		var printed strings.Builder
		for _, p := range eventsOf[Printed](r.seen) {
			if p.Stream == process.Stdout {
				printed.Write(p.Data)
			}
		}
		if printed.Len() != 3893 {
			t.Errorf("%d bytes were told live", printed.Len())
		}
	}
}

// The terminal's own observer, on which the audit hangs, is told of every command too, however it runs.
func TestTheTerminalsObserverIsTold(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		var told terminalRecord
		r := newRig(t, func(o *Options) { o.Persistent, o.Terminal.Observer, o.Deny = persistent, &told, []string{"touch"} })
		r.one("exit 5")
		r.one("touch f")
		if _, err := r.e.Patch(t.Context(), PatchCall{CallID: "p", Operation: Operation{CreateFile, "made", "+x"}}); err != nil {
			t.Fatal(err)
		}
		ends := told.ends()
		if len(ends) != 3 || ends[0].ExitCode != 5 || ends[0].Tool != toolName || ends[1].Error != "rejected" || ends[2].Tool != patchTool {
			t.Errorf("persistent %v: %+v", persistent, ends)
		}
	}
}

func TestTheSandboxDenies(t *testing.T) {
	const outside = "/etc/hardshell-was-here"
	for _, persistent := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Persistent = persistent })
		got := r.one("echo x > " + outside)
		if code(got) == 0 {
			t.Error(say(got))
		}
		has(t, got.Stderr, "hardshell: ", "would allow it")
		if _, err := os.Stat(outside); err == nil {
			t.Error("it wrote outside of the workspace")
		}
		if e := eventsOf[Ended](r.seen); len(e) != 1 || e[0].Denial == nil {
			t.Errorf("%+v", e)
		}
	}
}

func TestAWorkspaceThatIsGone(t *testing.T) {
	r := bareRig(t, nil)
	if err := os.RemoveAll(r.work); err != nil {
		t.Fatal(err)
	}
	out, err := r.e.Run(t.Context(), callOf("true", "true"))
	if err == nil || len(out[0].Output) != 2 || code(out[0].Output[1]) != ExitNotRun {
		t.Errorf("%v, %+v", err, out)
	}
}

func TestInstructions(t *testing.T) {
	r := bareRig(t, func(o *Options) { o.Allow = []string{"git status"} })
	has(t, r.e.Instructions(), "Linux", "bash", r.work, "sandbox", "no network", "126", "git status", "1m0s")
	r = bareRig(t, func(o *Options) { o.Persistent = true })
	has(t, r.e.Instructions(), "one shell that lasts")
}
