package openai

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// errClientGone is why a foreground run is cancelled when its client hangs up.
var errClientGone = fault.New(fault.Cancelled, "The client closed the connection.").WithCode("client_disconnected")

func (d *Door) createResponse(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req wire.CreateRequest
	raw, err := readJSON(r, &req)
	if err != nil {
		return err
	}
	req.Raw = raw
	if isTrue(req.Background) {
		return fault.New(fault.Unsupported, "background responses are not served yet.").WithCode("unsupported_parameter").
			WithParam("background").WithTry("the same request without background, with stream: true")
	}
	run, err := d.Agent.Create(r.Context(), p, &req)
	if err != nil {
		return err
	}
	// A foreground run lives as long as its client. AfterFunc cancels it at once, whatever this goroutine waits for.
	stop := context.AfterFunc(r.Context(), func() { run.Cancel(errClientGone) })
	defer stop()
	if isTrue(req.Stream) {
		err = d.stream(w, r, run.Subscribe(-1))
	} else {
		err = d.wait(w, r, run)
	}
	if err != nil {
		run.Cancel(errClientGone) // nobody will read the rest; a finished run does not mind
	}
	return err
}

// wait answers with the finished response.
func (d *Door) wait(w http.ResponseWriter, r *http.Request, run Run) error {
	resp, err := run.Wait(r.Context())
	switch {
	case r.Context().Err() != nil: // the run may have ended, by that or just before: there is nobody to tell
		return errClientGone
	case err != nil:
		gateway.NoRetry(w) // a command may have run; a client that asks again would run it again
		return err
	}
	if f := barren(resp); f != nil {
		if f.Kind != fault.RateLimited {
			gateway.NoRetry(w) // what may pass was asked for again already, before the provider was given up
		}
		return f
	}
	return writeJSON(w, http.StatusOK, resp)
}

// barren turns a response that failed before it had any output into the HTTP error that the vendor would answer
// with, so that a caller who looks only at the text does not take failure for silence. A failure after output is
// told in the object, which holds what was done.
func barren(resp *wire.Response) *fault.Error {
	if resp.Status != wire.Failed || len(resp.Output) > 0 || resp.Error == nil {
		return nil
	}
	kind := fault.Upstream
	if resp.Error.Code == "rate_limit_exceeded" {
		kind = fault.RateLimited
	}
	return fault.New(kind, "%s", resp.Error.Message).WithCode(resp.Error.Code)
}

func isTrue(b *bool) bool { return b != nil && *b }

func (d *Door) getResponse(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q := r.URL.Query()
	stream, err := queryBool(q, "stream")
	if err != nil {
		return err
	}
	after := int64(-1)
	if s := q.Get("starting_after"); s != "" {
		after, err = strconv.ParseInt(s, 10, 64)
		if err != nil || after < 0 {
			return fault.New(fault.Invalid, "starting_after must be the sequence number of an event, from 0.").
				WithCode("invalid_value").WithParam("starting_after")
		}
	}
	if stream {
		sub, err := d.Responses.Subscribe(r.Context(), p.Org, r.PathValue("id"), after)
		if err != nil {
			return err
		}
		return d.stream(w, r, sub)
	}
	resp, err := d.Responses.Get(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, resp)
}

func (d *Door) deleteResponse(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	if err := d.Responses.Delete(r.Context(), p.Org, id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Deleted{ID: id, Object: "response", Deleted: true})
}

// cancelResponse serves background responses only, as the vendor does: a foreground one ends with its connection.
func (d *Door) cancelResponse(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	resp, err := d.Responses.Get(r.Context(), p.Org, id)
	if err != nil {
		return err
	}
	if !resp.Background {
		return fault.New(fault.Invalid, "Only a background response can be cancelled by request.").
			WithCode("response_not_background").WithTry("closing the connection that created it")
	}
	if resp, err = d.Responses.Cancel(r.Context(), p.Org, id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, resp)
}

func (d *Door) listInputItems(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	page, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	items, err := d.Responses.InputItems(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	items = slices.Clone(items)
	if page.order == "desc" {
		slices.Reverse(items)
	}
	if page.after != "" {
		at := slices.IndexFunc(items, func(i wire.Item) bool { return i.ID == page.after })
		if at < 0 {
			return fault.New(fault.Invalid, "after names no item of this response.").WithCode("invalid_value").WithParam("after")
		}
		items = items[at+1:]
	}
	more := len(items) > page.limit
	items = items[:min(len(items), page.limit)]
	return writeJSON(w, http.StatusOK, wire.NewList(items, more, func(i wire.Item) string { return i.ID }))
}
