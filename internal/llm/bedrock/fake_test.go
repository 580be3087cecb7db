package bedrock

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/converse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// message encodes one message of an event stream; kind is event or exception, or error, whose text stands in a header.
func message(kind, name string, payload []byte) []byte {
	said := [][2]string{{":" + kind + "-type", name}, {":content-type", "application/json"}, {":message-type", kind}}
	if kind == "error" {
		said = [][2]string{{":error-code", name}, {":error-message", string(payload)}, {":message-type", kind}}
		payload = nil
	}
	var headers []byte
	for _, h := range said {
		headers = append(headers, byte(len(h[0])))
		headers = append(headers, h[0]...)
		headers = append(headers, typeText)
		headers = binary.BigEndian.AppendUint16(headers, uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(prelude+len(headers)+len(payload)+trailer))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

var name = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// acceptable refuses what the API is documented to refuse.
func acceptable(body []byte) error {
	var q wire.Request
	if err := providertest.Strict(body, &q); err != nil {
		return err
	}
	if len(q.Messages) == 0 || q.Messages[0].Role != "user" || q.Messages[len(q.Messages)-1].Role != "user" {
		return errors.New("messages do not begin and end with the user")
	}
	if q.Tools != nil {
		for _, t := range q.Tools.Tools {
			if t.CachePoint != nil {
				continue
			}
			if !name.MatchString(t.Spec.Name) || t.Spec.InputSchema.JSON[0] != '{' {
				return fmt.Errorf("tool %+v", t.Spec)
			}
		}
	}
	last, open, documents := "", map[string]bool{}, map[string]bool{}
	for i, m := range q.Messages {
		if m.Role == last || len(m.Content) == 0 {
			return fmt.Errorf("messages[%d]: %s behind %s, %d blocks", i, m.Role, last, len(m.Content))
		}
		last = m.Role
		answered, text, document := len(open) > 0, false, false
		for k, b := range m.Content {
			at := fmt.Sprintf("messages[%d].content[%d]", i, k)
			switch {
			case b.Text != nil:
				text = true
				if strings.TrimSpace(*b.Text) == "" {
					return errors.New(at + ": blank text")
				}
			case b.Document != nil:
				document = true
				if documents[b.Document.Name] || b.Document.Name == "" {
					return fmt.Errorf("%s: a second document %q", at, b.Document.Name)
				}
				documents[b.Document.Name] = true
			case b.ToolUse != nil:
				if m.Role != "assistant" || q.Tools == nil || !name.MatchString(b.ToolUse.Name) || !name.MatchString(b.ToolUse.ID) || b.ToolUse.Input[0] != '{' {
					return fmt.Errorf("%s: call %+v", at, b.ToolUse)
				}
				open[b.ToolUse.ID] = true
			case b.ToolResult != nil:
				if m.Role != "user" || !open[b.ToolResult.ID] || len(b.ToolResult.Content) == 0 {
					return fmt.Errorf("%s: result for %q", at, b.ToolResult.ID)
				}
				delete(open, b.ToolResult.ID)
			case b.Reasoning != nil:
				if m.Role != "assistant" || k == len(m.Content)-1 {
					return errors.New(at + ": thinking here")
				}
			}
		}
		if answered && len(open) > 0 || document && !text {
			return fmt.Errorf("messages[%d]: %d calls lack a result, or a document a text", i, len(open))
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d calls lack a result", len(open))
	}
	return nil
}

// fakeServer speaks Converse over HTTP with the scripted model's mind, and refuses what the API refuses.
type fakeServer struct {
	model   *scripted.Provider
	running atomic.Int64
}

func refuse(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("X-Amzn-Errortype", kind+":http://internal.amazon.com/coral/")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": text})
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Add(-1)
	model, ok := strings.CutPrefix(r.URL.EscapedPath(), "/model/")
	model, call, _ := strings.Cut(model, "/")
	model, err := url.PathUnescape(model)
	if auth := r.Header.Get("Authorization"); auth != "Bearer sk-test" && !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") {
		refuse(w, http.StatusForbidden, "AccessDeniedException", "no")
		return
	}
	body := new(bytes.Buffer)
	body.ReadFrom(r.Body)
	if err == nil {
		err = acceptable(body.Bytes())
	}
	if err != nil || !ok || call != "converse-stream" && call != "converse" {
		refuse(w, http.StatusBadRequest, "ValidationException", fmt.Sprint(err))
		return
	}
	var q wire.Request
	json.Unmarshal(body.Bytes(), &q)
	w.Header().Set("Content-Type", framing)
	send := func(name string, payload any) {
		raw, _ := openai.Marshal(payload)
		w.Write(message("event", name, raw))
		w.(http.Flusher).Flush()
	}
	type m = map[string]any
	index, kind := -1, ""
	stop := func() {
		if kind == "reasoning_text" {
			send(wire.EventBlockDelta, m{"contentBlockIndex": index, "delta": m{"reasoningContent": m{"signature": "signed"}}})
		}
		if kind != "" {
			send(wire.EventBlockStop, m{"contentBlockIndex": index})
		}
		kind = ""
	}
	send(wire.EventMessageStart, m{"role": "assistant", "p": "abcdefg"})
	reason := wire.StopEndTurn
	for ev, err := range s.model.Stream(r.Context(), fromConverse(model, q)) {
		if err != nil {
			w.Write(message("exception", "internalServerException", []byte(`{"message":"it broke"}`)))
			return
		}
		switch ev := ev.(type) {
		case *openai.ItemEvent:
			var f openai.FunctionCall
			if ev.Type == openai.EventItemAdded && ev.Item.Type == openai.TypeFunctionCall && ev.Item.Decode(&f) == nil {
				stop()
				index, kind, reason = index+2, "call", wire.StopToolUse
				send(wire.EventBlockStart, m{"contentBlockIndex": index, "start": m{"toolUse": m{"toolUseId": "tooluse_up" + f.CallID[:8], "name": f.Name}}})
			}
		case *openai.PartEvent:
			if ev.Type == openai.EventPartAdded {
				stop()
				index, kind = index+1, ev.Part.Type
			}
		case *openai.DeltaEvent:
			delta := m{"text": ev.Delta}
			if kind == "reasoning_text" {
				delta = m{"reasoningContent": m{"text": ev.Delta}}
			} else if kind == "call" {
				delta = m{"toolUse": m{"input": ev.Delta}}
			}
			send(wire.EventBlockDelta, m{"contentBlockIndex": index, "delta": delta})
		case *openai.Lifecycle:
			stop()
			if d := ev.Response.IncompleteDetails; d != nil {
				reason = map[string]string{openai.ReasonMaxOutputTokens: wire.StopMaxTokens, openai.ReasonContentFilter: wire.StopGuardrail}[d.Reason]
			}
			u := ev.Response.Usage
			send(wire.EventMessageStop, m{"stopReason": reason})
			send(wire.EventMetadata, m{"usage": m{"inputTokens": u.InputTokens, "outputTokens": u.OutputTokens, "totalTokens": u.TotalTokens}, "metrics": m{"latencyMs": 1}})
		}
	}
}

// fromConverse reads a request back into items.
func fromConverse(model string, q wire.Request) llm.Request {
	r := llm.Request{Model: model}
	if q.Inference != nil {
		r.MaxOutputTokens = q.Inference.MaxTokens
	}
	text := func(blocks []wire.Block) string {
		var b strings.Builder
		for _, block := range blocks {
			if block.Text != nil {
				b.WriteString(*block.Text)
			}
		}
		return b.String()
	}
	r.Instructions = text(q.System)
	for _, m := range q.Messages {
		for _, b := range m.Content {
			switch {
			case b.Text != nil && m.Role == "user":
				r.Items = append(r.Items, openai.UserText(*b.Text))
			case b.ToolUse != nil:
				r.Items = append(r.Items, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: b.ToolUse.ID, Name: b.ToolUse.Name,
					Arguments: string(b.ToolUse.Input)}))
			case b.ToolResult != nil:
				r.Items = append(r.Items, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: b.ToolResult.ID,
					Output: openai.OutputText(text(b.ToolResult.Content))}))
			}
		}
	}
	if q.Tools != nil {
		for _, t := range q.Tools.Tools {
			if t.Spec == nil {
				continue
			}
			r.Tools = append(r.Tools, openai.Tool{Type: "function", Name: t.Spec.Name, Parameters: t.Spec.InputSchema.JSON})
		}
	}
	return r
}

func TestProvider(t *testing.T) {
	for _, key := range []string{"sk-test", ""} {
		t.Run(map[string]string{"sk-test": "with a key", "": "signed"}[key], func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Fixture {
				fake := &fakeServer{model: scripted.New(scripted.Options{})}
				p := New(Options{Options: upstream.Options{Name: "fake", BaseURL: providertest.Serve(t, fake), APIKey: key},
					Region: "us-east-1", Source: Static{AccessKey: "AKIDEXAMPLE", SecretKey: "secret"}})
				t.Cleanup(p.Close)
				return providertest.Fixture{Provider: p, Model: scripted.Name, Script: func(name string) string { return name },
					Upstream: fake.running.Load}
			})
		})
	}
}
