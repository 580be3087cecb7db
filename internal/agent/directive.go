package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Compaction is how conversations are made to fit where a request asks for it. The zero value works: nothing is done
// unasked, and what a request asks for in context_management is left alone.
type Compaction struct {
	Enabled   bool
	Strategy  string // compact.Truncate, which is the default, or compact.Summary
	Threshold int64  // tokens; 0 is 12,000
	Keep      int    // the latest items, which stay; 0 is 6
	Prompt    string // for a summary; empty is compact.DefaultPrompt
	Sealer    compact.Sealer
}

func (c Compaction) withDefaults() Compaction {
	if c.Strategy == "" {
		c.Strategy = compact.Truncate
	}
	if c.Threshold <= 0 {
		c.Threshold = 12_000
	}
	if c.Keep <= 0 {
		c.Keep = 6
	}
	if !c.Sealer.Seals() {
		c.Sealer = compact.NewSealer()
	}
	return c
}

// directive is an entry of context_management.
type directive struct {
	Type      string  `json:"type"`
	Threshold *int64  `json:"compact_threshold"`
	Strategy  *string `json:"strategy"` // an extension of the Hadrian seed
	Prompt    *string `json:"prompt"`   // and another
}

// readDirectives reads and checks context_management. It is nil where there is none.
func readDirectives(raw json.RawMessage) (*directive, error) {
	if !present(raw) {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, invalid("context_management", "context_management must be a list of objects.").WithCode("invalid_type")
	}
	var first *directive
	for i, raw := range list {
		param := fmt.Sprintf("context_management[%d]", i)
		var d directive
		if !isObject(raw) || json.Unmarshal(raw, &d) != nil {
			return nil, invalid(param, "An entry of context_management is an object with type, compact_threshold, strategy and prompt.").
				WithCode("invalid_type")
		}
		switch {
		case d.Type != "compaction":
			return nil, invalid(param+".type", "context_management has an unknown type %q.", d.Type).WithTry("compaction")
		case below(d.Threshold, 1):
			return nil, invalid(param+".compact_threshold", "compact_threshold must be at least 1.")
		case not(d.Strategy, compact.Truncate, compact.Summary):
			return nil, invalid(param+".strategy", "strategy must be %q or %q.", compact.Truncate, compact.Summary)
		}
		if first == nil {
			first = &d
		}
	}
	return first, nil
}

// compaction is what a response does to make room. The zero value does nothing.
type compaction struct {
	sealer    compact.Sealer
	native    json.RawMessage // the provider makes room by itself, told so
	on        bool            // we do
	threshold int64
	strategy  string
	prompt    string
	trigger   bool     // the input asks for it, however long it is
	known     []string // call ids that stand in what the input carries sealed
	ignored   string   // what of the request's wishes is not done, and why
}

// readCompaction reads what a request wants of its context.
func (a *Agent) readCompaction(req *openai.CreateRequest, route llm.Route) (compaction, error) {
	o := a.options.Compaction
	c := compaction{sealer: o.Sealer, threshold: o.Threshold, strategy: o.Strategy, prompt: o.Prompt}
	d, err := readDirectives(req.ContextManagement)
	if err != nil || d == nil {
		return c, err
	}
	if llm.Compacts(route.Provider) {
		entry := map[string]any{"type": d.Type}
		if d.Threshold != nil {
			entry["compact_threshold"] = *d.Threshold
		}
		if d.Strategy != nil || d.Prompt != nil {
			c.ignored = fmt.Sprintf("context_management: strategy and prompt are not sent to provider %s, which compacts by itself", route.ProviderName)
		}
		c.native, err = openai.Marshal([]any{entry})
		return c, err
	}
	if !o.Enabled {
		c.ignored = "context_management is ignored: compaction is not enabled on this server (features.responses.compaction.enabled)"
		return c, nil
	}
	c.on = true
	if d.Threshold != nil {
		c.threshold = *d.Threshold
	}
	if d.Strategy != nil {
		c.strategy = *d.Strategy
	}
	if d.Prompt != nil {
		c.prompt = *d.Prompt
	}
	return c, nil
}

// Ignored says what of a request's wishes for its context is not done, in words for its sender; empty where all is.
func (a *Agent) Ignored(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) string {
	trigger := !a.options.Compaction.Enabled && hasTrigger(req.Input)
	if !trigger && !present(req.ContextManagement) {
		return ""
	}
	if trigger {
		return "compaction_trigger is ignored: compaction is not enabled on this server (features.responses.compaction.enabled)"
	}
	route, err := a.models.Resolve(ctx, p.Org, req.Model, req.Models...)
	if err != nil {
		return "" // the request is refused
	}
	c, err := a.readCompaction(req, route)
	if err != nil {
		return ""
	}
	return c.ignored
}
