package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// maxTries is the first try and two more, all before the first event.
	maxTries = 3
	// firstBackoff is the wait before the second try where the server names none; it doubles.
	firstBackoff = 250 * time.Millisecond
	// maxErrorBody bounds what is read of an error's body.
	maxErrorBody = 64 << 10
	// maxWhole bounds an answer that came whole though a stream was asked for.
	maxWhole = 32 << 20
	// maxList bounds a list of models.
	maxList = 8 << 20
	// drain bounds the wait for the end of a body behind [DONE]: a body read to its end leaves a connection to use again.
	drain = 50 * time.Millisecond
	// lateUsage bounds the wait for a usage chunk behind the finish_reason, for servers that never end the stream.
	lateUsage = 10 * time.Second
)

// newClient makes a client for streams: many idle connections, no compression (it would buffer small chunks), no
// overall time limit. Redirects are refused: they would carry custom headers, which may be secrets, elsewhere.
func newClient(o Options) *http.Client {
	c := &http.Client{}
	if o.Client != nil {
		*c = *o.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if c.Transport == nil {
		dialer := &net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 30 * time.Second}
		c.Transport = &http.Transport{
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
	}
	return c
}

// request makes a request whose body is in memory, so that the transport can send it again on a fresh connection.
func (p *Provider) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body) // http.NewRequest derives GetBody and the length from it
	}
	req, err := http.NewRequestWithContext(ctx, method, p.o.BaseURL+path, r)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the base_url of provider %s is not a URL", p.o.Name).WithCode("server_error")
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
	}
	if p.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+p.o.APIKey)
	}
	for k, v := range p.o.Headers {
		req.Header.Set(k, v)
	}
	return req, nil
}

// failure is how a try ended without the turn having ended.
type failure struct {
	err   *fault.Error
	again bool          // another try may help
	wait  time.Duration // what the server asked for, 0 if nothing
}

// stream tries the call until it has begun to answer, then follows the answer to its end. Only the first try asks for
// the answer in one piece: between here and the model something may have no patience with a long silence, or the
// server may do one of the two badly.
func (p *Provider) stream(ctx context.Context, r llm.Request, yield func(openai.Event, error) bool) {
	turn := llm.NewTurn(yield, p.mint)
	for try := 1; ; try++ {
		body, err := p.dialect.Body(r)
		if err != nil {
			turn.Fail(err)
			return
		}
		f := p.try(ctx, body, r.Whole, turn)
		if f == nil || turn.Gone() {
			return
		}
		if ctx.Err() != nil {
			turn.Fail(fault.Wrap(fault.Cancelled, context.Cause(ctx), "the call of %s was cancelled", p.o.Name))
			return
		}
		r.Whole = false
		wait := max(f.wait, backoff(try))
		if turn.Items() > 0 || !f.again || try == maxTries || wait > p.o.MaxRetryWait {
			if f.wait > 0 {
				f.err = f.err.WithTry("again in %s", f.wait.Round(time.Second))
			}
			turn.Fail(f.err)
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// backoff is the wait behind a failed try, with up to a half more so that many callers don't come back at once.
func backoff(try int) time.Duration {
	d := firstBackoff << (try - 1)
	return d + rand.N(d/2)
}

// errIdle and errNoAnswer are the causes with which a call is ended from here.
var (
	errIdle     = errors.New("no byte for too long")
	errNoAnswer = errors.New("no answer for too long")
)

// try makes one call. It returns nil when the turn has ended or nobody wants it any more.
func (p *Provider) try(parent context.Context, body []byte, whole bool, turn *llm.Turn) *failure {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	req, err := p.request(ctx, http.MethodPost, "/chat/completions", body)
	if err != nil {
		e, _ := fault.As(err)
		return &failure{err: e}
	}
	patience := p.o.FirstByteTimeout
	if whole {
		// The head comes when the whole answer is made. Nothing tells a model that works from one that is stuck.
		req.Header.Set("Accept", "application/json")
		patience += p.o.IdleTimeout
	}
	head := time.AfterFunc(patience, func() { cancel(errNoAnswer) })
	res, err := p.client.Do(req)
	head.Stop()
	if err != nil {
		if context.Cause(ctx) == errNoAnswer {
			return &failure{err: fault.New(fault.Upstream, "%s did not answer within %s", p.o.Name, patience).WithCode("server_error"), again: whole}
		}
		return &failure{err: connectError(p.o.Name, err, p.secrets), again: true}
	}
	defer res.Body.Close()
	watched := &watch{src: res.Body, idle: p.o.IdleTimeout}
	watched.timer = time.AfterFunc(p.o.IdleTimeout, func() { cancel(errIdle) })
	defer watched.timer.Stop()
	if res.StatusCode != http.StatusOK {
		f := p.refused(res, watched)
		if whole && res.StatusCode == http.StatusBadRequest {
			f.again = strings.Contains(strings.ToLower(f.err.Message), "stream") // some models do nothing else
		}
		return f
	}
	return p.follow(ctx, res, watched, turn)
}

// refused reads an answer that is an error by its status.
func (p *Provider) refused(res *http.Response, body io.Reader) *failure {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return &failure{err: fault.New(fault.Upstream, "%s answered with a redirect (HTTP %d), which is not followed", p.o.Name, res.StatusCode).
			WithCode("server_error").WithTry("give the final address as the provider's base_url")}
	}
	raw, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	e := parseError(raw)
	if e == (errorObject{}) && !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
		e.message = string(raw)
	}
	f := &failure{err: upstreamError(p.o.Name, res.StatusCode, e, p.secrets)}
	f.again = retriable(res.StatusCode) && e.code != "insufficient_quota"
	if f.again {
		f.wait = retryAfter(res.Header, time.Now())
	}
	return f
}

func retriable(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout ||
		status >= 500 && status != http.StatusNotImplemented
}

// retryAfter reads the wait that a server asks for, in seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return time.Duration(min(ms, 1e9) * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 {
		return time.Duration(min(s, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// watch is a body whose reader is bounded in its patience: the timer ends the call when no byte comes for too long.
// The time in which the consumer does not read does not count.
type watch struct {
	src   io.Reader
	timer *time.Timer
	idle  time.Duration
}

func (w *watch) Read(b []byte) (int, error) {
	w.timer.Reset(w.idle)
	n, err := w.src.Read(b)
	w.timer.Stop()
	return n, err
}

// models asks the server what it has.
func (p *Provider) models(ctx context.Context) ([]openai.Model, error) {
	req, err := p.request(ctx, http.MethodGet, "/models", nil)
	if err != nil {
		return nil, err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return nil, connectError(p.o.Name, err, p.secrets)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, p.refused(res, res.Body).err
	}
	var l struct {
		Data []struct {
			ID      string  `json:"id"`
			Created float64 `json:"created"` // some write fractions
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxList)).Decode(&l); err != nil {
		return nil, fault.Wrap(fault.Upstream, err, "%s sent a list of models that cannot be read", p.o.Name)
	}
	models := make([]openai.Model, 0, len(l.Data))
	for _, m := range l.Data {
		if m.ID != "" {
			models = append(models, openai.Model{ID: m.ID, Object: "model", Created: int64(m.Created), OwnedBy: p.o.Name})
		}
	}
	return models, nil
}

// Models implements [llm.Provider]: the configured list, or the server's.
func (p *Provider) Models(ctx context.Context) ([]openai.Model, error) {
	if len(p.o.Models) == 0 {
		models, err := p.models(ctx)
		if err != nil {
			return nil, fmt.Errorf("list models of %s: %w", p.o.Name, err)
		}
		return models, nil
	}
	models := make([]openai.Model, len(p.o.Models))
	for i, name := range p.o.Models {
		models[i] = openai.Model{ID: strings.TrimPrefix(name, p.o.Name+"/"), Object: "model", OwnedBy: p.o.Name}
	}
	return models, nil
}
