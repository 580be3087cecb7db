package llm

import (
	"context"
	"errors"
	"iter"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Route is where a request goes, and what the model is called there.
type Route struct {
	Provider     Provider
	ProviderName string
	Model        string
}

// name is what clients call the model.
func (r Route) name() string { return r.ProviderName + "/" + r.Model }

// inOrder is one route that stands for several, of which the first is told about.
func inOrder(routes []Route) Route {
	if len(routes) == 1 {
		return routes[0]
	}
	first := routes[0]
	first.Provider = fallbacks(routes)
	return first
}

// fallbacks asks one provider after the other until one of them answers. What a provider cannot serve, or does not begin
// to answer, the next is asked; once an answer has begun it is that one's to the end. Each provider tries its call again
// by itself before it gives up.
type fallbacks []Route

var _ Provider = fallbacks(nil)
var _ Checker = fallbacks(nil)

// Models implements [Provider].
func (f fallbacks) Models(ctx context.Context) ([]openai.Model, error) {
	return f[0].Provider.Models(ctx)
}

// Check refuses what none of them can serve, in the words of the first.
func (f fallbacks) Check(r Request) error {
	var first error
	for _, route := range f {
		r.Model = route.Model
		err := Check(route.Provider, r)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// Stream implements [Provider].
func (f fallbacks) Stream(ctx context.Context, r Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		var last error
		for _, route := range f {
			r.Model = route.Model
			if err := Check(route.Provider, r); err != nil {
				last = errors.Join(last, err)
				continue
			}
			begun, err := play(route.Provider.Stream(ctx, r), yield)
			if begun || err == nil {
				return
			}
			if last = errors.Join(last, err); fault.KindOf(err) != fault.Upstream || ctx.Err() != nil {
				yield(nil, err)
				return
			}
		}
		yield(nil, gaveUp(last))
	}
}

// play hands a turn's events on. It says whether one was there; the error of a turn that had none is not handed on.
func play(turn iter.Seq2[openai.Event, error], yield func(openai.Event, error) bool) (begun bool, failed error) {
	for ev, err := range turn {
		if err != nil && !begun {
			return false, err
		}
		begun = true
		if !yield(ev, err) {
			return true, nil
		}
	}
	return begun, nil
}

// gaveUp is the error when no provider has begun to answer: that of the last, with all of them as its cause.
func gaveUp(all error) error {
	joined, ok := all.(interface{ Unwrap() []error })
	if !ok {
		return all
	}
	errs := joined.Unwrap()
	e, ok := fault.As(errs[len(errs)-1])
	if !ok {
		return all
	}
	told := *e
	told.Cause = all
	return &told
}
