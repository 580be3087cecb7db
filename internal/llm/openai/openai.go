// Package openai asks a Responses API: OpenAI's own, Azure's, and servers that speak it.
//
// The conversation is Responses items already, so that translation is short: nothing of the upstream's state is used
// (store is false), and no id goes either way. Ours are taken off before a request is sent, and the answer's are thrown
// away for ids that we mint. Reasoning goes back under a seal, to the provider that it came from. A model that knows the
// vendor's own shell tool is given that one in place of our function, with an environment that leaves running to us: its
// calls come as calls of our function, and the results go back in its shape; apply_patch is the same. Tools that this upstream alone runs, such
// as web search, are passed on as they are, and so are the items that they make.
//
// The HTTP side is package upstream's, with what that promises.
package openai

import (
	"context"
	"iter"
	"net/url"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes one server. Every zero value works for OpenAI's own.
//
// BaseURL is the part before /responses: https://api.openai.com/v1, which is the default, or of Azure
// https://NAME.openai.azure.com, to which its path is added.
type Options struct {
	upstream.Options

	APIVersion  string // of Azure, where the path is not its /openai/v1
	Auth        string // bearer or api-key; empty: api-key for Azure's hosts
	NativeShell string // on or off: give models the vendor's own tools shell and apply_patch; empty: those that are known to have them
}

// Provider asks one server. It is safe for use by many goroutines.
type Provider struct {
	dialect Dialect
	server  *upstream.Server
	path    string
	mint    func(prefix string) string // nil: id.New
	room    bool                       // the server makes room in a long conversation
}

var _ llm.Provider = (*Provider)(nil)
var _ llm.Checker = (*Provider)(nil)
var _ llm.Omitter = (*Provider)(nil)
var _ llm.Compactor = (*Provider)(nil)

// New makes a Provider. It asks nobody.
func New(o Options) *Provider {
	if o.Name == "" {
		o.Name = "openai"
	}
	if o.BaseURL == "" {
		o.BaseURL = "https://api.openai.com/v1"
	}
	own, azure := hostOf(o.BaseURL)
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	query := ""
	if azure {
		o.BaseURL = azureBase(o.BaseURL, o.APIVersion)
	}
	if o.APIVersion != "" {
		query = "?api-version=" + url.QueryEscape(o.APIVersion)
	}
	key := upstream.Bearer(o.APIKey)
	if o.Auth == "api-key" || o.Auth == "" && azure {
		key = upstream.Header("Api-Key", "", o.APIKey)
	}
	return &Provider{path: query, room: own || azure, dialect: Dialect{Provider: o.Name, NativeShell: o.NativeShell, Vendor: own},
		server: upstream.New(o.Options, upstream.Dialect{Path: "/responses", Authorize: key})}
}

// hostOf says whether a server is OpenAI's own, and whether it is Azure's.
func hostOf(base string) (own, azure bool) {
	u, err := url.Parse(base)
	if err != nil {
		return false, false
	}
	host := u.Hostname()
	for _, domain := range []string{".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"} {
		azure = azure || strings.HasSuffix(host, domain)
	}
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com"), azure
}

// azureBase puts Azure's path behind a base URL that ends with the host: the one that needs no version, or the older
// one.
func azureBase(base, version string) string {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Path != "" && u.Path != "/openai":
		return base
	case version != "":
		return strings.TrimSuffix(base, "/openai") + "/openai"
	}
	return strings.TrimSuffix(base, "/openai") + "/openai/v1"
}

// Close lets go of idle connections.
func (p *Provider) Close() { p.server.Close() }

// Compacts implements [llm.Compactor]. Only OpenAI's own servers and Azure's are known to do so: of another that speaks the
// API it would be a guess, and the conversation would grow until it is refused.
func (p *Provider) Compacts() bool { return p.room }

// Check translates the request and throws the result away.
func (p *Provider) Check(r llm.Request) error {
	_, err := p.dialect.Body(r)
	return err
}

// Omits implements [llm.Omitter].
func (p *Provider) Omits(r llm.Request) []string { return llm.Omitted(r, LeftOut(), p.dialect.Body) }

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[wire.Event, error] {
	return func(yield func(wire.Event, error) bool) {
		turn := llm.NewTurn(yield, p.mint)
		own := p.host(ctx, r.Hosted)
		// What runs commands is followed as it goes: an answer that is lost on its way cannot be asked for again.
		err := p.server.Ask(ctx, r.Whole && own == nil, func(whole bool) (upstream.Call, error) {
			r.Whole = whole
			body, err := p.dialect.Body(r)
			return upstream.Call{Path: "/responses" + p.path, Body: body, Once: own != nil}, err
		}, &decoder{turn: turn, server: p.server, seal: p.dialect.seal(), shell: r.Shell, patch: r.Patch, hosted: own})
		if err != nil {
			turn.Fail(own.hide(err))
		}
	}
}

// Models implements [llm.Provider]: the configured list, or the server's.
func (p *Provider) Models(ctx context.Context) ([]wire.Model, error) {
	return p.server.Models(ctx, p.server.List("/models"+p.path))
}
