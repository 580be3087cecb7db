// Package telemetry sets up what the program tells its operator: one slog logger, on stderr; counters of what
// terminals do and what a server does, for Prometheus to read; and an exporter of counters and events over OTLP.
//
// It has no logger and no counters of its own: whoever needs some is given them. What holds: nothing here waits for a
// reader, memory is bounded, no label comes from a model; an attribute whose name says that it is a secret, and a text
// that looks like a key, are never written.
package telemetry

import (
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// Options choose level and form. The zero value is text from level info.
type Options struct {
	Level    string // debug | info | warn | error; empty = info
	Format   string // auto | text | json; empty = auto
	Terminal bool   // what auto means: text on a terminal, JSON elsewhere
}

// New makes a logger that writes to w.
func New(w io.Writer, o Options) (*slog.Logger, error) {
	var level slog.Level
	if o.Level != "" {
		if err := level.UnmarshalText([]byte(o.Level)); err != nil {
			return nil, fault.New(fault.Invalid, "log level %q is not known", o.Level).WithTry("debug, info, warn or error")
		}
	}
	text := o.Format == "text" || o.Terminal && o.Format != "json"
	handler := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return timed(redact(a), text) }}
	switch o.Format {
	case "text":
		return slog.New(slog.NewTextHandler(w, handler)), nil
	case "json":
		return slog.New(newLineHandler(w, handler)), nil
	case "", "auto":
		if o.Terminal {
			return slog.New(slog.NewTextHandler(w, handler)), nil
		}
		return slog.New(newLineHandler(w, handler)), nil
	}
	return nil, fault.New(fault.Invalid, "log format %q is not known", o.Format).WithTry("auto, text or json")
}

// Discard returns a logger that writes nothing.
func Discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// timed writes a duration as its reader takes it: "1.234ms" for a person, a number of milliseconds, which the name
// says, for a program. slog's own JSON is a number of nanoseconds, which says nothing.
func timed(a slog.Attr, text bool) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	d := a.Value.Duration().Round(time.Microsecond)
	if text {
		return slog.String(a.Key, d.String())
	}
	return slog.Float64(a.Key+"_ms", float64(d)/float64(time.Millisecond))
}

// masked stands where a secret stood.
const masked = "•••"

// secretNames are parts of attribute names whose value is a secret whatever it looks like.
var secretNames = []string{"authorization", "api_key", "apikey", "password", "secret", "token", "cookie"}

// keyLike matches the keys that this program and its usual upstreams mint: hsk_…, sk-…, and bearer headers.
var keyLike = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bhsk_[A-Za-z0-9_-]{6,}|\bsk-[A-Za-z0-9_-]{8,}|(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{6,}`)
})

// redact masks secrets in one attribute. Counts such as input_tokens are numbers and pass.
func redact(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		name := strings.ToLower(a.Key)
		for _, part := range secretNames {
			if strings.Contains(name, part) && a.Value.String() != "" {
				return slog.String(a.Key, masked)
			}
		}
		return slog.String(a.Key, Redact(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			return slog.String(a.Key, Redact(err.Error()))
		}
	}
	return a
}

// Redact masks what looks like a key in a text.
func Redact(text string) string {
	if !suspicious(text) {
		return text
	}
	return keyLike().ReplaceAllString(text, masked)
}

// suspicious says whether keyLike can match at all. The access log asks for every one of its attributes, and nearly
// always the answer is no.
func suspicious(text string) bool {
	for i := 0; i+2 < len(text); i++ {
		switch text[i] {
		case 's':
			if text[i+1] == 'k' && text[i+2] == '-' {
				return true
			}
		case 'h':
			if text[i+1] == 's' && text[i+2] == 'k' {
				return true
			}
		case 'b', 'B':
			if len(text) >= i+len("bearer") && strings.EqualFold(text[i:i+len("bearer")], "bearer") {
				return true
			}
		}
	}
	return false
}
