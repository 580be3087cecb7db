package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// responseWriter remembers what was answered and gives every write a deadline.
type responseWriter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	id      string
	route   *route
	body    *body   // nil = the request has none
	socket  *Socket // nil = the connection has not become one
	org     string
	status  int
	bytes   int64
	started time.Time
	renewed time.Time // when the write deadline was last moved
	wait    time.Duration
}

func newResponseWriter(w http.ResponseWriter, requestID string, patience time.Duration) *responseWriter {
	w.Header()["X-Request-Id"] = []string{requestID}
	return &responseWriter{ResponseWriter: w, rc: http.NewResponseController(w), id: requestID, started: time.Now(), wait: patience}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *responseWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend()
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// FlushError sends what is buffered, under the same deadline as a write.
func (w *responseWriter) FlushError() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.extend()
	return w.rc.Flush()
}

// extend moves the write deadline. It is moved only when a quarter of it has passed, as moving costs.
func (w *responseWriter) extend() {
	if now := time.Now(); now.Sub(w.renewed) > w.wait/4 {
		w.renewed = now
		w.rc.SetWriteDeadline(now.Add(w.wait)) // a test's recorder has none; then there is nothing to time
	}
}

// finish recovers a handler's panic and writes the access log, once a request.
func (g *Gateway) finish(w *responseWriter, r *http.Request) {
	cut := g.recovered(w, r, recover())
	if w.socket != nil {
		w.socket.end()
	}
	status := w.status
	if status == 0 {
		status = http.StatusOK // net/http answers so for a handler that wrote nothing
	}
	if errors.Is(context.Cause(r.Context()), context.Canceled) && cut {
		status = StatusClientClosed
	}
	name := "-"
	if w.route != nil && w.route.name != "" {
		name = w.route.name
	}
	if g.observer != nil && w.socket == nil {
		g.observer.RequestEnded(name, status, time.Since(w.started))
	}
	level := slog.LevelInfo
	if w.route != nil && w.route.quiet && status < http.StatusBadRequest {
		level = slog.LevelDebug
	}
	if g.log.Enabled(r.Context(), level) {
		g.log.LogAttrs(r.Context(), level, "request", slog.String("request_id", w.id), slog.String("method", r.Method),
			slog.String("route", name), slog.Int("status", status), slog.Duration("took", time.Since(w.started)),
			slog.Int64("bytes", w.bytes), slog.String("org", w.org), slog.String("remote", r.RemoteAddr), slog.Bool("cut", cut))
	}
	if cut {
		panic(http.ErrAbortHandler) // the server closes the connection and says nothing
	}
}

// recovered turns a panic into a 500, logged once, or into a cut connection where the answer had begun.
func (g *Gateway) recovered(w *responseWriter, r *http.Request, v any) (cut bool) {
	if v == nil {
		return false
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	g.log.LogAttrs(r.Context(), slog.LevelError, "handler panicked", slog.String("request_id", w.id),
		slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
	if w.status != 0 {
		return true
	}
	write := g.fallback
	if w.route != nil && w.route.errs != nil {
		write = w.route.errs
	}
	NoRetry(w) // how far the handler came is not known
	write(w, r, fault.New(fault.Internal, "Something went wrong in the server.").WithTry("the operator's log, under %s", w.id))
	return false
}
