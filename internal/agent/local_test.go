package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const localShell = `{"model":"m","input":"go","tools":[{"type":"shell","environment":{"type":"local"}}]}`

// untouched fails if anything was run, or a container made.
func untouched(t *testing.T, w *world) {
	t.Helper()
	if len(w.made) > 0 || len(w.started) > 0 {
		t.Errorf("made %v, ran %v", w.made, w.started)
	}
}

func TestALocalCallGoesToTheClient(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) {
		t.Text([]byte("Let me look."))
		t.Call("shell").Write(`{"commands":["ls -l","pwd"],"timeout_ms":5000,"max_output_length":4000}`)
		t.Complete(usage(1, 2))
	})
	r, o := w.run(localShell)
	if types(o) != "message shell_call" || o.Status != openai.Completed || o.ContainerID != "" || len(w.asked) != 1 {
		t.Fatalf("status %s, output %s, container %q, %d model calls", o.Status, types(o), o.ContainerID, len(w.asked))
	}
	untouched(t, w)
	golden(t, "local_call", r.transcript())
	golden(t, "local_description", w.asked[0].Tools[0].Description)
}

// The two turns of the Agents SDK in local mode, as raw requests: the whole history goes each time.
func TestTheClientsOutputContinues(t *testing.T) {
	call := `{"type":"shell_call","call_id":"call_1","id":"sh_1","status":"completed","environment":{"type":"local"},"action":{"commands":["ls","cat x"],"timeout_ms":null,"max_output_length":null}}`
	for name, output := range map[string]string{
		"shell_call_output": `{"type":"shell_call_output","call_id":"call_1","output":[` +
			`{"stdout":"a\nb\n","stderr":"","outcome":{"type":"exit","exit_code":0},"command":"ls","provider_data":{"host":"mine"}},` +
			`{"stdout":"","stderr":"slow","outcome":{"type":"timeout"}}],"max_output_length":4000}`,
		"function_call_output": `{"type":"function_call_output","call_id":"call_1","output":"a\nb\n"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, says("Two files."))
			_, o := w.run(`{"model":"m","include":[],"stream":false,"tools":[{"type":"shell","environment":{"type":"local"}}],` +
				`"input":[{"role":"user","content":"What is here?"},` + call + `,` + output + `]}`)
			if types(o) != "message" || o.Status != openai.Completed {
				t.Fatalf("status %s %+v, output %s", o.Status, o.Error, types(o))
			}
			untouched(t, w)
			golden(t, "local_"+name, shown(w.asked[0]))
			kept := string(w.begun[0].Input[2].Raw)
			for _, key := range []string{`"command":"ls"`, `"provider_data":{"host":"mine"}`} {
				if name == "shell_call_output" && !strings.Contains(kept, key) {
					t.Errorf("%s is not in what is stored: %s", key, kept)
				}
			}
		})
	}
}

// A chain goes on with the output alone, and not without it.
func TestAChainOfLocalCalls(t *testing.T) {
	w := newWorld(t, runs("date"), says("Late."))
	r, o := w.run(localShell)
	w.chains[r.id] = response.Chain{Items: slices.Concat(w.begun[0].Input, o.Output)}
	next := `{"model":"m","previous_response_id":"` + r.id + `","tools":[{"type":"shell","environment":{"type":"local"}}],"input":[%s]}`
	_, err := w.create(request(t, fmt.Sprintf(next, `{"role":"user","content":"well?"}`)))
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), "shell call "+o.Output[0].CallID) {
		t.Errorf("without its output: %v", err)
	}
	_, o = w.run(fmt.Sprintf(next, `{"type":"shell_call_output","call_id":"`+o.Output[0].CallID+`","output":[{"stdout":"now","stderr":"","outcome":{"type":"exit","exit_code":0}}]}`))
	if types(o) != "message" || !strings.Contains(shown(w.asked[1]), "now") {
		t.Errorf("output %s; the model was shown %s", types(o), shown(w.asked[1]))
	}
	untouched(t, w)
}

// What a client's command printed is stored whole, and the model reads its head and tail.
func TestAClientsOutputIsCutForTheModelOnly(t *testing.T) {
	long := strings.Repeat("x", 30_000) + "THE END"
	w := newWorld(t, says("Long."))
	item := `{"type":"shell_call","call_id":"c","environment":{"type":"local"},"action":{"commands":["yes"]}}`
	w.run(fmt.Sprintf(`{"model":"m","tools":[{"type":"shell","environment":{"type":"local"}}],"input":[%s,{"type":"shell_call_output","call_id":"c",`+
		`"output":[{"stdout":%q,"stderr":"short","outcome":{"type":"exit","exit_code":0}}]}]}`, item, long))
	if kept := string(w.begun[0].Input[1].Raw); !strings.Contains(kept, long) {
		t.Errorf("%d bytes are stored", len(kept))
	}
	view := shown(w.asked[0])
	if len(view) > 10_000 || !strings.Contains(view, "THE END") || !strings.Contains(view, `stdout_omitted_chars`) || strings.Contains(view, workspace) {
		t.Errorf("the model reads %d bytes: %.300s…", len(view), view)
	}
	// One that was cut here already, and comes back from a client that kept no receipts, is not cut again.
	cut := fitted(long, 8000)
	if again := fitted(cut, 8000); again != cut {
		t.Errorf("cut twice: %d, then %d bytes", len(cut), len(again))
	}
}

// The model is told what is wrong with a call; the client never sees it.
func TestAWrongLocalCallIsTheModels(t *testing.T) {
	for name, arguments := range map[string]string{
		"no commands": `{"commands":7}`, "cut off": `{"commands":["ls`, "a folder": `{"commands":["ls"],"working_directory":"/"}`,
		"variables": `{"commands":["ls"],"env":{"A":"1"}}`, "input": `{"commands":["cat"],"stdin":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, calls("shell", arguments), runs("ls"))
			_, o := w.run(localShell)
			if types(o) != "shell_call" || o.Status != openai.Completed || len(w.asked) != 2 {
				t.Fatalf("status %s, output %s, %d model calls", o.Status, types(o), len(w.asked))
			}
			if view := shown(w.asked[1]); !strings.Contains(view, `"error"`) {
				t.Errorf("the model was shown %s", view)
			}
			untouched(t, w)
		})
	}
}

func TestLocalCallsBesideOthers(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) {
		t.Call("shell").Write(argumentsOf("a"))
		t.Call("weather").Write(`{}`)
		t.Call("nonsense").Write(`{}`)
		t.Call("shell").Write(argumentsOf("b"))
		t.Complete(nil)
	})
	_, o := w.run(`{"model":"m","input":"go","tools":[{"type":"shell","environment":{"type":"local"}},{"type":"function","name":"weather"}]}`)
	if types(o) != "function_call shell_call shell_call" || o.Status != openai.Completed {
		t.Errorf("status %s, output %s", o.Status, types(o))
	}
	untouched(t, w)
}

func TestMaxToolCallsHoldsForLocalCalls(t *testing.T) {
	w := newWorld(t, runs("a"))
	_, o := w.run(`{"model":"m","input":"go","max_tool_calls":1,"parallel_tool_calls":false,"tools":[{"type":"shell","environment":{"type":"local"}}]}`)
	if types(o) != "shell_call" {
		t.Errorf("output %s", types(o))
	}
}

func TestAFileIsNoLocalFile(t *testing.T) {
	w := newWorld(t, says("Read."))
	w.run(`{"model":"m","tools":[{"type":"shell","environment":{"type":"local"}}],"input":[{"role":"user","content":[` +
		`{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,aGVsbG8="}]}]}`)
	if view := shown(w.asked[0]); !strings.Contains(view, "hello") || strings.Contains(view, workspace) {
		t.Errorf("the model was shown %s", view)
	}
}

func TestLocalSkillsAreToldToTheModel(t *testing.T) {
	w := newWorld(t, says("ok"))
	w.run(`{"model":"m","input":"go","tools":[{"type":"shell","environment":{"type":"local","skills":[{"name":"csv","description":"Tables.","path":"/home/me/skills/csv"}]}}]}`)
	if d := w.asked[0].Tools[0].Description; !strings.Contains(d, "csv: Tables. (/home/me/skills/csv)") {
		t.Errorf("the description: %s", d)
	}
}

func TestWhatALocalEnvironmentCannotHave(t *testing.T) {
	for environment, param := range map[string]string{
		`{"type":"local","container_id":"cntr_1"}`:                                                                     "container_id",
		`{"type":"local","memory_limit":"4g"}`:                                                                         "memory_limit",
		`{"type":"local","network_policy":{"type":"allowlist","allowed_domains":["a.test"]}}`:                          "network_policy",
		`{"type":"local","file_ids":["file_1"]}`:                                                                       "file_ids",
		`{"type":"local","expires_after":{"anchor":"last_active_at","minutes":5}}`:                                     "expires_after",
		`{"type":"local","skills":"csv"}`:                                                                              "skills",
		`{"type":"local","skills":[{"name":"csv","path":"/x"},{"description":"no name"}]}`:                             "skills[1]",
		`{"type":"local","skills":[` + strings.Repeat(`{"name":"a","path":"/b"},`, 200) + `{"name":"a","path":"/b"}]}`: "skills",
	} {
		w := newWorld(t)
		_, err := w.create(request(t, `{"model":"m","input":"go","tools":[{"type":"shell","environment":`+environment+`}]}`))
		if e, ok := fault.As(err); !ok || e.Kind != fault.Invalid || e.Param != "tools[0].environment."+param {
			t.Errorf("%.80s: %v", environment, err)
		}
	}
}

// A server that runs nothing hands every call over, and refuses what only a container could hold.
func TestAServerThatRunsNothing(t *testing.T) {
	for environment, ok := range map[string]bool{
		`null`: true, `{"type":"local"}`: true, `{"type":"container_auto"}`: true, `{"type":"container_reference","container_id":"cntr_1"}`: false,
		`{"type":"container_auto","file_ids":["file_1"]}`: false, `{"type":"container_auto","memory_limit":"4g"}`: false,
		`{"type":"container_auto","network_policy":{"type":"disabled"}}`:                 false,
		`{"type":"container_auto","skills":[{"type":"skill_reference","skill_id":"s"}]}`: false,
	} {
		w := newWorld(t, runs("ls"))
		w.options.ClientRuns = true
		r, err := w.create(request(t, `{"model":"m","input":"go","tools":[{"type":"shell","environment":`+environment+`}]}`))
		if !ok {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("%s: %v", environment, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", environment, err)
			continue
		}
		if o := r.wait(t); types(o) != "shell_call" {
			t.Errorf("%s: output %s", environment, types(o))
		}
		untouched(t, w)
	}
}

// A turn that breaks off leaves no call that looks whole.
func TestALocalCallOfABrokenTurn(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) {
		t.Call("shell").Write(`{"commands":["rm`)
		t.Fail(fault.New(fault.Upstream, "gone"))
	})
	_, o := w.run(localShell)
	if o.Status != openai.Failed {
		t.Errorf("status %s", o.Status)
	}
	for _, i := range o.Output {
		if i.Type == openai.TypeShellCall && i.Status != openai.Incomplete {
			t.Errorf("the client gets %s", i.Raw)
		}
	}
}

// Whenever a server dies, its heir ends the response with a log that reads well, and runs nothing.
func TestAServerMayDieInALocalTurn(t *testing.T) {
	const body = `{"model":"m","input":"go","background":true,"tools":[{"type":"shell","environment":{"type":"local","skills":[{"name":"csv","description":"Tables.","path":"/x"}]}}]}`
	ground := func() *ground {
		g := newGround(t)
		g.rounds[0] = func(t *llm.Turn) {
			t.Text([]byte("Let me look."))
			t.Call("shell").Write(`{"commands":7}`)
			t.Complete(usage(10, 5))
		}
		g.rounds[1] = func(t *llm.Turn) {
			t.Call("shell").Write(argumentsOf("a", "b"))
			t.Complete(usage(10, 5))
		}
		return g
	}
	check := func(t *testing.T, h *house, id string) int {
		log, o := h.await(id)
		checkLog(t, log)
		if o.Status != openai.Completed || len(o.Output) == 0 || o.Output[len(o.Output)-1].Type != openai.TypeShellCall ||
			o.Output[len(o.Output)-1].Status != openai.Completed {
			t.Errorf("status %s, output %s", o.Status, types(*o))
		}
		for _, i := range o.Output {
			if i.Type == openai.TypeShellCallOutput {
				t.Errorf("an output of ours: %s", i.Raw)
			}
		}
		if len(h.ground.jobs) > 0 {
			t.Errorf("%d commands were run", len(h.ground.jobs))
		}
		for _, asked := range h.ground.asked {
			if !strings.Contains(asked.Tools[0].Description, "csv: Tables. (/x)") {
				t.Errorf("a model was asked without the skills: %s", asked.Tools[0].Description)
			}
		}
		return len(log)
	}
	h := newHouse(t, ground())
	events := check(t, h, h.play(t, body).id)
	for n := 1; n <= events+1; n++ {
		t.Run(fmt.Sprintf("after %d", n), func(t *testing.T) {
			h := newHouse(t, ground(), n)
			check(t, h, h.play(t, body).id)
		})
	}
}

// The item's shape is the vendor's.
func TestALocalCallsShape(t *testing.T) {
	w := newWorld(t, calls("shell", `{"commands":["ls"]}`))
	_, o := w.run(localShell)
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(o.Output[0].Raw, &keys); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"type": `"shell_call"`, "status": `"completed"`, "environment": `{"type":"local"}`,
		"action": `{"commands":["ls"],"timeout_ms":null,"max_output_length":null}`} {
		if string(keys[key]) != want {
			t.Errorf("%s is %s, want %s", key, keys[key], want)
		}
	}
	if !strings.HasPrefix(string(keys["id"]), `"sh_`) || len(keys["call_id"]) < 4 {
		t.Errorf("id %s, call_id %s", keys["id"], keys["call_id"])
	}
}
