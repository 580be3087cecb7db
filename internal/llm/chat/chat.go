// Package chat asks any Chat Completions server, streaming where events are read as they come: OpenAI, Azure, Ollama, llama.cpp, vLLM and their like.
//
// Translation is pure: a request becomes a body by [Dialect.Body], the chunks of the answer become events by a decoder
// that forgives what servers get wrong. It keeps no conversation and runs no tool; shell items must have been rewritten
// to function items before. The HTTP side is package upstream's, with what that promises.
package chat

import (
	"context"
	"iter"
	"net/url"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes one server. BaseURL is required, such as http://127.0.0.1:11434/v1; every other zero value works.
type Options struct {
	upstream.Options

	// MaxTokensField is max_tokens or max_completion_tokens; empty: the latter for OpenAI and Azure hosts.
	MaxTokensField string
	// DeveloperRole is keep or system: whether the server knows the role "developer"; empty: keep for OpenAI and Azure hosts.
	DeveloperRole string
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
	if o.Name == "" {
		o.Name = "chat"
	}
	d := Dialect{Provider: o.Name, MaxCompletionTokens: o.MaxTokensField == "max_completion_tokens", KeepRoles: o.DeveloperRole == "keep"}
	if vendor(o.BaseURL) {
		d.Vendor = true
		d.MaxCompletionTokens = d.MaxCompletionTokens || o.MaxTokensField == ""
		d.KeepRoles = d.KeepRoles || o.DeveloperRole == ""
	}
	return &Provider{dialect: d, server: upstream.New(o.Options, upstream.Dialect{Authorize: upstream.Bearer(o.APIKey), Path: "/chat/completions"})}
}

// vendor says whether the server is OpenAI's own or Azure's, which know the newer field and role.
func vendor(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com")
}

// Close lets go of idle connections.
func (p *Provider) Close() { p.server.Close() }

// Check translates the request and throws the result away.
func (p *Provider) Check(r llm.Request) error {
	_, err := p.dialect.translate(r)
	return err
}

// Omits implements [llm.Omitter].
func (p *Provider) Omits(r llm.Request) []string { return llm.Omitted(r, LeftOut(), p.dialect.Body) }

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		turn := llm.NewTurn(yield, p.mint)
		err := p.server.Ask(ctx, r.Whole, func(whole bool) (upstream.Call, error) {
			r.Whole = whole
			body, err := p.dialect.Body(r)
			return upstream.Call{Path: "/chat/completions", Body: body}, err
		}, &decoder{turn: turn, server: p.server})
		if err != nil {
			turn.Fail(err)
		}
	}
}

// Models implements [llm.Provider]: the configured list, or the server's.
func (p *Provider) Models(ctx context.Context) ([]openai.Model, error) {
	return p.server.Models(ctx, p.server.List("/models"))
}
