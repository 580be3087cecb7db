package config

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// masked is what a secret shows wherever it is printed.
const masked = "•••"

// maxSecretFile bounds a file: secret. A key is a line; beyond this the file is refused, never cut.
const maxSecretFile = 64 << 10

// Secret is a value that cannot be printed, logged or encoded. The text is behind a pointer, so that even a verb that
// walks unexported fields shows an address and not the text. In configuration it is written env:NAME, file:PATH or,
// where nothing better can be had, the text itself.
type Secret struct{ text *string }

// NewSecret wraps a text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text. Its callers are few, and each hands the text to the place that needs it.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty says whether there is nothing to reveal.
func (s Secret) Empty() bool { return s.text == nil }

// String never returns the text.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return masked
}

// Format never prints the text, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue never logs the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText never encodes the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes what configuration holds. References are resolved later, by the loader, so that an error can
// name the key.
func (s *Secret) UnmarshalText(b []byte) error { *s = NewSecret(string(b)); return nil }

// resolve follows env:NAME and file:PATH. The errors name the reference, never a text.
func (s Secret) resolve(getenv func(string) string) (Secret, error) {
	text := s.Reveal()
	if name, ok := strings.CutPrefix(text, "env:"); ok {
		value := strings.TrimSpace(getenv(name))
		if value == "" {
			return Secret{}, fault.New(fault.Invalid, "the environment variable %s is not set", name).
				WithTry("export %s, or use file:PATH", name)
		}
		return NewSecret(value), nil
	}
	path, ok := strings.CutPrefix(text, "file:")
	if !ok {
		return s, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return Secret{}, fault.Wrap(fault.Invalid, err, "the secret's file cannot be read").
			WithTry("check that %s exists and may be read by this user", path)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return Secret{}, fault.Wrap(fault.Invalid, err, "the secret's file cannot be read")
	}
	value := strings.TrimSpace(string(b))
	switch {
	case len(b) > maxSecretFile:
		return Secret{}, fault.New(fault.Invalid, "the secret's file %s is larger than %d bytes", path, maxSecretFile)
	case value == "":
		return Secret{}, fault.New(fault.Invalid, "the secret's file %s is empty", path)
	}
	return NewSecret(value), nil
}
