package anthropic

import (
	"cmp"
	"encoding/json"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
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
		"prompt_cache_key":   "always: cache_control marks what to cache",
		"service_tier":       "always",
		"safety_identifier":  "beside user, which stands in its place",
		"text.format.name":   "always, and description and strict: the schema alone is sent, and is always followed",
		"reasoning.summary":  "the model's thinking is not shown or hidden by request",
		"reasoning.effort":   "a model that thinks by budget is forced to call a tool, has no room for a budget, or began its turn without thinking",
		"input[].encrypted":  "reasoning of another provider, or without a seal",
		"input[].detail":     "of an image: always",
		"input[].id":         "always: an id of this gateway's means nothing to the upstream",
		"input[].phase":      "of a message: the API has no place for it",
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

// encode writes a request as this vendor's shapes want it.
func encode(req *wire.Request) ([]byte, error) { return dialect.Encode(req) }

// seal is the provider's mark on thinking.
func (d Dialect) seal() llm.Seal { return llm.Seal{Dialect: "anthropic", Provider: d.Provider} }

// request translates a request, and remembers the names that it changed.
func (d Dialect) request(r llm.Request) (*wire.Request, *dialect.Names, error) {
	n := &dialect.Names{Max: maxName}
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
	c, err := dialect.Converse(r, d.Provider, &grammar{dialect: d, names: n})
	if err != nil {
		return nil, nil, err
	}
	req.System = c.System
	for _, turn := range c.Turns {
		req.Messages = append(req.Messages, wire.Message{Role: turn.Role, Content: turn.Content})
	}
	if err := d.tools(req, r, n, c.Called); err != nil {
		return nil, nil, err
	}
	if err := d.text(req, r.Text); err != nil {
		return nil, nil, err
	}
	if err := d.reasoning(req, r.Reasoning, t); err != nil {
		return nil, nil, err
	}
	if err := d.sampling(req, r, t); err != nil {
		return nil, nil, err
	}
	if user := cmp.Or(r.User, r.SafetyIdentifier); user != "" {
		req.Metadata = &wire.Metadata{UserID: user}
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

// tools declares the functions and the choice among them. The API refuses a conversation with calls and no tool: the
// functions that were called are declared then, and may not be called again.
func (d Dialect) tools(req *wire.Request, r llm.Request, n *dialect.Names, called []string) error {
	choice, err := dialect.ReadFunctions(r, d.Provider)
	if err != nil {
		return err
	}
	for _, t := range choice.Tools {
		schema, err := dialect.ObjectSchema(t)
		if err != nil {
			return err
		}
		tool := wire.Tool{Name: n.Sent(t.Name), Description: t.Description, InputSchema: schema, CacheControl: dialect.CacheMark(t)}
		if t.Strict != nil && *t.Strict {
			tool.Strict = t.Strict
		}
		req.Tools = append(req.Tools, tool)
	}
	switch choice.Mode {
	case "":
	case "function":
		req.ToolChoice = &wire.ToolChoice{Type: "tool", Name: n.Sent(choice.Name)}
	case "required":
		req.ToolChoice = &wire.ToolChoice{Type: "any"}
	default:
		req.ToolChoice = &wire.ToolChoice{Type: choice.Mode}
	}
	if len(req.Tools) == 0 && len(called) > 0 {
		for _, name := range called {
			req.Tools = append(req.Tools, wire.Tool{Name: n.Sent(name), InputSchema: dialect.AnyObject})
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

// text translates the answer's wanted form.
func (d Dialect) text(req *wire.Request, raw json.RawMessage) error {
	f, err := dialect.ReadText(raw)
	if err != nil {
		return err
	}
	switch f.Type {
	case "text":
		return nil
	case "json_schema":
		req.OutputConfig = &wire.OutputConfig{Format: &wire.OutputFormat{Type: "json_schema", Schema: f.Schema}}
		return nil
	}
	return f.Unserved(d.Provider).WithTry("text.format of type json_schema")
}

// reasoning translates the wanted effort.
func (d Dialect) reasoning(req *wire.Request, raw json.RawMessage, t traits) error {
	if !dialect.Present(raw) {
		return nil
	}
	want, err := dialect.ReadEffort(raw)
	if err != nil {
		return err
	}
	if want.Effort == "none" {
		if t.thinking != thinkNone {
			req.Thinking = &wire.ThinkingConfig{Type: "disabled"}
		}
		return nil
	}
	switch t.thinking {
	case thinkNone:
		if want.Effort != "" {
			return dialect.Invalid("reasoning.effort", "the model %q of provider %q does not think", req.Model, d.Provider)
		}
	case thinkBudget:
		if want.Effort == "" {
			return nil
		}
		tokens := min(want.Budget(), *req.MaxTokens*3/4) // max_tokens bounds thinking and answer together
		forced := req.ToolChoice != nil && (req.ToolChoice.Type == "any" || req.ToolChoice.Type == "tool")
		if tokens >= 1024 && !forced && !openWithoutThinking(req.Messages) {
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
		return dialect.Invalid("temperature", "temperature %v cannot be served by provider %q: its range ends at 1", *r.Temperature, d.Provider)
	}
	req.Temperature, req.TopP = r.Temperature, r.TopP
	if req.Temperature != nil && req.TopP != nil && *req.TopP == 1 {
		req.TopP = nil // changes nothing, and later models refuse the two together
	}
	return nil
}
