package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxName bounds a tool's name and a call's id, as the API does the name.
const maxName = 128

// portable maps a name or an id to the characters that the API takes. What is fine stays as it is; another one gets a
// digest of itself behind it, so that two never become one and the same is the same in every request.
func portable(s string) string {
	fine := s != "" && len(s) <= maxName
	for i := 0; fine && i < len(s); i++ {
		fine = allowed(s[i])
	}
	if fine {
		return s
	}
	b := []byte(s[:min(len(s), maxName-9)])
	for i, c := range b {
		if !allowed(c) {
			b[i] = '_'
		}
	}
	sum := sha256.Sum256([]byte(s))
	return string(b) + "_" + hex.EncodeToString(sum[:4])
}

func allowed(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// names maps what was sent back to what the tool is called.
type names map[string]string

// sent is the name to send; it is remembered if it differs.
func (n names) sent(name string) string {
	s := portable(name)
	if s != name {
		n[s] = name
	}
	return s
}

// original is the tool's own name.
func (n names) original(sent string) string {
	if name, ok := n[sent]; ok {
		return name
	}
	return sent
}
