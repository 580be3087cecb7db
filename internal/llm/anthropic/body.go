package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

// Dialect is how a server wants its requests. Its fields are those of [Options].
type Dialect struct {
	Provider   string
	Version    string
	MaxTokens  int64
	Thinking   string
	Cache      string
	SystemRole bool
}

// LeftOut lists what of a request may be left out without a refusal, and when. Everything else is mapped or refused.
func LeftOut() map[string]string {
	return map[string]string{
		"temperature":        "the version or the model does not take it, or the model thinks",
		"top_p":              "the version or the model does not take it, the model thinks, or it says nothing beside temperature",
		"text.verbosity":     "always",
		"text.format.name":   "always, and description and strict: the schema alone is sent, and is always followed",
		"reasoning.summary":  "the model's thinking is not shown or hidden by request",
		"reasoning.effort":   "a model that thinks by budget is forced to call a tool, has no room for a budget, or began its turn without thinking",
		"input[].encrypted":  "reasoning of another provider, or without a seal",
		"input[].detail":     "of an image: always",
		"input[].annotation": "of an answer's text: always",
	}
}

// Body translates a request to the bytes to send.
func (d Dialect) Body(r llm.Request) ([]byte, error) {
	req, _, err := d.request(r)
	if err != nil {
		return nil, err
	}
	return encode(req)
}

func encode(req *wire.Request) ([]byte, error) {
	body, err := wire.Marshal(req)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the request cannot be written as JSON")
	}
	return body, nil
}

// request translates a request, and remembers the names that it changed.
func (d Dialect) request(r llm.Request) (*wire.Request, names, error) {
	n := names{}
	t := traitsOf(r.Model)
	if d.Thinking != "" {
		t.thinking = d.Thinking
	}
	if d.MaxTokens > 0 {
		t.maxTokens = d.MaxTokens
	}
	if r.MaxOutputTokens != nil {
		t.maxTokens = *r.MaxOutputTokens
	}
	req := &wire.Request{Model: r.Model, MaxTokens: &t.maxTokens, Stream: !r.Whole}
	c, err := d.conversation(r, n)
	if err != nil {
		return nil, nil, err
	}
	req.System, req.Messages = c.system, c.messages
	if err := d.tools(req, r, n, c.called); err != nil {
		return nil, nil, err
	}
	if err := d.text(req, r.Text); err != nil {
		return nil, nil, err
	}
	if err := d.reasoning(req, r.Reasoning, t, c); err != nil {
		return nil, nil, err
	}
	if err := d.sampling(req, r, t); err != nil {
		return nil, nil, err
	}
	if r.User != "" {
		req.Metadata = &wire.Metadata{UserID: r.User}
	}
	switch d.Cache {
	case "":
	case "5m":
		req.CacheControl = json.RawMessage(`{"type":"ephemeral"}`)
	default:
		req.CacheControl, _ = wire.Marshal(map[string]string{"type": "ephemeral", "ttl": d.Cache}) // strings always marshal
	}
	return req, n, nil
}

// present says whether a raw field holds something.
func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// invalid is a 400 that names the request field.
func invalid(param, format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithCode("invalid_value").WithParam(param)
}

// tools declares the functions and the choice among them. The API refuses a conversation with calls and no tool: the
// functions that were called are declared then, and may not be called again.
func (d Dialect) tools(req *wire.Request, r llm.Request, n names, called []string) error {
	if err := llm.CheckTools(d.Provider, r.Tools); err != nil {
		return err
	}
	for _, t := range r.Tools {
		schema, err := objectSchema(t.Parameters)
		if err != nil {
			return invalid("tools", "the parameters of the function %q are not a JSON schema", t.Name)
		}
		tool := wire.Tool{Name: n.sent(t.Name), Description: t.Description, InputSchema: schema}
		if t.Strict != nil && *t.Strict {
			tool.Strict = t.Strict
		}
		if len(t.Raw) > 0 {
			var more struct {
				CacheControl json.RawMessage `json:"cache_control"`
			}
			if json.Unmarshal(t.Raw, &more) == nil && present(more.CacheControl) {
				tool.CacheControl = more.CacheControl
			}
		}
		req.Tools = append(req.Tools, tool)
	}
	if err := d.choice(req, r.ToolChoice, n); err != nil {
		return err
	}
	if len(req.Tools) == 0 && len(called) > 0 {
		for _, name := range called {
			req.Tools = append(req.Tools, wire.Tool{Name: name, InputSchema: anyObject})
		}
		req.ToolChoice = &wire.ToolChoice{Type: "none"}
	}
	if r.ParallelToolCalls != nil && !*r.ParallelToolCalls && len(req.Tools) > 0 {
		if req.ToolChoice == nil {
			req.ToolChoice = &wire.ToolChoice{Type: "auto"}
		}
		req.ToolChoice.DisableParallelToolUse = req.ToolChoice.Type != "none"
	}
	return nil
}

// anyObject is the schema of a function of which nothing is known.
var anyObject = json.RawMessage(`{"type":"object","properties":{}}`)

// objectSchema is a function's schema as the API wants it: an object with a type.
func objectSchema(raw json.RawMessage) (json.RawMessage, error) {
	if !present(raw) {
		return anyObject, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return nil, err
	}
	if present(keys["type"]) {
		return raw, nil
	}
	keys["type"] = json.RawMessage(`"object"`)
	return wire.Marshal(keys)
}

// choice translates tool_choice. allowed_tools narrows the declared list: the API has no word for it.
func (d Dialect) choice(req *wire.Request, raw json.RawMessage, n names) error {
	if !present(raw) {
		return nil
	}
	type named struct{ Type, Name string }
	var c struct {
		Type, Name, Mode string
		Tools            []named
	}
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &c.Mode); err != nil {
			return invalid("tool_choice", "tool_choice is not valid JSON")
		}
	} else if err := json.Unmarshal(raw, &c); err != nil {
		return invalid("tool_choice", "tool_choice is neither a word nor an object of a known form")
	}
	declared := func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(t wire.Tool) bool { return t.Name == portable(name) })
	}
	switch c.Type {
	case "":
	case "function":
		if !declared(c.Name) {
			return invalid("tool_choice", "tool_choice names the function %q, which tools does not declare", c.Name)
		}
		req.ToolChoice = &wire.ToolChoice{Type: "tool", Name: n.sent(c.Name)}
		return nil
	case "allowed_tools":
		for _, t := range c.Tools {
			if t.Type != "function" || !declared(t.Name) {
				return invalid("tool_choice", "tool_choice allows the %s %q, which tools does not declare", t.Type, t.Name)
			}
		}
		req.Tools = slices.DeleteFunc(req.Tools, func(t wire.Tool) bool {
			return !slices.ContainsFunc(c.Tools, func(a named) bool { return portable(a.Name) == t.Name })
		})
	default:
		return invalid("tool_choice", "tool_choice of type %q cannot be served by provider %q", c.Type, d.Provider)
	}
	word, ok := map[string]string{"auto": "auto", "none": "none", "required": "any"}[c.Mode]
	switch {
	case !ok:
		return invalid("tool_choice", "tool_choice %q is not one of auto, none, required", c.Mode)
	case len(req.Tools) > 0:
		req.ToolChoice = &wire.ToolChoice{Type: word}
	case word == "any":
		return invalid("tool_choice", "tool_choice is required, and no tool is declared")
	}
	return nil
}

// text translates the answer's wanted form.
func (d Dialect) text(req *wire.Request, raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	var text struct {
		Format *struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return invalid("text", "text is not an object of a known form")
	}
	if text.Format == nil {
		return nil
	}
	switch text.Format.Type {
	case "", "text":
		return nil
	case "json_schema":
		if !present(text.Format.Schema) {
			return invalid("text.format.schema", "text.format of type json_schema needs a schema")
		}
		req.OutputConfig = &wire.OutputConfig{Format: &wire.OutputFormat{Type: "json_schema", Schema: text.Format.Schema}}
		return nil
	}
	return invalid("text.format.type", "text.format of type %q cannot be served by provider %q", text.Format.Type, d.Provider).
		WithTry("text.format of type json_schema")
}

// budget is how many tokens for thinking an effort stands for, in models that think by budget. The API's least
// is 1024.
func budget(effort string) int64 {
	switch effort {
	case "minimal":
		return 1024
	case "low":
		return 2048
	case "medium":
		return 8192
	case "high":
		return 16384
	default: // xhigh, max
		return 24576
	}
}

// reasoning translates the wanted effort.
func (d Dialect) reasoning(req *wire.Request, raw json.RawMessage, t traits, c *conversation) error {
	if !present(raw) {
		return nil
	}
	var want struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		return invalid("reasoning", "reasoning is not an object with a text effort")
	}
	switch want.Effort {
	case "none":
		if t.thinking != thinkNone {
			req.Thinking = &wire.ThinkingConfig{Type: "disabled"}
		}
		return nil
	case "", "minimal", "low", "medium", "high", "xhigh", "max":
	default:
		return invalid("reasoning.effort", "reasoning.effort %q is not known", want.Effort)
	}
	switch t.thinking {
	case thinkNone:
		if want.Effort != "" {
			return invalid("reasoning.effort", "the model %q of provider %q does not think", req.Model, d.Provider)
		}
	case thinkBudget:
		if want.Effort == "" {
			return nil
		}
		tokens := min(budget(want.Effort), *req.MaxTokens*3/4) // max_tokens bounds thinking and answer together
		forced := req.ToolChoice != nil && (req.ToolChoice.Type == "any" || req.ToolChoice.Type == "tool")
		if tokens >= 1024 && !forced && !c.openWithoutThinking() {
			req.Thinking = &wire.ThinkingConfig{Type: "enabled", BudgetTokens: tokens}
		}
	default:
		if want.Effort != "" {
			if req.OutputConfig == nil {
				req.OutputConfig = &wire.OutputConfig{}
			}
			req.OutputConfig.Effort = want.Effort
			if want.Effort == "minimal" {
				req.OutputConfig.Effort = "low" // the least that the API knows
			}
		}
		req.Thinking = &wire.ThinkingConfig{Type: "adaptive"}
		if want.Summary != "" {
			req.Thinking.Display = "summarized"
		}
	}
	return nil
}

// sampling passes temperature and top_p on where version, model and thinking allow them.
func (d Dialect) sampling(req *wire.Request, r llm.Request, t traits) error {
	thinking := req.Thinking != nil && req.Thinking.Type != "disabled"
	if d.Version == wire.Version2026 || !t.sampling || thinking {
		return nil
	}
	if r.Temperature != nil && *r.Temperature > 1 {
		return invalid("temperature", "temperature %v cannot be served by provider %q: its range ends at 1", *r.Temperature, d.Provider)
	}
	req.Temperature, req.TopP = r.Temperature, r.TopP
	if req.Temperature != nil && req.TopP != nil && *req.TopP == 1 {
		req.TopP = nil // changes nothing, and later models refuse the two together
	}
	return nil
}
