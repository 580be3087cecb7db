package bedrock

import (
	"encoding/json"
	"slices"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/converse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// maxName bounds a tool's name and a call's id, as the API does.
const maxName = 64

// noTools tells the model what the API has no word for.
const noTools = "Answer without calling any tool."

// Dialect is how requests are written.
type Dialect struct {
	Provider  string
	MaxTokens int64 // where a request sets none; 0: the model's own limit
}

// LeftOut lists what of a request may be left out without a refusal, and when. Everything else is mapped or refused.
func LeftOut() map[string]string {
	return map[string]string{
		"parallel_tool_calls": "false: the API has no word for it, and calls of one turn are run all the same",
		"reasoning.effort":    "none: nothing is sent, and a model thinks by its own default",
		"reasoning.summary":   "the model's thinking is not shown or hidden by request",
		"text.verbosity":      "always",
		"text.format.strict":  "the schema is always followed",
		"user":                "always: the API keeps no user",
		"safety_identifier":   "always: the API keeps no user",
		"prompt_cache_key":    "always: cache_control marks what to cache",
		"service_tier":        "auto and default, which are what is served anyway",
		"input[].encrypted":   "reasoning of another provider, or without a seal",
		"input[].detail":      "of an image: always",
		"input[].id":          "always: an id of this gateway's means nothing to the upstream",
		"input[].phase":       "of a message: the API has no place for it",
		"input[].annotation":  "of an answer's text: always",
	}
}

// Body translates a request to the bytes to send.
func (d Dialect) Body(r llm.Request) ([]byte, error) {
	_, body, err := d.request(r)
	return body, err
}

// seal is the provider's mark on thinking.
func (d Dialect) seal() llm.Seal { return llm.Seal{Dialect: "bedrock", Provider: d.Provider} }

// request translates a request, and remembers the names that it changed.
func (d Dialect) request(r llm.Request) (*dialect.Names, []byte, error) {
	n := &dialect.Names{Max: maxName}
	g := &grammar{dialect: d, names: n}
	c, err := dialect.Converse(r, d.Provider, g)
	if err != nil {
		return nil, nil, err
	}
	req := wire.Request{System: c.System}
	for _, turn := range c.Turns {
		m := wire.Message{Role: turn.Role, Content: turn.Content}
		if turn.Role == dialect.User && slices.ContainsFunc(m.Content, func(b wire.Block) bool { return b.Document != nil }) &&
			!slices.ContainsFunc(m.Content, func(b wire.Block) bool { return b.Text != nil }) {
			m.Content = append(m.Content, wire.Text(seeFile)) // a document needs a text beside it
		}
		req.Messages = append(req.Messages, m)
	}
	if err := d.tools(&req, r, n, c.Called); err != nil {
		return nil, nil, err
	}
	if err := d.output(&req, r); err != nil {
		return nil, nil, err
	}
	inference := wire.Inference{MaxTokens: r.MaxOutputTokens, Temperature: r.Temperature, TopP: r.TopP}
	if inference.MaxTokens == nil && d.MaxTokens > 0 {
		inference.MaxTokens = &d.MaxTokens
	}
	if inference != (wire.Inference{}) {
		req.Inference = &inference
	}
	if t := r.Temperature; t != nil && *t > 1 {
		return nil, nil, dialect.Invalid("temperature", "temperature %v cannot be served by provider %q: its range ends at 1", *t, d.Provider)
	}
	tier, err := dialect.Tier(r, d.Provider)
	if err != nil {
		return nil, nil, err
	}
	if tier != "" {
		req.ServiceTier = &wire.ServiceTier{Type: tier}
	}
	body, err := dialect.Encode(req)
	return n, body, err
}

// tools declares the functions and the choice among them. The API refuses a conversation with calls and no tool: the
// functions that were called are declared then, and may not be called again.
func (d Dialect) tools(req *wire.Request, r llm.Request, n *dialect.Names, called []string) error {
	choice, err := dialect.ReadFunctions(r, d.Provider)
	if err != nil {
		return err
	}
	if choice.Mode == "none" && len(called) == 0 {
		return nil // no declaration is the API's way to say it
	}
	var config wire.ToolConfig
	for _, t := range choice.Tools {
		schema, err := dialect.ObjectSchema(t)
		if err != nil {
			return err
		}
		spec := &wire.ToolSpec{Name: n.Sent(t.Name), Description: t.Description, InputSchema: wire.InputSchema{JSON: schema}}
		if t.Strict != nil && *t.Strict {
			spec.Strict = t.Strict
		}
		config.Tools = append(config.Tools, wire.Tool{Spec: spec})
		for _, point := range cachePoint(dialect.CacheMark(t)) {
			config.Tools = append(config.Tools, wire.Tool{CachePoint: point.CachePoint})
		}
	}
	forbidden := choice.Mode == "none"
	if len(config.Tools) == 0 {
		for _, name := range called {
			config.Tools = append(config.Tools, wire.Tool{Spec: &wire.ToolSpec{Name: n.Sent(name), InputSchema: wire.InputSchema{JSON: dialect.AnyObject}}})
			forbidden = true
		}
	}
	if len(config.Tools) == 0 {
		return nil
	}
	switch {
	case forbidden:
		req.System = append(req.System, wire.Text(noTools))
	case choice.Mode == "function":
		config.Choice = &wire.ToolChoice{Tool: &wire.NamedTool{Name: n.Sent(choice.Name)}}
	case choice.Mode == "required":
		config.Choice = &wire.ToolChoice{Any: &struct{}{}}
	case choice.Mode == "auto":
		config.Choice = &wire.ToolChoice{Auto: &struct{}{}}
	}
	req.Tools = &config
	return nil
}

// output translates the answer's wanted form and effort.
func (d Dialect) output(req *wire.Request, r llm.Request) error {
	f, err := dialect.ReadText(r.Text)
	if err != nil {
		return err
	}
	var o wire.OutputConfig
	switch f.Type {
	case "text":
	case "json_schema":
		o.TextFormat = &wire.TextFormat{Type: "json_schema", Structure: wire.Structure{JSONSchema: wire.JSONSchema{
			Schema: string(f.Schema), Name: f.Name, Description: f.Description}}}
	default:
		return f.Unserved(d.Provider).WithTry("text.format of type json_schema")
	}
	want, err := dialect.ReadEffort(r.Reasoning)
	if err != nil {
		return err
	}
	switch want.Effort {
	case "", "none":
	case "minimal":
		o.Effort = "low" // the least that the API knows
	default:
		o.Effort = want.Effort
	}
	if o != (wire.OutputConfig{}) {
		req.Output = &o
	}
	return nil
}

// grammar writes the API's blocks.
type grammar struct {
	dialect   Dialect
	names     *dialect.Names
	documents int
}

var _ dialect.Grammar[wire.Block] = (*grammar)(nil)

// Call implements [dialect.Grammar].
func (g *grammar) Call(c dialect.Call) []wire.Block {
	call := wire.Block{ToolUse: &wire.ToolUse{ID: g.names.Portable(c.CallID), Name: g.names.Sent(c.Name), Input: c.Input}}
	return append([]wire.Block{call}, cachePoint(c.CacheControl)...)
}

// Result implements [dialect.Grammar].
func (g *grammar) Result(c dialect.Call, content []wire.Block, failed bool, cache json.RawMessage) []wire.Block {
	r := &wire.ToolResult{ID: g.names.Portable(c.CallID), Status: "success"}
	if failed {
		r.Status = "error"
	}
	marks := cachePoint(cache)
	for _, b := range content {
		switch {
		case b.CachePoint == nil:
			r.Content = append(r.Content, b)
		case !dialect.Present(cache):
			marks = []wire.Block{b} // its place is behind the whole result
		}
	}
	if len(r.Content) == 0 {
		r.Content = []wire.Block{wire.Text(noText)}
	}
	return append([]wire.Block{{ToolResult: r}}, marks...)
}

// Thoughts implements [dialect.Grammar]. A client may have made the seal: nothing but thinking gets into the
// conversation this way.
func (g *grammar) Thoughts(item openai.Item) ([]wire.Block, error) {
	raw, err := g.dialect.seal().OpenItem(item)
	if err != nil {
		return nil, err
	}
	blocks := make([]wire.Block, len(raw))
	for i, r := range raw {
		var thought wire.Reasoning
		if json.Unmarshal(r, &thought) != nil || !whole(thought) {
			return nil, nil
		}
		blocks[i].Reasoning = &thought
	}
	return blocks, nil
}

// whole says whether thinking can go back: a text without its signature is refused.
func whole(r wire.Reasoning) bool {
	return r.Redacted != "" || r.Text != nil && r.Text.Signature != ""
}

// Thinks implements [dialect.Grammar].
func (g *grammar) Thinks(b wire.Block) bool { return b.Reasoning != nil }

// cachePoint marks what stands before it, as a client's cache_control asks.
func cachePoint(raw json.RawMessage) []wire.Block {
	if !dialect.Present(raw) {
		return nil
	}
	var mark struct {
		TTL string `json:"ttl"`
	}
	json.Unmarshal(raw, &mark) // a mark that says nothing readable is one without a time
	return []wire.Block{{CachePoint: &wire.CachePoint{Type: "default", TTL: mark.TTL}}}
}
