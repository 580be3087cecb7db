package llm

import (
	"context"
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
	Clock     func() time.Time    // nil: time.Now
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
	fallback  string
	clock     func() time.Time
	lists     map[string]*list
}

// Route is where a request goes, and what the model is called there.
type Route struct {
	Provider     Provider
	ProviderName string
	Model        string
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
	r := &Router{providers: maps.Clone(o.Providers), aliases: maps.Clone(o.Aliases), fallback: o.Default, clock: o.Clock,
		lists: make(map[string]*list)}
	if r.clock == nil {
		r.clock = time.Now
	}
	r.names = slices.Sorted(maps.Keys(r.providers))
	for _, name := range r.names {
		r.lists[name] = &list{lock: make(chan struct{}, 1)}
	}
	return r
}

// Resolve finds the route of "provider/model", of an alias, or of a bare name that exactly one provider lists. What
// stands behind the provider's prefix goes to it as it is, slashes and all, whether it lists it or not.
func (r *Router) Resolve(ctx context.Context, model string) (Route, error) {
	asked := model
	if model == "" {
		model = r.fallback
	}
	if model == "" {
		return Route{}, fault.New(fault.Invalid, "no model was named").WithCode("missing_required_parameter").
			WithParam("model").WithTry("name one of %s", r.examples(ctx))
	}
	for range maxAliases {
		target, ok := r.aliases[model]
		if !ok {
			break
		}
		model = target
	}
	if provider, rest, ok := strings.Cut(model, "/"); ok && rest != "" {
		if p, ok := r.providers[provider]; ok {
			return Route{Provider: p, ProviderName: provider, Model: rest}, nil
		}
	}
	return r.bare(ctx, asked, model)
}

// bare finds the only provider that lists a model.
func (r *Router) bare(ctx context.Context, asked, model string) (Route, error) {
	r.refresh(ctx)
	var found, silent []string
	for _, name := range r.names {
		ids, _, err := r.lists[name].heard()
		switch {
		case ids[model]:
			found = append(found, name)
		case err != nil:
			silent = append(silent, name)
		}
	}
	switch len(found) {
	case 1:
		return Route{Provider: r.providers[found[0]], ProviderName: found[0], Model: model}, nil
	case 0:
		if asked == "" {
			asked = model
		}
		e := fault.New(fault.NotFound, "no provider has a model named %q", asked)
		if len(silent) > 0 {
			e = fault.New(fault.NotFound, "no provider that answers has a model named %q; no answer from %s", asked, strings.Join(silent, ", "))
		}
		return Route{}, e.WithCode("model_not_found").WithParam("model").WithTry("name one of %s", r.examples(ctx))
	default:
		for i, name := range found {
			found[i] = name + "/" + model
		}
		return Route{}, fault.New(fault.Invalid, "the model name %q is ambiguous: %s", model, strings.Join(found, ", ")).
			WithCode("ambiguous_model").WithParam("model").WithTry("put the provider in front, as in %q", found[0])
	}
}

// Models lists every provider's models as "provider/model", by provider and name. A provider that does not answer in
// time is left out.
func (r *Router) Models(ctx context.Context) []openai.Model {
	r.refresh(ctx)
	all := []openai.Model{}
	for _, name := range r.names {
		_, models, _ := r.lists[name].heard()
		for _, m := range models {
			all = append(all, openai.Model{ID: name + "/" + m.ID, Object: "model", Created: m.Created, OwnedBy: name})
		}
	}
	slices.SortStableFunc(all, func(a, b openai.Model) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// examples names a few models for a try line.
func (r *Router) examples(ctx context.Context) string {
	const few = 5
	var names []string
	for _, m := range r.Models(ctx) {
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
