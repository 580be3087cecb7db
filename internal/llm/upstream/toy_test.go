package upstream

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/sse"
)

// toy is the least dialect: a frame is a word, "END" ends the model's turn, "DONE" the answer, an object is an error. A
// whole answer is {"text": …}.
type toy struct {
	server *Server
	words  []string
	begun  int
	ended  bool // by the model
	done   bool
	gone   bool
	closed bool
}

func (a *toy) Begin()     { a.begun++; a.ended, a.done = false, false }
func (a *toy) Said() bool { return len(a.words) > 0 }
func (a *toy) Late() bool { return a.ended }
func (a *toy) Over() bool { return a.done || a.gone }
func (a *toy) Gone() bool { return a.gone }

func (a *toy) Frame(f sse.Event, _ bool) error {
	switch data := string(f.Data); {
	case data == "END":
		a.ended = true
	case data == "DONE":
		a.done = true
	case strings.HasPrefix(data, "BROKEN "):
		return a.server.Broken("said %s", data)
	case strings.HasPrefix(data, "{"):
		return a.server.Told(ReadError(f.Data))
	default:
		a.words = append(a.words, data)
	}
	return nil
}

func (a *toy) Whole(raw []byte) error {
	var whole struct{ Text string }
	if err := json.Unmarshal(raw, &whole); err != nil {
		return a.server.Unreadable("an answer", err)
	}
	if whole.Text == "" {
		return a.server.Told(ReadError(raw))
	}
	a.words, a.ended = append(a.words, whole.Text), true
	return nil
}

func (a *toy) End() error {
	if !a.ended && !a.done {
		return a.server.CutShort()
	}
	a.closed = true
	return nil
}

// said joins what the answer said.
func (a *toy) said() string { return strings.Join(a.words, " ") }

const okStream = "data: token\n\ndata: END\n\ndata: DONE\n\n"

// ask asks a server with the toy dialect.
func ask(ctx context.Context, s *Server, whole bool) (*toy, error) {
	a := &toy{server: s}
	err := s.Ask(ctx, whole, func(whole bool) (Call, error) {
		body := `{"text":"hello","stream":true}`
		if whole {
			body = `{"text":"hello","stream":false}`
		}
		return Call{Path: "/ask", Body: []byte(body)}, nil
	}, a)
	return a, err
}

// over starts a server over HTTP.
func over(t testing.TB, o Options, h http.HandlerFunc) *Server {
	t.Helper()
	o.BaseURL = providertest.Serve(t, h) + "/v1/"
	if o.Name == "" {
		o.Name = "up"
	}
	s := New(o, Dialect{Authorize: Bearer(o.APIKey), Path: "/ask"})
	t.Cleanup(s.Close)
	return s
}

// trip is a transport that is a function.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// in makes a server whose transport is a function, for tests with a clock of their own.
func in(o Options, f trip) *Server {
	o.Name, o.BaseURL, o.Client = "up", "http://upstream.example/v1", &http.Client{Transport: f}
	return New(o, Dialect{Authorize: Bearer(o.APIKey), Path: "/ask"})
}

// answer is an HTTP answer.
func answer(status int, contentType string, body io.Reader, header ...string) *http.Response {
	h := http.Header{"Content-Type": {contentType}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(body), ContentLength: -1}
}

func stream(body string) *http.Response {
	return answer(200, "text/event-stream", strings.NewReader(body))
}
