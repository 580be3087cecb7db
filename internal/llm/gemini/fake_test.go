package gemini

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

var name = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

// acceptable refuses what the API is documented to refuse, of any model.
func acceptable(body []byte) error {
	var q wire.Request
	if err := providertest.Strict(body, &q); err != nil {
		return err
	}
	if len(q.Contents) == 0 || q.Contents[0].Role != "user" || q.Contents[len(q.Contents)-1].Role != "user" {
		return errors.New("contents do not begin and end with the user")
	}
	var declared []string
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			if !name.MatchString(f.Name) || slices.Contains(declared, f.Name) || len(f.Schema) > 0 && f.Schema[0] != '{' {
				return fmt.Errorf("function %+v", f)
			}
			declared = append(declared, f.Name)
		}
	}
	if c := q.ToolConfig; c != nil {
		if len(declared) == 0 || len(c.Calling.Allowed) > 0 && c.Calling.Mode != wire.ModeAny {
			return fmt.Errorf("toolConfig %+v", c)
		}
		for _, n := range c.Calling.Allowed {
			if !slices.Contains(declared, n) {
				return fmt.Errorf("allowedFunctionNames names %q", n)
			}
		}
	}
	if g := q.Generation; g != nil {
		if len(g.Schema) > 0 && g.MIMEType != "application/json" || g.Thinking != nil && g.Thinking.Budget != nil && g.Thinking.Level != "" {
			return fmt.Errorf("generationConfig %+v", g)
		}
	}
	if q.System != nil && (len(q.System.Parts) == 0 || q.System.Role != "") {
		return errors.New("an empty systemInstruction, or one with a role")
	}
	var open []wire.FunctionCall // of the content before
	for i, c := range q.Contents {
		at := fmt.Sprintf("contents[%d]", i)
		if c.Role != "user" && c.Role != "model" || len(c.Parts) == 0 {
			return fmt.Errorf("%s: role %q, %d parts", at, c.Role, len(c.Parts))
		}
		var calls []wire.FunctionCall
		var answers []wire.FunctionResponse
		for k, p := range c.Parts {
			if err := part(p, c.Role); err != nil {
				return fmt.Errorf("%s.parts[%d]: %w", at, k, err)
			}
			if p.FunctionCall != nil {
				calls = append(calls, *p.FunctionCall)
			}
			if p.FunctionResponse != nil {
				answers = append(answers, *p.FunctionResponse)
			}
		}
		if len(answers) != len(open) || len(answers) > 0 && len(answers) != len(c.Parts) {
			return fmt.Errorf("%s: %d answers among %d parts, to %d calls", at, len(answers), len(c.Parts), len(open))
		}
		for k, a := range answers {
			if a.Name != open[k].Name || a.ID != open[k].ID {
				return fmt.Errorf("%s: answer %d is to %s, the call is %s", at, k, a.ID, open[k].ID)
			}
		}
		open = calls
	}
	return nil
}

// part refuses one that is no part.
func part(p wire.Part, role string) error {
	kinds := 0
	for _, is := range []bool{p.Text != nil, p.InlineData != nil, p.FileData != nil, p.FunctionCall != nil, p.FunctionResponse != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return fmt.Errorf("%d kinds of data", kinds)
	case p.Text != nil && strings.TrimSpace(*p.Text) == "" && p.Signature == "":
		return errors.New("blank text")
	case (p.FunctionCall != nil || p.Thought || p.Signature != "") && role != "model":
		return errors.New("the model's part, of a user")
	case p.FunctionResponse != nil && (role != "user" || (p.FunctionResponse.Response.Output == nil) == (p.FunctionResponse.Response.Error == nil)):
		return errors.New("no answer of a user's")
	case p.FunctionCall != nil && (!name.MatchString(p.FunctionCall.Name) || len(p.FunctionCall.Args) == 0 || p.FunctionCall.Args[0] != '{'):
		return fmt.Errorf("call %+v", p.FunctionCall)
	case p.InlineData != nil && (p.InlineData.MIMEType == "" || p.InlineData.MIMEType == "image/gif" || p.InlineData.Data == ""):
		return fmt.Errorf("data of type %q", p.InlineData.MIMEType)
	}
	if p.Signature != "" && p.Signature != unsigned {
		if _, err := base64.StdEncoding.DecodeString(p.Signature); err != nil {
			return fmt.Errorf("the signature is not base64")
		}
	}
	return nil
}

// signature is what the fake model signs a part with.
func signature(of string) string { return base64.StdEncoding.EncodeToString([]byte("signed " + of)) }

// signed refuses signatures that are not on the part that they came on, and first calls without one, as Gemini 3 does.
func signed(q wire.Request) error {
	for i, c := range q.Contents {
		first := true
		for k, p := range c.Parts {
			at := fmt.Sprintf("contents[%d].parts[%d]", i, k)
			switch {
			case p.FunctionCall != nil:
				if p.Signature == "" && first {
					return fmt.Errorf("%s: function call is missing a thought_signature", at)
				}
				if s := p.Signature; s != "" && s != unsigned && s != signature("call of "+p.FunctionCall.Name+" "+string(p.FunctionCall.Args)) {
					return fmt.Errorf("%s: the signature of another call", at)
				}
				first = false
			case p.Signature != "" && p.Signature != signature("text "+*p.Text):
				return fmt.Errorf("%s: the signature of another text", at)
			}
		}
	}
	return nil
}

// fakeServer speaks the API over HTTP with the scripted model's mind, and refuses what the API refuses. A turn in which
// it thinks is signed.
type fakeServer struct {
	model   *scripted.Provider
	running atomic.Int64
	last    atomic.Pointer[wire.Request]
}

func refuse(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": text, "status": kind}})
}

// m is an object of the API's.
type m = map[string]any

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.running.Add(1)
	defer s.running.Add(-1)
	model, call, _ := strings.Cut(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], ":")
	before := strings.TrimSuffix(r.URL.Path, "/"+model+":"+call)
	switch {
	case before == "/models" && r.Header.Get("X-Goog-Api-Key") == "sk-test":
	case before == "/projects/p/locations/global/publishers/google/models" && r.Header.Get("Authorization") == "Bearer ya29.test":
	default:
		refuse(w, http.StatusUnauthorized, "UNAUTHENTICATED", "no")
		return
	}
	body := new(bytes.Buffer)
	body.ReadFrom(r.Body)
	var q wire.Request
	err := acceptable(body.Bytes())
	if err == nil {
		json.Unmarshal(body.Bytes(), &q)
		err = signed(q)
	}
	if err != nil || call != "streamGenerateContent" || r.URL.Query().Get("alt") != "sse" {
		refuse(w, http.StatusBadRequest, "INVALID_ARGUMENT", fmt.Sprint(err))
		return
	}
	s.last.Store(&q)
	w.Header().Set("Content-Type", "text/event-stream")
	s.play(w, s.model.Stream(r.Context(), fromGemini(model, q)))
}

// play sends a turn as the API does: text in pieces, calls whole, the reason in the last piece.
func (s *fakeServer) play(w http.ResponseWriter, turn func(func(openai.Event, error) bool)) {
	usage := m{"promptTokenCount": 0}
	send := func(finish string, parts ...m) {
		c := m{"content": m{"role": "model", "parts": parts}, "index": 0}
		if finish != "" {
			c["finishReason"] = finish
		}
		raw, _ := openai.Marshal(m{"candidates": []m{c}, "usageMetadata": usage, "modelVersion": "fake", "responseId": "r"})
		providertest.WriteStream(w, "data: "+string(raw)+"\r\n\r\n")
	}
	finish, kind, thought, said := wire.FinishStop, "", false, false
	for ev, err := range turn {
		if err != nil {
			providertest.WriteStream(w, `data: {"error":{"code":500,"message":"it broke","status":"INTERNAL"}}`+"\r\n\r\n")
			return
		}
		switch ev := ev.(type) {
		case *openai.PartEvent:
			kind = ev.Part.Type
		case *openai.DeltaEvent:
			switch {
			case ev.Type == openai.EventArgumentsDelta:
			case kind == "reasoning_text":
				thought = true
				send("", m{"text": ev.Delta, "thought": true})
			default:
				said = true
				send("", m{"text": ev.Delta})
			}
		case *openai.ItemEvent:
			var f openai.FunctionCall
			if ev.Type != openai.EventItemDone || ev.Item.Type != openai.TypeFunctionCall || ev.Item.Decode(&f) != nil {
				continue
			}
			if !json.Valid([]byte(f.Arguments)) {
				finish = wire.FinishMalformedCall
				continue
			}
			said = false
			call := m{"functionCall": m{"name": f.Name, "args": json.RawMessage(f.Arguments)}}
			if thought {
				call["thoughtSignature"] = signature("call of " + f.Name + " " + f.Arguments)
			}
			send("", call)
		case *openai.Lifecycle:
			if d := ev.Response.IncompleteDetails; d != nil {
				finish = map[string]string{openai.ReasonMaxOutputTokens: wire.FinishMaxTokens, openai.ReasonContentFilter: wire.FinishSafety}[d.Reason]
			}
			u := ev.Response.Usage
			usage = m{"promptTokenCount": u.InputTokens, "candidatesTokenCount": u.OutputTokens, "totalTokenCount": u.TotalTokens}
			if thought && said {
				send(finish, m{"text": "", "thoughtSignature": signature("text ")})
			} else {
				send(finish)
			}
		}
	}
}

// fromGemini reads a request back into items.
func fromGemini(model string, q wire.Request) llm.Request {
	r := llm.Request{Model: model}
	if q.Generation != nil {
		r.MaxOutputTokens = q.Generation.MaxOutputTokens
	}
	if q.System != nil {
		for _, p := range q.System.Parts {
			r.Instructions += *p.Text
		}
	}
	ids := 0
	var open []string
	for _, c := range q.Contents {
		for _, p := range c.Parts {
			switch {
			case p.Text != nil && c.Role == "user":
				r.Items = append(r.Items, openai.UserText(*p.Text))
			case p.FunctionCall != nil:
				ids++
				open = append(open, fmt.Sprint("c", ids))
				r.Items = append(r.Items, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: open[len(open)-1],
					Name: p.FunctionCall.Name, Arguments: string(p.FunctionCall.Args)}))
			case p.FunctionResponse != nil:
				text := p.FunctionResponse.Response.Output
				if text == nil {
					text = p.FunctionResponse.Response.Error
				}
				r.Items = append(r.Items, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: open[0],
					Output: openai.OutputText(*text)}))
				open = open[1:]
			}
		}
	}
	for _, t := range q.Tools {
		for _, f := range t.Functions {
			r.Tools = append(r.Tools, openai.Tool{Type: "function", Name: f.Name, Parameters: f.Schema})
		}
	}
	return r
}

func TestProvider(t *testing.T) {
	for _, where := range []string{"the Gemini API", "Vertex AI"} {
		t.Run(where, func(t *testing.T) {
			providertest.Run(t, func(t *testing.T) providertest.Fixture {
				fake := &fakeServer{model: scripted.New(scripted.Options{})}
				o := Options{Options: upstream.Options{Name: "fake", BaseURL: providertest.Serve(t, fake), APIKey: "sk-test"}}
				if where == "Vertex AI" {
					o.APIKey, o.Location, o.Source = "", "global", Static{Value: "ya29.test", Project: "p"}
				}
				p := New(o)
				t.Cleanup(p.Close)
				return providertest.Fixture{Provider: p, Model: scripted.Name, Script: func(name string) string { return name },
					Upstream: fake.running.Load, Objects: true}
			})
		})
	}
}
