package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A compaction is an item of the conversation: what stands before it is replaced, for the model, by what it carries
// sealed. Nothing is taken out of what is stored. So a later turn that chains on the response, a client that keeps its
// own conversation and an owner that takes over after a crash all go on from it, and none makes it again.

// hasTrigger says whether items ask for a compaction.
func hasTrigger(items []openai.Item) bool {
	return slices.ContainsFunc(items, func(i openai.Item) bool { return i.Type == openai.TypeCompactionTrigger })
}

// opened is a compaction item, opened. An empty key is any of the organisation's.
func opened(s compact.Sealer, org, key string, i openai.Item) (compact.Window, error) {
	var c openai.Compaction
	if err := i.Decode(&c); err != nil {
		return compact.Window{}, err
	}
	return s.Open(org, key, c.EncryptedContent)
}

// takeCompactions checks what the input carries sealed: it must be the principal's own. And it notes what the input asks
// for.
func (p *plan) takeCompactions(enabled bool) error {
	for n, i := range p.input {
		if i.Type != openai.TypeCompaction {
			continue
		}
		param := fmt.Sprintf("input[%d]", n)
		w, err := opened(p.compaction.sealer, p.principal.Org, p.principal.KeyID, i)
		if e, ok := fault.As(err); ok {
			return e.WithParam(param + ".encrypted_content")
		} else if err != nil {
			return invalid(param, "The compaction item can't be read.")
		}
		if w.Native != nil && w.Native.Provider != p.route.ProviderName && !p.whole(n) {
			return invalid(param, "This compaction was made by provider %q, which alone can read it.", w.Native.Provider).
				WithCode("invalid_compaction").WithTry("a model of that provider, or the conversation before it as well")
		}
		for _, i := range w.Items {
			if i.CallID != "" {
				p.compaction.known = append(p.compaction.known, i.CallID)
			}
		}
	}
	p.compaction.trigger = enabled && hasTrigger(p.input)
	return nil
}

// whole says whether the conversation that a compaction replaces stands before it: somebody spoke there.
func (p *plan) whole(before int) bool {
	return len(p.history) > 0 || slices.ContainsFunc(p.input[:before], func(i openai.Item) bool { return i.Role == "user" })
}

// window is a conversation as it goes on: what stands before its last compaction is replaced by what that carries. System
// and developer messages are never replaced.
func (p *plan) window(items []openai.Item) (compact.Window, error) {
	if !slices.ContainsFunc(items, compacting) {
		return compact.Window{Items: items}, nil
	}
	for n := len(items) - 1; n >= 0; n-- {
		if items[n].Type != openai.TypeCompaction {
			continue
		}
		w, err := opened(p.compaction.sealer, p.principal.Org, "", items[n])
		if err != nil {
			return w, err // what is stored was opened when it came, or made here
		}
		rest := without(items[n+1:])
		if w.Native == nil {
			first := unsaid(items[:n], w.Items)
			w.At += len(first)
			w.Items = slices.Concat(first, w.Items, rest)
			return w, nil
		}
		if w.Native.Provider == p.route.ProviderName {
			item := openai.NewItem(openai.Compaction{Type: openai.TypeCompaction, EncryptedContent: w.Native.Content})
			return compact.Window{Items: slices.Concat([]openai.Item{item}, rest), Native: w.Native}, nil
		}
	}
	return compact.Window{Items: without(items)}, nil // of other providers: what they replace is there
}

func compacting(i openai.Item) bool {
	return i.Type == openai.TypeCompaction || i.Type == openai.TypeCompactionTrigger
}

// without leaves compactions and the wish for one out.
func without(items []openai.Item) []openai.Item {
	if !slices.ContainsFunc(items, compacting) {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), compacting)
}

// unsaid is the system's and developer's messages of items that others do not repeat: a client may put one before the
// compaction that it hands back.
func unsaid(items, others []openai.Item) []openai.Item {
	var out []openai.Item
	for _, i := range items {
		if i.Role == "system" || i.Role == "developer" {
			if !slices.ContainsFunc(others, func(o openai.Item) bool { return o.Role == i.Role && text(o) == text(i) }) {
				out = append(out, i)
			}
		}
	}
	return out
}

func text(i openai.Item) string {
	var m openai.Message
	if i.Decode(&m) != nil {
		return ""
	}
	return m.Content.Text()
}

// ratios are how many tokens a byte is, by model: what an upstream counted last says it better than any guess.
type ratios struct {
	mu sync.Mutex
	by map[string]float64
}

// maxRatios bounds them: a client chooses the names of models.
const maxRatios = 1000

func (r *ratios) of(model string) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[model]
}

func (r *ratios) learn(model string, weight int, tokens int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil || len(r.by) >= maxRatios {
		r.by = map[string]float64{}
	}
	r.by[model] = compact.Learn(r.by[model], weight, tokens)
}

func modelOf(r llm.Route) string { return r.ProviderName + "/" + r.Model }

// limits are what a conversation of this plan is to be brought under. fixed is what stands beside it.
func (a *Agent) limits(p *plan, fixed int) compact.Limits {
	return compact.Limits{Threshold: p.compaction.threshold, Keep: a.options.Compaction.Keep, Fixed: fixed,
		Ratio: a.ratios.of(modelOf(p.route)), MaxOutput: p.maxOutput, Omitted: omitted}
}

// beside is what a request weighs without its conversation.
func beside(r llm.Request) int {
	n := len(r.Instructions) + len(r.Text)
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
		if t.Type != "function" {
			n += len(t.Raw)
		}
	}
	return n
}

// fixed is what stands beside the conversation in this response's model calls. It is read once.
func (l *loop) fixed() (int, error) {
	if l.besides == 0 {
		req, err := l.plan.first, error(nil)
		if req == nil {
			var made llm.Request
			made, err = l.plan.ask(false, false, l.added)
			req = &made
		}
		if err != nil {
			return 0, err
		}
		l.besides = beside(*req) + 1
	}
	return l.besides, nil
}

// makeRoom compacts the conversation before a model call that would be too long. It never ends the response: where no
// room can be made the model is asked as it is.
func (l *loop) makeRoom(ctx context.Context) error {
	p := l.plan
	if l.weight = 0; !p.compaction.on && !p.compaction.trigger {
		return nil
	}
	w, err := p.window(slices.Concat(p.history, p.input, l.added))
	if err != nil || w.Native != nil {
		return err
	}
	fixed, err := l.fixed()
	if err != nil {
		return err
	}
	limits := l.agent.limits(p, fixed)
	limits.Force = p.compaction.trigger && !slices.ContainsFunc(l.added, compacting)
	l.weight = limits.Weight(w)
	if !limits.Over(w) {
		return nil
	}
	next, ok := l.compacted(ctx, limits, w)
	if err := ctx.Err(); err != nil {
		return err
	}
	if !ok {
		l.agent.options.Logger.Warn("no room could be made", "response", l.run.ID(), "tokens", limits.Tokens(w), "threshold", limits.Threshold)
		return nil
	}
	content, err := p.compaction.sealer.Seal(p.principal.Org, p.principal.KeyID, next)
	if err != nil {
		return err
	}
	l.weight = limits.Weight(next)
	l.note(openai.Compaction{Type: openai.TypeCompaction, ID: id.New(id.Compaction), EncryptedContent: content, CreatedBy: "gateway"})
	return nil
}

// note puts a compaction into the conversation and tells the client. It is in the journal with the first of its events.
func (l *loop) note(c openai.Compaction) {
	item := openai.NewItem(c)
	l.added = append(l.added, item)
	l.plan.first, l.truncated = nil, 0
	l.mark(func(m *mark) { m.Rounds-- }) // this round's model call is still to come
	c.EncryptedContent = ""
	index := l.wire.open(openai.NewItem(c))
	l.wire.emit(openai.NewCompacting(c.ID, index), openai.NewItemEvent(openai.EventItemDone, index, item))
}

// closedCompaction is the end of a compaction whose owner died while it was told: the journal has it.
func (l *loop) closedCompaction(announced openai.Item) openai.Item {
	if at := slices.IndexFunc(l.added, func(i openai.Item) bool { return i.ID == announced.ID }); at >= 0 {
		return l.added[at]
	}
	return announced
}

// compacted makes room by the response's strategy.
func (l *loop) compacted(ctx context.Context, limits compact.Limits, w compact.Window) (compact.Window, bool) {
	if l.plan.compaction.strategy == compact.Summary {
		next, usage, ok := l.agent.fold(ctx, l.plan, limits, w)
		if usage != nil {
			l.spend(*usage)
		}
		if ok || ctx.Err() != nil {
			return next, ok
		}
	}
	return limits.Shorten(w)
}

// spend adds a model call's tokens to the response.
func (l *loop) spend(u openai.Usage) {
	l.run.AddUsage(u)
	sum := u
	if l.usage != nil {
		sum.Add(*l.usage)
	}
	l.usage = &sum
}

// learn takes what the upstream counted of the request that was weighed.
func (l *loop) learn(u openai.Usage) {
	if l.weight > 0 {
		l.agent.ratios.learn(modelOf(l.plan.route), l.weight, u.InputTokens)
	}
}

// own makes a compaction of the provider's one of ours, bound as ours are: the item that a client sees and hands back is
// never the vendor's own.
func (l *loop) own(ev openai.Event) (openai.Event, error) {
	e, ok := ev.(*openai.ItemEvent)
	if !ok || e.Item.Type != openai.TypeCompaction {
		return ev, nil
	}
	var c openai.Compaction
	if err := e.Item.Decode(&c); err != nil {
		return nil, fault.Wrap(fault.Upstream, err, "The model's provider sent a compaction that can't be read.")
	}
	p := l.plan
	content, err := p.compaction.sealer.Seal(p.principal.Org, p.principal.KeyID,
		compact.Window{Native: &compact.Native{Provider: p.route.ProviderName, Content: c.EncryptedContent}})
	if err != nil {
		return nil, err
	}
	if e.Item, err = withKeys(e.Item, map[string]any{"encrypted_content": content}); err != nil {
		return nil, fault.Wrap(fault.Upstream, err, "The model's provider sent a compaction that can't be read.")
	}
	return e, nil
}
