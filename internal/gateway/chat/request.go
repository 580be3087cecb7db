package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// asked is a request, read.
type asked struct {
	request openai.CreateRequest
	stream  bool
	usage   bool // told at the end of the stream
	stops   []string
}

// body is what a client may send beside what we send ourselves.
type body struct {
	openai.ChatRequest
	Messages         []message         `json:"messages"`
	Tools            []json.RawMessage `json:"tools"`
	N                *int64            `json:"n"`
	Stop             stops             `json:"stop"`
	LogProbs         bool              `json:"logprobs"`
	PresencePenalty  float64           `json:"presence_penalty"`
	FrequencyPenalty float64           `json:"frequency_penalty"`
	LogitBias        json.RawMessage   `json:"logit_bias"`
	Functions        json.RawMessage   `json:"functions"`
	Modalities       []string          `json:"modalities"`
	Metadata         map[string]string `json:"metadata"`
}

// message is one of a conversation's, with the field of a vendor's that is passed on.
type message struct {
	openai.ChatMessage
	Content json.RawMessage `json:"content"`
}

// stops is one stop sequence, or a list.
type stops []string

func (s *stops) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*s = stops{""}
		return json.Unmarshal(data, &(*s)[0])
	}
	return json.Unmarshal(data, (*[]string)(s))
}

func invalid(param, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode("invalid_value").WithParam(param)
}

func readAsked(r *http.Request) (*asked, error) {
	raw, err := gateway.ReadBody(r)
	if err != nil {
		return nil, err
	}
	if raw = bytes.TrimLeft(raw, " \t\r\n"); len(raw) == 0 || raw[0] != '{' {
		return nil, fault.New(fault.Invalid, "The request body must be one JSON object.").WithCode("invalid_body")
	}
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		var mismatch *json.UnmarshalTypeError
		if errors.As(err, &mismatch) {
			field := strings.TrimPrefix(mismatch.Field, "ChatRequest.") // of the shape that is shared with the upstream's side
			return nil, fault.Wrap(fault.Invalid, err, "The field %s has a wrong type.", field).WithCode("invalid_type").WithParam(field)
		}
		return nil, fault.Wrap(fault.Invalid, err, "The request body is not valid JSON: %s.", err).WithCode("invalid_body")
	}
	return b.asked()
}

// maxStops is the vendor's bound on stop sequences.
const maxStops = 4

// asked reads a request. What can't be served is refused by name.
func (b *body) asked() (*asked, error) {
	for _, f := range []struct {
		name  string
		given bool
		try   string
	}{
		{"n", b.N != nil && *b.N != 1, "n requests"},
		{"logprobs", b.LogProbs, "a request without it"},
		{"presence_penalty", b.PresencePenalty != 0, "0"},
		{"frequency_penalty", b.FrequencyPenalty != 0, "0"},
		{"logit_bias", present(b.LogitBias) && string(b.LogitBias) != "{}", "a request without it"},
		{"functions", present(b.Functions), "tools"},
		{"modalities", len(b.Modalities) > 1 || len(b.Modalities) == 1 && b.Modalities[0] != "text", "text"},
	} {
		if f.given {
			return nil, invalid(f.name, "%s can't be served here with this value.", f.name).WithCode("unsupported_parameter").WithTry("%s", f.try)
		}
	}
	if len(b.Messages) == 0 {
		return nil, invalid("messages", "A request needs messages.").WithCode("missing_required_parameter")
	}
	if len(b.Stop) > maxStops {
		return nil, invalid("stop", "At most %d stop sequences are allowed.", maxStops)
	}
	no, yes := false, true
	a := &asked{stream: b.Stream, usage: b.StreamOptions != nil && b.StreamOptions.IncludeUsage,
		request: openai.CreateRequest{Model: b.Model, Store: &no, Stream: &yes, Temperature: b.Temperature, TopP: b.TopP,
			MaxOutputTokens: b.MaxTokens, ParallelToolCalls: b.ParallelToolCalls, Metadata: b.Metadata}}
	if b.MaxCompletionTokens != nil {
		a.request.MaxOutputTokens = b.MaxCompletionTokens
	}
	for _, s := range b.Stop {
		if s != "" {
			a.stops = append(a.stops, s)
		}
	}
	for _, f := range []struct {
		to   **string
		from string
	}{{&a.request.User, b.User}, {&a.request.PromptCacheKey, b.PromptCacheKey}, {&a.request.SafetyIdentifier, b.SafetyIdentifier}, {&a.request.ServiceTier, b.ServiceTier}} {
		if f.from != "" {
			*f.to = &f.from
		}
	}
	if b.ReasoningEffort != "" {
		a.request.Reasoning = marshal(map[string]string{"effort": b.ReasoningEffort})
	}
	for i, m := range b.Messages {
		items, err := m.items(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return nil, err
		}
		a.request.Input = append(a.request.Input, items...)
	}
	if err := b.form(a); err != nil {
		return nil, err
	}
	return a, b.tools(a)
}

// form reads response_format and verbosity.
func (b *body) form(a *asked) error {
	text := map[string]any{}
	if b.Verbosity != "" {
		text["verbosity"] = b.Verbosity
	}
	if present(b.ResponseFormat) {
		var f struct {
			Type       string                     `json:"type"`
			JSONSchema map[string]json.RawMessage `json:"json_schema"`
		}
		if json.Unmarshal(b.ResponseFormat, &f) != nil {
			return invalid("response_format", "response_format must be an object with a type.")
		}
		format := map[string]any{"type": f.Type}
		for k, v := range f.JSONSchema {
			format[k] = v
		}
		text["format"] = format
	}
	if len(text) > 0 {
		a.request.Text = marshal(text)
	}
	return nil
}

// where says at which door a tool of the server's works.
var where = map[string]string{"openrouter:bash": "POST /v1/messages", "hardshell:bash": "POST /v1/messages", "bash_20250124": "POST /v1/messages",
	"shell": "POST /v1/responses", "local_shell": "POST /v1/responses", "apply_patch": "POST /v1/responses", "code_interpreter": "POST /v1/responses"}

// tools reads the functions and the choice among them.
func (b *body) tools(a *asked) error {
	for i, raw := range b.Tools {
		param := fmt.Sprintf("tools[%d]", i)
		var t openai.ChatTool
		var more struct {
			CacheControl json.RawMessage `json:"cache_control"`
		}
		if json.Unmarshal(raw, &t) != nil || json.Unmarshal(raw, &more) != nil {
			return invalid(param, "%s is no tool of a known form.", param)
		}
		if door := where[t.Type]; door != "" {
			return invalid(param+".type", "The tool %q is not available on Chat Completions: it works on %s.", t.Type, door).WithCode("unsupported_tool").
				WithTry("%s, or a function of your own", door)
		}
		if t.Type != "function" {
			return invalid(param+".type", "Tools of type %q can't be served here.", t.Type).WithCode("unsupported_tool").WithTry("a tool of type function")
		}
		f := map[string]any{"type": "function", "name": t.Function.Name}
		if t.Function.Description != "" {
			f["description"] = t.Function.Description
		}
		if present(t.Function.Parameters) {
			f["parameters"] = t.Function.Parameters
		}
		if t.Function.Strict != nil {
			f["strict"] = *t.Function.Strict
		}
		if present(more.CacheControl) {
			f["cache_control"] = more.CacheControl
		}
		var tool openai.Tool
		if err := json.Unmarshal(marshal(f), &tool); err != nil {
			return err
		}
		a.request.Tools = append(a.request.Tools, tool)
	}
	if !present(b.ToolChoice) {
		return nil
	}
	var word string
	var c struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	switch {
	case json.Unmarshal(b.ToolChoice, &word) == nil:
		a.request.ToolChoice = b.ToolChoice
	case json.Unmarshal(b.ToolChoice, &c) == nil && c.Type == "function":
		a.request.ToolChoice = marshal(map[string]string{"type": "function", "name": c.Function.Name})
	default:
		return invalid("tool_choice", "tool_choice must be a word or name a function.")
	}
	return nil
}

// part is a piece of a message's content as an item has it.
type part struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text,omitempty"`
	Annotations  *[]struct{}     `json:"annotations,omitempty"`
	ImageURL     string          `json:"image_url,omitempty"`
	Detail       string          `json:"detail,omitempty"`
	FileData     string          `json:"file_data,omitempty"`
	FileID       string          `json:"file_id,omitempty"`
	Filename     string          `json:"filename,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// items is a message as items: its words, then its calls, or the answer to one.
func (m message) items(at string) ([]openai.Item, error) {
	kind := "input_text"
	switch m.Role {
	case "user", "system", "developer":
	case "assistant":
		kind = "output_text"
	case "tool":
		parts, err := m.parts(at, kind)
		if err != nil {
			return nil, err
		}
		if m.ToolCallID == "" {
			return nil, invalid(at+".tool_call_id", "A tool message needs a tool_call_id.").WithCode("missing_required_parameter")
		}
		return []openai.Item{openai.NewItem(struct {
			Type   string `json:"type"`
			CallID string `json:"call_id"`
			Output []part `json:"output"`
		}{openai.TypeFunctionCallOutput, m.ToolCallID, parts})}, nil
	default:
		return nil, invalid(at+".role", "A message's role must be system, developer, user, assistant or tool; got %q.", m.Role)
	}
	parts, err := m.parts(at, kind)
	if err != nil {
		return nil, err
	}
	if m.Refusal != "" && m.Role == "assistant" {
		parts = append(parts, part{Type: kind, Text: &m.Refusal, Annotations: &[]struct{}{}})
	}
	var items []openai.Item
	if len(parts) > 0 {
		items = append(items, openai.NewItem(struct {
			Type    string `json:"type"`
			Role    string `json:"role"`
			Content []part `json:"content"`
		}{openai.TypeMessage, m.Role, parts}))
	}
	for _, c := range m.ToolCalls {
		items = append(items, openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, CallID: c.ID, Name: c.Function.Name,
			Arguments: string(c.Function.Arguments), Status: openai.Completed}))
	}
	return items, nil
}

// parts reads a message's content.
func (m message) parts(at, kind string) ([]part, error) {
	words := func(s string, cache json.RawMessage) part {
		p := part{Type: kind, Text: &s, CacheControl: cache}
		if kind == "output_text" {
			p.Annotations = &[]struct{}{}
		}
		return p
	}
	if !present(m.Content) {
		if m.Role == "tool" {
			return []part{words("", nil)}, nil
		}
		return nil, nil
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return []part{words(text, nil)}, nil
	}
	var in []struct {
		openai.ChatPart
		File *struct {
			openai.ChatFile
			FileID string `json:"file_id"`
		} `json:"file"`
		Refusal      string          `json:"refusal"`
		CacheControl json.RawMessage `json:"cache_control"`
	}
	if json.Unmarshal(m.Content, &in) != nil {
		return nil, invalid(at+".content", "A message's content must be a string or a list of parts.")
	}
	var out []part
	for i, p := range in {
		cache := p.CacheControl
		if !present(cache) {
			cache = nil
		}
		switch {
		case p.Type == "text":
			out = append(out, words(p.Text, cache))
		case p.Type == "refusal":
			out = append(out, words(p.Refusal, cache))
		case p.Type == "image_url" && p.ImageURL != nil && m.Role == "user":
			out = append(out, part{Type: "input_image", ImageURL: p.ImageURL.URL, Detail: p.ImageURL.Detail, CacheControl: cache})
		case p.Type == "file" && p.File != nil && m.Role == "user":
			out = append(out, part{Type: "input_file", FileData: p.File.FileData, FileID: p.File.FileID, Filename: p.File.Filename, CacheControl: cache})
		default:
			return nil, invalid(fmt.Sprintf("%s.content[%d].type", at, i), "Content of type %q can't be served in a message of role %s.", p.Type, m.Role)
		}
	}
	return out, nil
}

// present says whether an optional raw field was given; null counts as left out.
func present(raw json.RawMessage) bool {
	s := strings.TrimSpace(string(raw))
	return s != "" && s != "null"
}

// marshal writes what always marshals: strings, and JSON that was read before.
func marshal(v any) json.RawMessage {
	raw, err := openai.Marshal(v)
	if err != nil {
		panic("gateway/chat: " + err.Error())
	}
	return raw
}
