package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// acceptable refuses what the API is documented to refuse, and what must not get to it.
func acceptable(body []byte) error {
	var q request
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	if q.Store || q.Model == "" {
		return fmt.Errorf("store %v, model %q", q.Store, q.Model)
	}
	for _, raw := range q.Tools {
		var t wire.Tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return err
		}
		if t.Type == "function" && t.Name == "" {
			return fmt.Errorf("tool %s", raw)
		}
	}
	if len(q.Tools) == 0 && (len(q.ToolChoice) > 0 || q.ParallelToolCalls != nil) {
		return errors.New("a choice among no tools")
	}
	open, reasoning := map[string]string{}, false
	for i, raw := range q.Input {
		var item wire.Item
		if err := json.Unmarshal(raw, &item); err != nil {
			return err
		}
		if item.ID != "" && !strings.Contains(item.Type, "mcp") && !strings.Contains(item.Type, "search") {
			return fmt.Errorf("input[%d]: an id of ours: %s", i, raw)
		}
		model := item.Type == wire.TypeMessage && item.Role == "assistant" || strings.HasSuffix(item.Type, "_call") || item.Type == wire.TypeReasoning
		if reasoning && !model {
			return fmt.Errorf("input[%d]: reasoning without what it led to", i)
		}
		reasoning = item.Type == wire.TypeReasoning
		switch item.Type {
		case wire.TypeFunctionCall, wire.TypeShellCall:
			open[item.CallID] = item.Type
		case wire.TypeFunctionCallOutput, wire.TypeShellCallOutput:
			if open[item.CallID]+"_output" != item.Type {
				return fmt.Errorf("input[%d]: %s answers %q", i, item.Type, open[item.CallID])
			}
			delete(open, item.CallID)
		case wire.TypeMessage:
			var m wire.Message
			if err := item.Decode(&m); err != nil || len(m.Content) == 0 {
				return fmt.Errorf("input[%d]: %v", i, err)
			}
		}
	}
	if len(open) > 0 || reasoning {
		return fmt.Errorf("%d calls lack an answer, reasoning at the end %v", len(open), reasoning)
	}
	return nil
}

// fakeServer speaks Responses over HTTP with the scripted model's mind, and refuses what the API refuses.
type fakeServer struct {
	model   *scripted.Provider
	running atomic.Int64
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Add(-1)
	var body json.RawMessage
	err := json.NewDecoder(r.Body).Decode(&body)
	if err == nil {
		err = acceptable(body)
	}
	var q request
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || r.Header.Get("Authorization") != "Bearer sk-test" || r.URL.Path != "/responses" {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(wire.ErrorBody{Error: wire.ErrorObject{Message: fmt.Sprint(err), Type: "invalid_request_error"}})
		return
	}
	asked, native := fromResponses(q)
	w.Header().Set("Content-Type", "text/event-stream")
	number := 0
	send := func(typ string, keys map[string]any) {
		keys["type"], keys["sequence_number"] = typ, number
		number++
		raw, _ := wire.Marshal(keys)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", typ, raw)
		w.(http.Flusher).Flush()
	}
	type m = map[string]any
	send("response.created", m{"response": m{"id": "resp_up", "status": "in_progress"}})
	for ev, err := range s.model.Stream(r.Context(), asked) {
		if err != nil {
			send("error", m{"code": "server_error", "message": err.Error(), "param": nil})
			return
		}
		switch ev := ev.(type) {
		case *wire.ItemEvent:
			item := ev.Item
			var f wire.FunctionCall
			if native && item.Type == wire.TypeFunctionCall && item.Decode(&f) == nil && (f.Arguments == "" || json.Valid([]byte(f.Arguments))) {
				var action wire.ShellAction
				json.Unmarshal([]byte(f.Arguments), &action)
				item = wire.NewItem(wire.ShellCall{Type: wire.TypeShellCall, ID: "sh_up" + f.ID, CallID: "call_up" + f.CallID, Status: f.Status, Action: action})
				if f.Arguments == "" { // an added item; the malformed call comes as a function's
					continue
				}
			} else if item.Type == wire.TypeReasoning && ev.Type == wire.EventItemDone {
				var r wire.Reasoning
				item.Decode(&r)
				r.EncryptedContent = "gAAAA_up"
				item = wire.NewItem(r)
			}
			send(ev.Type, m{"output_index": ev.OutputIndex, "item": json.RawMessage(strings.ReplaceAll(string(item.Raw), `"id":"`, `"id":"up_`))})
		case *wire.DeltaEvent:
			if native && ev.Type == wire.EventArgumentsDelta {
				continue
			}
			send(ev.Type, m{"item_id": "up_" + ev.ItemID, "output_index": ev.OutputIndex, "content_index": ev.ContentIndex, "delta": ev.Delta})
		case *wire.Lifecycle:
			out := m{"id": "resp_up", "status": ev.Response.Status, "usage": ev.Response.Usage, "incomplete_details": ev.Response.IncompleteDetails,
				"output": []any{}}
			send(ev.Type, m{"response": out})
		}
	}
}

// fromResponses reads a request back for the scripted model, and says whether the shell is the vendor's.
func fromResponses(q request) (r llm.Request, native bool) {
	r = llm.Request{Model: q.Model, Instructions: q.Instructions, MaxOutputTokens: q.MaxOutputTokens}
	for _, raw := range q.Tools {
		var t wire.Tool
		json.Unmarshal(raw, &t)
		if t.Type == "shell" {
			t, native = providertest.Shell, true
		}
		r.Tools = append(r.Tools, t)
	}
	for _, raw := range q.Input {
		var i wire.Item
		json.Unmarshal(raw, &i)
		switch i.Type {
		case wire.TypeReasoning:
			continue
		case wire.TypeShellCall:
			var c wire.ShellCall
			i.Decode(&c)
			i = wire.NewItem(wire.FunctionCall{Type: wire.TypeFunctionCall, CallID: c.CallID, Name: "shell", Arguments: ourArguments(c.Action)})
		case wire.TypeShellCallOutput:
			var o wire.ShellCallOutput
			i.Decode(&o)
			var b strings.Builder
			for _, e := range o.Output {
				line, _ := wire.Marshal(map[string]any{"stdout": e.Stdout, "stderr": e.Stderr, "exit_code": e.Outcome.ExitCode})
				b.Write(append(line, '\n'))
			}
			i = wire.NewItem(wire.FunctionCallOutput{Type: wire.TypeFunctionCallOutput, CallID: o.CallID, Output: wire.OutputText(b.String())})
		}
		r.Items = append(r.Items, i)
	}
	return r, native
}

func TestProvider(t *testing.T) {
	for _, native := range []string{"off", "on"} {
		t.Run("native shell "+native, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Fixture {
				fake := &fakeServer{model: scripted.New(scripted.Options{})}
				p := New(Options{Options: upstream.Options{Name: "fake", BaseURL: providertest.Serve(t, fake), APIKey: "sk-test"}, NativeShell: native})
				t.Cleanup(p.Close)
				return providertest.Fixture{Provider: p, Model: scripted.Name, Script: func(name string) string { return name },
					Upstream: fake.running.Load, Hosted: true}
			})
		})
	}
}
