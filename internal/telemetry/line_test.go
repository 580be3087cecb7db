package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"testing"
	"time"
)

// What the handler of ours writes reads as what slog's own would have written.
func TestLinesAreSlogs(t *testing.T) {
	options := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return timed(redact(a), false) }}
	for name, log := range map[string]func(*slog.Logger){
		"plain": func(l *slog.Logger) {
			l.Info("request", "method", "GET", "status", 200, "bytes", uint64(7), "cut", false, "took", 1234567*time.Nanosecond, "share", 0.25)
		},
		"odd strings": func(l *slog.Logger) { l.Warn("a \"b\" <c> & \\ \n\x00", "ü\xff", "漢\u2028") },
		"secrets": func(l *slog.Logger) {
			l.Error("the key hsk_abcdefghijkl", "password", "x", "note", "Bearer abcdefghij")
		},
		"errors":         func(l *slog.Logger) { l.Error("no", "error", errors.New("sk-abcdefghijkl")) },
		"any":            func(l *slog.Logger) { l.Info("x", "v", map[string]int{"a": 1}, "n", nil) },
		"a time":         func(l *slog.Logger) { l.Info("x", "at", time.Unix(1, 0).UTC()) },
		"numbers beyond": func(l *slog.Logger) { l.Info("x", "a", 1e300, "b", math.Inf(1), "c", int64(math.MinInt64)) },
		"group":          func(l *slog.Logger) { l.Info("x", slog.Group("g", "a", 1)) },
		"with":           func(l *slog.Logger) { l.With("a", 1, "b", "c").Debug("x", "d", 2) },
		"with a group":   func(l *slog.Logger) { l.With("a", 1).WithGroup("g").With("b", 2).Info("x", "c", 3) },
		"with any":       func(l *slog.Logger) { l.With("a", []int{1}).Info("x", "c", 3) },
		"empty":          func(l *slog.Logger) { l.LogAttrs(context.Background(), slog.LevelInfo, "x", slog.Attr{}) },
		"another level":  func(l *slog.Logger) { l.Log(context.Background(), slog.LevelInfo+2, "x") },
	} {
		var got, want bytes.Buffer
		log(slog.New(newLineHandler(&got, options)))
		log(slog.New(slog.NewJSONHandler(&want, options)))
		g, w := map[string]any{}, map[string]any{}
		if err := json.Unmarshal(got.Bytes(), &g); err != nil || got.Bytes()[got.Len()-1] != '\n' {
			t.Errorf("%s: %v: %q", name, err, got.String())
			continue
		}
		json.Unmarshal(want.Bytes(), &w)
		if _, err := time.Parse(time.RFC3339Nano, g["time"].(string)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(g, "time")
		delete(w, "time")
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s:\n%s%s", name, got.String(), want.String())
		}
	}
}

func BenchmarkAccessLine(b *testing.B) {
	options := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return timed(redact(a), false) }}
	for name, h := range map[string]slog.Handler{"ours": newLineHandler(discard{}, options), "slog": slog.NewJSONHandler(discard{}, options)} {
		b.Run(name, func(b *testing.B) {
			l := slog.New(h)
			for b.Loop() {
				l.LogAttrs(b.Context(), slog.LevelInfo, "request", slog.String("request_id", "req_0123456789abcdef"), slog.String("method", "POST"),
					slog.String("route", "POST /v1/responses"), slog.Int("status", 200), slog.Duration("took", time.Millisecond),
					slog.Int64("bytes", 1234), slog.String("org", "default"), slog.String("remote", "127.0.0.1:1234"), slog.Bool("cut", false))
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
