package telemetry

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// lineHandler writes records as JSON lines, in the form of slog's own handler and at a third of its cost: the access
// log is written for every request. Records with groups, and values that are no plain ones, go to slog's handler.
type lineHandler struct {
	w      *lockedWriter
	level  slog.Level
	attrs  []byte       // of With, encoded
	slow   slog.Handler // the same, by slog
	groups bool
}

// lockedWriter lets two handlers share a writer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func newLineHandler(w io.Writer, o *slog.HandlerOptions) *lineHandler {
	locked := &lockedWriter{w: w}
	return &lineHandler{w: locked, level: o.Level.Level(), slow: slog.NewJSONHandler(locked, o)}
}

// Enabled implements [slog.Handler].
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs implements [slog.Handler].
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.slow = h.slow.WithAttrs(attrs)
	out.attrs = out.attrs[:len(out.attrs):len(out.attrs)]
	for _, a := range attrs {
		var ok bool
		if out.attrs, ok = appendAttr(out.attrs, a); !ok {
			out.groups = true
		}
	}
	return &out
}

// WithGroup implements [slog.Handler].
func (h *lineHandler) WithGroup(name string) slog.Handler {
	out := *h
	out.slow = h.slow.WithGroup(name)
	out.groups = true
	return &out
}

var lines = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// Handle implements [slog.Handler].
func (h *lineHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.groups {
		return h.slow.Handle(ctx, r)
	}
	p := lines.Get().(*[]byte)
	defer lines.Put(p)
	b := (*p)[:0]
	b = append(b, '{')
	if !r.Time.IsZero() {
		b = append(b, `"time":"`...)
		b = r.Time.AppendFormat(b, time.RFC3339Nano)
		b = append(b, `",`...)
	}
	b = append(b, `"level":"`...)
	b = append(b, r.Level.String()...)
	b = append(b, `","msg":`...)
	b = appendString(b, Redact(r.Message))
	b = append(b, h.attrs...)
	plain := true
	r.Attrs(func(a slog.Attr) bool {
		b, plain = appendAttr(b, a)
		return plain
	})
	if !plain {
		return h.slow.Handle(ctx, r)
	}
	b = append(b, "}\n"...)
	if *p = b; cap(b) > 16<<10 {
		*p = nil
	}
	_, err := h.w.Write(b)
	return err
}

// appendAttr appends a redacted attribute with the comma before it. It says false for what slog should write.
func appendAttr(b []byte, a slog.Attr) ([]byte, bool) {
	if a.Equal(slog.Attr{}) {
		return b, true
	}
	a = timed(redact(a), false)
	b = append(b, ',')
	b = appendString(b, a.Key)
	b = append(b, ':')
	switch a.Value.Kind() {
	case slog.KindString:
		return appendString(b, a.Value.String()), true
	case slog.KindInt64:
		return strconv.AppendInt(b, a.Value.Int64(), 10), true
	case slog.KindUint64:
		return strconv.AppendUint(b, a.Value.Uint64(), 10), true
	case slog.KindBool:
		return strconv.AppendBool(b, a.Value.Bool()), true
	case slog.KindFloat64:
		if f := a.Value.Float64(); f > -1e15 && f < 1e15 {
			return strconv.AppendFloat(b, f, 'f', -1, 64), true
		}
	}
	return b, false
}

// appendString appends a JSON string.
func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			raw, _ := json.Marshal(s) // a string always has a form
			return append(b, raw...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
