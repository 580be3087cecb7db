// Package anthropic is the door that speaks Anthropic's Messages API over HTTP and SSE, in front of every provider.
//
// A request becomes Responses items and goes to the one loop that all doors share; the loop's events become content
// blocks. The door keeps nothing and decides nothing about models or commands. What holds: blocks come one after the
// other, in the vendor's order, whatever the loop does at the same time; an answer in one piece is the stream put
// together; a call that comes back in a conversation is history, and nothing of it ever runs; a client that goes away
// cancels its answer at once.
package anthropic

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Agent begins an answer and works on it in the background of the call.
type Agent interface {
	// Create checks the request, begins the answer and returns while it runs. An error means that nothing ran.
	Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (Run, error)
}

// Run is an answer that this process works on.
type Run interface {
	ID() string
	Cancel(cause error)
	// Subscribe gives the events with a number above after, from the start with -1.
	Subscribe(after int64) Stream
}

// Stream hands out the events of one answer, in order. Next blocks until at least one is ready; io.EOF follows the
// terminal event.
type Stream interface {
	Next(ctx context.Context) ([]response.Frame, error)
	Close()
}

// Containers are where the server's bash runs, and their files. Another organisation's look absent.
type Containers interface {
	Get(ctx context.Context, org, id string) (container.Container, error)
	// FileByID finds a file by its id alone.
	FileByID(ctx context.Context, org, fileID string) (container.File, error)
	OpenFile(ctx context.Context, org, id, fileID string) (io.ReadSeekCloser, container.File, error)
}

// Models lists what may be asked for, as "provider/model".
type Models interface {
	Models(ctx context.Context, org string) []openai.Model
}

// Door is the rooms behind the API. [Rooms] makes one of the real rooms.
type Door struct {
	Agent      Agent
	Containers Containers
	Models     Models
	Ping       time.Duration // silence after which a stream gets a ping; 0 = 10 s
}

// defaultPing stays well under the 15 s that is promised: a timer may be late and a proxy impatient.
const defaultPing = 10 * time.Second

// header is what every client of this API sends, and no other.
const header = "Anthropic-Version"

// Register adds the door's routes to g. Models and files are paths that another door has too: they are this one's for
// requests with the header.
func Register(g *gateway.Gateway, d Door) *gateway.Dialect {
	if d.Ping <= 0 {
		d.Ping = defaultPing
	}
	routes := g.Dialect(header, WriteError)
	for _, r := range []struct {
		pattern string
		serve   gateway.Handler
		always  bool
	}{
		{"POST /v1/messages", d.createMessage, true},
		{"POST /v1/messages/count_tokens", d.countTokens, true},
		{"GET /v1/models", d.listModels, false},
		{"GET /v1/models/{id...}", d.getModel, false},
		{"GET /v1/files/{id}", d.getFile, false},
		{"GET /v1/files/{id}/content", d.fileContent, false},
	} {
		routes.Handle(r.pattern, tenant.ScopeRun, named(r.serve), r.always)
	}
	return routes
}

// named gives an answer the vendor's header of its id.
func named(serve gateway.Handler) gateway.Handler {
	return func(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
		w.Header()["Request-Id"] = w.Header()["X-Request-Id"]
		return serve(w, r, p)
	}
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	raw, err := wire.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	w.WriteHeader(status)
	w.Write(append(raw, '\n')) // a failed write is the client's affair
	return nil
}
