package chat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Dialect is how a server wants its requests.
type Dialect struct {
	Provider            string // for messages
	MaxCompletionTokens bool   // max_completion_tokens, not max_tokens
	KeepRoles           bool   // knows the role "developer" and takes several system messages
}

// Body translates a request to the bytes to send.
func (d Dialect) Body(r llm.Request) ([]byte, error) {
	req, err := d.translate(r)
	if err != nil {
		return nil, err
	}
	body, err := openai.Marshal(req)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the request cannot be written as JSON")
	}
	return body, nil
}

// translate translates a request. What the dialect cannot express is refused, naming it; only reasoning items and the
// wish for reasoning summaries are left out, as Chat Completions has no place for them.
func (d Dialect) translate(r llm.Request) (*openai.ChatRequest, error) {
	messages, err := d.messages(r.Instructions, r.Items)
	if err != nil {
		return nil, err
	}
	req := &openai.ChatRequest{Model: r.Model, Messages: messages, Stream: !r.Whole,
		Temperature: r.Temperature, TopP: r.TopP, User: r.User}
	if req.Stream {
		req.StreamOptions = &openai.ChatStreamOptions{IncludeUsage: true} // an answer in one piece always has it
	}
	if d.MaxCompletionTokens {
		req.MaxCompletionTokens = r.MaxOutputTokens
	} else {
		req.MaxTokens = r.MaxOutputTokens
	}
	if err := d.tools(req, r); err != nil {
		return nil, err
	}
	if err := d.text(req, r.Text); err != nil {
		return nil, err
	}
	if present(r.Reasoning) {
		var reasoning struct {
			Effort string `json:"effort"`
		}
		if err := json.Unmarshal(r.Reasoning, &reasoning); err != nil {
			return nil, invalid("reasoning", "reasoning is not an object with a text effort")
		}
		req.ReasoningEffort = reasoning.Effort
	}
	return req, nil
}

// present says whether a raw field holds something.
func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// invalid is a 400 that names the request field.
func invalid(param, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode("invalid_value").WithParam(param)
}

// malformed is a 400 for an item whose fields have wrong types.
func malformed(param, typ string, cause error) *fault.Error {
	return fault.Wrap(fault.Invalid, cause, "%s is not a %s of a known form", param, typ).WithCode("invalid_value").WithParam(param)
}

// emptyParameters stands in for a function without parameters: some servers demand a schema.
var emptyParameters = json.RawMessage(`{"type":"object","properties":{}}`)

// tools declares the functions and the choice among them. Servers refuse a choice where nothing is declared.
func (d Dialect) tools(req *openai.ChatRequest, r llm.Request) error {
	if err := llm.CheckTools(d.Provider, r.Tools); err != nil {
		return err
	}
	for _, t := range r.Tools {
		f := openai.ChatFunction{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict}
		if !present(f.Parameters) {
			f.Parameters = emptyParameters
		}
		req.Tools = append(req.Tools, openai.ChatTool{Type: "function", Function: f})
	}
	if err := d.choice(req, r.ToolChoice); err != nil {
		return err
	}
	if len(req.Tools) > 0 {
		req.ParallelToolCalls = r.ParallelToolCalls
	}
	return nil
}

// choice translates tool_choice. allowed_tools narrows the declared list instead: few servers know it.
func (d Dialect) choice(req *openai.ChatRequest, raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	var c struct {
		Type, Name, Mode string
		Tools            []struct{ Type, Name string }
	}
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &c.Mode); err != nil {
			return invalid("tool_choice", "tool_choice is not valid JSON")
		}
	} else if err := json.Unmarshal(raw, &c); err != nil {
		return invalid("tool_choice", "tool_choice is neither a word nor an object of a known form")
	}
	declared := func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(t openai.ChatTool) bool { return t.Function.Name == name })
	}
	switch c.Type {
	case "":
	case "function":
		if !declared(c.Name) {
			return invalid("tool_choice", "tool_choice names the function %q, which tools does not declare", c.Name)
		}
		var forced struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		forced.Type, forced.Function.Name = "function", c.Name
		req.ToolChoice, _ = openai.Marshal(forced)
		return nil
	case "allowed_tools":
		for _, t := range c.Tools {
			if t.Type != "function" || !declared(t.Name) {
				return invalid("tool_choice", "tool_choice allows the %s %q, which tools does not declare", t.Type, t.Name)
			}
		}
		req.Tools = slices.DeleteFunc(req.Tools, func(t openai.ChatTool) bool {
			return !slices.ContainsFunc(c.Tools, func(a struct{ Type, Name string }) bool { return a.Name == t.Function.Name })
		})
	default:
		return invalid("tool_choice", "tool_choice of type %q cannot be served by provider %q", c.Type, d.Provider)
	}
	switch c.Mode {
	case "auto", "none", "required":
	default:
		return invalid("tool_choice", "tool_choice %q is not one of auto, none, required", c.Mode)
	}
	if len(req.Tools) > 0 {
		req.ToolChoice = json.RawMessage(`"` + c.Mode + `"`)
	} else if c.Mode == "required" {
		return invalid("tool_choice", "tool_choice is required, and no tool is declared")
	}
	return nil
}

// text translates the answer's wanted form.
func (d Dialect) text(req *openai.ChatRequest, raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	type schema struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Schema      json.RawMessage `json:"schema,omitempty"`
		Strict      *bool           `json:"strict,omitempty"`
	}
	var text struct {
		Format *struct {
			Type string `json:"type"`
			schema
		} `json:"format"`
		Verbosity string `json:"verbosity"`
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return invalid("text", "text is not an object of a known form")
	}
	req.Verbosity = text.Verbosity
	if text.Format == nil {
		return nil
	}
	switch text.Format.Type {
	case "", "text":
	case "json_object":
		req.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
	case "json_schema":
		form := struct {
			Type       string `json:"type"`
			JSONSchema schema `json:"json_schema"`
		}{"json_schema", text.Format.schema}
		var err error
		if req.ResponseFormat, err = openai.Marshal(form); err != nil {
			return invalid("text.format", "text.format.schema is not valid JSON")
		}
	default:
		return invalid("text.format.type", "text.format of type %q cannot be served by provider %q", text.Format.Type, d.Provider)
	}
	return nil
}

// joinTexts puts texts behind each other as paragraphs.
func joinTexts(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return strings.TrimRight(a, "\n") + "\n\n" + b
}
