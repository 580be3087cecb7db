// Package gemini asks Google's models, by generateContent and streamGenerateContent: of the Gemini API with a key, or of
// Vertex AI with a key or with credentials that a [Source] finds.
//
// Translation is pure: a request becomes a body by [Dialect.Body], and the pieces of the answer become events of the law
// by a decoder. What holds: the vendor's signatures go back on the parts that they came on, to the provider that they
// came from and to no other; a call's answer stands in the call's order; names are mapped to what the API takes, and
// back; what the API has no place for is refused with its name, but for the short list of [LeftOut]; no name of a model
// reaches another project than the configured one. The HTTP side is package upstream's, with what that promises.
package gemini

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes the Gemini API, or Vertex AI in one location. It is Vertex AI that is meant where Project, Location
// or Credentials are set, where BaseURL is its, and where there is neither a key nor a base URL. An APIKey is sent in a
// header of its own; without a project Vertex AI is asked by it alone, as its express mode has it. BaseURL ends with the
// API's version; empty means the vendor's own.
type Options struct {
	upstream.Options

	Project     string // of Vertex AI; empty: GOOGLE_CLOUD_PROJECT, else that of the credentials
	Location    string // of Vertex AI; empty: GOOGLE_CLOUD_LOCATION, GOOGLE_CLOUD_REGION, else global
	Credentials string // a file of credentials; empty: as the vendor's tools find one
	Source      Source // nil: a [Chain]
}

// Provider asks one of them. It is safe for use by many goroutines.
type Provider struct {
	dialect Dialect
	server  *upstream.Server
	place   place
	source  Source                     // nil: a key, or nothing, is sent
	mint    func(prefix string) string // nil: id.New
}

var _ llm.Provider = (*Provider)(nil)
var _ llm.Checker = (*Provider)(nil)
var _ llm.Omitter = (*Provider)(nil)

// The vendor's own addresses. Of Vertex AI the version is the one that its SDK asks by default, whose shapes we send.
const (
	geminiAPI     = "https://generativelanguage.googleapis.com/v1beta"
	vertexHost    = "aiplatform"
	vertexVersion = "/v1beta1"
)

// New makes a Provider. It asks nobody.
func New(o Options) *Provider {
	if o.Name == "" {
		o.Name = "gemini"
	}
	at := place{project: o.Project, location: o.Location}
	at.vertex = o.Project != "" || o.Location != "" || o.Credentials != "" || strings.Contains(o.BaseURL, vertexHost+".") || o.APIKey == "" && o.BaseURL == ""
	p := &Provider{dialect: Dialect{Provider: o.Name}}
	if at.vertex {
		at.location = cmp.Or(at.location, os.Getenv("GOOGLE_CLOUD_LOCATION"), os.Getenv("GOOGLE_CLOUD_REGION"), "global")
		if o.APIKey == "" { // a key that is configured is not for a project that is not
			at.project = cmp.Or(at.project, os.Getenv("GOOGLE_CLOUD_PROJECT"))
			p.source = o.Source
			if p.source == nil {
				p.source = &Chain{File: o.Credentials}
			}
		}
	}
	p.place = at
	if o.BaseURL == "" {
		o.BaseURL = at.baseURL()
	}
	authorize := upstream.Header("X-Goog-Api-Key", "", o.APIKey)
	if p.source != nil {
		authorize = p.bearer
	}
	p.server = upstream.New(o.Options, upstream.Dialect{Path: "/models", Authorize: authorize})
	return p
}

// baseURL is the vendor's own for a place.
func (p place) baseURL() string {
	switch {
	case !p.vertex:
		return geminiAPI
	case p.location == "global":
		return "https://" + vertexHost + ".googleapis.com" + vertexVersion
	case p.location == "us" || p.location == "eu":
		return "https://" + vertexHost + "." + p.location + ".rep.googleapis.com" + vertexVersion
	}
	return "https://" + p.location + "-" + vertexHost + ".googleapis.com" + vertexVersion
}

// bearer puts a token on a request, unless the operator's headers say otherwise.
func (p *Provider) bearer(r *http.Request, _ []byte) error {
	if r.Header.Get("Authorization") != "" {
		return nil
	}
	t, err := p.source.Token(r.Context())
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+t.Value)
	if t.Quota != "" && r.Header.Get("X-Goog-User-Project") == "" {
		r.Header.Set("X-Goog-User-Project", t.Quota)
	}
	return nil
}

// path is a model's.
func (p *Provider) path(ctx context.Context, model string) (string, error) {
	at := p.place
	if at.project == "" && p.source != nil {
		t, err := p.source.Token(ctx)
		if err != nil {
			return "", err
		}
		if at.project = t.Project; at.project == "" {
			return "", fault.New(fault.Upstream, "no Google Cloud project is known for %s", p.dialect.Provider).WithCode("server_error").
				WithTry("project in the provider's configuration, or GOOGLE_CLOUD_PROJECT in the gateway's environment")
		}
	}
	return at.path(model)
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

// Stream implements [llm.Provider].
func (p *Provider) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		turn := llm.NewTurn(yield, p.mint)
		names, body, err := p.dialect.request(r)
		if err == nil {
			err = p.server.Ask(ctx, r.Whole, func(whole bool) (upstream.Call, error) {
				path, err := p.path(ctx, r.Model)
				if err != nil {
					return upstream.Call{}, err
				}
				if whole {
					return upstream.Call{Path: path + ":generateContent", Body: body}, nil
				}
				return upstream.Call{Path: path + ":streamGenerateContent?alt=sse", Body: body}, nil
			}, &decoder{turn: turn, seal: p.dialect.seal(), names: names, server: p.server})
		}
		if err != nil {
			turn.Fail(err)
		}
	}
}

// maxPages bounds how many pages of a list are asked for.
const maxPages = 20

// Models implements [llm.Provider]: the configured list, or what the API lists that makes text.
func (p *Provider) Models(ctx context.Context) ([]openai.Model, error) {
	return p.server.Models(ctx, func(ctx context.Context) ([]openai.Model, error) {
		path := "/models"
		if p.place.vertex {
			path = "/publishers/google/models"
		}
		var list []openai.Model
		next := ""
		for range maxPages {
			var page wire.Models
			if err := p.server.Get(ctx, path+"?pageSize=100&pageToken="+url.QueryEscape(next), &page); err != nil {
				return nil, err
			}
			for _, m := range slices.Concat(page.Models, page.PublisherModels) {
				name := m.Name[strings.LastIndexByte(m.Name, '/')+1:]
				makesText := slices.Contains(m.Methods, "generateContent")
				if len(m.Methods) == 0 { // Vertex AI does not say
					makesText = strings.HasPrefix(name, "gemini-")
				}
				if makesText {
					list = append(list, p.server.Model(name, 0))
				}
			}
			if next = page.Next; next == "" {
				break
			}
		}
		return list, nil
	})
}
