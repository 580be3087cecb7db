package chat

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// fakeServer speaks Chat Completions over HTTP with the scripted model's mind. It refuses what real servers refuse:
// a call without its answer, an answer without its call, arguments that are no object.
type fakeServer struct {
	model   *scripted.Provider
	running atomic.Int64
	t       testing.TB
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Add(-1)
	var q openai.ChatRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, `{"error":{"message":"not JSON"}}`, http.StatusBadRequest)
		return
	}
	req, err := fromChat(q)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": err.Error(), "code": "invalid"}})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(v any) {
		raw, _ := openai.Marshal(v)
		fmt.Fprintf(w, "data: %s\n\n", raw)
		w.(http.Flusher).Flush()
	}
	type m = map[string]any
	chunk := func(delta m, finish any) m {
		return m{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": q.Model,
			"choices": []any{m{"index": 0, "delta": delta, "finish_reason": finish}}}
	}
	send(chunk(m{"role": "assistant", "content": nil}, nil))
	calls, finish := map[string]int{}, "stop"
	for ev, err := range s.model.Stream(r.Context(), req) {
		if err != nil {
			send(m{"error": m{"message": err.Error(), "type": "server_error"}})
			return
		}
		switch ev := ev.(type) {
		case *openai.ItemEvent:
			var f openai.FunctionCall
			if ev.Type == openai.EventItemAdded && ev.Item.Type == openai.TypeFunctionCall && ev.Item.Decode(&f) == nil {
				finish = "tool_calls"
				calls[f.ID] = len(calls)
				send(chunk(m{"tool_calls": []any{m{"index": calls[f.ID], "id": f.CallID, "type": "function",
					"function": m{"name": f.Name, "arguments": ""}}}}, nil))
			}
		case *openai.DeltaEvent:
			switch ev.Type {
			case openai.EventTextDelta:
				send(chunk(m{"content": ev.Delta}, nil))
			case openai.EventReasonDelta:
				send(chunk(m{"reasoning_content": ev.Delta}, nil))
			case openai.EventArgumentsDelta:
				send(chunk(m{"tool_calls": []any{m{"index": calls[ev.ItemID], "function": m{"arguments": ev.Delta}}}}, nil))
			}
		case *openai.Lifecycle:
			if d := ev.Response.IncompleteDetails; d != nil {
				finish = map[string]string{openai.ReasonMaxOutputTokens: "length", openai.ReasonContentFilter: "content_filter"}[d.Reason]
			}
			send(chunk(m{}, finish))
			u := ev.Response.Usage
			send(m{"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []any{},
				"usage": m{"prompt_tokens": u.InputTokens, "completion_tokens": u.OutputTokens, "total_tokens": u.TotalTokens}})
		}
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// fromChat reads a chat request back into items.
func fromChat(q openai.ChatRequest) (llm.Request, error) {
	limit := q.MaxTokens
	if limit == nil {
		limit = q.MaxCompletionTokens
	}
	r := llm.Request{Model: q.Model, MaxOutputTokens: limit, ToolChoice: q.ToolChoice}
	open := map[string]bool{}
	for i, m := range q.Messages {
		if m.Role != "tool" && len(open) > 0 {
			return r, fmt.Errorf("messages[%d]: %d tool calls lack an answer", i, len(open))
		}
		switch m.Role {
		case "system", "developer":
			r.Instructions += m.Content.String()
		case "user":
			r.Items = append(r.Items, openai.UserText(m.Content.String()))
		case "assistant":
			if len(m.ToolCalls) == 0 && m.Content.Text == nil {
				return r, fmt.Errorf("messages[%d]: neither content nor calls", i)
			}
			for _, c := range m.ToolCalls {
				if !strings.HasPrefix(strings.TrimSpace(string(c.Function.Arguments)), "{") || !json.Valid([]byte(c.Function.Arguments)) {
					return r, fmt.Errorf("messages[%d]: arguments are no object: %s", i, c.Function.Arguments)
				}
				open[c.ID] = true
				r.Items = append(r.Items, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: c.ID,
					Name: c.Function.Name, Arguments: string(c.Function.Arguments)}))
			}
		case "tool":
			if !open[m.ToolCallID] {
				return r, fmt.Errorf("messages[%d]: no call %q is open", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			r.Items = append(r.Items, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: m.ToolCallID,
				Output: openai.OutputText(m.Content.String())}))
		default:
			return r, fmt.Errorf("messages[%d]: role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return r, fmt.Errorf("%d tool calls lack an answer", len(open))
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, openai.Tool{Type: "function", Name: t.Function.Name, Parameters: t.Function.Parameters})
	}
	return r, nil
}

func TestProvider(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Fixture {
		fake := &fakeServer{model: scripted.New(scripted.Options{}), t: t}
		p := New(Options{Options: upstream.Options{Name: "fake", BaseURL: providertest.Serve(t, fake), APIKey: "sk-test"}})
		t.Cleanup(p.Close)
		return providertest.Fixture{Provider: p, Model: scripted.Name, Script: func(name string) string { return name },
			Upstream: fake.running.Load}
	})
}
