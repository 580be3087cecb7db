package response

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// withoutSecrets returns tools as they may be stored and echoed: without the domain_secrets of any network_policy.
func withoutSecrets(tools []json.RawMessage) []json.RawMessage {
	if tools == nil {
		return nil
	}
	clean := make([]json.RawMessage, len(tools))
	for i, raw := range tools {
		clean[i] = withoutSecret(raw)
	}
	return clean
}

// WithoutSecrets returns JSON as it may be stored: without the domain_secrets of any network_policy.
func WithoutSecrets(raw json.RawMessage) json.RawMessage { return withoutSecret(raw) }

func withoutSecret(raw json.RawMessage) json.RawMessage {
	if !hasSecret(raw) {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return json.RawMessage("null") // what cannot be read cannot be shown to be clean
	}
	strip(v, "")
	b, err := openai.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// Keys are compared as encoding/json compares them with a struct's: without case. Otherwise a secret that some reader
// of the request understands would stand in the row.
const (
	secretKey = "domain_secrets"
	policyKey = "network_policy"
)

// hasSecret says whether the word stands anywhere as a string, however it is spelt. It looks at every token, because a
// decoded object has lost the first of two keys of one name.
func hasSecret(raw json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := d.Token()
		if err != nil {
			return err != io.EOF
		}
		if s, ok := token.(string); ok && strings.EqualFold(s, secretKey) {
			return true
		}
	}
}

// strip removes the secrets from every object that stands under a network policy.
func strip(v any, under string) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if strings.EqualFold(key, secretKey) && strings.EqualFold(under, policyKey) {
				delete(v, key)
				continue
			}
			strip(inner, key)
		}
	case []any:
		for _, inner := range v {
			strip(inner, under)
		}
	}
}
