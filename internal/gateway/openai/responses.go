package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func (d *Door) createResponse(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req wire.CreateRequest
	raw, err := readJSON(r, &req)
	if err != nil {
		return err
	}
	req.Raw = raw
	if err := readKey(r, &req); err != nil {
		return err
	}
	if again, err := d.again(w, r, p, &req); again || err != nil {
		return err
	}
	d.warn(w, r, p, &req)
	run, err := d.Agent.Create(r.Context(), p, &req)
	if f, ok := fault.As(err); ok && f.Code == response.CodeKeyTaken { // another request of the same name was quicker
		if again, err := d.again(w, r, p, &req); again || err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	gateway.Warn(w, req.Warnings)
	if req.InBackground() { // it lives on without its client
		if req.Streams() {
			return d.stream(w, r, run.Subscribe(-1))
		}
		return writeJSON(w, http.StatusOK, run.Response())
	}
	if req.Streams() {
		// A foreground run lives as long as its client. AfterFunc cancels it at once, whatever this goroutine waits for. One
		// without a stream has ended by now: Create has seen to it.
		stop := context.AfterFunc(r.Context(), func() { run.Abandon(r.Context(), response.ErrClientGone) })
		defer stop()
		err = d.stream(w, r, run.Subscribe(-1))
	} else {
		err = d.wait(w, r, d.attend(p, run))
	}
	if err != nil {
		run.Cancel(response.ErrClientGone) // nobody will read the rest; a finished run does not mind
		go run.Abandon(context.WithoutCancel(r.Context()), response.ErrClientGone)
	}
	return err
}

// maxKey bounds an Idempotency-Key.
const maxKey = 255

// readKey takes the request's name from its header.
func readKey(r *http.Request, req *wire.CreateRequest) error {
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		return nil
	}
	plain := func(c rune) bool { return c >= 0x20 && c < 0x7f }
	if len(keys) > 1 || keys[0] == "" || len(keys[0]) > maxKey || strings.ContainsFunc(keys[0], func(c rune) bool { return !plain(c) }) {
		return fault.New(fault.Invalid, "Idempotency-Key must be one header of 1 to %d printable ASCII characters.", maxKey).
			WithCode("invalid_value").WithParam("Idempotency-Key")
	}
	sum := sha256.Sum256(req.Raw)
	req.Key, req.Digest = keys[0], hex.EncodeToString(sum[:])
	return nil
}

// again answers a request whose name has begun a response before with that response, as this request wants it. It says
// whether there was one.
func (d *Door) again(w http.ResponseWriter, r *http.Request, p tenant.Principal, req *wire.CreateRequest) (bool, error) {
	if req.Key == "" {
		return false, nil
	}
	id, err := d.Responses.Keyed(r.Context(), p.Org, req.Key, req.Digest)
	if id == "" || err != nil {
		if err != nil {
			gateway.NoRetry(w) // what the name stands for may have run
		}
		return false, err
	}
	switch {
	case req.Streams():
		events, err := d.Responses.Subscribe(r.Context(), p.Org, id, -1)
		if err != nil {
			return true, err
		}
		return true, d.stream(w, r, events)
	case req.InBackground():
		resp, err := d.Responses.Get(r.Context(), p.Org, id)
		if err != nil {
			return true, err
		}
		return true, writeJSON(w, http.StatusOK, resp)
	}
	err = d.wait(w, r, func(ctx context.Context) (*wire.Response, error) { return d.Responses.Attend(ctx, p.Org, id, d.Bell()) })
	if err != nil {
		gateway.NoRetry(w) // the same name gives the same failure, also where another request might do better
	}
	return true, err
}

// wait answers with the finished response, or with one that waits for an approval as it stands.
func (d *Door) wait(w http.ResponseWriter, r *http.Request, ended func(context.Context) (*wire.Response, error)) error {
	resp, err := ended(r.Context())
	switch {
	case r.Context().Err() != nil: // the run may have ended, by that or just before: there is nobody to tell
		return response.ErrClientGone
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

func (d *Door) getResponse(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q := r.URL.Query()
	if err := checkInclude(q); err != nil {
		return err
	}
	stream, err := queryBool(q, "stream")
	if err != nil {
		return err
	}
	if !stream && r.ContentLength > 0 {
		// openai-go's GetStreaming says so in a body, and only there. Any other body of a GET means nothing.
		var said struct {
			Stream bool `json:"stream"`
		}
		if raw, err := gateway.ReadBody(r); err != nil {
			return err
		} else if json.Unmarshal(raw, &said) == nil {
			stream = said.Stream
		}
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
	page, err := readItemPage(r.URL.Query())
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
