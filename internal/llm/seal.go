package llm

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Seal says whose a model's opaque thinking is: signatures and encrypted reasoning mean something to the provider that
// made them alone, and most others refuse a request that holds them. Thinking travels in a reasoning item's
// encrypted_content, which clients hand back as it is.
type Seal struct {
	Dialect  string // in which the blocks are written
	Provider string // that made them
}

// sealed is what stands behind a seal's mark, in base64.
type sealed struct {
	Provider string            `json:"provider"`
	Blocks   []json.RawMessage `json:"blocks"`
}

func (s Seal) mark() string { return "hsk-" + s.Dialect + "-1." }

// Close makes an encrypted_content of blocks, which stay as they are, byte for byte.
func (s Seal) Close(blocks []json.RawMessage) string {
	raw, err := openai.Marshal(sealed{s.Provider, blocks})
	if err != nil {
		return "" // a block that is no JSON: nobody would take it back
	}
	return s.mark() + base64.StdEncoding.EncodeToString(raw)
}

// Open reads the blocks of a reasoning item's encrypted_content. It is empty for what another provider sealed, or
// nobody. A client may have made it: a dialect looks at each block before it sends it on.
func (s Seal) Open(encrypted string) []json.RawMessage {
	text, ok := strings.CutPrefix(encrypted, s.mark())
	if !ok {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	var in sealed
	if json.Unmarshal(raw, &in) != nil || in.Provider != s.Provider {
		return nil
	}
	return in.Blocks
}

// OpenItem is Open for an item.
func (s Seal) OpenItem(item openai.Item) ([]json.RawMessage, error) {
	var r struct {
		EncryptedContent string `json:"encrypted_content"`
	}
	if err := item.Decode(&r); err != nil {
		return nil, err
	}
	return s.Open(r.EncryptedContent), nil
}
