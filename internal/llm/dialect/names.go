package dialect

import (
	"crypto/sha256"
	"encoding/hex"
)

// Names maps names of tools, and ids of calls, to what an upstream takes: letters, digits, _ and -, up to Max of them.
// It remembers the names that it changed. What is fine stays as it is; another one gets a digest of itself behind it,
// so that two never become one and the same is the same in every request.
type Names struct {
	Max    int
	Letter bool // the first one must be a letter or _
	back   map[string]string
}

// Portable is what is sent for a name or an id. It is not remembered.
func (n *Names) Portable(s string) string {
	begins := s != "" && (!n.Letter || allowed(s[0]) && s[0] != '-' && (s[0] < '0' || s[0] > '9'))
	fine := begins && len(s) <= n.Max
	for i := 0; fine && i < len(s); i++ {
		fine = allowed(s[i])
	}
	if fine {
		return s
	}
	b := []byte(s)
	if !begins && n.Letter {
		b = append([]byte{'_'}, b...)
	}
	b = b[:min(len(b), n.Max-9)]
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

// Sent is the name to send; it is remembered if it differs.
func (n *Names) Sent(name string) string {
	s := n.Portable(name)
	if s != name {
		if n.back == nil {
			n.back = map[string]string{}
		}
		n.back[s] = name
	}
	return s
}

// Original is the tool's own name.
func (n *Names) Original(sent string) string {
	if name, ok := n.back[sent]; ok {
		return name
	}
	return sent
}
