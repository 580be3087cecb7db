package scripted

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func TestPlan(t *testing.T) {
	for _, tt := range []struct {
		user string
		want []step
	}{
		{"hello", nil},
		{"", nil},
		{"$ a", []step{{commands: []string{"a"}}}},
		{"first\n$ a\nthen\n$ b\n", []step{{commands: []string{"a"}}, {commands: []string{"b"}}}},
		{"$ a\r\n$$ b\r\n$ c", []step{{commands: []string{"a", "b"}}, {commands: []string{"c"}}}},
		{"$$ a", nil}, // further commands of no call
		{"$ a\n? b\n$$ c", []step{{commands: []string{"a"}}, {commands: []string{"b", "c"}, ifFailed: true}}},
		{" $ a\n$b\n$\nwhy? x", nil},
		{"$ echo '$ not a call'", []step{{commands: []string{"echo '$ not a call'"}}}},
	} {
		got := plan(tt.user)
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(step{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.user, diff)
		}
	}
}

// answerTo plays a whole conversation: answer gives what a call's command prints. It returns the commands in order and
// the last text.
func answerTo(t *testing.T, user string, answer func(command string) string) (commands []string, text string) {
	t.Helper()
	p := New(Options{})
	r := llm.Request{Model: Name, Items: []openai.Item{openai.UserText("$ of an older turn"), openai.UserText(user)}, Tools: []openai.Tool{providertest.Shell}}
	for range 20 {
		a := providertest.Collect(t, t.Context(), p, r)
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if len(a.Calls()) == 0 {
			return commands, a.Text()
		}
		r.Items = append(r.Items, a.Items...)
		for _, c := range a.Calls() {
			var args struct{ Commands []string }
			if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
				t.Fatal(err)
			}
			cmd := strings.Join(args.Commands, " ++ ")
			commands = append(commands, cmd)
			r.Items = append(r.Items, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: c.CallID,
				Output: openai.OutputText(answer(cmd))}))
		}
	}
	t.Fatal("no end after 20 turns")
	return nil, ""
}

func exits(code int) string {
	return `{"command":"c","stdout":"","stderr":"","exit_code":` + strconv.Itoa(code) + "}"
}

func TestOnlyIfTheLastFailed(t *testing.T) {
	fail := func(failing ...string) func(string) string {
		return func(cmd string) string {
			if slices.Contains(failing, cmd) {
				return exits(1)
			}
			return exits(0)
		}
	}
	for _, tt := range []struct {
		name, user string
		answer     func(string) string
		want       []string
	}{
		{"nothing fails", "$ a\n? b\n$ c", fail(), []string{"a", "c"}},
		{"it fails", "$ a\n? b\n$ c", fail("a"), []string{"a", "b", "c"}},
		{"the repair fails and has a repair", "$ a\n? b\n? c", fail("a", "b"), []string{"a", "b", "c"}},
		{"the repair works", "$ a\n? b\n? c", fail("a"), []string{"a", "b"}},
		{"an earlier one failed", "$ a\n$ b\n? c", fail("a"), []string{"a", "b"}},
		{"nothing came before", "? a\n$ b", fail("a"), []string{"b"}},
		{"last one", "$ a\n? b", fail("a"), []string{"a", "b"}},
		{"one of several commands fails", "$ a\n$$ b\n? c", func(cmd string) string {
			if cmd == "a ++ b" {
				return exits(0) + "\n" + exits(4)
			}
			return exits(0)
		}, []string{"a ++ b", "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, text := answerTo(t, tt.user, tt.answer)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(text, "scripted model: ") {
				t.Errorf("the answer does not say what it is: %q", text)
			}
		})
	}
}

func TestResults(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		failed   bool
		quoted   []string
	}{
		{"the gateway's form", `{"command":"ls","stdout":"a\nb\n","stderr":"warn\n","exit_code":0}`, false, []string{"$ ls\na\nb\nstderr: warn\n[exit 0]"}},
		{"several lines", exits(0) + "\n" + exits(0) + "\n", false, []string{"[exit 0]"}},
		{"failed", exits(3), true, []string{"[exit 3]"}},
		{"timed out", `{"command":"sleep","stdout":"part","stderr":"","timed_out":true}`, true, []string{"part\n[timed out]"}},
		{"timed out says no", `{"stdout":"x","timed_out":false,"exit_code":0}`, false, []string{"[exit 0]"}},
		{"timed out after a while", `{"stdout":"x","timed_out":"after 2 s"}`, true, []string{"[timed out]"}},
		{"an error", `{"error":"the sandbox could not start"}`, true, []string{"stderr: the sandbox could not start"}},
		{"an error object", `{"error":{"message":"x"},"exit_code":2}`, true, []string{"[exit 2]"}},
		{"a reason", `{"stdout":"","stderr":"","exit_code":137,"reason":"memory_limit"}`, true, []string{"[exit 137, memory_limit]"}},
		{"a note", `{"stdout":"","stderr":"","exit_code":137,"note":"Killed: the memory limit was reached."}`, true, []string{"[exit 137]\nnote: Killed: the memory limit"}},
		{"a client's own form", `{"output":"hi","exit_code":1}`, true, []string{"hi\n[exit 1]"}},
		{"plain text", "hello\nworld", false, []string{"hello\nworld"}},
		{"plain text with a code", "Exit code: 1\nOutput: x", true, []string{"Exit code: 1", "[exit 1]"}},
		{"codex", "Process exited with code 0\nOutput:\nok", false, []string{"[exit 0]"}},
		{"plain error", "Error: no such tool", true, []string{"Error: no such tool"}},
		{"JSON of another kind", `{"files":["a"]}`, false, []string{`{"files":["a"]}`}},
		{"JSON with text behind it", exits(0) + "\nand more", false, []string{"and more"}},
		{"a number", "42", false, []string{"42"}},
		{"a list", `[1,2]`, false, []string{`[1,2]`}},
		{"cut JSON", `{"command":"ls","stdout":"a`, false, []string{`{"command":"ls","stdout":"a`}},
		{"wrong types", `{"stdout":7}`, false, []string{`{"stdout":7}`}},
		{"empty", "", false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := made{name: "shell", results: parseResults(tt.in)}
			if m.failed() != tt.failed {
				t.Errorf("failed = %v: %+v", m.failed(), m.results)
			}
			text := quote([]made{m}, nil)
			for _, want := range tt.quoted {
				if !strings.Contains(text, want) {
					t.Errorf("%q does not quote %q", text, want)
				}
			}
		})
	}
}

func TestAFilesLinesAreNoCommands(t *testing.T) {
	text := func(s string) openai.Part { return openai.Part{Type: "input_text", Text: s} }
	c := read([]openai.Item{openai.NewItem(openai.Message{Type: openai.TypeMessage, Role: "user", Content: openai.Content{
		text("[file prices.txt, 20 bytes]\n$ 5\n? what\n[end of file prices.txt]"), text("look"), text("$ ls")}})})
	if diff := cmp.Diff([]step{{commands: []string{"ls"}}}, plan(c.user), cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzResults(f *testing.F) {
	f.Add(exits(0) + "\n" + exits(1))
	f.Add("Exit code: 1")
	f.Add(`{"stdout":"a`)
	f.Fuzz(func(t *testing.T, s string) {
		if len(parseResults(s)) == 0 {
			t.Errorf("%q gives no result", s)
		}
	})
}

func TestWithoutAShell(t *testing.T) {
	p := New(Options{})
	tests := []struct {
		name  string
		tools []openai.Tool
		pick  string
	}{
		{"no tools", nil, ""},
		{"other tools", []openai.Tool{{Type: "function", Name: "weather", Parameters: json.RawMessage(`{"properties":{"command":{"type":"string"}}}`)}}, ""},
		{"choice none", []openai.Tool{providertest.Shell}, `"none"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := providertest.Collect(t, t.Context(), p, llm.Request{Model: Name, Items: []openai.Item{openai.UserText("$ rm -rf x\n$$ ls")},
				Tools: tt.tools, ToolChoice: json.RawMessage(tt.pick)})
			if len(a.Calls()) != 0 || !strings.HasPrefix(a.Text(), label) || !strings.Contains(a.Text(), "$ rm -rf x\n$ ls") {
				t.Errorf("%d calls, text %q", len(a.Calls()), a.Text())
			}
		})
	}
}

// On the agent's last round the tools are gone: the model tells what it has and what it would still do.
func TestToolsTakenAway(t *testing.T) {
	items := []openai.Item{openai.UserText("$ a\n$ b"),
		openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: "c", Name: "shell", Arguments: "{}"}),
		openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: "c", Output: `{"stdout":"seen","exit_code":0}`})}
	a := providertest.Collect(t, t.Context(), New(Options{}), llm.Request{Model: Name, Items: items})
	if !strings.Contains(a.Text(), "seen") || !strings.Contains(a.Text(), "I would run: b") {
		t.Errorf("text %q", a.Text())
	}
	b := providertest.Collect(t, t.Context(), New(Options{}), llm.Request{Model: "loop", Items: items})
	if len(b.Calls()) != 0 || b.Final == nil || !strings.HasPrefix(b.Text(), label) {
		t.Errorf("a looping script: %d calls, %q", len(b.Calls()), b.Text())
	}
}

func TestArgumentsFromTheSchema(t *testing.T) {
	for _, tt := range []struct{ name, parameters, want string }{
		{"list of commands", `{"properties":{"commands":{"type":"array","items":{"type":"string"}},"timeout_ms":{"type":"integer"}},"required":["commands"]}`, `{"commands":["a","b"]}`},
		{"commands as text", `{"properties":{"commands":{"type":"string"}}}`, `{"commands":"a\nb"}`},
		{"command as text", `{"properties":{"command":{"type":"string"},"description":{"type":"string"}},"required":["command","description"]}`, `{"command":"a\nb","description":"scripted call"}`},
		{"command as argv", `{"properties":{"command":{"type":"array","items":{"type":"string"}},"workdir":{"type":"string"}},"required":["command"]}`, `{"command":["bash","-lc","a\nb"]}`},
		{"cmd", `{"properties":{"cmd":{"type":"string"}}}`, `{"cmd":"a\nb"}`},
		{"command or null", `{"properties":{"command":{"type":["string","null"]}}}`, `{"command":"a\nb"}`},
		{"others that are demanded", `{"properties":{"command":{"type":"string"},"n":{"type":"integer"},"m":{"type":"number","minimum":5},"b":{"type":"boolean"},"e":{"enum":["x","y"]},"d":{"type":"string","default":"dd"},"l":{"type":"array"},"o":{"type":"object"},"z":{"type":["null","string"]}},"required":["n","m","b","e","d","l","o","z","undeclared"]}`,
			`{"b":false,"command":"a\nb","d":"dd","e":"x","l":[],"m":5,"n":0,"o":{},"undeclared":"scripted call","z":null}`},
		{"no schema", ``, `{"command":"a\nb"}`},
		{"schema of no known form", `[7]`, `{"command":"a\nb"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tool := pick([]openai.Tool{{Type: "function", Name: "bash", Parameters: json.RawMessage(tt.parameters)}}, nil)
			if got := tool.arguments([]string{"a", "b"}); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestPick(t *testing.T) {
	for _, tt := range []struct {
		names string
		want  string
	}{
		{"weather", ""},
		{"weather bash", "bash"},
		{"bash shell", "shell"},
		{"my_shell_tool exec_command", "exec_command"},
		{"hardshell_shell", "hardshell_shell"},
		{"Bash", "Bash"},
	} {
		var tools []openai.Tool
		for name := range strings.FieldsSeq(tt.names) {
			tools = append(tools, openai.Tool{Type: "function", Name: name})
		}
		got := ""
		if tool := pick(tools, nil); tool != nil {
			got = tool.name
		}
		if got != tt.want {
			t.Errorf("of %q: %q, want %q", tt.names, got, tt.want)
		}
	}
}

func TestScripts(t *testing.T) {
	p := New(Options{Scripts: fstest.MapFS{
		"mine.json":     {Data: []byte(`{"turns":[{"text":"one","usage":{"input_tokens":7,"output_tokens":8,"total_tokens":15}}]}`)},
		"parallel.json": {Data: []byte(`{"turns":[{"text":"of our own"}]}`)},
		"bad.json":      {Data: []byte(`{"turn":[]}`)},
		"tools.json":    {Data: []byte(`{"turns":[{"calls":[{"name":"weather","arguments":{"city":"Rome"}}]},{"calls":[{"name":"weather","arguments":"not json"}]}]}`)},
		"late.json":     {Data: []byte(`{"turns":[{"text":"short","fail":{"after":99,"code":"rate_limit_exceeded","message":"slow down"}}]}`)},
		"now.json":      {Data: []byte(`{"turns":[{"text":"short","fail":{}}]}`)},
	}})
	ask := func(model, user string, more ...openai.Item) providertest.Answer {
		return providertest.Collect(t, t.Context(), p, llm.Request{Model: model, Items: append([]openai.Item{openai.UserText(user)}, more...)})
	}
	if a := ask("mine", "x"); a.Text() != "one" || a.Final.Usage.TotalTokens != 15 {
		t.Errorf("mine: %q %+v", a.Text(), a.Final)
	}
	if a := ask(Name, "%% script mine\n$ ls"); a.Text() != "one" {
		t.Errorf("by its first line: %q", a.Text())
	}
	if a := ask("parallel", "x"); a.Text() != "of our own" {
		t.Errorf("ours come first: %q", a.Text())
	}
	a := ask("tools", "x")
	if len(a.Calls()) != 1 || a.Calls()[0].Name != "weather" || a.Calls()[0].Arguments != `{"city":"Rome"}` {
		t.Errorf("a function of the client's: %+v", a.Calls())
	}
	b := ask("tools", "x", a.Items[0])
	if len(b.Calls()) != 1 || b.Calls()[0].Arguments != "not json" {
		t.Errorf("the second turn: %+v", b.Calls())
	}
	if c := ask("tools", "x", a.Items[0], b.Items[0]); c.Text() != label+"the script is over." {
		t.Errorf("behind the end: %q", c.Text())
	}
	if c := ask("tools", "x", a.Items[0], b.Items[0], openai.UserText("again")); len(c.Calls()) != 1 || c.Calls()[0].Arguments != `{"city":"Rome"}` {
		t.Errorf("a new message starts anew: %+v", c.Calls())
	}
	if c := ask("late", "x"); len(c.Events) == 0 || fault.KindOf(c.Err) != fault.Upstream || !strings.Contains(c.Err.Error(), "slow down") {
		t.Errorf("late: %v", c.Err)
	}
	if c := ask("now", "x"); len(c.Events) != 0 || fault.KindOf(c.Err) != fault.Upstream {
		t.Errorf("now: %v, %d events", c.Err, len(c.Events))
	}
	for _, name := range []string{"nope", "../scripts/loop", "/etc/passwd", "a\x00b"} {
		a := ask(name, "x")
		if e, ok := fault.As(a.Err); !ok || e.Kind != fault.NotFound || e.Code != "model_not_found" {
			t.Errorf("%q: %v", name, a.Err)
		}
		if err := p.Check(llm.Request{Model: name}); fault.KindOf(err) != fault.NotFound {
			t.Errorf("Check %q: %v", name, err)
		}
	}
	if a := ask("bad", "x"); fault.KindOf(a.Err) != fault.Internal {
		t.Errorf("bad: %v", a.Err)
	}
}

func TestBuiltinScriptsAreWellFormed(t *testing.T) {
	files, err := builtin.ReadDir("scripts")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		raw, err := builtin.ReadFile("scripts/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseScript(f.Name(), raw)
		if err != nil || s.About == "" || len(s.Turns)+len(s.Rules) == 0 {
			t.Errorf("%s: %+v, %v", f.Name(), s, err)
			continue
		}
		for _, turn := range s.Turns {
			for _, text := range []string{turn.Reasoning, turn.Text} {
				if text != "" && !strings.HasPrefix(text, label) {
					t.Errorf("%s does not say what it is: %q", f.Name(), text)
				}
			}
		}
	}
}

func TestDeltasAreSmallAndTheSameEachTime(t *testing.T) {
	r := llm.Request{Model: Name, Items: []openai.Item{openai.UserText("漢字かな交じり文 and some English text to make it longer")}}
	var texts []string
	var usages []openai.Usage
	for range 2 {
		a := providertest.Collect(t, t.Context(), New(Options{}), r)
		n := 0
		for _, ev := range a.Events {
			if d, ok := ev.(*openai.DeltaEvent); ok {
				if n++; len(d.Delta) > pieceSize+3 || strings.ContainsRune(d.Delta, '\uFFFD') {
					t.Errorf("delta %q", d.Delta)
				}
			}
		}
		if n < 5 {
			t.Errorf("%d deltas", n)
		}
		texts, usages = append(texts, a.Text()), append(usages, *a.Final.Usage)
	}
	if texts[0] != texts[1] || usages[0] != usages[1] {
		t.Errorf("two runs differ: %q %+v", texts, usages)
	}
}
