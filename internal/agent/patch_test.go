package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	withPatch = `{"model":"m","input":"go","tools":[{"type":"apply_patch"}]}`
	update1   = `{"operation":{"type":"update_file","path":"a.go","diff":"@@\n-a\n+b\n"}}`
)

func TestAPatchGoesToTheClient(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) {
		t.Text([]byte("I change two files."))
		t.Call("apply_patch").Write(update1)
		t.Call("apply_patch").Write(`{"type":"delete_file","path":"old.txt","diff":""}`)
		t.Complete(usage(1, 2))
	})
	r, o := w.run(withPatch)
	if types(o) != "message apply_patch_call apply_patch_call" || o.Status != openai.Completed || len(w.asked) != 1 {
		t.Fatalf("status %s, output %s, %d model calls", o.Status, types(o), len(w.asked))
	}
	untouched(t, w)
	golden(t, "patch_call", r.transcript())
	if tool := w.asked[0].Tools[0]; w.asked[0].Patch != tool.Name || tool.Name != "apply_patch" || string(tool.Parameters) != patchSchema {
		t.Errorf("the model got %+v", tool)
	}
	if raw := string(o.Tools[0]); raw != `{"type":"apply_patch"}` {
		t.Errorf("the tool is echoed as %s", raw)
	}
}

// What the client says of its patch continues, in either shape, and reaches the model as the answer of the function.
func TestAPatchsOutputContinues(t *testing.T) {
	call := `{"type":"apply_patch_call","call_id":"c1","status":"completed","operation":{"type":"update_file","path":"a.go","diff":"@@\n-a\n+b\n"}}`
	for name, tt := range map[string]struct{ output, told string }{
		"done":       {`{"type":"apply_patch_call_output","call_id":"c1","status":"completed","x_host":"mine"}`, `{"status":"completed"}`},
		"failed":     {`{"type":"apply_patch_call_output","call_id":"c1","status":"failed","output":"no such file"}`, `{"status":"failed","output":"no such file"}`},
		"a function": {`{"type":"function_call_output","call_id":"c1","output":"well done"}`, `well done`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, says("Done."))
			_, o := w.run(`{"model":"m","tools":[{"type":"apply_patch"}],"input":[{"role":"user","content":"go"},` + call + `,` + tt.output + `]}`)
			if types(o) != "message" || o.Status != openai.Completed {
				t.Fatalf("status %s %+v, output %s", o.Status, o.Error, types(o))
			}
			var c openai.FunctionCall
			var f openai.FunctionCallOutput
			items := w.asked[0].Items
			if len(items) != 3 || items[1].Decode(&c) != nil || items[2].Decode(&f) != nil || c.Name != "apply_patch" || c.CallID != "c1" || c.Arguments != update1 ||
				f.CallID != "c1" || string(f.Output) != tt.told {
				t.Errorf("the model was shown %s", shown(w.asked[0]))
			}
			if kept := string(w.begun[0].Input[2].Raw); name == "done" && !strings.Contains(kept, `"x_host":"mine"`) {
				t.Errorf("stored: %s", kept)
			}
		})
	}
}

// A chain goes on with the output alone, and not without it.
func TestAChainOfPatches(t *testing.T) {
	w := newWorld(t, calls("apply_patch", update1), says("Good."))
	r, o := w.run(withPatch)
	w.chains[r.id] = response.Chain{Items: slices.Concat(w.begun[0].Input, o.Output)}
	next := `{"model":"m","previous_response_id":"` + r.id + `","tools":[{"type":"apply_patch"}],"input":[%s]}`
	_, err := w.create(request(t, fmt.Sprintf(next, `{"role":"user","content":"well?"}`)))
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fmt.Sprint(err), "apply patch call "+o.Output[0].CallID) {
		t.Errorf("without its output: %v", err)
	}
	_, o = w.run(fmt.Sprintf(next, `{"type":"apply_patch_call_output","call_id":"`+o.Output[0].CallID+`","status":"completed","output":"ok"}`))
	if types(o) != "message" || !strings.Contains(shown(w.asked[1]), "ok") {
		t.Errorf("output %s; the model was shown %s", types(o), shown(w.asked[1]))
	}
}

// The model is told what is wrong with a call; the client never sees it.
func TestAWrongPatchIsTheModels(t *testing.T) {
	for name, arguments := range map[string]string{
		"cut off": `{"operation":{"type":"create`, "no operation": `{}`, "another type": `{"operation":{"type":"move_file","path":"a"}}`,
		"no path": `{"operation":{"type":"delete_file"}}`, "no diff": `{"operation":{"type":"update_file","path":"a"}}`,
		"empty diff": `{"operation":{"type":"update_file","path":"a","diff":""}}`, "a diff too many": `{"operation":{"type":"delete_file","path":"a","diff":"-x"}}`,
		"NUL": `{"operation":{"type":"delete_file","path":"a\u0000b"}}`, "a number": `{"operation":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, calls("apply_patch", arguments), calls("apply_patch", update1))
			_, o := w.run(withPatch)
			if types(o) != "apply_patch_call" || o.Status != openai.Completed || len(w.asked) != 2 {
				t.Fatalf("status %s, output %s, %d model calls", o.Status, types(o), len(w.asked))
			}
			if view := shown(w.asked[1]); !strings.Contains(view, `error`) {
				t.Errorf("the model was shown %s", view)
			}
		})
	}
}

// A turn that breaks off leaves no patch, whole or in part.
func TestAPatchOfABrokenTurn(t *testing.T) {
	for name, round := range map[string]round{
		"broken": func(t *llm.Turn) {
			t.Call("apply_patch").Write(`{"operation":{"type":"delete_file"`)
			t.Fail(fault.New(fault.Upstream, "gone"))
		},
		"too long": func(t *llm.Turn) {
			t.Call("apply_patch").Write(`{"operation":{"type":"delete_file","path":"a"}}`)
			t.Stop(openai.ReasonMaxOutputTokens, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, round)
			if _, o := w.run(withPatch); len(o.Output) > 0 || o.Status == openai.Completed {
				t.Errorf("status %s, output %s", o.Status, types(o))
			}
		})
	}
}

func TestPatchesBesideOthers(t *testing.T) {
	w := newWorld(t, func(t *llm.Turn) {
		t.Call("apply_patch").Write(`{"x":1}`) // the client's own function
		t.Call("apply_patch_2").Write(update1)
		t.Call("shell").Write(argumentsOf("ls"))
		t.Complete(nil)
	})
	_, o := w.run(`{"model":"m","input":"go","tools":[{"type":"apply_patch"},{"type":"function","name":"apply_patch"},{"type":"shell","environment":{"type":"local"}}]}`)
	if types(o) != "function_call shell_call apply_patch_call" && types(o) != "function_call apply_patch_call shell_call" || o.Status != openai.Completed {
		t.Errorf("status %s, output %s", o.Status, types(o))
	}
}

func TestPatchAmongTheTools(t *testing.T) {
	for body, want := range map[string]string{
		`"tools":[{"type":"apply_patch"},{"type":"apply_patch"}]`:                                                                    "tools[1]",
		`"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"apply_patch"}`:                                              "tool_choice",
		`"tools":[{"type":"apply_patch"}],"tool_choice":{"type":"apply_patch"}`:                                                      "",
		`"tools":[{"type":"apply_patch"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"apply_patch"}]}`:     "",
		`"tools":[{"type":"apply_patch"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"apply_patch"}]}`: "",
	} {
		w := newWorld(t, calls("apply_patch", update1))
		r, err := w.create(request(t, `{"model":"m","input":"go",`+body+`}`))
		if e, ok := fault.As(err); want != "" && (!ok || e.Param != want) || want == "" && err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if err != nil {
			continue
		}
		if o := r.wait(t); types(o) != "apply_patch_call" {
			t.Errorf("%s: output %s", body, types(o))
		}
		if choice := string(w.asked[0].ToolChoice); strings.Contains(body, `"tool_choice":{"type":"apply_patch"}`) && choice != `{"type":"function","name":"apply_patch"}` {
			t.Errorf("%s: the choice is %s", body, choice)
		}
	}
	w := newWorld(t, calls("apply_patch", update1), says("Then not."))
	if _, o := w.run(`{"model":"m","input":"go","tools":[{"type":"apply_patch"}],"tool_choice":"none"}`); types(o) != "message" {
		t.Errorf("with none: output %s", types(o))
	}
}

func TestPatchItemsThatAreRefused(t *testing.T) {
	for item, param := range map[string]string{
		`{"type":"apply_patch_call_output","call_id":"nope","status":"completed"}`:                                                                 "input[0].call_id",
		`{"type":"apply_patch_call_output","call_id":"c","status":"done"}`:                                                                         "input[0].status",
		`{"type":"apply_patch_call_output","status":"failed"}`:                                                                                     "input[0].call_id",
		`{"type":"apply_patch_call","call_id":"c","status":"completed","operation":{"type":"rename","path":"a"}}`:                                  "input[0].operation",
		`{"type":"apply_patch_call","status":"completed","operation":{"type":"delete_file","path":"a"}}`:                                           "input[0].call_id",
		`{"type":"apply_patch_call","call_id":"c","status":"completed","operation":{"type":"delete_file","path":"a"}}`:                             "input",
		`{"type":"apply_patch_call","call_id":"c","status":"completed","operation":[]}`:                                                            "input[0]",
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"apply_patch_call_output","call_id":"c","status":"completed"}`: "input[1].call_id",
	} {
		w := newWorld(t)
		_, err := w.create(request(t, `{"model":"m","tools":[{"type":"apply_patch"}],"input":[`+item+`]}`))
		if e, ok := fault.As(err); !ok || e.Kind != fault.Invalid || e.Param != param {
			t.Errorf("%s: %v", item, err)
		}
	}
}

// What a client answers to a call of the shell as to a function's is stored whole, and the model reads its head and tail.
func TestAnAnswerAsAFunctionsIsCut(t *testing.T) {
	long := strings.Repeat("x", 30_000) + "THE END"
	w := newWorld(t, says("Long."))
	w.run(fmt.Sprintf(`{"model":"m","tools":[{"type":"shell","environment":{"type":"local"}}],"input":[`+
		`{"type":"shell_call","call_id":"c","environment":{"type":"local"},"action":{"commands":["yes"]}},{"type":"function_call_output","call_id":"c","output":%q},`+
		`{"type":"function_call","call_id":"f","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"f","output":%q}]}`, long, long))
	if kept := string(w.begun[0].Input[1].Raw); !strings.Contains(kept, long) {
		t.Errorf("%d bytes are stored", len(kept))
	}
	items := w.asked[0].Items
	if view := string(items[1].Raw); len(view) > 10_000 || !strings.Contains(view, "THE END") {
		t.Errorf("the model reads %d bytes of the shell's", len(view))
	}
	if !strings.Contains(string(items[3].Raw), long) {
		t.Error("the answer of another function was cut")
	}
}

// Whenever a server dies, its heir ends the response with a log that reads well.
func TestAServerMayDieInAPatch(t *testing.T) {
	const body = `{"model":"m","input":"go","background":true,"tools":[{"type":"apply_patch"}]}`
	ground := func() *ground {
		g := newGround(t)
		g.rounds[0] = func(t *llm.Turn) {
			t.Call("apply_patch").Write(`{"operation":{}}`)
			t.Complete(usage(10, 5))
		}
		g.rounds[1] = func(t *llm.Turn) {
			t.Text([]byte("Now."))
			t.Call("apply_patch").Write(update1)
			t.Complete(usage(10, 5))
		}
		return g
	}
	check := func(t *testing.T, h *house, id string) int {
		log, o := h.await(id)
		checkLog(t, log)
		last := openai.Item{}
		if len(o.Output) > 0 {
			last = o.Output[len(o.Output)-1]
		}
		if o.Status != openai.Completed || last.Type != openai.TypeApplyPatchCall || last.Status != openai.Completed {
			t.Errorf("status %s, output %s", o.Status, types(*o))
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
