package egress

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// Limits of a secret. A value shorter than minValue cannot be scrubbed from answers without tearing them; one longer
// than maxValue fits no header that servers take.
const (
	minValue = 4
	maxValue = 64 << 10
)

const (
	masked            = "•••"
	placeholderPrefix = "hsp_"
)

// A Value is a secret text that cannot be printed, logged or encoded. The text is behind a pointer, so that a verb that
// walks unexported fields shows an address.
type Value struct{ text *string }

// NewValue wraps a text.
func NewValue(text string) Value { return Value{&text} }

// Reveal returns the text. It is for who seals it or writes it where only we read.
func (v Value) Reveal() string { return v.reveal() }

func (v Value) reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// Equal compares two texts in a time that tells nothing of them.
func (v Value) Equal(other Value) bool {
	return subtle.ConstantTimeCompare([]byte(v.reveal()), []byte(other.reveal())) == 1
}

// String never returns the text.
func (v Value) String() string { return masked }

// Format never prints the text, whatever the verb.
func (v Value) Format(f fmt.State, _ rune) { io.WriteString(f, masked) }

// LogValue never logs the text.
func (v Value) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText never encodes the text.
func (v Value) MarshalText() ([]byte, error) { return []byte(masked), nil }

// A Secret is a value that a box may use toward some hosts and never sees. The box holds a placeholder in the variable
// Name. One name may stand for several values if no host could get two of them.
type Secret struct {
	Name        string
	Value       Value
	Hosts       []string // "example.test" or "*.example.test"; each must be allowed by the policy
	Placeholder string   // empty for a new one; a box that outlived its proxy brings the one that it knows
}

// A wallet holds one box's secrets, ready to be swapped in and out.
type wallet struct{ entries []entry }

type entry struct {
	name, placeholder string
	value             Value
	rules             []Rule
	forms             []Value // how the value could stand in an answer, longest first
}

func newWallet(secrets []Secret, policy Policy) (*wallet, error) {
	w := &wallet{}
	placeholders := map[string]string{}
	for _, s := range secrets {
		e := entry{name: s.Name, value: s.Value, forms: forms(s.Value.reveal())}
		if err := s.check(); err != nil {
			return nil, err
		}
		for _, host := range s.Hosts {
			r, err := ParseRule(host)
			if err != nil {
				return nil, reject(err)
			}
			if r.host == "" || strings.Contains(host, ":") {
				return nil, secretFault(s.Name, "a secret belongs to named hosts, on whichever ports are allowed, not to %q", host)
			}
			reachable := slices.ContainsFunc(policy.rules, func(p Rule) bool {
				return !p.raw && (Rule{host: p.host, any: true}).covers(Rule{host: r.host, any: true})
			})
			if !reachable {
				return nil, secretFault(s.Name, "its host %q is not allowed by the network policy", host).
					WithTry("add %q to network_policy.allowed_domains", host)
			}
			e.rules = append(e.rules, r)
		}
		for _, other := range w.entries {
			if other.name == e.name && other.value.reveal() != e.value.reveal() && slices.ContainsFunc(e.rules, func(r Rule) bool {
				return slices.ContainsFunc(other.rules, r.overlaps)
			}) {
				return nil, secretFault(s.Name, "two values are given for the same host")
			}
		}
		if placeholders[s.Name] == "" {
			placeholders[s.Name] = s.Placeholder
		}
		if placeholders[s.Name] == "" {
			placeholders[s.Name] = newPlaceholder()
		}
		e.placeholder = placeholders[s.Name]
		w.entries = append(w.entries, e)
	}
	return w, nil
}

func (s Secret) check() error {
	value := s.Value.reveal()
	switch {
	case s.Name == "" || len(s.Name) > 128 || strings.Trim(s.Name, nameBytes) != "" || '0' <= s.Name[0] && s.Name[0] <= '9':
		return rejected("%q is not the name of an environment variable", s.Name)
	case len(s.Hosts) == 0:
		return secretFault(s.Name, "it has no hosts")
	case len(value) < minValue || len(value) > maxValue:
		return secretFault(s.Name, "its value is not between %d bytes and %d KiB long", minValue, maxValue>>10)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) || strings.TrimSpace(value) != value:
		return secretFault(s.Name, "its value cannot stand in a header").WithTry("the value without line ends and without blanks around it")
	case s.Placeholder != "" && (len(s.Placeholder) != len(placeholderPrefix)+32 || !strings.HasPrefix(s.Placeholder, placeholderPrefix) ||
		strings.Trim(s.Placeholder[len(placeholderPrefix):], "0123456789abcdef") != ""):
		return secretFault(s.Name, "its placeholder is not one of ours")
	}
	return nil
}

const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

func secretFault(name, format string, args ...any) *fault.Error {
	return rejected("the secret %s cannot be used: %s", name, fmt.Sprintf(format, args...)).WithParam("network_policy.domain_secrets")
}

// NewPlaceholder makes what stands in a box for a secret, for who must know it before there is a proxy.
func NewPlaceholder() string { return newPlaceholder() }

// newPlaceholder makes 128 random bits into a word that survives shells, addresses, JSON and Base64.
func newPlaceholder() string {
	var b [16]byte
	rand.Read(b[:])
	return placeholderPrefix + hex.EncodeToString(b[:])
}

// forms lists how a value could be repeated by a server.
func forms(value string) []Value {
	b := []byte(value)
	seen := map[string]bool{value: true}
	for _, s := range []string{url.QueryEscape(value), url.PathEscape(value), base64.StdEncoding.EncodeToString(b),
		base64.RawStdEncoding.EncodeToString(b), base64.URLEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b),
		hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b))} {
		seen[s] = true
	}
	all := slices.SortedFunc(maps.Keys(seen), func(a, b string) int { return len(b) - len(a) })
	values := make([]Value, len(all))
	for i, s := range all {
		values[i] = NewValue(s)
	}
	return values
}

// owns says whether a host has a secret.
func (w *wallet) owns(host string) bool {
	return slices.ContainsFunc(w.entries, func(e entry) bool { return e.belongs(host) })
}

func (e entry) belongs(host string) bool {
	return slices.ContainsFunc(e.rules, func(r Rule) bool { return r.names(host) })
}

// hosts returns every host pattern that owns a secret.
func (w *wallet) hosts() []Rule {
	var all []Rule
	for _, e := range w.entries {
		all = append(all, e.rules...)
	}
	return all
}

// placeholders returns what the box holds, by variable.
func (w *wallet) placeholders() map[string]string {
	all := map[string]string{}
	for _, e := range w.entries {
		all[e.name] = e.placeholder
	}
	return all
}

// a swap is a header text that was put in, and what stood there before.
type swap struct {
	put   Value
	found string
}

// fill replaces the placeholders that belong to a host in header values, also inside Basic credentials. It returns the
// names of the secrets that were used, and the credentials that were made.
func (w *wallet) fill(host string, h http.Header) (used []string, made []swap) {
	for _, e := range w.entries {
		if !e.belongs(host) {
			continue
		}
		hit := false
		for _, values := range h {
			for i, v := range values {
				if strings.Contains(v, e.placeholder) {
					values[i] = strings.ReplaceAll(v, e.placeholder, e.value.reveal())
					hit = true
				} else if basic, ok := e.basic(v); ok {
					made = append(made, swap{NewValue(basic[len("Basic "):]), v[len("Basic "):]})
					values[i] = basic
					hit = true
				}
			}
		}
		if hit && !slices.Contains(used, e.name) {
			used = append(used, e.name)
		}
	}
	return used, made
}

// basic fills the placeholder inside Basic credentials.
func (e entry) basic(v string) (string, bool) {
	const scheme = "Basic "
	if len(v) <= len(scheme) || !strings.EqualFold(v[:len(scheme)], scheme) {
		return "", false
	}
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(v[len(scheme):]), "="))
	if err != nil || !strings.Contains(string(plain), e.placeholder) {
		return "", false
	}
	return scheme + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(plain), e.placeholder, e.value.reveal()))), true
}

// scrub takes every secret of the box out of an answer's headers: the values in the forms that servers use, and the
// credentials that were made for this request.
func (w *wallet) scrub(h http.Header, made []swap) {
	clean := func(s string) string {
		// The last first: what it was made of may be what an earlier one has made.
		for _, m := range slices.Backward(made) {
			s = strings.ReplaceAll(s, m.put.reveal(), m.found)
		}
		for _, e := range w.entries {
			for _, form := range e.forms {
				s = strings.ReplaceAll(s, form.reveal(), e.placeholder)
			}
		}
		return s
	}
	for name, values := range h {
		lower := strings.ToLower(name)
		if slices.ContainsFunc(w.entries, func(e entry) bool { return strings.Contains(lower, strings.ToLower(e.value.reveal())) }) {
			delete(h, name)
			continue
		}
		for i, v := range values {
			values[i] = clean(v)
		}
	}
}
