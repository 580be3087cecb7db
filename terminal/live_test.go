package terminal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/session"
)

// until polls a session until its output so far matches, as a model would: each call gives what is new.
func (r *rig) until(id, pattern string, first *ExecResult) (all string) {
	r.t.Helper()
	want := regexp.MustCompile(pattern)
	if first != nil {
		all = first.Text()
	}
	for end := time.Now().Add(30 * time.Second); !want.MatchString(all); {
		if time.Now().After(end) {
			r.t.Fatalf("%s is not in %q", pattern, all)
		}
		all += r.call(ToolWriteStdin, `{"session_id":"`+id+`","yield_time_ms":250}`).Text()
	}
	return all
}

// TestTheSeedsGrep is the seed's first worked example, its shell path and platform apart.
func TestTheSeedsGrep(t *testing.T) {
	var events recorder
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Form, c.Observer = Bare, &events })
	write(t, r.work, "src/main.rs", strings.Repeat("\n", 41)+"    // TODO: refactor this\n")
	out, err := r.tools.Dispatch(t.Context(), ToolInvocation{Session: r.session, Turn: r.turn, CallID: "call_abc123", ToolName: "shell_command",
		Payload: FunctionPayload{"{\"command\": \"grep -r 'TODO' src/\", \"timeout_ms\": 5000}"}})
	if err != nil {
		t.Fatal(err)
	}
	f := out.(FunctionOutput)
	if f.Content != "src/main.rs:    // TODO: refactor this\n" || f.Success == nil || !*f.Success || len(f.ContentItems) != 1 {
		t.Errorf("%+v", f) // grep -r gives line numbers only with -n; the seed shows them all the same
	}
	if f.Result.Stdout == 0 || f.Result.Stderr != 0 || f.Result.TimedOut || code(f.Result) != 0 || f.Result.Timeout != 5*time.Second {
		t.Errorf("%+v", f.Result)
	}
	begin := eventsOf[ExecCommandBegin](&events)[0]
	if begin.CallID != "call_abc123" || begin.Sandbox != "LinuxSeccomp" || begin.Decision.Outcome != approval.Allowed || begin.Decision.Outside || strings.Join(begin.Command[1:], " ") != "-c grep -r 'TODO' src/" {
		t.Errorf("%+v", begin)
	}
}

// TestTheSeedsSession is the seed's second worked example.
func TestTheSeedsSession(t *testing.T) {
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Form = Bare })
	type answer struct {
		Output    string  `json:"output"`
		ProcessID *string `json:"process_id"`
		ExitCode  *int    `json:"exit_code"`
	}
	read := func(tool, arguments string) (a answer) {
		t.Helper()
		if text := r.text(tool, arguments); json.Unmarshal([]byte(text), &a) != nil {
			t.Fatalf("%s %s: %s", tool, arguments, text)
		}
		return a
	}
	first := read(ToolExecCommand, `{"command": ["bash", "-i"], "process_id": "1001", "yield_time_ms": 2500, "tty": true}`)
	if first.ProcessID == nil || *first.ProcessID != "1001" || first.ExitCode != nil {
		t.Fatalf("%+v", first)
	}
	read(ToolWriteStdin, "{\"process_id\": \"1001\", \"input\": \"export FOO=bar\\n\", \"yield_time_ms\": 1000}")
	third := read(ToolWriteStdin, "{\"process_id\": \"1001\", \"input\": \"echo $FOO\\n\", \"yield_time_ms\": 1000}")
	if third.ProcessID == nil || *third.ProcessID != "1001" || third.ExitCode != nil || !strings.Contains(third.Output, "bar\n") {
		t.Errorf("%+v", third)
	}
	// Today's spellings reach the same session, and its end is told as often as it is asked.
	last := read(ToolWriteStdin, `{"session_id": 1001, "chars": "exit 3\n", "wait_for": {"exit": true}}`)
	for range 2 {
		if last.ExitCode == nil || *last.ExitCode != 3 || last.ProcessID != nil {
			t.Errorf("%+v", last)
		}
		last = read(ToolWriteStdin, `{"session_id": 1001}`)
	}
}

func TestExecCommandThatEnds(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	for _, c := range []struct {
		arguments string
		code      int
		failure   string
		shows     string
	}{
		{`{"cmd":"echo hi"}`, 0, "", "hi"}, {`{"cmd":""}`, 0, "", ""}, {`{"cmd":["sh","-c","exit 7"]}`, 7, "", ""}, {`{"cmd":"nosuchprogram"}`, 127, "", "not found"},
		{`{"cmd":"echo x > /usr/hardshell-test"}`, 1, "denied", "hardshell-test"}, {`{"cmd":"kill -9 $$"}`, 137, "signal", ""},
		{`{"cmd":"echo begun; sleep 600","timeout_ms":400}`, 124, "timeout", "begun"}, {`{"cmd":"cat"}`, 0, "", ""},
		{`{"cmd":"stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all","tty":true}`, 0, "", "24 80\nall"},
		{`{"cmd":"[ -t 0 ] || echo none"}`, 0, "", "none"},
	} {
		got := r.call(ToolExecCommand, strings.Replace(c.arguments, "}", `,"wait_for":{"exit":true}}`, 1))
		if strings.Contains(c.arguments, "cmd\":[") {
			got = r.call(ToolExecCommand, c.arguments)
		}
		if code(got) != c.code || got.Failure != c.failure || !strings.Contains(got.Text(), c.shows) || got.SessionID == 0 {
			t.Errorf("%s: %d %q %q %+v", c.arguments, code(got), got.Failure, got.Text(), got)
		}
	}
}

func TestASessionLivesOnBetweenCalls(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	first := r.call(ToolExecCommand, `{"cmd":"read line; echo got $line; read line; exit 5","tty":true,"yield_time_ms":250}`)
	if first.ExitCode != nil || first.SessionID < 1000 || !first.living() {
		t.Fatalf("%+v", first)
	}
	id := first.ProcessID
	r.until(id, "got one", r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"one\n"}`))
	if got := r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"\n","wait_for":"exit"}`); code(got) != 5 || got.State != "exited" {
		t.Errorf("%+v", got)
	}
	if text := r.text(ToolWriteStdin, `{"session_id":77}`); !strings.HasPrefix(text, "write_stdin failed: ") {
		t.Error(text)
	}
	if text := r.text(ToolWriteStdin, `{"chars":"x"}`); !strings.Contains(text, "missing field `session_id`") {
		t.Error(text)
	}
}

// TestPipesAreNotTypedInto: case 20, and Ctrl-C reaches a command without a terminal.
func TestPipesAreNotTypedInto(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	got := r.call(ToolExecCommand, `{"cmd":"trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done","wait_for":{"pattern":"ready"}}`)
	id := got.ProcessID
	if text := r.text(ToolWriteStdin, `{"session_id":`+id+`,"chars":"x"}`); !strings.Contains(text, "tty") {
		t.Errorf("the cure is not named: %s", text)
	}
	if text := r.text(ToolWriteStdin, `{"session_id":`+id+`,"chars":"\u0003\u0003"}`); !strings.Contains(text, "One interrupt") {
		t.Error(text)
	}
	if got := r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"\u0003","wait_for":{"exit":true}}`); code(got) != 9 || !strings.Contains(got.Text(), "caught") {
		t.Errorf("%+v", got)
	}
	if got := r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"x"}`); code(got) != 9 {
		t.Errorf("a write to an exited session: %+v", got)
	}
}

// TestAnIdOfTheCallersOwn is honoured, returned in both spellings, and free again after the end.
func TestAnIdOfTheCallersOwn(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	for _, c := range []struct {
		given, id string
		number    int
	}{{`"process_id":"1001"`, "1001", 1001}, {`"session_id":1001`, "1001", 1001}, {`"process_id":"web server"`, "web server", 0}, {`"process_id":"web server"`, "web server", 0}} {
		got := r.call(ToolExecCommand, `{"cmd":"exit 4",`+c.given+`,"wait_for":{"exit":true}}`)
		if got.ProcessID != c.id || code(got) != 4 || c.number != 0 && got.SessionID != c.number || got.SessionID == 0 {
			t.Errorf("%s: %+v", c.given, got)
		}
		if again := r.call(ToolWriteStdin, `{`+c.given+`}`); again.SessionID != got.SessionID || code(again) != 4 {
			t.Errorf("%s: %+v", c.given, again)
		}
	}
}

func TestPythonIsInterruptedInTheSandbox(t *testing.T) {
	_, err := os.Stat("/usr/bin/python3")
	require.Feature(t, "python", err)
	r := newRig(t, approval.OnRequest, nil)
	first := r.call(ToolExecCommand, `{"cmd":["/usr/bin/python3","-q"],"tty":true,"yield_time_ms":250}`)
	id := first.ProcessID
	r.until(id, ">>> $", first)
	r.until(id, "begun", r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"import time; print('be'+'gun'); time.sleep(500)\n"}`))
	r.until(id, "KeyboardInterrupt", r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"\u0003"}`))
	r.until(id, "42", r.call(ToolWriteStdin, `{"session_id":`+id+`,"chars":"print(6*7)\n"}`))
}

func TestOutcomesOfApprovalForSessions(t *testing.T) {
	p := &person{answer: Approved}
	outside := filepath.Join(t.TempDir(), "outside")
	var events recorder
	r := newRig(t, approval.OnFailure, func(c *SessionConfig) { c.Approver, c.Observer = p, &events })
	got := r.call(ToolExecCommand, `{"cmd":"echo x > `+outside+`","process_id":"web","wait_for":{"exit":true}}`)
	if _, err := os.Stat(outside); err != nil || !got.Retried || code(got) != 0 || p.questions() != 1 {
		t.Errorf("%v %+v", err, got)
	}
	if begins := eventsOf[ExecCommandBegin](&events); len(begins) != 2 || begins[1].Attempt != 2 || !begins[1].Decision.Outside {
		t.Errorf("%+v", begins)
	}
	if err := r.session.Close(); err != nil { // then all is told
		t.Error(err)
	}
	ends := eventsOf[ExecCommandEnd](&events)
	if len(ends) != 2 || ends[0].ExitCode == 0 || ends[1].ExitCode != 0 || ends[1].Session == 0 || ends[1].CallID != "call_1" {
		t.Errorf("%+v", ends)
	}
}

// TestEachClientHasItsOwnSessions: two sessions of the engine do not see each other's commands.
func TestEachClientHasItsOwnSessions(t *testing.T) {
	one := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Sessions = session.Options{Max: 4} })
	two := newRig(t, approval.OnRequest, nil)
	got := one.call(ToolExecCommand, `{"cmd":"sleep 600","process_id":"mine","yield_time_ms":250}`)
	if text := two.text(ToolWriteStdin, `{"process_id":"mine"}`); !strings.HasPrefix(text, "write_stdin failed") {
		t.Error(text)
	}
	if text := two.text(ToolWriteStdin, `{"session_id":`+got.ProcessID+`}`); got.ProcessID == "mine" {
		if text := one.text(ToolExecCommand, `{"cmd":"true","process_id":"mine"}`); !strings.Contains(text, "runs already") {
			t.Error(text)
		}
	} else {
		t.Errorf("a caller's own id is not returned: %+v %s", got, text)
	}
	for range 5 {
		one.call(ToolExecCommand, `{"cmd":"sleep 600","yield_time_ms":250}`)
	}
	if n := len(one.session.Live().List()); n != 4 {
		t.Errorf("%d sessions of at most 4", n)
	}
}
