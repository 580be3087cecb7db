package telemetry

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSecretsAreMasked(t *testing.T) {
	const key, upstream = "hsk_06ejz3abcdef_abcdefghijklmnop", "sk-proj-abcdef0123456789"
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		l, err := New(&out, Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		l.Info("said", "authorization", "whatever", "note", "the key is "+key, "error", errors.New("401 for Bearer "+upstream),
			"input_tokens", 77, "model", "m")
		l.Info("said "+key, "x", "Bearer abcdefghij")
		for _, secret := range []string{"whatever", "abcdefghijklmnop", "proj-abcdef", "Bearer abc"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%s: %q is in %s", format, secret, out.String())
			}
		}
		for _, kept := range []string{"77", "the key is"} {
			if !strings.Contains(out.String(), kept) {
				t.Errorf("%s: %q is not in %s", format, kept, out.String())
			}
		}
	}
}

func TestLevelAndFormat(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string // how a warning begins
	}{
		"on a terminal": {Options{Terminal: true}, "time="},
		"elsewhere":     {Options{}, "{"},
		"forced":        {Options{Terminal: true, Format: "json"}, "{"},
		"too quiet":     {Options{Level: "error"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			l, err := New(&out, c.options)
			if err != nil {
				t.Fatal(err)
			}
			l.Warn("x")
			if !strings.HasPrefix(out.String(), c.want) || c.want == "" && out.Len() > 0 {
				t.Errorf("wrote %q", out.String())
			}
		})
	}
	for _, o := range []Options{{Level: "loud"}, {Format: "xml"}} {
		if _, err := New(&strings.Builder{}, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestTheQuickLookMissesNothing(t *testing.T) {
	for _, text := range []string{"", "hs", "sk", "sk-", "a sk-abcdefgh b", "hsk_abcdef", "xhsk_abcdef", "BEARER abcdefgh", "the bearer", "bEaReR\tabcdefgh",
		"ask-me-anything", "req_06f0", "GET /v1/models", "Bearer", "…bearer 123456…", "skip hsk_123456_7 and sk-12345678"} {
		if got, want := Redact(text), keyLike().ReplaceAllString(text, masked); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// A duration is read by a person, or by a program that is told the unit.
func TestDurations(t *testing.T) {
	for format, want := range map[string]string{"text": " took=12.346ms", "json": `"took_ms":12.346`} {
		var out strings.Builder
		l, err := New(&out, Options{Format: format})
		if err != nil {
			t.Fatal(err)
		}
		l.Info("done", "took", 12345678*time.Nanosecond)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: no %q in %s", format, want, out.String())
		}
	}
}
