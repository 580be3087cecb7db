package agent

import (
	"context"
	"slices"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// fold has the plan's own model write a summary of what is old, in one call. It says false where that failed or gained
// nothing; the call's usage is the response's all the same.
func (a *Agent) fold(ctx context.Context, p *plan, limits compact.Limits, w compact.Window) (compact.Window, *openai.Usage, bool) {
	old, rest, ok := limits.Fold(w)
	if !ok {
		return w, nil, false
	}
	own := ""
	if p.request.Instructions != nil {
		own = *p.request.Instructions
	}
	summary, usage, err := summarise(ctx, p, compact.Transcript(own, w.Summary, old))
	if err != nil {
		a.options.Logger.Warn("no summary of the conversation", "model", modelOf(p.route), "error", err)
		return w, usage, false
	}
	next, ok := limits.Folded(w, rest, summary, len(old))
	return next, usage, ok
}

// summarise asks the model for a summary of a transcript.
func summarise(ctx context.Context, p *plan, transcript string) (summary string, usage *openai.Usage, err error) {
	req := llm.Request{Model: p.route.Model, Instructions: compact.Instructions(p.compaction.prompt),
		Items: []openai.Item{openai.UserText(transcript)}, Whole: true}
	for _, f := range []struct{ to, from *string }{{&req.User, p.request.User}, {&req.SafetyIdentifier, p.request.SafetyIdentifier}, {&req.ServiceTier, p.request.ServiceTier}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if err := llm.Check(p.route.Provider, req); err != nil {
		return "", nil, err
	}
	var end *openai.Lifecycle
	for ev, err := range p.route.Provider.Stream(ctx, req) {
		if err != nil {
			return "", nil, err
		}
		switch e := ev.(type) {
		case *openai.ItemEvent:
			if e.Type == openai.EventItemDone && e.Item.Type == openai.TypeMessage {
				summary += text(e.Item)
			}
		case *openai.Lifecycle:
			end = e
		}
	}
	if end == nil {
		return "", nil, fault.New(fault.Upstream, "The model's stream ended before its summary was complete.")
	}
	usage = end.Response.Usage
	if end.Response.Status != openai.Completed || summary == "" {
		return "", usage, fault.New(fault.Upstream, "The model wrote no whole summary: its answer is %s.", end.Response.Status)
	}
	return summary, usage, nil
}

// Compact compacts a conversation now: the answer's output takes its place as the input of a later request. Without a
// strategy the model writes a summary; where it fails, the oldest parts are left out.
func (a *Agent) Compact(ctx context.Context, who tenant.Principal, req *openai.CompactRequest) (*openai.Compacted, error) {
	if req.Model == "" {
		return nil, invalid("model", "A compaction needs a model.").WithCode("missing_required_parameter")
	}
	if not(req.Strategy, compact.Truncate, compact.Summary) {
		return nil, invalid("strategy", "strategy must be %q or %q.", compact.Truncate, compact.Summary)
	}
	create := &openai.CreateRequest{Model: req.Model, Input: req.Input, Instructions: req.Instructions, PreviousResponseID: req.PreviousResponseID,
		ServiceTier: req.ServiceTier, PromptCacheKey: req.PromptCacheKey}
	if err := checkFields(create); err != nil {
		return nil, err
	}
	route, err := a.models.Resolve(ctx, who.Org, req.Model)
	if err != nil {
		return nil, asValue(err)
	}
	p := &plan{principal: who, request: create, route: route, names: map[string]bool{}, maxOutput: a.containers.Facts(ctx).MaxOutput}
	o := a.options.Compaction
	p.compaction = compaction{sealer: o.Sealer, threshold: o.Threshold, strategy: compact.Summary, prompt: o.Prompt}
	if req.Strategy != nil {
		p.compaction.strategy = *req.Strategy
	}
	if req.Prompt != nil {
		p.compaction.prompt = *req.Prompt
	}
	w, err := a.toCompact(ctx, p, req)
	if err != nil {
		return nil, err
	}
	out := &openai.Compacted{ID: id.New(id.Response), Object: "response.compaction", CreatedAt: time.Now().Unix()}
	limits := a.limits(p, 0)
	limits.Force = true
	next, ok := w, false
	if p.compaction.strategy == compact.Summary {
		var usage *openai.Usage
		if next, usage, ok = a.fold(ctx, p, limits, w); usage != nil {
			out.Usage = *usage
		}
		if err := ctx.Err(); err != nil {
			return nil, fault.Wrap(fault.Cancelled, err, "The client went away.")
		}
	}
	if !ok {
		if next, ok = limits.Shorten(w); !ok {
			next = w // it is as short as it can be
		}
	}
	content, err := p.compaction.sealer.Seal(who.Org, who.KeyID, next)
	if err != nil {
		return nil, err
	}
	out.Output = []openai.Item{openai.NewItem(openai.Compaction{Type: openai.TypeCompaction, ID: id.New(id.Compaction), EncryptedContent: content, CreatedBy: "gateway"})}
	return out, nil
}

// toCompact reads the conversation of a request to compact it.
func (a *Agent) toCompact(ctx context.Context, p *plan, req *openai.CompactRequest) (compact.Window, error) {
	var none compact.Window
	if id := req.PreviousResponseID; id != nil {
		chain, err := a.responses.Chain(ctx, p.principal.Org, *id)
		if err != nil {
			return none, err
		}
		p.history = chain.Items
	}
	input, err := finder(a.responses.Items).dereferenced(ctx, p.principal.Org, req.Input, p.history, "input")
	if err != nil {
		return none, err
	}
	if p.input, err = readInput(input, p.history); err != nil {
		return none, err
	}
	if len(p.input)+len(p.history) == 0 {
		return none, invalid("input", "A compaction needs input or previous_response_id.").WithCode("missing_required_parameter")
	}
	if err := p.takeCompactions(false); err != nil {
		return none, err
	}
	w, err := p.window(slices.Concat(p.history, p.input))
	if err != nil {
		return none, err
	}
	if w.Native != nil {
		return none, invalid("input", "The conversation holds a compaction of provider %q, which can't be compacted again here.", w.Native.Provider).
			WithTry("going on with it as it is")
	}
	for n, i := range w.Items {
		w.Items[n] = compact.WithoutFiles(i)
	}
	return w, nil
}
