package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	// maxTries is the first try and two more, all before the first event.
	maxTries = 3
	// firstBackoff is the wait before the second try where the server names none; it doubles.
	firstBackoff = 250 * time.Millisecond
	// maxPauses bounds how often an answer may pause in one turn.
	maxPauses = 10
	// maxErrorBody bounds what is read of an error's body.
	maxErrorBody = 64 << 10
	// maxPages bounds the pages of a list of models, of up to maxList bytes each.
	maxPages = 20
	maxList  = 8 << 20
)

// newClient makes a client for streams: many idle connections, no compression (it would buffer small events), no
// overall time limit. Redirects are refused: they would carry the key elsewhere.
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
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.o.BaseURL+path, r)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the base_url of provider %s is not a URL", p.o.Name).WithCode("server_error")
	}
	req.Header.Set("Anthropic-Version", p.o.Version)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.o.APIKey != "" {
		if p.o.Auth == "bearer" {
			req.Header.Set("Authorization", "Bearer "+p.o.APIKey)
		} else {
			req.Header.Set("X-Api-Key", p.o.APIKey)
		}
	}
	for k, v := range p.o.Headers {
		req.Header.Set(k, v)
	}
	return req, nil
}

// failure is how a try ended without the answer having ended.
type failure struct {
	err   *fault.Error
	again bool          // another try may help
	wait  time.Duration // what the server asked for, 0 if nothing
}

// stream asks for a turn. An answer that pauses is sent back, so that the model goes on in the same turn.
func (p *Provider) stream(ctx context.Context, r llm.Request, yield func(openai.Event, error) bool) {
	req, names, err := p.dialect.request(r)
	if err != nil {
		yield(nil, err)
		return
	}
	s := newSealer(p.o.Name, yield, p.mint)
	d := &decoder{turn: s.turn, seal: s, names: names, provider: p.o.Name, secrets: p.secrets}
	history := req.Messages
	for range maxPauses {
		paused, err := p.ask(ctx, req, d)
		switch {
		case d.turn.Gone():
			return
		case err != nil:
			d.turn.Fail(err)
			return
		case !paused:
			d.finish()
			return
		}
		var said wire.Content
		for _, piece := range d.content {
			if b, ok := piece.block(); ok {
				said = append(said, b)
			}
		}
		req.Messages = append(history[:len(history):len(history)], wire.Message{Role: "assistant", Content: said})
	}
	d.turn.Fail(fault.New(fault.Upstream, "%s paused its answer %d times", p.o.Name, maxPauses).WithCode("server_error"))
}

// ask tries a call until it has begun to answer, then follows the answer to its end. Only the first try asks for the
// answer in one piece: something between here and the model may have no patience with a long silence.
func (p *Provider) ask(ctx context.Context, req *wire.Request, d *decoder) (paused bool, err error) {
	for try := 1; ; try++ {
		body, err := encode(req)
		if err != nil {
			return false, err
		}
		d.begin()
		f := p.try(ctx, body, !req.Stream, d)
		if f == nil || d.turn.Gone() {
			return d.stop == wire.StopPauseTurn, nil
		}
		if ctx.Err() != nil {
			return false, fault.Wrap(fault.Cancelled, context.Cause(ctx), "the call of %s was cancelled", p.o.Name)
		}
		req.Stream = true
		wait := max(f.wait, backoff(try))
		if d.said || !f.again || try == maxTries || wait > p.o.MaxRetryWait {
			if f.wait > 0 {
				f.err = f.err.WithTry("again in %s", f.wait.Round(time.Second))
			}
			return false, f.err
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

// try makes one call. It returns nil when the answer has ended or nobody wants it any more.
func (p *Provider) try(parent context.Context, body []byte, whole bool, d *decoder) *failure {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	req, err := p.request(ctx, http.MethodPost, "/v1/messages", body)
	if err != nil {
		return p.told(err)
	}
	patience := p.o.FirstByteTimeout
	if whole {
		patience += p.o.IdleTimeout // the head comes when the whole answer is made
	}
	head := time.AfterFunc(patience, func() { cancel(errNoAnswer) })
	res, err := p.client.Do(req)
	head.Stop()
	if err != nil {
		if context.Cause(ctx) == errNoAnswer {
			return &failure{again: whole, err: fault.New(fault.Upstream, "%s did not answer within %s", p.o.Name, patience).WithCode("server_error")}
		}
		return &failure{err: p.unreachable(err), again: true}
	}
	defer res.Body.Close()
	watched := &watch{src: res.Body, idle: p.o.IdleTimeout}
	watched.timer = time.AfterFunc(p.o.IdleTimeout, func() { cancel(errIdle) })
	defer watched.timer.Stop()
	if res.StatusCode != http.StatusOK {
		return p.refused(res, watched)
	}
	return p.follow(ctx, res, watched, d)
}

// unreachable is the fault for a request that got no answer. The URL is left out: it may hold a secret.
func (p *Provider) unreachable(err error) *fault.Error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fault.Wrap(fault.Upstream, errors.New(clean(err.Error(), p.secrets)), "%s cannot be reached", p.o.Name).
		WithCode("server_error").WithTry("check that it runs, and the provider's base_url")
}

// refused reads an answer that is an error by its status.
func (p *Provider) refused(res *http.Response, body io.Reader) *failure {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return &failure{err: fault.New(fault.Upstream, "%s answered with a redirect (HTTP %d), which is not followed", p.o.Name, res.StatusCode).
			WithCode("server_error").WithTry("give the final address as the provider's base_url")}
	}
	raw, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // a cut body says less, and the status says enough
	e := parseError(raw)
	if e == (errorObject{}) && !bytes.HasPrefix(bytes.TrimSpace(raw), []byte("<")) {
		e.message = string(raw)
	}
	f := &failure{err: upstreamError(p.o.Name, res.StatusCode, e, p.secrets)}
	f.again = res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusRequestTimeout ||
		res.StatusCode >= 500 && res.StatusCode != http.StatusNotImplemented
	if should, err := strconv.ParseBool(res.Header.Get("X-Should-Retry")); err == nil {
		f.again = should
	}
	if f.again {
		f.wait = retryAfter(res.Header, time.Now())
	}
	return f
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

// models asks the server what it has, page by page.
func (p *Provider) models(ctx context.Context) ([]openai.Model, error) {
	var models []openai.Model
	query := "?limit=1000"
	for range maxPages {
		l, err := p.page(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, m := range l.Data {
			if m.ID == "" {
				continue
			}
			out := openai.Model{ID: m.ID, Object: "model", OwnedBy: p.o.Name}
			if at, err := time.Parse(time.RFC3339, m.CreatedAt); err == nil {
				out.Created = max(0, at.Unix())
			}
			models = append(models, out)
		}
		if !l.HasMore || l.LastID == nil {
			break
		}
		query = "?limit=1000&after_id=" + url.QueryEscape(*l.LastID)
	}
	return models, nil
}

func (p *Provider) page(ctx context.Context, query string) (*wire.ModelList, error) {
	req, err := p.request(ctx, http.MethodGet, "/v1/models"+query, nil)
	if err != nil {
		return nil, err
	}
	res, err := p.client.Do(req)
	if err != nil {
		return nil, p.unreachable(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, p.refused(res, res.Body).err
	}
	var l wire.ModelList
	if err := json.NewDecoder(io.LimitReader(res.Body, maxList)).Decode(&l); err != nil {
		return nil, fault.Wrap(fault.Upstream, errors.New(clean(err.Error(), p.secrets)), "%s sent a list of models that cannot be read", p.o.Name)
	}
	return &l, nil
}

// told is the failure for an error that the server told or that its answer is.
func (p *Provider) told(err error) *failure {
	e, ok := fault.As(err)
	if !ok {
		e = fault.Wrap(fault.Upstream, errors.New(clean(err.Error(), p.secrets)), "%s failed", p.o.Name)
	}
	return &failure{err: e, again: e.Kind == fault.Upstream && (e.Code == "server_error" || e.Code == "rate_limit_exceeded") &&
		!strings.Contains(e.Message, "refused the key")}
}
