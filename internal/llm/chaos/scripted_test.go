package chaos_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/chaos"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// spoken has the scripted model speak Chat Completions.
func spoken(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model    string
		Messages []struct {
			Role       string
			Content    any
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ask := llm.Request{Model: q.Model, Tools: []wire.Tool{providertest.Shell}}
	for _, m := range q.Messages {
		switch m.Role {
		case "user":
			ask.Items = append(ask.Items, wire.UserText(fmt.Sprint(m.Content)))
		case "assistant":
			for _, c := range m.ToolCalls {
				ask.Items = append(ask.Items, wire.NewItem(wire.FunctionCall{Type: wire.TypeFunctionCall, CallID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}))
			}
		case "tool":
			ask.Items = append(ask.Items, wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: m.ToolCallID,
				Output: wire.OutputText(fmt.Sprint(m.Content))}))
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	type m = map[string]any
	send := func(delta m, finish any) {
		raw, _ := json.Marshal(m{"choices": []m{{"index": 0, "delta": delta, "finish_reason": finish}}})
		fmt.Fprintf(w, "data: %s\n\n", raw)
	}
	calls, finish := -1, "stop"
	for ev := range scripted.New(scripted.Options{}).Stream(r.Context(), ask) {
		switch ev := ev.(type) {
		case *wire.ItemEvent:
			var f wire.FunctionCall
			if ev.Type == wire.EventItemAdded && ev.Item.Type == wire.TypeFunctionCall && ev.Item.Decode(&f) == nil {
				calls, finish = calls+1, "tool_calls"
				send(m{"tool_calls": []m{{"index": calls, "id": f.CallID, "type": "function", "function": m{"name": f.Name, "arguments": ""}}}}, nil)
			}
		case *wire.DeltaEvent:
			if ev.Type == wire.EventArgumentsDelta {
				send(m{"tool_calls": []m{{"index": calls, "function": m{"arguments": ev.Delta}}}}, nil)
			} else if ev.Type == wire.EventTextDelta {
				send(m{"content": ev.Delta}, nil)
			}
		case *wire.Lifecycle:
			send(m{}, finish)
			fmt.Fprint(w, "data: [DONE]\n\n")
		}
	}
}

// A model of rules behind chaos: it calls once, and what came of it is told, or the turn failed.
func TestAModelOfRulesUnderChaos(t *testing.T) {
	whole, failed := 0, 0
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			h := chaos.New(http.HandlerFunc(spoken), chaos.Options{Seed: seed, MaxDelay: 20 * time.Second})
			p := dialects["chat"](upstream.Options{Name: "chat", BaseURL: "http://upstream.example", Client: &http.Client{Transport: within{h}}})
			r := llm.Request{Model: "rules", Items: []wire.Item{wire.UserText("look at here")}, Tools: []wire.Tool{providertest.Shell}, Shell: "shell"}
			for _, want := range []string{`{"commands":["ls -d -- 'here'"]}`, "scripted model: there is here."} {
				a := providertest.Collect(t, t.Context(), p, r)
				if a.Err != nil {
					if fault.KindOf(a.Err) != fault.Upstream {
						t.Errorf("seed %d: %v", seed, a.Err)
					}
					failed++
					return
				}
				calls := a.Calls()
				if len(calls) == 0 {
					if a.Text() != want {
						t.Errorf("seed %d: %q, want %q", seed, a.Text(), want)
					}
					whole++
					return
				}
				if len(calls) != 1 || calls[0].Arguments != want {
					t.Errorf("seed %d: %+v, want %s", seed, calls, want)
				}
				r.Items = append(append(r.Items, a.Items...), wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: calls[0].CallID,
					Output: wire.OutputText(`{"stdout":"here\n","stderr":"","exit_code":0}`)}))
			}
			t.Errorf("seed %d: a third turn", seed)
		})
	}
	if whole == 0 || failed == 0 {
		t.Errorf("%d whole, %d failed: no chaos", whole, failed)
	}
}
