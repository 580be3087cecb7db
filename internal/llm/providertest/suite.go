package providertest

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Fixture is a provider whose upstream behaves as the scripted model does, with its built-in scripts as models.
type Fixture struct {
	Provider llm.Provider
	Model    string               // follows the lines of the last user message
	Script   func(string) string  // the model that plays a built-in script of the scripted model
	Upstream func() (calls int64) // upstream calls under way; nil if there is no upstream
	Hosted   bool                 // the upstream runs web_search by itself
	Objects  bool                 // the dialect has objects for arguments: malformed ones end the upstream's answer
}

// Shell is a shell-like function as the agent declares it.
var Shell = openai.Tool{Type: "function", Name: "shell", Description: "Runs commands.", Parameters: json.RawMessage(
	`{"type":"object","properties":{"commands":{"type":"array","items":{"type":"string"}},"timeout_ms":{"type":"integer"}},"required":["commands"]}`)}

// Run runs the suite. Each test gets a fixture of its own.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	tests := []struct {
		name string
		run  func(t *testing.T, f Fixture)
	}{
		{"answers with text", testText},
		{"calls the shell and quotes it", testCall},
		{"five turns give the same items everywhere", testFiveTurns},
		{"parallel calls come in one turn", testParallel},
		{"malformed arguments come as they are", testMalformed},
		{"thinking is an item of its own", testThinking},
		{"a token limit ends the turn as incomplete", testLength},
		{"a content filter ends the turn as incomplete", testFilter},
		{"a turn with nothing in it still has an item", testEmpty},
		{"a break in mid-stream is one upstream error", testBreak},
		{"breaking off ends the upstream call", testBreakOff},
		{"a cancelled context ends the turn", testCancel},
		{"a tool that nobody runs is refused by name", testUnknownTool},
		{"what cannot be translated is answered, not sent", testUntranslatable},
		{"many at once do not disturb each other", testMany},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, open(t)) })
	}
}

func ask(f Fixture, text string, tools ...openai.Tool) llm.Request {
	r := llm.Request{Model: f.Model, Items: []openai.Item{openai.UserText(text)}, Tools: tools}
	if len(tools) > 0 && tools[0].Name == Shell.Name {
		r.Shell = Shell.Name
	}
	return r
}

// script asks a built-in script with the shell declared.
func script(f Fixture, name string) llm.Request {
	r := ask(f, "go", Shell)
	r.Model = f.Script(name)
	return r
}

// reply appends a turn's items and the answers to its calls, as the agent does.
func reply(t *testing.T, r *llm.Request, a Answer, answers ...string) {
	t.Helper()
	r.Items = append(r.Items, a.Items...)
	calls := a.Calls()
	if len(calls) != len(answers) {
		t.Fatalf("%d calls, want %d\n%s", len(calls), len(answers), Dump(a.Events))
	}
	for i, c := range calls {
		r.Items = append(r.Items, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: c.CallID,
			Output: openai.OutputText(answers[i])}))
	}
}

// commands reads the shell's arguments.
func commands(t *testing.T, c openai.FunctionCall) string {
	t.Helper()
	var args struct{ Commands []string }
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil || c.Name != Shell.Name || c.Status != openai.Completed {
		t.Fatalf("call %+v: %v", c, err)
	}
	return strings.Join(args.Commands, "\n")
}

func finished(t *testing.T, a Answer, status, reason string) {
	t.Helper()
	if a.Err != nil || a.Final == nil || a.Final.Status != status {
		t.Fatalf("err %v, final %+v, want %s\n%s", a.Err, a.Final, status, Dump(a.Events))
	}
	if reason != "" && a.Final.IncompleteDetails.Reason != reason {
		t.Fatalf("reason %q, want %q", a.Final.IncompleteDetails.Reason, reason)
	}
}

func testText(t *testing.T, f Fixture) {
	a := Collect(t, t.Context(), f.Provider, ask(f, "hello\nyou with \"quotes\", ümläuts, 漢字 and 🦀"))
	finished(t, a, openai.Completed, "")
	if !strings.Contains(a.Text(), "hello\nyou with \"quotes\", ümläuts, 漢字 and 🦀") {
		t.Errorf("text = %q", a.Text())
	}
	if a.Final.Usage == nil || a.Final.Usage.InputTokens == 0 || a.Final.Usage.OutputTokens == 0 {
		t.Errorf("usage = %+v", a.Final.Usage)
	}
	if len(a.Items) != 1 {
		t.Errorf("%d items, want 1", len(a.Items))
	}
}

func testCall(t *testing.T, f Fixture) {
	r := ask(f, "please\n$ printf '%s\\n' \"a\\\"b\"\n$$ ls <dir>", Shell)
	a := Collect(t, t.Context(), f.Provider, r)
	finished(t, a, openai.Completed, "")
	if len(a.Calls()) != 1 {
		t.Fatalf("%d calls, want 1", len(a.Calls()))
	}
	if got, want := commands(t, a.Calls()[0]), "printf '%s\\n' \"a\\\"b\"\nls <dir>"; got != want {
		t.Errorf("commands = %q, want %q", got, want)
	}
	reply(t, &r, a, `{"command":"x","stdout":"marker-1\n","stderr":"","exit_code":0}`)
	b := Collect(t, t.Context(), f.Provider, r)
	finished(t, b, openai.Completed, "")
	if !strings.Contains(b.Text(), "marker-1") || len(b.Calls()) != 0 {
		t.Errorf("text = %q, %d calls", b.Text(), len(b.Calls()))
	}
}

// testFiveTurns is the run of wire.md G 30: two good calls, one that fails, its repair, the answer.
func testFiveTurns(t *testing.T, f Fixture) {
	r := ask(f, "$ one\n$ two\n$ three\n? repair", Shell)
	r.Instructions = "Be exact."
	for i, want := range []string{"one", "two", "three", "repair"} {
		a := Collect(t, t.Context(), f.Provider, r)
		finished(t, a, openai.Completed, "")
		if len(a.Items) != 1 || len(a.Calls()) != 1 || commands(t, a.Calls()[0]) != want {
			t.Fatalf("turn %d: want one call of %q\n%s", i+1, want, Dump(a.Events))
		}
		code := 0
		if want == "three" {
			code = 3
		}
		reply(t, &r, a, `{"command":"`+want+`","stdout":"out-`+want+`\n","stderr":"","exit_code":`+strconv.Itoa(code)+`}`)
	}
	a := Collect(t, t.Context(), f.Provider, r)
	finished(t, a, openai.Completed, "")
	for _, want := range []string{"out-one", "out-two", "out-three", "exit 3", "out-repair"} {
		if !strings.Contains(a.Text(), want) {
			t.Errorf("the answer lacks %q: %s", want, a.Text())
		}
	}
}

func testParallel(t *testing.T, f Fixture) {
	r := script(f, "parallel")
	a := Collect(t, t.Context(), f.Provider, r)
	finished(t, a, openai.Completed, "")
	calls := a.Calls()
	if len(calls) != 2 || commands(t, calls[0]) != "echo one" || commands(t, calls[1]) != "echo two\necho three >&2" {
		t.Fatalf("calls %+v", calls)
	}
	if calls[0].CallID == calls[1].CallID || a.Text() == "" {
		t.Errorf("call ids %q and %q, text %q", calls[0].CallID, calls[1].CallID, a.Text())
	}
	reply(t, &r, a, "one", "two")
	b := Collect(t, t.Context(), f.Provider, r)
	finished(t, b, openai.Completed, "")
	if b.Text() != "scripted model: both are done." {
		t.Errorf("text = %q", b.Text())
	}
}

func testMalformed(t *testing.T, f Fixture) {
	r := script(f, "malformed")
	a := Collect(t, t.Context(), f.Provider, r)
	if f.Objects {
		if fault.KindOf(a.Err) != fault.Upstream || len(a.Calls()) != 0 {
			t.Errorf("err = %v, calls %+v, want an upstream fault", a.Err, a.Calls())
		}
		return
	}
	finished(t, a, openai.Completed, "")
	if len(a.Calls()) != 1 || a.Calls()[0].Arguments != `{"commands": ["echo broken"` {
		t.Fatalf("calls %+v", a.Calls())
	}
	reply(t, &r, a, `{"stdout":"","stderr":"the arguments are not JSON","exit_code":2}`)
	b := Collect(t, t.Context(), f.Provider, r)
	if b.Err != nil || len(b.Calls()) != 1 || commands(t, b.Calls()[0]) != "echo repaired" {
		t.Fatalf("err %v, calls %+v", b.Err, b.Calls())
	}
}

func testThinking(t *testing.T, f Fixture) {
	r := script(f, "think")
	a := Collect(t, t.Context(), f.Provider, r)
	finished(t, a, openai.Completed, "")
	if a.Thinking() != "scripted model: I should look first." || len(a.Items) != 2 || a.Items[0].Type != openai.TypeReasoning {
		t.Fatalf("thinking %q\n%s", a.Thinking(), Dump(a.Events))
	}
	reply(t, &r, a, "/mnt/data") // the reasoning item goes back too, and is no error
	b := Collect(t, t.Context(), f.Provider, r)
	finished(t, b, openai.Completed, "")
	if b.Thinking() == "" || b.Text() != "scripted model: I looked." {
		t.Errorf("thinking %q, text %q", b.Thinking(), b.Text())
	}
}

func testLength(t *testing.T, f Fixture) {
	a := Collect(t, t.Context(), f.Provider, script(f, "length"))
	finished(t, a, openai.Incomplete, openai.ReasonMaxOutputTokens)
	if len(a.Items) != 1 || a.Items[0].Status != openai.Incomplete {
		t.Errorf("items %+v", a.Items)
	}
	r, limit := ask(f, "say something long"), int64(3)
	r.MaxOutputTokens = &limit
	b := Collect(t, t.Context(), f.Provider, r)
	finished(t, b, openai.Incomplete, openai.ReasonMaxOutputTokens)
}

func testFilter(t *testing.T, f Fixture) {
	a := Collect(t, t.Context(), f.Provider, script(f, "filter"))
	finished(t, a, openai.Incomplete, openai.ReasonContentFilter)
}

func testEmpty(t *testing.T, f Fixture) {
	a := Collect(t, t.Context(), f.Provider, script(f, "empty"))
	finished(t, a, openai.Completed, "")
	if len(a.Items) != 1 || a.Text() != "" {
		t.Errorf("items %+v", a.Items)
	}
}

func testBreak(t *testing.T, f Fixture) {
	a := Collect(t, t.Context(), f.Provider, script(f, "cut"))
	if fault.KindOf(a.Err) != fault.Upstream {
		t.Fatalf("err = %v, want an upstream fault", a.Err)
	}
	if len(a.Events) == 0 {
		t.Error("the events before the break are lost")
	}
}

func testBreakOff(t *testing.T, f Fixture) {
	seen := 0
	for ev, err := range f.Provider.Stream(t.Context(), script(f, "slow")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.EventType() == openai.EventTextDelta {
			seen++
			break
		}
	}
	if seen != 1 {
		t.Fatalf("%d deltas", seen)
	}
	f.idle(t)
}

func testCancel(t *testing.T, f Fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for ev, err := range f.Provider.Stream(ctx, script(f, "slow")) {
		if last != nil {
			t.Fatal("the sequence went on after its error")
		}
		last = err
		if err == nil && ev.EventType() == openai.EventTextDelta {
			cancel()
		}
	}
	if fault.KindOf(last) != fault.Cancelled {
		t.Errorf("err = %v, want cancelled", last)
	}
	f.idle(t)
}

// idle waits until the upstream has noticed that nobody listens.
func (f Fixture) idle(t *testing.T) {
	t.Helper()
	if f.Upstream == nil {
		return
	}
	for end := time.Now().Add(10 * time.Second); f.Upstream() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the upstream call is still under way")
		}
	}
}

func testUnknownTool(t *testing.T, f Fixture) {
	for _, typ := range []string{"web_search", "code_interpreter", "a_new_one"} {
		r := ask(f, "hello", openai.Tool{Type: typ})
		if typ == "web_search" && f.Hosted {
			if err := llm.Check(f.Provider, r); err != nil {
				t.Errorf("Check: %v", err)
			}
			continue
		}
		a := Collect(t, t.Context(), f.Provider, r)
		if fault.KindOf(a.Err) != fault.Invalid || !strings.Contains(a.Err.Error(), typ) {
			t.Errorf("Stream: err = %v, want invalid, naming %s", a.Err, typ)
		}
		if e, ok := fault.As(llm.Check(f.Provider, r)); !ok || e.Code != "unsupported_tool" {
			t.Errorf("Check: err = %v", e)
		}
	}
}

// testUntranslatable holds that a request that the dialect has no words for ends in one refusal that names the field.
func testUntranslatable(t *testing.T, f Fixture) {
	if f.Upstream == nil {
		return // nothing is translated
	}
	for name, set := range map[string]func(*llm.Request){
		"an unknown item":         adds(`{"type":"computer_call","id":"x"}`),
		"an unknown part":         says(`{"type":"input_audio"}`),
		"an unknown role":         adds(`{"type":"message","role":"odd","content":"x"}`),
		"content of another type": adds(`{"type":"message","role":"user","content":[7]}`),
		"an output of no call":    adds(`{"type":"function_call_output","call_id":"gone","output":"x"}`),
		"a call without a name":   adds(`{"type":"function_call","call_id":"c","arguments":"{}"}`),
		"an odd choice":           func(r *llm.Request) { r.ToolChoice = json.RawMessage(`{"type":"odd"}`) },
		"a choice of nothing":     func(r *llm.Request) { r.ToolChoice = json.RawMessage(`{"type":"function","name":"gone"}`) },
		"a tool without a name":   func(r *llm.Request) { r.Tools = append(r.Tools, openai.Tool{Type: "function"}) },
		"an odd format":           text(`{"format":{"type":"odd"}}`),
		"no format at all":        text(`[]`),
		"an odd effort":           reasoning(`{"effort":"odd"}`),
		"no reasoning at all":     reasoning(`[]`),
	} {
		for _, whole := range []bool{false, true} {
			r := ask(f, "hello", Shell)
			r.Whole = whole
			set(&r)
			a := Collect(t, t.Context(), f.Provider, r)
			if e, ok := fault.As(a.Err); !ok || e.Kind != fault.Invalid || e.Param == "" || len(a.Events) > 0 {
				t.Errorf("%s: %d events, then %v", name, len(a.Events), a.Err)
			}
			if fault.KindOf(llm.Check(f.Provider, r)) != fault.Invalid {
				t.Errorf("%s: Check lets it pass", name)
			}
		}
	}
}

func testMany(t *testing.T, f Fixture) {
	t.Run("group", func(t *testing.T) {
		for i := range 16 {
			want := "word-" + strconv.Itoa(i)
			t.Run(want, func(t *testing.T) {
				t.Parallel()
				a := Collect(t, t.Context(), f.Provider, ask(f, want))
				finished(t, a, openai.Completed, "")
				if !strings.HasSuffix(strings.TrimSpace(a.Text()), want) {
					t.Errorf("text = %q, want it to end with %q", a.Text(), want)
				}
			})
		}
	})
}
