// Package anthropic asks Anthropic's Messages API, and servers that speak it.
//
// Translation is pure: a request becomes a body by [Dialect.Body], and the events of the answer become events of the
// law by a decoder. It keeps no conversation and runs no tool; shell items must have been rewritten to function items
// before. What holds: thinking goes back byte for byte, to the provider that it came from and to no other; names and
// ids are mapped to what the API takes, and back; a call is tried again only before its first event; no error carries
// the key. What the API has no place for is refused with its name, but for the short list of [LeftOut].
package anthropic

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes one server. Every zero value works for Anthropic's own.
type Options struct {
	Name    string            // of the provider, for messages and for the tag on thinking
	BaseURL string            // the part before /v1/messages, such as https://api.anthropic.com, which is the default
	APIKey  string            // empty sends none
	Version string            // of the API; empty: 2023-06-01, which still knows temperature and top_p
	Auth    string            // x-api-key or bearer; empty: as the version has it
	Models  []string          // what to list; empty asks the server
	Headers map[string]string // added to every request, such as anthropic-beta; a value may be a secret

	MaxTokens  int64  // where a request sets none; 0: what the model is known to allow
	Thinking   string // adaptive, budget or none: how the models think; empty: by the model's name
	Cache      string // 5m or 1h: have the API cache what requests repeat; empty: only what a request marks itself
	SystemRole bool   // the models take system messages in the middle of a conversation; else they move to its start

	ConnectTimeout   time.Duration // 0: 10 s
	FirstByteTimeout time.Duration // from the request to the answer's head; 0: 5 min
	IdleTimeout      time.Duration // between two reads of a stream; 0: 5 min
	MaxRetryWait     time.Duration // the longest Retry-After that is obeyed; 0: 10 s

	Client *http.Client // nil: one made for streams; redirects are refused in any case
}

// Provider asks one server. It is safe for use by many goroutines.
type Provider struct {
	o       Options
	dialect Dialect
	client  *http.Client
	secrets []string
	mint    func(prefix string) string // nil: id.New
}

var _ llm.Provider = (*Provider)(nil)
var _ llm.Checker = (*Provider)(nil)

// New makes a Provider. It asks nobody.
func New(o Options) *Provider {
	setDefault(&o.Name, "anthropic")
	setDefault(&o.BaseURL, "https://api.anthropic.com")
	o.BaseURL = strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/v1") // people give it either way
	setDefault(&o.Version, wire.Version2023)
	setDefault(&o.ConnectTimeout, 10*time.Second)
	setDefault(&o.FirstByteTimeout, 5*time.Minute)
	setDefault(&o.IdleTimeout, 5*time.Minute)
	setDefault(&o.MaxRetryWait, 10*time.Second)
	if o.Version == wire.Version2026 {
		setDefault(&o.Auth, "bearer")
	}
	p := &Provider{o: o, client: newClient(o), dialect: Dialect{Provider: o.Name, Version: o.Version, MaxTokens: o.MaxTokens,
		Thinking: o.Thinking, Cache: o.Cache, SystemRole: o.SystemRole}}
	if o.APIKey != "" {
		p.secrets = append(p.secrets, o.APIKey)
	}
	for _, v := range o.Headers {
		if len(v) >= 8 {
			p.secrets = append(p.secrets, v)
		}
	}
	return p
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Check translates the request and throws the result away.
func (p *Provider) Check(r llm.Request) error {
	_, err := p.dialect.Body(r)
	return err
}

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		p.stream(ctx, r, yield)
	}
}

// Models implements [llm.Provider]: the configured list, or the server's.
func (p *Provider) Models(ctx context.Context) ([]openai.Model, error) {
	if len(p.o.Models) == 0 {
		models, err := p.models(ctx)
		if err != nil {
			return nil, fmt.Errorf("list models of %s: %w", p.o.Name, err)
		}
		return models, nil
	}
	models := make([]openai.Model, len(p.o.Models))
	for i, name := range p.o.Models {
		models[i] = openai.Model{ID: strings.TrimPrefix(name, p.o.Name+"/"), Object: "model", OwnedBy: p.o.Name}
	}
	return models, nil
}
