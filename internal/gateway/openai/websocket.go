package openai

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// connectSocket serves responses over a WebSocket: each message asks for one, each event of it is a message, in the bytes
// that a stream has behind `data:`. Messages are answered one after the other, in order. What is refused, an unreadable
// message too, is answered by an error event and ends nothing.
func (d *Door) connectSocket(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	s, err := gateway.Upgrade(w, r, d.Keepalive)
	if err != nil {
		return err
	}
	t := &talk{door: d, socket: s, memory: memory{most: s.Limit()}}
	for {
		m, err := s.Next()
		if errors.Is(err, gateway.ErrStopping) {
			s.Close(gateway.CloseRestart, "the server is stopping")
		}
		if err != nil || !t.answer(m) {
			return nil
		}
	}
}

// talk is one connection. It is one goroutine's.
type talk struct {
	door   *Door
	socket *gateway.Socket
	memory memory
}

// answer answers one message. It says whether the connection goes on.
func (t *talk) answer(m gateway.Message) bool {
	id, ended := t.socket.Begin()
	p, err := t.socket.Principal()
	if err != nil {
		ended(err)
		t.refuse(id, "", noEvent, err)
		t.socket.Close(gateway.ClosePolicy, "the key is not valid any more")
		return false
	}
	lane, last, err := t.turn(p, m)
	ended(err)
	if err != nil && t.socket.Context().Err() == nil {
		t.refuse(id, lane, last, err)
	}
	return t.socket.Context().Err() == nil
}

// errorEvent is how a refusal is told. Its number, if it has one, is that of the last event of a response that broke off.
type errorEvent struct {
	Type   string           `json:"type"`
	Status int              `json:"status"`
	Number *int64           `json:"sequence_number,omitempty"`
	Error  wire.ErrorObject `json:"error"`
	Lane   string           `json:"stream_id,omitempty"`
}

// noEvent is the number of the last event before there is one.
const noEvent = -1

func (t *talk) refuse(requestID, lane string, last int64, err error) {
	ev := errorEvent{Type: "error", Status: gateway.Describe(err, requestID).Status, Error: errorObject(err, requestID), Lane: lane}
	if last != noEvent {
		ev.Number = &last
	}
	if text, err := wire.Marshal(ev); err == nil { // strings always marshal
		t.socket.Send(text) // one that is gone is seen by its reader
	}
}

// turn runs one response and says all its events. lane and last are for the error event.
func (t *talk) turn(p tenant.Principal, m gateway.Message) (lane string, last int64, err error) {
	if m.Err != nil {
		return "", noEvent, m.Err
	}
	req, lane, err := readEvent(m.Text)
	if err != nil {
		return lane, noEvent, err
	}
	if t.socket.Stopping() {
		return lane, noEvent, gateway.ErrStopping
	}
	terminal := ""
	if id := req.PreviousResponseID; id != nil {
		req.Carried = t.memory.find(*id)
		defer func() {
			if failed(err) || terminal == wire.EventFailed {
				t.memory.forget(*id) // nobody goes on from it: the client starts anew with what it knows
			}
		}()
	}
	ctx := t.socket.Context()
	run, err := t.door.Agent.Create(ctx, p, req)
	if err != nil {
		return lane, noEvent, err
	}
	if !req.InBackground() {
		// A foreground run lives as long as its client. AfterFunc cancels it at once, whatever this goroutine waits for.
		stop := context.AfterFunc(ctx, func() { run.Abandon(ctx, response.ErrClientGone) })
		defer stop()
	}
	if terminal, last, err = t.follow(ctx, run); err != nil {
		if !req.InBackground() {
			run.Cancel(response.ErrClientGone) // nobody reads the rest; a finished run does not mind
			go run.Abandon(context.WithoutCancel(ctx), response.ErrClientGone)
		}
		return lane, last, err
	}
	if req.Store == nil || *req.Store {
		return lane, last, nil
	}
	end, err := run.Wait(ctx) // it has ended
	if err == nil && end.Status != wire.Failed && end.Status != wire.Cancelled {
		t.memory.keep(end, req.Carried, run.Input())
	}
	return lane, last, err
}

// failed says whether an error is one of a request or of a server, and not of a connection.
func failed(err error) bool { return err != nil && fault.KindOf(err) != fault.Cancelled }

// follow says a run's events until its terminal one. last is the number of the last that was said, and kind its type.
func (t *talk) follow(ctx context.Context, run Run) (kind string, last int64, err error) {
	last = noEvent
	events := run.Subscribe(-1)
	defer events.Close()
	for {
		frames, err := events.Next(ctx)
		if errors.Is(err, io.EOF) {
			return kind, last, nil
		}
		if ctx.Err() != nil {
			return kind, last, response.ErrClientGone
		}
		if err != nil {
			return kind, last, err
		}
		for _, f := range frames {
			if err := t.socket.Send(f.Data); err != nil {
				return kind, last, response.ErrClientGone
			}
			kind, last = f.Type, f.Seq
		}
	}
}
