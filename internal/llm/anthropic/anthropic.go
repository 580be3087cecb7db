// Package anthropic asks Anthropic's Messages API, and servers that speak it.
//
// Translation is pure: a request becomes a body by [Dialect.Body], and the events of the answer become events of the
// law by a decoder. It keeps no conversation and runs no tool; shell items must have been rewritten to function items
// before. What holds: thinking goes back byte for byte, to the provider that it came from and to no other; names and
// ids are mapped to what the API takes, and back. What the API has no place for is refused with its name, but for the
// short list of [LeftOut]. The HTTP side is package upstream's, with what that promises.
package anthropic

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes one server. Every zero value works for Anthropic's own. BaseURL is the part before /v1/messages,
// such as https://api.anthropic.com, which is the default.
type Options struct {
	upstream.Options

	Version    string // of the API; empty: 2023-06-01, which still knows temperature and top_p
	Auth       string // x-api-key or bearer; empty: as the version has it
	MaxTokens  int64  // where a request sets none; 0: what the model is known to allow
	Thinking   string // adaptive, budget or none: how the models think; empty: by the model's name
	Cache      string // 5m or 1h: have the API cache what requests repeat; empty: only what a request marks itself
	SystemRole bool   // the models take system messages in the middle of a conversation; else they move to its start
}

// Provider asks one server. It is safe for use by many goroutines.
type Provider struct {
	dialect Dialect
	server  *upstream.Server
	mint    func(prefix string) string // nil: id.New
}

var _ llm.Provider = (*Provider)(nil)
var _ llm.Checker = (*Provider)(nil)
var _ llm.Omitter = (*Provider)(nil)

// New makes a Provider. It asks nobody.
func New(o Options) *Provider {
	setDefault(&o.Name, "anthropic")
	setDefault(&o.BaseURL, "https://api.anthropic.com")
	o.BaseURL = strings.TrimSuffix(strings.TrimRight(o.BaseURL, "/"), "/v1") // people give it either way
	setDefault(&o.Version, wire.Version2023)
	key := upstream.Header("X-Api-Key", "", o.APIKey)
	if o.Auth == "bearer" || o.Auth == "" && o.Version == wire.Version2026 {
		key = upstream.Bearer(o.APIKey)
	}
	return &Provider{
		dialect: Dialect{Provider: o.Name, Version: o.Version, MaxTokens: o.MaxTokens, Thinking: o.Thinking, Cache: o.Cache, SystemRole: o.SystemRole},
		server: upstream.New(o.Options, upstream.Dialect{Path: "/v1/messages", Authorize: func(r *http.Request, body []byte) error {
			if r.Header.Get("Anthropic-Version") == "" {
				r.Header.Set("Anthropic-Version", o.Version)
			}
			return key(r, body)
		}})}
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Close lets go of idle connections.
func (p *Provider) Close() { p.server.Close() }

// Check translates the request and throws the result away.
func (p *Provider) Check(r llm.Request) error {
	_, err := p.dialect.Body(r)
	return err
}

// Omits implements [llm.Omitter].
func (p *Provider) Omits(r llm.Request) []string { return llm.Omitted(r, LeftOut(), p.dialect.Body) }

// maxPauses bounds how often an answer may pause in one turn.
const maxPauses = 10

// Stream implements [llm.Provider]. An answer that pauses is sent back, so that the model goes on in the same turn.
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		turn := llm.NewTurn(yield, p.mint)
		if err := p.stream(ctx, r, turn); err != nil {
			turn.Fail(err)
		}
	}
}

func (p *Provider) stream(ctx context.Context, r llm.Request, turn *llm.Turn) error {
	req, names, err := p.dialect.request(r)
	if err != nil {
		return err
	}
	d := &decoder{turn: turn, seal: p.dialect.seal(), names: names, server: p.server}
	history := req.Messages
	for range maxPauses {
		if err := p.server.Ask(ctx, !req.Stream, func(whole bool) (upstream.Call, error) {
			req.Stream = !whole
			body, err := encode(req)
			return upstream.Call{Path: "/v1/messages", Body: body}, err
		}, d); err != nil || turn.Gone() {
			return err
		}
		if d.stop != wire.StopPauseTurn {
			d.finish()
			return nil
		}
		var said wire.Content
		for _, piece := range d.content {
			if b, ok := piece.block(); ok {
				said = append(said, b)
			}
		}
		req.Messages = append(history[:len(history):len(history)], wire.Message{Role: "assistant", Content: said})
	}
	return p.server.Broken("paused its answer %d times", maxPauses)
}

// maxPages bounds the pages of a list of models.
const maxPages = 20

// Models implements [llm.Provider]: the configured list, or the server's, page by page.
func (p *Provider) Models(ctx context.Context) ([]openai.Model, error) {
	return p.server.Models(ctx, func(ctx context.Context) ([]openai.Model, error) {
		var models []openai.Model
		query := "?limit=1000"
		for range maxPages {
			var l wire.ModelList
			if err := p.server.Get(ctx, "/v1/models"+query, &l); err != nil {
				return nil, err
			}
			for _, m := range l.Data {
				if m.ID == "" {
					continue
				}
				created := int64(0)
				if at, err := time.Parse(time.RFC3339, m.CreatedAt); err == nil {
					created = at.Unix()
				}
				models = append(models, p.server.Model(m.ID, created))
			}
			if !l.HasMore || l.LastID == nil {
				break
			}
			query = "?limit=1000&after_id=" + url.QueryEscape(*l.LastID)
		}
		return models, nil
	})
}
