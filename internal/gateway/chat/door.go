// Package chat is the plain door of OpenAI's Chat Completions API: a model's words and the client's own functions, behind
// every provider.
//
// It has no tools of the server's: what asks for one is told at which door it works. It keeps nothing. What holds: every
// stream that was accepted ends with [DONE] or with an error that says why; a client that goes away cancels its answer.
package chat

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Agent begins an answer and works on it in the background of the call.
type Agent interface {
	Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (Run, error)
}

// Run is an answer that this process works on.
type Run interface {
	ID() string
	Cancel(cause error)
	Subscribe(after int64) Stream
}

// Stream hands out the events of one answer, in order. io.EOF follows the terminal event.
type Stream interface {
	Next(ctx context.Context) ([]response.Frame, error)
	Close()
}

// Creator is the real agent, which gives out concrete runs.
type Creator interface {
	Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (*response.Run, error)
}

// Rooms makes a door of the real agent.
func Rooms(agent Creator) Door { return Door{Agent: creating{agent}} }

type creating struct{ agent Creator }

func (c creating) Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (Run, error) {
	run, err := c.agent.Create(ctx, p, req)
	if err != nil {
		return nil, err
	}
	return running{run}, nil
}

type running struct{ *response.Run }

func (r running) Subscribe(after int64) Stream { return r.Run.Subscribe(after) }

// Door is the rooms behind the API.
type Door struct {
	Agent     Agent
	Keepalive time.Duration    // silence after which a stream gets a comment; 0 = 10 s
	Now       func() time.Time // nil = time.Now
}

const defaultKeepalive = 10 * time.Second

// Register adds the door's route to g. errs writes the vendor's envelope, which another door has.
func Register(g *gateway.Gateway, d Door, errs gateway.ErrorWriter) {
	if d.Keepalive <= 0 {
		d.Keepalive = defaultKeepalive
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	g.Handle("POST /v1/chat/completions", tenant.ScopeRun, d.create, errs)
}

func (d *Door) create(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	a, err := readAsked(r)
	if err != nil {
		return err
	}
	run, err := d.Agent.Create(r.Context(), p, &a.request)
	if err != nil {
		return err
	}
	gateway.Warn(w, a.request.Warnings)
	stop := context.AfterFunc(r.Context(), func() { run.Cancel(response.ErrClientGone) })
	defer stop()
	t := &teller{asked: a, head: head{ID: "chatcmpl-" + run.ID()[len("resp_"):], Created: d.Now().Unix(), Model: a.request.Model},
		stops: gateway.Stops{Sequences: a.stops}, calls: map[int]int{}}
	var out *packer
	if a.stream {
		out = newPacker(w, d.Keepalive)
		defer out.close()
	}
	err = follow(r, run, t, out)
	switch {
	case err == nil && out != nil:
		return out.finish(t.last())
	case err == nil:
		return writeJSON(w, t.whole())
	}
	run.Cancel(response.ErrClientGone) // nobody will read the rest; a finished run does not mind
	if out != nil {
		out.close() // from here on no comment reads the head of the answer
	}
	if r.Context().Err() != nil {
		return response.ErrClientGone
	}
	if fault.KindOf(err) != fault.RateLimited {
		gateway.NoRetry(w) // what may pass was asked for again already
	}
	if out != nil && out.fail(err) {
		gateway.Told(w, r, err)
		return nil
	}
	return err
}

// follow tells a run's events, to their end.
func follow(r *http.Request, run Run, t *teller, out *packer) error {
	events := run.Subscribe(-1)
	defer events.Close()
	for !t.stopped {
		frames, err := events.Next(r.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		for i := 0; err == nil && i < len(frames) && !t.stopped; i++ {
			err = t.take(frames[i])
		}
		if err == nil && out != nil {
			err = out.send(t.ready())
		}
		if err != nil {
			return err
		}
	}
	if t.stopped {
		run.Cancel(errStopped)
	}
	return t.ending()
}

var errStopped = fault.New(fault.Cancelled, "A stop sequence was reached.")

func writeJSON(w http.ResponseWriter, v any) error {
	raw, err := openai.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(raw)+1))
	w.WriteHeader(http.StatusOK)
	w.Write(append(raw, '\n')) // a failed write is the client's affair
	return nil
}
