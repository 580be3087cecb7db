// Package openai is the door that speaks OpenAI's Responses, Containers, Files and Models APIs over HTTP and SSE.
//
// It reads requests, hands them to the rooms through the small interfaces below, and writes what they give back. It
// decides nothing about models, commands or storage. What holds: a stored frame goes out byte for byte as it was
// stored; every stream that was accepted ends with one terminal event and [DONE], or is visibly cut; a foreground
// client that goes away cancels its response at once, one of a background response never does; a file name reaches the
// container as the client sent it, never shortened on the way.
package openai

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Agent begins a response and works on it in the background of the call.
type Agent interface {
	// Create checks the request, begins the response and returns while it runs, or when it has ended if the request wants
	// no stream and is not in the background; then the end of ctx cancels it. An error means that nothing ran.
	Create(ctx context.Context, p tenant.Principal, req *wire.CreateRequest) (Run, error)
}

// Run is a response that this process works on.
type Run interface {
	ID() string
	Cancel(cause error)
	// Subscribe gives the events with a number above after, from the start with -1.
	Subscribe(after int64) Stream
	Wait(ctx context.Context) (*wire.Response, error)
	// Abandon cancels it also when it waits for an approval by now, or goes on from there in other hands.
	Abandon(ctx context.Context, cause error)
	// Response is the response as it stands.
	Response() *wire.Response
	// Input is what a response that is not stored was asked, as a later one goes on from it.
	Input() []wire.Item
}

// Stream hands out the events of one response, in order. Next blocks until at least one is ready; io.EOF follows the
// terminal event.
type Stream interface {
	Next(ctx context.Context) ([]response.Frame, error)
	Close()
}

// Responses are the responses that are kept, running or over. Another organisation's look absent.
type Responses interface {
	Get(ctx context.Context, org, id string) (*wire.Response, error)
	Subscribe(ctx context.Context, org, id string, after int64) (Stream, error)
	Delete(ctx context.Context, org, id string) error
	Cancel(ctx context.Context, org, id string) (*wire.Response, error)
	InputItems(ctx context.Context, org, id string) ([]wire.Item, error)
	// Attend returns a response when it has ended, or as it stands if the bell rings while it waits for an approval.
	Attend(ctx context.Context, org, id string, bell <-chan time.Time) (*wire.Response, error)
	// Keyed finds what an earlier request of that name has begun; "" is nothing.
	Keyed(ctx context.Context, org, key, digest string) (id string, err error)
}

// Containers are the hosted shells' places and their files. Another organisation's look absent.
type Containers interface {
	Create(ctx context.Context, org string, spec container.CreateSpec) (container.Container, error)
	Get(ctx context.Context, org, id string) (container.Container, error)
	Skills(ctx context.Context, org, id string) ([]container.Skill, error)
	List(ctx context.Context, org string, page container.Page) ([]container.Container, bool, error)
	Delete(ctx context.Context, org, id string) error
	Put(ctx context.Context, org, id, name string, r io.Reader, source string) (container.File, error)
	Files(ctx context.Context, org, id string, page container.Page) ([]container.File, bool, error)
	Partial(id string) bool // of the last list of files
	File(ctx context.Context, org, id, fileID string) (container.File, error)
	OpenFile(ctx context.Context, org, id, fileID string) (io.ReadSeekCloser, container.File, error)
	DeleteFile(ctx context.Context, org, id, fileID string) error
	// PutUpload copies an uploaded file into the workspace. An empty name is the file's own.
	PutUpload(ctx context.Context, org, id, fileID, name string) (container.File, error)
	// Restore brings an expired container back.
	Restore(ctx context.Context, org, id string) (container.Container, error)
	MaxFileBytes() int64
}

// Models lists what may be asked for, as "provider/model".
type Models interface {
	Models(ctx context.Context, org string) []wire.Model
}

// Door is the rooms behind the API. [Rooms] makes one of the real rooms.
type Door struct {
	State

	Agent      Agent
	Responses  Responses
	Containers Containers
	Files      Files     // nil where nothing can be uploaded
	Skills     Skills    // nil where there are none
	Approvals  Approvals // nil where nothing is asked
	Models     Models
	Compaction Compaction    // nil where conversations are not compacted
	Keepalive  time.Duration // silence after which a stream gets a comment; 0 = 10 s
	// Bell rings when a client that reads no stream has waited for an approval as long as it should: after 30 s, unless set.
	Bell func() <-chan time.Time
}

// defaultKeepalive stays well under the 15 s that is promised: a timer may be late and a proxy impatient.
const defaultKeepalive = 10 * time.Second

// Register adds the door's routes to g and makes its envelope that of unknown paths.
func Register(g *gateway.Gateway, d Door) {
	if d.Keepalive <= 0 {
		d.Keepalive = defaultKeepalive
	}
	if d.Bell == nil {
		d.Bell = func() <-chan time.Time { return time.After(approvalPatience) }
	}
	g.Fallback(WriteError)
	for _, r := range []struct {
		pattern string
		serve   gateway.Handler
	}{
		{"POST /v1/responses", d.createResponse},
		{"GET /v1/responses", d.connectSocket},
		{"GET /v1/responses/{id}", d.getResponse},
		{"DELETE /v1/responses/{id}", d.deleteResponse},
		{"POST /v1/responses/{id}/cancel", d.cancelResponse},
		{"GET /v1/responses/{id}/input_items", d.listInputItems},
		{"POST /v1/responses/input_tokens", d.countInput},
		{"GET /v1/models", d.listModels},
		{"GET /v1/models/{id...}", d.getModel},
		{"POST /v1/containers", d.createContainer},
		{"GET /v1/containers", d.listContainers},
		{"GET /v1/containers/{id}", d.getContainer},
		{"DELETE /v1/containers/{id}", d.deleteContainer},
		{"POST /v1/containers/{id}/restore", d.restoreContainer},
		{"POST /v1/containers/{id}/files", d.createFile},
		{"GET /v1/containers/{id}/files", d.listFiles},
		{"GET /v1/containers/{id}/files/{file}", d.getFile},
		{"DELETE /v1/containers/{id}/files/{file}", d.deleteFile},
		{"GET /v1/containers/{id}/files/{file}/content", d.fileContent},
	} {
		g.Handle(r.pattern, tenant.ScopeRun, r.serve, WriteError)
	}
	handle(g, d.conversationRoutes())
	if d.Files != nil {
		handle(g, map[string]gateway.Handler{
			"POST /v1/files":             d.createUpload,
			"GET /v1/files":              d.listUploads,
			"GET /v1/files/{id}":         d.getUpload,
			"DELETE /v1/files/{id}":      d.deleteUpload,
			"GET /v1/files/{id}/content": d.uploadContent,
		})
	}
	if d.Approvals != nil {
		g.Handle("GET /v1/approvals", tenant.ScopeApprove, d.listApprovals, WriteError)
		g.Handle("GET /v1/approvals/{id}", tenant.ScopeApprove, d.getApproval, WriteError)
		g.Handle("POST /v1/approvals/{id}", tenant.ScopeApprove, d.answerApproval, WriteError)
	}
	if d.Compaction != nil {
		handle(g, map[string]gateway.Handler{"POST /v1/responses/compact": d.compact})
	}
	if d.Skills != nil {
		handle(g, map[string]gateway.Handler{
			"POST /v1/skills":                                d.createSkill,
			"GET /v1/skills":                                 d.listSkills,
			"GET /v1/skills/{id}":                            d.getSkill,
			"POST /v1/skills/{id}":                           d.updateSkill,
			"DELETE /v1/skills/{id}":                         d.deleteSkill,
			"GET /v1/skills/{id}/content":                    d.skillContent,
			"POST /v1/skills/{id}/versions":                  d.createSkillVersion,
			"GET /v1/skills/{id}/versions":                   d.listSkillVersions,
			"GET /v1/skills/{id}/versions/{version}":         d.getSkillVersion,
			"DELETE /v1/skills/{id}/versions/{version}":      d.deleteSkillVersion,
			"GET /v1/skills/{id}/versions/{version}/content": d.skillVersionContent,
		})
	}
}

func handle(g *gateway.Gateway, routes map[string]gateway.Handler) {
	for pattern, serve := range routes {
		g.Handle(pattern, tenant.ScopeRun, serve, WriteError)
	}
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	buf := answers.Get().(*[]byte)
	defer answers.Put(buf)
	raw, err := wire.AppendJSON((*buf)[:0], v)
	if err != nil {
		return err
	}
	if *buf = raw; cap(raw) > maxKept {
		*buf = nil
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(raw) + 1)}
	w.WriteHeader(status)
	w.Write(append(raw, '\n'))            // a failed write is the client's affair
	http.NewResponseController(w).Flush() // the client need not wait until the log is written; its length is known
	return nil
}

// answers are buffers for JSON bodies; a large one is not kept.
var answers = sync.Pool{New: func() any { return new([]byte) }}

const maxKept = 64 << 10

var jsonType = []string{"application/json"}
