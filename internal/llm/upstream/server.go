// Package upstream is the HTTP side of a provider: a server that is asked, tried again and followed to the end of its
// answer.
//
// It knows no dialect: what is asked is bytes, and an [Answer] reads what comes. What holds for every provider that
// stands on it: a body is sent from memory, no overall time limit cuts a stream, silence does; a call is tried again
// only before its answer has said anything; a redirect is not followed; and no error carries a key, a header's value
// or a URL.
package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream/straight"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Options describes one server. BaseURL is required; every other zero value works.
type Options struct {
	Name    string            // of the provider, for messages
	BaseURL string            // what a call's path is put behind
	APIKey  string            // the dialect says how it is sent
	Models  []string          // what to list; empty asks the server
	Headers map[string]string // added to every request; a value may be a secret

	ConnectTimeout   time.Duration // 0: 10 s
	FirstByteTimeout time.Duration // from the request to the answer's head; 0: 5 min, as a local server may load a model
	IdleTimeout      time.Duration // between two reads of a stream; 0: 5 min, as a reasoning model may be silent
	MaxRetryWait     time.Duration // the longest Retry-After that is obeyed; 0: 10 s
	MaxTries         int           // of one call, the first among them; 0: 3
	MaxConcurrent    int           // calls under way at once, others wait; 0: no limit

	Client *http.Client // nil: one made for streams; redirects are refused in any case
}

// Dialect is what a dialect adds to a server. Nil fields mean what most servers do.
type Dialect struct {
	// Authorize puts the key, or a signature over the whole request, on a request that is otherwise complete.
	Authorize func(r *http.Request, body []byte) error
	// Framing splits streams of the media type FramingType; all others are server-sent events.
	Framing     func(io.Reader) Frames
	FramingType string
	// Path is what the base URL must stand before, for the hint in an error.
	Path string
}

// Server is one model server. It is safe for use by many goroutines.
type Server struct {
	o       Options
	d       Dialect
	client  *http.Client
	secrets *secrets
	places  chan struct{} // a place for each call under way; nil: no limit
}

// New makes a Server. It asks nobody.
func New(o Options, d Dialect) *Server {
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	setDefault(&o.ConnectTimeout, 10*time.Second)
	setDefault(&o.FirstByteTimeout, 5*time.Minute)
	setDefault(&o.IdleTimeout, 5*time.Minute)
	setDefault(&o.MaxRetryWait, 10*time.Second)
	setDefault(&o.MaxTries, 3)
	s := &Server{o: o, d: d, client: newClient(o), secrets: new(secrets)}
	if o.MaxConcurrent > 0 {
		s.places = make(chan struct{}, o.MaxConcurrent)
	}
	s.secrets.add(o.APIKey)
	for _, v := range o.Headers {
		s.secrets.addHeader(v)
	}
	return s
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Name is the provider's, for messages.
func (s *Server) Name() string { return s.o.Name }

// Close lets go of idle connections.
func (s *Server) Close() { s.client.CloseIdleConnections() }

// newClient makes a client for streams: many idle connections, no compression (it would buffer small chunks), no
// overall time limit. Redirects are refused: they would carry the key, and headers that may be secrets, elsewhere.
func newClient(o Options) *http.Client {
	c := &http.Client{}
	if o.Client != nil {
		*c = *o.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.Transport == nil {
		dialer := &net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 30 * time.Second}
		behind := &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         dialer.DialContext,
			TLSHandshakeTimeout: o.ConnectTimeout,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 512,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
			ReadBufferSize:      16 << 10,
			WriteBufferSize:     16 << 10,
		}
		c.Transport = &straight.Transport{Dial: dialer.DialContext, Behind: behind}
	}
	return c
}

// maxList bounds what is read of a list.
const maxList = 8 << 20

// Get asks for one JSON object. It is not tried again.
func (s *Server) Get(ctx context.Context, path string, into any) error {
	req, err := s.request(ctx, http.MethodGet, Call{Path: path})
	if err != nil {
		return err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return s.unreachable(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return s.refused(res, res.Body)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxList)).Decode(into); err != nil {
		return fault.Wrap(fault.Upstream, errors.New(s.clean(err.Error())), "%s sent a list of models that cannot be read", s.o.Name)
	}
	return nil
}

// Models lists what is configured, else what list asks for.
func (s *Server) Models(ctx context.Context, list func(context.Context) ([]openai.Model, error)) ([]openai.Model, error) {
	if len(s.o.Models) == 0 {
		models, err := list(ctx)
		if err != nil {
			return nil, fmt.Errorf("list models of %s: %w", s.o.Name, err)
		}
		return models, nil
	}
	models := make([]openai.Model, len(s.o.Models))
	for i, name := range s.o.Models {
		models[i] = s.Model(strings.TrimPrefix(name, s.o.Name+"/"), 0)
	}
	return models, nil
}

// List asks for the list of models in OpenAI's shape, which most servers have.
func (s *Server) List(path string) func(context.Context) ([]openai.Model, error) {
	return func(ctx context.Context) ([]openai.Model, error) {
		var l struct {
			Data []struct {
				ID      string  `json:"id"`
				Created float64 `json:"created"` // some write fractions
			} `json:"data"`
		}
		if err := s.Get(ctx, path, &l); err != nil {
			return nil, err
		}
		models := make([]openai.Model, 0, len(l.Data))
		for _, m := range l.Data {
			if m.ID != "" {
				models = append(models, s.Model(m.ID, int64(m.Created)))
			}
		}
		return models, nil
	}
}

// Model is an entry of the list. created is in seconds; 0 says that it is not known.
func (s *Server) Model(id string, created int64) openai.Model {
	return openai.Model{ID: id, Object: "model", Created: max(0, created), OwnedBy: s.o.Name}
}
