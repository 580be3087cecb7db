package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/sse"
)

// firstBackoff is the wait before the second try where the server names none; it doubles.
const firstBackoff = 250 * time.Millisecond

// A Call is what one try sends.
type Call struct {
	Path   string
	Body   []byte
	Accept string            // empty: by whether the answer is wanted whole
	Header map[string]string // of [Server.Plain] only
	Once   bool              // it has effects: it is tried again only where it was refused before it began
}

// An Answer takes an answer as it comes. Its methods are called by one goroutine, and an error ends the answer: one of
// [Server.Told] or [Server.Broken], or any other.
type Answer interface {
	// Begin readies it for a try.
	Begin()
	// Frame takes one frame of a stream, whose data is valid until it returns. more says that the next one is there
	// already and will be read at once.
	Frame(f sse.Event, more bool) error
	// Whole takes an answer that came in one piece.
	Whole(raw []byte) error
	// End closes the answer when its stream has ended, or Over was said.
	End() error

	Said() bool // something of it has reached the consumer: no other try may follow
	Late() bool // the model has ended; what is still to come is not worth a long wait
	Over() bool // nothing more is to be read, or nobody wants it any more
	Gone() bool // nobody wants it any more
}

// Ask tries a call until its answer has begun, then follows the answer to its end. It returns nil when that was
// reached, or when nobody wants it any more. Only the first try asks for an answer in one piece: between here and the
// model something may have no patience with a long silence, or the server may do one of the two badly.
func (s *Server) Ask(ctx context.Context, whole bool, call func(whole bool) (Call, error), a Answer) error {
	if s.places != nil {
		select {
		case s.places <- struct{}{}:
			defer func() { <-s.places }()
		case <-ctx.Done():
			return s.cancelled(ctx)
		}
	}
	for try := 1; ; try++ {
		c, err := call(whole)
		if err != nil {
			return err
		}
		a.Begin()
		err = s.try(ctx, c, whole, a)
		if err == nil || a.Gone() {
			return nil
		}
		if ctx.Err() != nil {
			return s.cancelled(ctx)
		}
		f := s.failure(err)
		whole = false
		wait := max(f.wait, backoff(try))
		if a.Said() || !f.again || try >= s.o.MaxTries || wait > s.o.MaxRetryWait {
			if f.wait > 0 {
				return f.err.WithTry("again in %s", f.wait.Round(time.Second))
			}
			return f.err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return s.cancelled(ctx)
		}
	}
}

func (s *Server) cancelled(ctx context.Context) error {
	return fault.Wrap(fault.Cancelled, context.Cause(ctx), "the call of %s was cancelled", s.o.Name)
}

// backoff is the wait behind a failed try, with up to a half more so that many callers don't come back at once.
func backoff(try int) time.Duration {
	d := firstBackoff << min(try-1, 10)
	return d + rand.N(d/2)
}

// request makes a request whose body is in memory, so that the transport can send it again on a fresh connection.
func (s *Server) request(ctx context.Context, method string, c Call) (*http.Request, error) {
	var r io.Reader
	if c.Body != nil {
		r = bytes.NewReader(c.Body) // http.NewRequest derives GetBody and the length from it
	}
	req, err := http.NewRequestWithContext(ctx, method, s.o.BaseURL+c.Path, r)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the base_url of provider %s is not a URL", s.o.Name).WithCode("server_error")
	}
	if c.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Accept != "" {
		req.Header.Set("Accept", c.Accept)
	}
	for k, v := range s.o.Headers {
		if req.Header.Set(k, v); http.CanonicalHeaderKey(k) == "Host" {
			req.Host = v // the header's own is not sent
		}
	}
	if s.d.Authorize != nil {
		if err := s.d.Authorize(req, c.Body); err != nil {
			return nil, err
		}
	}
	s.secrets.sent(req.Header)
	return req, nil
}

// Bearer sends a key as most servers want it, unless the operator's headers say otherwise.
func Bearer(key string) func(*http.Request, []byte) error {
	return Header("Authorization", "Bearer ", key)
}

// Header sends a key in a header of its own, unless the operator's headers say otherwise.
func Header(name, before, key string) func(*http.Request, []byte) error {
	return func(r *http.Request, _ []byte) error {
		if key != "" && r.Header.Get(name) == "" {
			r.Header.Set(name, before+key)
		}
		return nil
	}
}

// errIdle and errNoAnswer are the causes with which a call is ended from here.
var (
	errIdle     = errors.New("no byte for too long")
	errNoAnswer = errors.New("no answer for too long")
)

// try makes one call. It returns nil when the answer has ended or nobody wants it any more.
func (s *Server) try(parent context.Context, c Call, whole bool, a Answer) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	if c.Accept == "" {
		c.Accept = "text/event-stream"
		if whole {
			c.Accept = "application/json"
		}
	}
	req, err := s.request(ctx, http.MethodPost, c)
	if err != nil {
		return err
	}
	patience := s.o.FirstByteTimeout
	if whole {
		// The head comes when the whole answer is made. Nothing tells a model that works from one that is stuck.
		patience += s.o.IdleTimeout
	}
	var begun atomic.Bool
	timer := time.AfterFunc(patience, func() {
		if begun.Load() {
			cancel(errIdle)
		} else {
			cancel(errNoAnswer)
		}
	})
	defer timer.Stop()
	res, err := s.client.Do(req)
	timer.Stop()
	if err != nil {
		if context.Cause(ctx) == errNoAnswer {
			return &failure{again: whole && !c.Once, err: fault.New(fault.Upstream, "%s did not answer within %s", s.o.Name, patience).WithCode("server_error")}
		}
		return &failure{again: !c.Once, err: s.unreachable(err)}
	}
	defer res.Body.Close()
	begun.Store(true)
	watched := &watch{src: res.Body, idle: s.o.IdleTimeout, timer: timer}
	if res.StatusCode != http.StatusOK {
		f := s.refused(res, watched)
		if whole && res.StatusCode == http.StatusBadRequest {
			f.again = strings.Contains(strings.ToLower(f.err.Message), "stream") // some models do nothing else
		}
		if c.Once {
			f.again = f.again && refusal(res.StatusCode)
		}
		return f
	}
	if err = s.follow(ctx, res, watched, a); err != nil && c.Once {
		f := s.failure(err)
		f.again = false
		return f
	}
	return err
}

// refusal says whether a status is that of a server that has not begun. Of a 500, or of a gateway that waited in vain, nobody
// knows.
func refusal(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// retriable says whether a status may be another one in a moment.
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
