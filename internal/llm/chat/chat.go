// Package chat asks any Chat Completions server, streaming where events are read as they come: OpenAI, Azure, Ollama, llama.cpp, vLLM and their like.
//
// Translation is pure: a request becomes a body by [Body], the chunks of the answer become events by a decoder that
// forgives what servers get wrong. It keeps no conversation and runs no tool; shell items must have been rewritten to
// function items before. What holds: the body is sent from memory, no overall time limit cuts a stream, a call is
// tried again only before its first event, and no error or log carries the key.
package chat

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes one server. BaseURL is required; every other zero value works.
type Options struct {
	Name    string            // of the provider, for messages
	BaseURL string            // such as http://127.0.0.1:11434/v1
	APIKey  string            // sent as a bearer token; empty sends none
	Models  []string          // what to list; empty asks the server
	Headers map[string]string // added to every request; a value may be a secret

	// MaxTokensField is max_tokens or max_completion_tokens; empty: the latter for OpenAI and Azure hosts.
	MaxTokensField string
	// DeveloperRole is keep or system: whether the server knows the role "developer"; empty: keep for OpenAI and Azure hosts.
	DeveloperRole string

	ConnectTimeout   time.Duration // 0: 10 s
	FirstByteTimeout time.Duration // from the request to the answer's head; 0: 5 min, as a local server may load a model
	IdleTimeout      time.Duration // between two reads of a stream; 0: 5 min, as a reasoning model may be silent
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
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	setDefault(&o.Name, "chat")
	setDefault(&o.ConnectTimeout, 10*time.Second)
	setDefault(&o.FirstByteTimeout, 5*time.Minute)
	setDefault(&o.IdleTimeout, 5*time.Minute)
	setDefault(&o.MaxRetryWait, 10*time.Second)
	if vendor(o.BaseURL) {
		setDefault(&o.MaxTokensField, "max_completion_tokens")
		setDefault(&o.DeveloperRole, "keep")
	}
	p := &Provider{o: o, client: newClient(o), dialect: Dialect{Provider: o.Name,
		MaxCompletionTokens: o.MaxTokensField == "max_completion_tokens", KeepRoles: o.DeveloperRole == "keep"}}
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

// vendor says whether the server is OpenAI's own or Azure's, which know the newer field and role.
func vendor(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com")
}

// Check translates the request and throws the result away.
func (p *Provider) Check(r llm.Request) error {
	_, err := p.dialect.translate(r)
	return err
}

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		p.stream(ctx, r, yield)
	}
}
