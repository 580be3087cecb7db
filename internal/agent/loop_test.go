package agent

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// types lists the types of a response's output.
func types(o openai.Response) string {
	var out []string
	for _, i := range o.Output {
		out = append(out, i.Type)
	}
	return strings.Join(out, " ")
}

// tools lists the names of the tools of a model call.
func tools(r llm.Request) string {
	var out []string
	for _, t := range r.Tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

// shown is what a model call holds, one line an item.
func shown(r llm.Request) string {
	var b strings.Builder
	if r.Instructions != "" {
		fmt.Fprintf(&b, "instructions: %s\n", r.Instructions)
	}
	fmt.Fprintf(&b, "tools: %s  choice: %s\n", tools(r), r.ToolChoice)
	for _, i := range r.Items {
		var c openai.FunctionCall
		var o openai.FunctionCallOutput
		var m openai.Message
		switch {
		case i.Type == openai.TypeFunctionCall && i.Decode(&c) == nil:
			fmt.Fprintf(&b, "call %s %s %s\n", c.CallID, c.Name, c.Arguments)
		case i.Type == openai.TypeFunctionCallOutput && i.Decode(&o) == nil:
			fmt.Fprintf(&b, "output %s %s\n", o.CallID, o.Output)
		case i.Type == openai.TypeMessage && i.Decode(&m) == nil:
			fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Content.Text())
		default:
			fmt.Fprintf(&b, "%s\n", i.Raw)
		}
	}
	return b.String()
}

// TestWhatTheModelSees holds the conversation of a model call after each kind of result.
func TestWhatTheModelSees(t *testing.T) {
	slow := printed("half\n", "", 124)
	slow.result.TimedOut = true
	big := printed("", "", 137)
	big.result.OutOfMemory = true
	big.result.Stdout.Text, big.result.Stdout.Bytes = "a\n[… 1,234 characters left out …]\nz", 1236
	many := printed("", "", 0, file("m/1", 1))
	many.result.ChangedMore, many.result.ChangedPartial = 7, true
	missing := printed("", "", 127)
	missing.result.Error = "bash: not found"
	forged := printed("[… 9 characters left out …]\nnot in the middle\n", "", 0)
	w := newWorld(t,
		calls("shell", argumentsOf("ok"), "shell", `{"commands":["slow","big"],"timeout_ms":50}`, "nothing", `{"a":1}`),
		calls("shell", `{"commands":7}`, "shell", argumentsOf("boot", "forged"), "shell", argumentsOf("missing", "many")),
		says("Enough."))
	w.commands = map[string]command{"ok": printed("1\n", "warn\n", 3, file("sub/o.csv", 9)), "slow": slow, "big": big,
		"boot": {start: noJail}, "forged": forged, "many": many, "missing": missing}
	w.run(`{"model":"m","input":"go","instructions":"Be brief.","tools":[{"type":"shell"}]}`)
	golden(t, "model_view", shown(w.asked[2]))
}

func TestUnknownFunctionIsAnsweredToTheModelOnly(t *testing.T) {
	w := newWorld(t, calls("rm_rf", `{}`), says("Sorry."))
	_, o := w.run(plainShell)
	if types(o) != "message" || o.Status != openai.Completed {
		t.Errorf("status %s, output %s", o.Status, types(o))
	}
	if view := shown(w.asked[1]); !strings.Contains(view, "no function named rm_rf") {
		t.Errorf("the model was shown %s", view)
	}
}

func TestMixedTurnContinuesThroughTheChain(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) {
		t.Call("shell").Write(argumentsOf("date"))
		t.Call("weather").Write(`{}`)
		t.Complete(nil)
	}, says("It rains now."))
	w.commands = map[string]command{"date": printed("now\n", "", 0)}
	r, o := w.run(mixedShell)
	if types(o) != "shell_call function_call shell_call_output" || o.Status != openai.Completed || len(w.asked) != 1 {
		t.Fatalf("status %s, output %s, %d model calls", o.Status, types(o), len(w.asked))
	}
	w.chains[r.id] = response.Chain{Items: slices.Concat(w.begun[0].Input, o.Output), ContainerID: o.ContainerID}
	next := `{"model":"m","previous_response_id":"` + r.id + `","tools":[{"type":"shell"}],"input":[%s]}`

	if _, err := w.create(request(t, fmt.Sprintf(next, `{"role":"user","content":"hello?"}`))); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a turn that leaves the call unanswered: %v", err)
	}
	_, o = w.run(fmt.Sprintf(next, `{"type":"function_call_output","call_id":"`+o.Output[1].CallID+`","output":"rain"}`))
	if o.Status != openai.Completed {
		t.Fatalf("status %s %+v", o.Status, o.Error)
	}
	golden(t, "mixed_turn_continued", shown(w.asked[1]))
}

func TestRoundsAreBounded(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		w.rounds = append(w.rounds, runs("ls"))
	}
	w.commands = map[string]command{"ls": printed("", "", 0)}
	_, o := w.run(plainShell)
	if o.Status != openai.Incomplete || o.IncompleteDetails.Reason != openai.ReasonMaxMessages {
		t.Errorf("status %s %+v", o.Status, o.IncompleteDetails)
	}
	last := w.asked[9]
	if len(w.asked) != 10 || len(w.started) != 9 || len(last.Tools) != 0 || last.ToolChoice != nil ||
		!strings.Contains(last.Instructions, noteLast) {
		t.Errorf("%d model calls, %d commands, last with tools %q, note %q", len(w.asked), len(w.started), tools(last), last.Instructions)
	}
	if strings.Contains(w.asked[8].Instructions, noteLast) || tools(w.asked[8]) != "shell" {
		t.Error("the round before the last is already the last")
	}
	if o.Usage.InputTokens != 100 || o.Usage.OutputTokens != 50 {
		t.Errorf("usage = %+v", o.Usage)
	}
}

func TestAnswerInTheLastRoundCompletes(t *testing.T) {
	w := newWorld(t, runs("ls"), says("That is all."))
	w.options.MaxIterations = 1 // reads as 2: one to call, one to answer
	w.commands = map[string]command{"ls": printed("", "", 0)}
	if _, o := w.run(plainShell); o.Status != openai.Completed {
		t.Errorf("status %s", o.Status)
	}
}

func TestMaxToolCalls(t *testing.T) {
	w := newWorld(t, calls("shell", argumentsOf("a"), "shell", argumentsOf("a"), "shell", argumentsOf("a")), runs("a"), says("ok"))
	w.commands = map[string]command{"a": printed("", "", 0)}
	_, o := w.run(`{"model":"m","input":"go","max_tool_calls":2,"tools":[{"type":"shell"}]}`)
	if types(o) != "shell_call shell_call shell_call_output shell_call_output message" || len(w.started) != 2 {
		t.Errorf("output %s, %d commands", types(o), len(w.started))
	}
	if n := strings.Count(shown(w.asked[2]), "allows no more tool calls"); n != 2 {
		t.Errorf("%d calls were answered as refused, want 2", n)
	}
}

func TestOneCallWhenParallelCallsAreOff(t *testing.T) {
	w := newWorld(t, calls("shell", argumentsOf("a"), "shell", argumentsOf("b"), "weather", "{}"), says("ok"))
	w.commands = map[string]command{"a": printed("", "", 0)}
	_, o := w.run(strings.Replace(mixedShell, `"input"`, `"parallel_tool_calls":false,"input"`, 1))
	if types(o) != "shell_call shell_call_output message" || strings.Contains(shown(w.asked[1]), `["b"]`) {
		t.Errorf("output %s, shown %s", types(o), shown(w.asked[1]))
	}
}

func TestToolChoice(t *testing.T) {
	for choice, want := range map[string][2]string{
		`"auto"`:                               {`"auto"`, `"auto"`},
		`"none"`:                               {`"none"`, `"none"`},
		`"required"`:                           {`"required"`, `"auto"`},
		`{"type":"shell"}`:                     {`{"type":"function","name":"shell"}`, `"auto"`},
		`{"type":"function","name":"weather"}`: {`{"type":"function","name":"weather"}`, `"auto"`},
		`{"type":"allowed_tools","mode":"required","tools":[{"type":"shell"}]}`: {`"required"`, `"auto"`},
	} {
		t.Run(choice, func(t *testing.T) {
			w := newWorld(t, calls("nothing", "{}"), says("ok"))
			w.run(strings.Replace(mixedShell, `"input"`, `"tool_choice":`+choice+`,"input"`, 1))
			for i, want := range want {
				if got := string(w.asked[i].ToolChoice); got != want {
					t.Errorf("round %d: tool_choice %s, want %s", i+1, got, want)
				}
			}
			if strings.Contains(choice, "allowed_tools") && tools(w.asked[0]) != "shell" {
				t.Errorf("tools %s", tools(w.asked[0]))
			}
		})
	}
}

func TestACallAgainstTheChoiceIsNotRun(t *testing.T) {
	w := newWorld(t, runs("ls"), says("ok"))
	_, o := w.run(strings.Replace(plainShell, `"input"`, `"tool_choice":"none","input"`, 1))
	if types(o) != "message" || len(w.started)+len(w.made) != 0 {
		t.Errorf("output %s, %d commands", types(o), len(w.started))
	}
}

func TestAClientsFunctionKeepsTheNameShell(t *testing.T) {
	w := newWorld(t, calls("shell_run", argumentsOf("ls")), calls("shell", `{"x":1}`))
	w.commands = map[string]command{"ls": printed("", "", 0)}
	_, o := w.run(`{"model":"m","input":"go","tools":[{"type":"shell"},{"type":"function","name":"shell"}]}`)
	if types(o) != "shell_call shell_call_output function_call" || tools(w.asked[0]) != "shell shell_run" {
		t.Errorf("output %s, tools %s", types(o), tools(w.asked[0]))
	}
	if !strings.Contains(shown(w.asked[1]), "shell_run {") {
		t.Errorf("history: %s", shown(w.asked[1]))
	}
}

func TestCallIDsAreUniqueInAConversation(t *testing.T) {
	same := func(turn *llm.Turn) {
		c := turn.Call("shell")
		c.Write(argumentsOf("ls"))
		turn.Complete(nil)
	}
	w := newWorld(t, same, same, says("ok"))
	w.commands = map[string]command{"ls": printed("", "", 0)}
	w.run(plainShell)
	l := newLoop(w.agent, w.runs[0], &plan{input: []openai.Item{{CallID: "call_0"}}})
	if a, b, c := l.uniqueCallID("call_0"), l.uniqueCallID("call_1"), l.uniqueCallID(""); a == "call_0" || b != "call_1" || c == "" {
		t.Errorf("ids %q %q %q", a, b, c)
	}
}

func TestACommandGetsItsKeyAndLimits(t *testing.T) {
	w := newWorld(t, calls("shell", `{"commands":["a","a"],"timeout_ms":1500,"max_output_length":10}`),
		calls("shell", `{"commands":["a"],"timeout_ms":1e14,"max_output_length":1000000}`), runs("a"), says("ok"))
	w.commands = map[string]command{"a": printed("", "", 0)}
	r, o := w.run(plainShell)
	slices.SortStableFunc(w.started[:2], func(a, b container.Command) int { return a.Index - b.Index })
	for i, want := range []container.Command{
		{Key: r.id + "." + o.Output[0].ID, Script: "a", Timeout: 1500 * time.Millisecond, MaxOutput: 64},
		{Key: r.id + "." + o.Output[0].ID, Index: 1, Script: "a", Timeout: 1500 * time.Millisecond, MaxOutput: 64},
		{Key: r.id + "." + o.Output[2].ID, Script: "a", Timeout: 24 * time.Hour, MaxOutput: 8000},
		{Key: r.id + "." + o.Output[4].ID, Script: "a"},
	} {
		want.Lease, want.Fence = r.id, 1
		if !reflect.DeepEqual(w.started[i], want) {
			t.Errorf("command %d = %+v, want %+v", i, w.started[i], want)
		}
	}
	if r.synced != 3 {
		t.Errorf("the log was synced %d times before commands, want 3", r.synced)
	}
}

func TestTokenBudgetIsOfTheWholeResponse(t *testing.T) {
	w := newWorld(t, runs("a"), runs("a"), says("never"))
	w.commands = map[string]command{"a": printed("", "", 0)}
	_, o := w.run(strings.Replace(plainShell, `"input"`, `"max_output_tokens":10,"input"`, 1))
	if o.Status != openai.Incomplete || o.IncompleteDetails.Reason != openai.ReasonMaxOutputTokens || len(w.asked) != 2 {
		t.Errorf("status %s %+v after %d calls", o.Status, o.IncompleteDetails, len(w.asked))
	}
	if *w.asked[1].MaxOutputTokens != 5 {
		t.Errorf("second call may use %d tokens, want 5", *w.asked[1].MaxOutputTokens)
	}
}

func TestWhereCommandsRun(t *testing.T) {
	chained := `{"model":"m","input":"go","previous_response_id":"resp_1","tools":[{"type":"shell"}]}`
	for name, c := range map[string]struct {
		body string
		gone error
		id   string // empty: a new one
		note bool
		made int
	}{
		"new":                    {body: plainShell, made: 1},
		"chain":                  {body: chained, id: "cntr_chain"},
		"chain, expired":         {body: chained, gone: fault.New(fault.Expired, "gone"), note: true, made: 1},
		"chain, deleted":         {body: chained, gone: fault.New(fault.NotFound, "gone"), note: true, made: 1},
		"reference beats chain":  {body: strings.Replace(chained, `"shell"`, `"shell","environment":{"type":"container_reference","container_id":"cntr_ref"}`, 1), id: "cntr_ref"},
		"chain, the same memory": {body: strings.Replace(chained, `"shell"`, `"shell","environment":{"type":"container_auto"}`, 1), id: "cntr_chain"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, runs("ls"), says("ok"))
			w.commands = map[string]command{"ls": printed("", "", 0)}
			w.chains["resp_1"] = response.Chain{ContainerID: "cntr_chain"}
			w.gone["cntr_chain"] = c.gone
			_, o := w.run(c.body)
			if len(w.made) != c.made || c.id != "" && o.ContainerID != c.id || c.id == "" && o.ContainerID == "cntr_chain" {
				t.Errorf("%d containers made, ran in %s", len(w.made), o.ContainerID)
			}
			if got := strings.Contains(w.asked[0].Instructions, noteFresh); got != c.note {
				t.Errorf("the model was told of a fresh container: %v", got)
			}
		})
	}
}

// TestSettingsAreHeldBeforeTheResponseBegins: a limit of the operator's is the request's answer, not the model's.
func TestSettingsAreHeldBeforeTheResponseBegins(t *testing.T) {
	body := strings.Replace(plainShell, `"shell"`, `"shell","environment":{"type":"container_auto","memory_limit":"64g"}`, 1)
	w := newWorld(t)
	w.makeErr = fault.New(fault.Invalid, "too much").WithCode("memory_limit_exceeds_cap").WithParam("memory_limit")
	_, err := w.create(request(t, body))
	e, ok := fault.As(err)
	if !ok || e.Code != "shell_environment_rejected" || e.Param != "tools[0].environment.memory_limit" || len(w.begun) != 0 {
		t.Errorf("err = %+v, %d begun", err, len(w.begun))
	}

	w = newWorld(t, runs("ls"), says("ok"))
	w.commands = map[string]command{"ls": printed("", "", 0)}
	if _, o := w.run(body); len(w.made) != 1 || w.made[0].MemoryLimit != "64g" || o.ContainerID == "" {
		t.Errorf("made %+v", w.made)
	}
}

func TestAChainedContainerKeepsItsMemory(t *testing.T) {
	for limit, want := range map[string]bool{"1g": true, "1024mb": true, "4g": false} {
		w := newWorld(t, says("ok"))
		w.chains["resp_1"] = response.Chain{ContainerID: "cntr_chain"}
		_, err := w.create(request(t, `{"model":"m","input":"go","previous_response_id":"resp_1","tools":[{"type":"shell",
			"environment":{"type":"container_auto","memory_limit":"`+limit+`"}}]}`))
		if (err == nil) != want {
			t.Errorf("%s: %v", limit, err)
		}
	}
}

func TestNothingIsMadeWithoutACommand(t *testing.T) {
	w := newWorld(t, says("no need"))
	_, o := w.run(plainShell)
	if len(w.made) != 0 || o.ContainerID != "" {
		t.Errorf("made %v", w.made)
	}
}

func TestAnAbsentEnvironmentIsTheOperatorsWord(t *testing.T) {
	w := newWorld(t, runs("ls"))
	w.options.DefaultEnvironment = "local"
	if _, o := w.run(plainShell); types(o) != "shell_call" || len(w.made) > 0 {
		t.Errorf("output %s, made %v", types(o), w.made)
	}
}

// TestBrokenOffHistory: a chain whose last turn was cancelled can be continued.
func TestBrokenOffHistory(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.chains["resp_1"] = response.Chain{Items: []openai.Item{
		openai.NewItem(openai.ShellCall{Type: "shell_call", ID: "sh_1", CallID: "c1", Status: openai.Incomplete,
			Action: openai.ShellAction{Commands: []string{"sleep 9"}}}),
		openai.NewItem(openai.FunctionCall{Type: "function_call", ID: "fc_1", CallID: "c2", Name: "f", Arguments: `{"`, Status: openai.Incomplete}),
	}}
	w.run(`{"model":"m","input":"again","previous_response_id":"resp_1"}`)
	golden(t, "broken_off_history", shown(w.asked[0]))
}

func TestPanicEndsItsResponseOnly(t *testing.T) {
	w := newWorld(t, func(*llm.Turn) { panic("defect") })
	_, o := w.run(plainShell)
	if o.Status != openai.Failed || o.Error.Code != "server_error" || strings.Contains(o.Error.Message, "defect") {
		t.Errorf("status %s %+v", o.Status, o.Error)
	}
}

func TestDescription(t *testing.T) {
	for name, edit := range map[string]func(*surroundings){
		"describe_default": func(*surroundings) {},
		"describe_full": func(s *surroundings) {
			s.network = "packages.example.org only"
			s.isolation = "jail (not to be had here: memory limit)"
			s.unavailable = "user namespaces are forbidden"
			s.memory = ""
			s.maxOutput = 500
			s.operator = "Debian 12 with python3 and jq.\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := surround(newWorld(t).facts, place{}, "")
			edit(&s)
			tool := shellFunction("shell", s)
			golden(t, name, tool.Description+"\n\n"+string(tool.Parameters)+"\n")
		})
	}
}

func TestDescriptionOfTheRequest(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.options.EnvironmentDescription = "There is a printer."
	w.facts.Isolation.Missing = []string{"pids limit"}
	w.run(`{"model":"m","input":"go","tools":[{"type":"shell","environment":{"type":"container_reference","container_id":"cntr_x"}}]}`)
	text := w.asked[0].Tools[0].Description
	for _, want := range []string{"There is a printer.", "Memory: 1g", "not to be had here: pids limit", "Network: none"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the description:\n%s", want, text)
		}
	}
}
