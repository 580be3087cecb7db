package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

var name = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// acceptable refuses what the API is documented to refuse.
func acceptable(body []byte) error {
	var q wire.Request
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	if q.MaxTokens == nil || *q.MaxTokens < 1 || len(q.Messages) == 0 || len(q.Extra) > 0 {
		return fmt.Errorf("max_tokens %v, %d messages, extra %v", q.MaxTokens, len(q.Messages), q.Extra)
	}
	for _, t := range q.Tools {
		if !name.MatchString(t.Name) {
			return fmt.Errorf("tool name %q", t.Name)
		}
	}
	if t := q.Thinking; t != nil && t.Type == "enabled" && (t.BudgetTokens < 1024 || t.BudgetTokens >= *q.MaxTokens || q.Temperature != nil) {
		return fmt.Errorf("budget %d of %d, temperature %v", t.BudgetTokens, *q.MaxTokens, q.Temperature)
	}
	open, last := map[string]bool{}, "assistant"
	for i, m := range q.Messages {
		if m.Role == last || m.Role == "system" && last != "user" || len(m.Content) == 0 {
			return fmt.Errorf("messages[%d]: %s behind %s, %d blocks", i, m.Role, last, len(m.Content))
		}
		if last = m.Role; last == "system" {
			last = "user"
			if i+1 < len(q.Messages) && q.Messages[i+1].Role == "user" {
				return fmt.Errorf("messages[%d]: user behind system", i+1)
			}
		}
		results := m.Role == "user"
		answered := len(open) > 0
		for k, b := range m.Content {
			switch b.Type {
			case wire.TypeText:
				var t wire.Text
				if err := b.Decode(&t); err != nil || strings.TrimSpace(t.Text) == "" {
					return fmt.Errorf("messages[%d].content[%d]: empty text", i, k)
				}
				results = false
			case wire.TypeToolUse:
				var t wire.ToolUse
				if err := b.Decode(&t); err != nil || m.Role != "assistant" || !name.MatchString(b.Name) || !name.MatchString(b.ID) || t.Input[0] != '{' || open[b.ID] {
					return fmt.Errorf("messages[%d].content[%d]: call %s", i, k, b.Raw)
				}
				if len(q.Tools) == 0 {
					return errors.New("a call and no tools")
				}
				open[b.ID] = true
			case wire.TypeToolResult:
				if !results || !open[b.ToolUseID] {
					return fmt.Errorf("messages[%d].content[%d]: result for %q", i, k, b.ToolUseID)
				}
				delete(open, b.ToolUseID)
			case wire.TypeThinking, wire.TypeRedactedThinking:
				if m.Role != "assistant" || k == len(m.Content)-1 {
					return fmt.Errorf("messages[%d].content[%d]: thinking here", i, k)
				}
			default:
				results = false
			}
		}
		if answered && len(open) > 0 {
			return fmt.Errorf("messages[%d]: %d calls lack a result", i, len(open))
		}
	}
	if len(open) > 0 || last != "user" {
		return fmt.Errorf("%d calls lack a result, the last role is %s", len(open), last)
	}
	return nil
}

// fakeServer speaks Messages over HTTP with the scripted model's mind, and refuses what the API refuses.
type fakeServer struct {
	model   *scripted.Provider
	running atomic.Int64
	version string
}

func (s *fakeServer) fail(w http.ResponseWriter, status int, typ, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(wire.NewError(typ, message, "req_1"))
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Add(-1)
	key := r.Header.Get("X-Api-Key")
	if s.version == wire.Version2026 {
		key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	if key != "sk-test" || r.Header.Get("Anthropic-Version") != s.version || r.URL.Path != "/v1/messages" {
		s.fail(w, http.StatusUnauthorized, wire.ErrorAuthentication, "no")
		return
	}
	var q wire.Request
	body := json.RawMessage{}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		s.fail(w, 400, wire.ErrorInvalidRequest, "not JSON")
		return
	}
	if err := acceptable(body); err != nil {
		s.fail(w, 400, wire.ErrorInvalidRequest, err.Error())
		return
	}
	if err := json.Unmarshal(body, &q); err != nil {
		s.fail(w, 400, wire.ErrorInvalidRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(ev wire.Event) {
		raw, _ := wire.Marshal(ev)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", ev.Type, raw)
		w.(http.Flusher).Flush()
	}
	index, kind := -1, ""
	stop := func() {
		if kind == wire.DeltaThinking {
			send(wire.Event{Type: wire.EventBlockDelta, Index: index, Delta: wire.Delta{Type: wire.DeltaSignature, Signature: "signed"}})
		}
		if kind != "" {
			send(wire.Event{Type: wire.EventBlockStop, Index: index})
		}
		kind = ""
	}
	start := func(k string, v any) {
		stop()
		index++
		kind = k
		b := wire.NewBlock(v)
		send(wire.Event{Type: wire.EventBlockStart, Index: index, ContentBlock: &b})
	}
	send(wire.Event{Type: wire.EventMessageStart, Message: &wire.Response{ID: "msg_up", Type: "message", Role: "assistant", Model: q.Model,
		Usage: wire.Usage{InputTokens: 3, OutputTokens: 1}}})
	send(wire.Event{Type: wire.EventPing})
	reason := wire.StopEndTurn
	for ev, err := range s.model.Stream(r.Context(), fromMessages(q)) {
		if err != nil {
			send(wire.Event{Type: wire.EventError, Error: &wire.Error{Type: wire.ErrorAPI, Message: err.Error()}})
			return
		}
		switch ev := ev.(type) {
		case *openai.ItemEvent:
			var f openai.FunctionCall
			if ev.Type == openai.EventItemAdded && ev.Item.Type == openai.TypeFunctionCall && ev.Item.Decode(&f) == nil {
				reason = wire.StopToolUse
				start(wire.DeltaInput, wire.ToolUse{Type: wire.TypeToolUse, ID: "toolu_" + f.CallID, Name: f.Name, Input: json.RawMessage("{}")})
			}
		case *openai.PartEvent:
			if ev.Type == openai.EventPartAdded && ev.Part.Type == "reasoning_text" {
				start(wire.DeltaThinking, wire.Thinking{Type: wire.TypeThinking})
			} else if ev.Type == openai.EventPartAdded {
				start(wire.DeltaText, wire.Text{Type: wire.TypeText})
			}
		case *openai.DeltaEvent:
			d := wire.Delta{Type: kind}
			switch kind {
			case wire.DeltaText:
				d.Text = ev.Delta
			case wire.DeltaThinking:
				d.Thinking = ev.Delta
			default:
				d.PartialJSON = ev.Delta
			}
			send(wire.Event{Type: wire.EventBlockDelta, Index: index, Delta: d})
		case *openai.Lifecycle:
			stop()
			if d := ev.Response.IncompleteDetails; d != nil {
				reason = map[string]string{openai.ReasonMaxOutputTokens: wire.StopMaxTokens, openai.ReasonContentFilter: wire.StopRefusal}[d.Reason]
			}
			u := ev.Response.Usage
			send(wire.Event{Type: wire.EventMessageDelta, Delta: wire.Delta{StopReason: &reason},
				Usage: &wire.UsageUpdate{InputTokens: &u.InputTokens, OutputTokens: &u.OutputTokens}})
			send(wire.Event{Type: wire.EventMessageStop})
		}
	}
}

// fromMessages reads a request back into items.
func fromMessages(q wire.Request) llm.Request {
	r := llm.Request{Model: q.Model, Instructions: q.System.Text(), MaxOutputTokens: q.MaxTokens}
	for _, m := range q.Messages {
		for _, b := range m.Content {
			switch b.Type {
			case wire.TypeText:
				if m.Role == "user" {
					r.Items = append(r.Items, openai.UserText(wire.Content{b}.Text()))
				}
			case wire.TypeToolUse:
				var t wire.ToolUse
				b.Decode(&t)
				r.Items = append(r.Items, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: t.ID, Name: t.Name,
					Arguments: string(t.Input)}))
			case wire.TypeToolResult:
				var t wire.ToolResult
				b.Decode(&t)
				r.Items = append(r.Items, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: t.ToolUseID,
					Output: openai.OutputText(t.Content.Text())}))
			}
		}
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, openai.Tool{Type: "function", Name: t.Name, Parameters: t.InputSchema})
	}
	return r
}

func TestProvider(t *testing.T) {
	for _, version := range []string{wire.Version2023, wire.Version2026} {
		t.Run(version, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Fixture {
				fake := &fakeServer{model: scripted.New(scripted.Options{}), version: version}
				p := New(Options{Options: upstream.Options{Name: "fake", BaseURL: providertest.Serve(t, fake), APIKey: "sk-test"}, Version: version})
				t.Cleanup(p.Close)
				return providertest.Fixture{Provider: p, Model: scripted.Name, Script: func(name string) string { return name },
					Upstream: fake.running.Load}
			})
		})
	}
}
