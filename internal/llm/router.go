package llm

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options sets up a Router.
type Options struct {
	Providers map[string]Provider // by name; a name holds no slash
	Aliases   map[string]string   // a name of the operator's choice → "provider/model", a bare name or another alias
	Default   string              // what an empty model name means; empty: it is refused

	// Fallbacks are names that stand for several models: the first that begins to answer does.
	Fallbacks map[string][]string
	// Allowed are the models that an organisation may use, as "provider/model" or the beginning of one and "*". The
	// organisation "*" is every one that is not named. Nil allows all; an organisation that is in no list has all.
	Allowed map[string][]string
	Clock   func() time.Time // nil: time.Now
}

const (
	// listTTL is how long a provider's list is believed. A bare name needs all lists; nobody waits for them twice a minute.
	listTTL = time.Minute
	// failedTTL is how long a provider that did not list is left alone.
	failedTTL = 10 * time.Second
	// listTimeout bounds one provider's listing: an upstream that is down must not hold up the rest.
	listTimeout = 5 * time.Second
	// maxAliases bounds a chain of aliases, which may be a ring.
	maxAliases = 8
)

// Router finds the provider of a model's name. It is safe for use by many goroutines.
type Router struct {
	providers map[string]Provider
	names     []string // of the providers, sorted
	aliases   map[string]string
	lines     map[string][]string // names that stand for several models
	allowed   map[string][]string
	byDefault string
	clock     func() time.Time
	lists     map[string]*list
}

// list is one provider's models as last heard.
type list struct {
	lock   chan struct{} // a lock that a context can leave
	mu     sync.Mutex    // guards the fields below
	models []openai.Model
	ids    map[string]bool
	err    error
	until  time.Time
}

// NewRouter makes a Router. It asks nobody until a bare name or the list of models is wanted.
func NewRouter(o Options) *Router {
	r := &Router{providers: maps.Clone(o.Providers), aliases: maps.Clone(o.Aliases), byDefault: o.Default, clock: o.Clock,
		lines: maps.Clone(o.Fallbacks), allowed: maps.Clone(o.Allowed), lists: make(map[string]*list)}
	if r.clock == nil {
		r.clock = time.Now
	}
	r.names = slices.Sorted(maps.Keys(r.providers))
	for _, name := range r.names {
		r.lists[name] = &list{lock: make(chan struct{}, 1)}
	}
	return r
}

// MaxStandIns bounds how many models a request may name beside the first, and maxRoutes how many it stands for in all.
const (
	MaxStandIns = 7
	maxRoutes   = 16
)

// Resolve finds the route of a model's name for an organisation, and of those that stand in for it, in their order: of
// "provider/model", of an alias, of a name with fallbacks, or of a bare name that exactly one provider lists. What stands
// behind the provider's prefix goes to it as it is, slashes and all, whether it lists it or not. The first name must
// lead somewhere; what stands in for it is left out where it does not.
func (r *Router) Resolve(ctx context.Context, org, model string, more ...string) (Route, error) {
	if model == "" {
		model = r.byDefault
	}
	if model == "" {
		return Route{}, fault.New(fault.Invalid, "no model was named").WithCode("missing_required_parameter").
			WithParam("model").WithTry("name one of %s", r.examples(ctx, org))
	}
	var routes []Route
	var refused error
	seen := map[string]bool{}
	for i, name := range append([]string{model}, more...) {
		for _, name := range r.stands(name) {
			route, err := r.one(ctx, org, name)
			if err != nil {
				if refused == nil {
					refused = err
				}
				continue
			}
			if !seen[route.name()] && len(routes) < maxRoutes {
				seen[route.name()] = true
				routes = append(routes, route)
			}
		}
		if i == 0 && len(routes) == 0 {
			return Route{}, refused
		}
	}
	return inOrder(routes), nil
}

// stands is the models that a name stands for.
func (r *Router) stands(name string) []string {
	if line := r.lines[r.unalias(name)]; len(line) > 0 {
		return line
	}
	return []string{name}
}

// unalias follows aliases to their end.
func (r *Router) unalias(name string) string {
	for range maxAliases {
		target, ok := r.aliases[name]
		if !ok {
			break
		}
		name = target
	}
	return name
}

// one finds the route of one model.
func (r *Router) one(ctx context.Context, org, asked string) (Route, error) {
	model := r.unalias(asked)
	route := Route{}
	if provider, rest, ok := strings.Cut(model, "/"); ok && rest != "" && r.providers[provider] != nil {
		route = Route{Provider: r.providers[provider], ProviderName: provider, Model: rest}
	} else {
		var err error
		if route, err = r.bare(ctx, org, asked, model); err != nil {
			return Route{}, err
		}
	}
	if !r.permits(org, route.name()) {
		return Route{}, fault.New(fault.Forbidden, "the organisation %q may not use the model %q", org, route.name()).
			WithCode("model_not_allowed").WithParam("model").WithTry("name one of %s", r.examples(ctx, org))
	}
	return route, nil
}

// permits says whether an organisation may use "provider/model".
func (r *Router) permits(org, name string) bool {
	patterns, ok := r.allowed[org]
	if !ok {
		if patterns, ok = r.allowed["*"]; !ok {
			return true
		}
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		start, open := strings.CutSuffix(p, "*")
		return p == name || open && strings.HasPrefix(name, start)
	})
}

// bare finds the only provider that lists a model.
func (r *Router) bare(ctx context.Context, org, asked, model string) (Route, error) {
	r.refresh(ctx)
	var found, silent []string
	for _, name := range r.names {
		ids, _, err := r.lists[name].heard()
		switch {
		case ids[model] && r.permits(org, name+"/"+model):
			found = append(found, name)
		case err != nil:
			silent = append(silent, name)
		}
	}
	switch len(found) {
	case 1:
		return Route{Provider: r.providers[found[0]], ProviderName: found[0], Model: model}, nil
	case 0:
		e := fault.New(fault.NotFound, "no provider has a model named %q", asked)
		if len(silent) > 0 {
			e = fault.New(fault.NotFound, "no provider that answers has a model named %q; no answer from %s", asked, strings.Join(silent, ", "))
		}
		return Route{}, e.WithCode("model_not_found").WithParam("model").WithTry("name one of %s", r.examples(ctx, org))
	default:
		for i, name := range found {
			found[i] = name + "/" + model
		}
		return Route{}, fault.New(fault.Invalid, "the model name %q is ambiguous: %s", model, strings.Join(found, ", ")).
			WithCode("ambiguous_model").WithParam("model").WithTry("put the provider in front, as in %q", found[0])
	}
}

// owner is who owns the names that the operator made.
const owner = "hardshell"

// Models lists what an organisation may use: every provider's models, configured or heard of it, as "provider/model", and
// the operator's own names for them, by name. A provider that does not answer in time is left out.
func (r *Router) Models(ctx context.Context, org string) []openai.Model {
	all := r.list(ctx, org)
	for _, names := range []iter.Seq[string]{maps.Keys(r.aliases), maps.Keys(r.lines)} {
		for name := range names {
			if r.leads(ctx, org, name) && !slices.ContainsFunc(all, func(m openai.Model) bool { return m.ID == name }) {
				all = append(all, openai.Model{ID: name, Object: "model", OwnedBy: owner})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b openai.Model) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// leads says whether one of the models that a name stands for can be had.
func (r *Router) leads(ctx context.Context, org, name string) bool {
	return slices.ContainsFunc(r.stands(name), func(name string) bool { _, err := r.one(ctx, org, name); return err == nil })
}

// list is what the providers have and an organisation may use.
func (r *Router) list(ctx context.Context, org string) []openai.Model {
	r.refresh(ctx)
	all := []openai.Model{}
	for _, name := range r.names {
		_, models, _ := r.lists[name].heard()
		for _, m := range models {
			if id := name + "/" + m.ID; r.permits(org, id) {
				all = append(all, openai.Model{ID: id, Object: "model", Created: m.Created, OwnedBy: name})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b openai.Model) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// examples names a few models for a try line.
func (r *Router) examples(ctx context.Context, org string) string {
	const few = 5
	var names []string
	for _, m := range r.list(ctx, org) {
		names = append(names, m.ID)
	}
	if len(names) == 0 {
		return "the models of a provider, once one is configured"
	}
	if len(names) > few {
		return strings.Join(names[:few], ", ") + ", … (GET /v1/models has all)"
	}
	return strings.Join(names, ", ")
}

// refresh asks the providers whose lists are old, all at once.
func (r *Router) refresh(ctx context.Context) {
	var wg sync.WaitGroup
	for _, name := range r.names {
		l := r.lists[name]
		if l.fresh(r.clock()) {
			continue
		}
		wg.Go(func() { l.ask(ctx, r.providers[name], r.clock) })
	}
	wg.Wait()
}

func (l *list) fresh(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.until)
}

func (l *list) heard() (ids map[string]bool, models []openai.Model, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids, l.models, l.err
}

// ask lists a provider's models; of several who ask at once one does and the others wait for it. A provider that
// fails keeps its old list, marked with the error.
func (l *list) ask(ctx context.Context, p Provider, clock func() time.Time) {
	select {
	case l.lock <- struct{}{}:
		defer func() { <-l.lock }()
	case <-ctx.Done():
		return
	}
	if l.fresh(clock()) {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	models, err := p.Models(bounded)
	if err != nil && ctx.Err() != nil {
		return // the caller went away; that says nothing about the provider
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	if err != nil {
		l.until = clock().Add(failedTTL)
		return
	}
	ids := make(map[string]bool, len(models))
	for _, m := range models {
		ids[m.ID] = true
	}
	l.models, l.ids, l.until = models, ids, clock().Add(listTTL)
}
