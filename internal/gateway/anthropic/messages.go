package anthropic

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

func (d *Door) createMessage(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	a, err := readAsked(r, false)
	if err != nil {
		return err
	}
	run, err := d.Agent.Create(r.Context(), p, &a.request)
	if err != nil {
		return err
	}
	gateway.Warn(w, a.request.Warnings)
	// The answer lives as long as its client. AfterFunc cancels it at once, whatever this goroutine waits for.
	stop := context.AfterFunc(r.Context(), func() { run.Cancel(response.ErrClientGone) })
	defer stop()
	open := wire.Response{ID: messageID(run.ID()), Type: "message", Role: "assistant", Model: a.request.Model, Content: wire.Content{},
		Usage: wire.Usage{InputTokens: tokensOf(&a.request)}}
	var out answer
	if a.stream {
		out = newPacker(w, d.Ping, open)
	} else {
		out = &collector{w: w, message: open}
	}
	defer out.close()
	t := newTeller(a, out.event)
	end, err := d.follow(r, p, run, t, out)
	if err == nil {
		return out.finish(end)
	}
	run.Cancel(response.ErrClientGone) // nobody will read the rest; a finished run does not mind
	out.close()                        // from here on no ping reads the head of the answer
	if r.Context().Err() != nil {
		return response.ErrClientGone
	}
	if kind := fault.KindOf(err); t.next > 0 || kind != fault.RateLimited && kind != fault.Unavailable {
		gateway.NoRetry(w) // a command may have run; a client that asks again would run it again
	}
	if out.fail(err) {
		gateway.Told(w, r, err)
		return nil
	}
	return err
}

// readAsked reads a request.
func readAsked(r *http.Request, counting bool) (*asked, error) {
	version, err := readVersion(r)
	if err != nil {
		return nil, err
	}
	m, err := readMessages(r)
	if err != nil {
		return nil, err
	}
	return translate(m, version, counting)
}

func (d *Door) countTokens(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	a, err := readAsked(r, true)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.TokenCount{InputTokens: tokensOf(&a.request)})
}

// answer is how a message reaches its client: as it comes, or in one piece.
type answer interface {
	event(wire.Event)
	// flush sends what was told since the last time.
	flush() error
	// finish ends the message, fail says why there is no more of it. An error that fail has not told is still to be answered.
	finish(end wire.Event) error
	fail(err error) (told bool)
	// close has nothing more be told in silence.
	close()
}

// follow tells a run's events to the client, and returns the event that ends the message.
func (d *Door) follow(r *http.Request, p tenant.Principal, run Run, t *teller, out answer) (end wire.Event, err error) {
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
		if err == nil {
			err = out.flush()
		}
		if err != nil {
			return end, err
		}
	}
	if t.stopped {
		run.Cancel(errStopped) // what the model would say behind a stop sequence nobody reads
	}
	stop, err := t.ending()
	if err != nil {
		return end, err
	}
	return d.end(r.Context(), p, t, stop), nil
}

var errStopped = fault.New(fault.Cancelled, "A stop sequence was reached.")

// end is the event that ends a message.
func (d *Door) end(ctx context.Context, p tenant.Principal, t *teller, stop string) wire.Event {
	ev := wire.Event{Type: wire.EventMessageDelta, Delta: wire.Delta{StopReason: &stop}, Usage: &wire.UsageUpdate{}}
	if t.stopped {
		ev.Delta.StopSequence = &t.scan.Found
		n := t.spoken
		ev.Usage.OutputTokens = &n // the upstream was broken off before it told
		return ev
	}
	if t.end.Usage != nil {
		u := usageOf(t.end.Usage)
		ev.Usage = &wire.UsageUpdate{InputTokens: &u.InputTokens, OutputTokens: &u.OutputTokens, CacheCreationTokens: u.CacheCreationTokens,
			CacheReadTokens: u.CacheReadTokens, OutputDetails: u.OutputDetails}
	} else {
		n := t.spoken
		ev.Usage.OutputTokens = &n
	}
	if id := t.end.ContainerID; id != "" {
		c, err := d.Containers.Get(ctx, p.Org, id)
		if err == nil {
			ev.Delta.Container = &wire.Container{ID: id, ExpiresAt: c.Expires().UTC().Format(time.RFC3339)}
		}
	}
	return ev
}
