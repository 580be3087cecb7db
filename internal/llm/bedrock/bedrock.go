// Package bedrock asks models on Amazon Bedrock, by Converse and ConverseStream.
//
// Translation is pure: a request becomes a body by [Dialect.Body], and the events of the answer, which come in the
// vendor's binary framing, become events of the law by a decoder. Requests carry a bearer key or a signature (SigV4)
// made with credentials that a [Source] finds. What holds: thinking goes back as it came, to the provider that it came
// from and to no other; names and ids are mapped to what the API takes, and back; what the API has no place for is
// refused with its name, but for the short list of [LeftOut]. The HTTP side is package upstream's, with what that
// promises.
package bedrock

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes one region's Bedrock. BaseURL is the runtime's, such as
// https://bedrock-runtime.eu-central-1.amazonaws.com, and made from Region where it is empty. APIKey is a Bedrock key,
// sent as a bearer token; without one requests are signed.
type Options struct {
	upstream.Options

	Region    string // empty: the region in BaseURL, else AWS_REGION, AWS_DEFAULT_REGION, us-east-1
	Profile   string // of the shared files; empty: where a [Chain] looks else
	MaxTokens int64  // where a request sets none; 0: the model's own limit
	Source    Source // nil: a [Chain]
}

// Provider asks one region. It is safe for use by many goroutines.
type Provider struct {
	dialect Dialect
	server  *upstream.Server
	control *upstream.Server           // lists models; nil: a base URL that it cannot be told from
	mint    func(prefix string) string // nil: id.New
}

var _ llm.Provider = (*Provider)(nil)
var _ llm.Checker = (*Provider)(nil)
var _ llm.Omitter = (*Provider)(nil)

// New makes a Provider. It asks nobody.
func New(o Options) *Provider {
	if o.Name == "" {
		o.Name = "bedrock"
	}
	at := hostOf(o.BaseURL)
	o.Region = cmp.Or(o.Region, at.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), "us-east-1")
	if o.BaseURL == "" {
		o.BaseURL = "https://bedrock-runtime." + o.Region + ".amazonaws.com"
		at = hostOf(o.BaseURL)
	}
	if o.Source == nil {
		o.Source = &Chain{Profile: o.Profile, Region: o.Region}
	}
	authorize := upstream.Bearer(o.APIKey)
	if o.APIKey == "" {
		authorize = func(r *http.Request, body []byte) error {
			if r.Header.Get("Authorization") != "" {
				return nil // the operator's own
			}
			c, err := o.Source.Credentials(r.Context())
			if err != nil {
				return err
			}
			sign(r, body, c, o.Region, "bedrock", time.Now())
			return nil
		}
	}
	p := &Provider{
		dialect: Dialect{Provider: o.Name, MaxTokens: o.MaxTokens},
		server:  upstream.New(o.Options, upstream.Dialect{Path: "/model", Authorize: authorize, Framing: newFrames, FramingType: framing}),
	}
	if at.control != "" {
		control := o.Options
		control.BaseURL = at.control
		p.control = upstream.New(control, upstream.Dialect{Path: "/foundation-models", Authorize: authorize})
	}
	return p
}

// Close lets go of idle connections.
func (p *Provider) Close() {
	p.server.Close()
	if p.control != nil {
		p.control.Close()
	}
}

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
			path := "/model/" + url.PathEscape(r.Model)
			path = strings.ReplaceAll(path, ":", "%3A") // as the vendor's tools send it; what is signed must be what is sent
			err = p.server.Ask(ctx, r.Whole, func(whole bool) (upstream.Call, error) {
				if whole {
					return upstream.Call{Path: path + "/converse", Body: body, Accept: "application/json"}, nil
				}
				return upstream.Call{Path: path + "/converse-stream", Body: body, Accept: framing}, nil
			}, &decoder{turn: turn, seal: p.dialect.seal(), names: names, server: p.server})
		}
		if err != nil {
			turn.Fail(err)
		}
	}
}

// Models implements [llm.Provider]: the configured list, or the region's models that make text, and its profiles.
func (p *Provider) Models(ctx context.Context) ([]openai.Model, error) {
	return p.server.Models(ctx, func(ctx context.Context) ([]openai.Model, error) {
		if p.control == nil {
			return nil, nil
		}
		var models struct {
			Summaries []struct {
				ID      string   `json:"modelId"`
				Serving []string `json:"inferenceTypesSupported"`
			} `json:"modelSummaries"`
		}
		if err := p.control.Get(ctx, "/foundation-models?byOutputModality=TEXT", &models); err != nil {
			return nil, err
		}
		var list []openai.Model
		for _, m := range models.Summaries {
			for _, how := range m.Serving {
				if how == "ON_DEMAND" { // the others answer to a profile's id alone
					list = append(list, p.server.Model(m.ID, 0))
				}
			}
		}
		var profiles struct {
			Summaries []struct {
				ID string `json:"inferenceProfileId"`
			} `json:"inferenceProfileSummaries"`
		}
		if err := p.control.Get(ctx, "/inference-profiles?maxResults=1000", &profiles); err != nil {
			return nil, err
		}
		for _, m := range profiles.Summaries {
			list = append(list, p.server.Model(m.ID, 0))
		}
		return list, nil
	})
}
