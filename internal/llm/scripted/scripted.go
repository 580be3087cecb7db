// Package scripted is a model without a mind: it follows the lines of the last user message, or a recorded script.
// It needs no key, no network and no weights, and it says what it is in its first words.
//
// It keeps nothing between calls: where it stands is read from the conversation each time.
package scripted

import (
	"context"
	"io/fs"
	"iter"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options sets up a Provider; the zero value works.
type Options struct {
	Scripts fs.FS // recorded scripts, NAME.json each; they come before the built-in ones
}

// Provider is the scripted model. It is safe for use by many goroutines.
type Provider struct {
	o Options
}

var _ llm.Provider = (*Provider)(nil)

// New makes the scripted model.
func New(o Options) *Provider { return &Provider{o: o} }

// Models lists the one model, "scripted".
func (p *Provider) Models(context.Context) ([]openai.Model, error) {
	return []openai.Model{{ID: "scripted", Object: "model", OwnedBy: "hardshell"}}, nil
}

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {}
}
