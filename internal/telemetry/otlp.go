package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/terminal"
)

// OTLPOptions say where telemetry goes, over OTLP/HTTP with JSON.
type OTLPOptions struct {
	Endpoint string            // such as http://127.0.0.1:4318; /v1/metrics and /v1/logs are below it
	Headers  map[string]string // such as an API key's; never logged
	Service  string            // empty is hardshell
	Version  string            // of the program; empty is not told
	Interval time.Duration     // between two deliveries; 0 is a minute
	Queue    int               // events that wait for delivery; 0 is 1,000. Beyond it the oldest go, and are counted
	Mask     func(string) string
	Client   *http.Client
	Log      *slog.Logger // nil is nobody
}

// OTLP delivers metrics, and events as log records: what began, how it ended, with a masked preview of the output. It is
// a [terminal.Observer] that never waits; a collector that is away costs events, which are counted, and no memory.
type OTLP struct {
	o       OTLPOptions
	metrics *Metrics
	base    string

	mu    sync.Mutex
	queue []logRecord
	more  chan struct{} // filled when half of the queue waits
	ended bool
}

const (
	otlpLimit    = 10 * time.Second // for one delivery
	otlpLast     = 2 * time.Second  // for what a stopping program waits for
	otlpInterval = time.Minute
	otlpQueue    = 1000
	otlpBatch    = 200
)

// NewOTLP returns an exporter of a metrics' counters. Run delivers.
func NewOTLP(m *Metrics, o OTLPOptions) (*OTLP, error) {
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
		return nil, fault.New(fault.Invalid, "the OTLP endpoint is no http or https address").WithTry("such as http://127.0.0.1:4318")
	}
	if o.Service == "" {
		o.Service = "hardshell"
	}
	if o.Interval <= 0 {
		o.Interval = otlpInterval
	}
	if o.Queue <= 0 {
		o.Queue = otlpQueue
	}
	if o.Mask == nil {
		o.Mask = Redact
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: otlpLimit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Log == nil {
		o.Log = Discard()
	}
	return &OTLP{o: o, metrics: m, base: strings.TrimRight(u.String(), "/"), more: make(chan struct{}, 1)}, nil
}

// Observe queues an event.
func (x *OTLP) Observe(event terminal.Event) {
	r, ok := x.record(event)
	if !ok {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || len(x.queue) >= x.o.Queue {
		x.metrics.dropped.add(1, values{"logs"})
		if x.ended {
			return
		}
		x.queue = append(x.queue[:0], x.queue[1:]...)
	}
	x.queue = append(x.queue, r)
	if 2*len(x.queue) >= x.o.Queue {
		select {
		case x.more <- struct{}{}:
		default:
		}
	}
}

// Run delivers until the context ends, and then once more what is left.
func (x *OTLP) Run(ctx context.Context) {
	tick := time.NewTicker(x.o.Interval)
	defer tick.Stop()
	wrong := false
	// What is under way when ctx ends and the last delivery behind it have otlpLast together.
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(otlpLast, cancel) })()
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-x.more:
		case <-ctx.Done():
			over = true
			x.mu.Lock()
			x.ended = true
			x.mu.Unlock()
		}
		err := x.deliver(last)
		if (err != nil) != wrong {
			if wrong = err != nil; wrong {
				x.o.Log.Warn("telemetry is not delivered", "error", err)
			} else {
				x.o.Log.Info("telemetry is delivered again")
			}
		}
	}
}

// deliver sends what waits. What a collector refuses for good is dropped, what it did not get is tried again.
func (x *OTLP) deliver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, otlpLimit)
	defer cancel()
	for {
		x.mu.Lock()
		n := min(len(x.queue), otlpBatch)
		batch := append([]logRecord(nil), x.queue[:n]...)
		x.queue = append(x.queue[:0], x.queue[n:]...)
		x.mu.Unlock()
		if n == 0 {
			break
		}
		again, err := x.post(ctx, "/v1/logs", x.logs(batch))
		if err == nil {
			continue
		}
		x.mu.Lock()
		if room := x.o.Queue - len(x.queue); again && room > 0 {
			kept := batch[max(len(batch)-room, 0):]
			x.queue = append(kept[:len(kept):len(kept)], x.queue...)
			n -= len(kept)
		}
		x.mu.Unlock()
		if n > 0 {
			x.metrics.dropped.add(float64(n), values{"logs"})
		}
		return err
	}
	_, err := x.post(ctx, "/v1/metrics", x.payload(time.Now()))
	return err
}

// post sends one request. again says whether trying once more could help.
func (x *OTLP) post(ctx context.Context, path string, body any) (again bool, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return false, fmt.Errorf("export telemetry: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.base+path, bytes.NewReader(text))
	if err != nil {
		return false, fmt.Errorf("export telemetry: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range x.o.Headers {
		r.Header.Set(name, value)
	}
	answer, err := x.o.Client.Do(r)
	if err != nil {
		return true, fmt.Errorf("export telemetry: %w", err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection serves again
	switch {
	case answer.StatusCode < 300:
		return false, nil
	case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 502 && answer.StatusCode <= 504:
		return true, fmt.Errorf("export telemetry: the collector answers %d", answer.StatusCode)
	}
	return false, fmt.Errorf("export telemetry: the collector refuses with %d", answer.StatusCode)
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
