package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// A Sealer closes what must not stand in a row as it is. What it closed for one owner opens for no other.
type Sealer interface {
	Seal(owner string, plain []byte) string
	Unseal(owner, text string) ([]byte, error)
}

// unsealable stands in the row of a response whose tools have secrets that nobody could seal.
const unsealable = "-"

// secretKey says whether a key of an mcp tool may hold a secret, in every spelling that some server reads.
func secretKey(key string) bool {
	return strings.EqualFold(key, "authorization") || strings.EqualFold(key, "headers")
}

// sealTools closes those of a request's tools that show an MCP server a secret, so that whoever goes on with the response
// can ask with them again. It is empty where there are none.
func sealTools(s Sealer, org string, tools []openai.Tool) string {
	secret := map[int]json.RawMessage{}
	for i, t := range tools {
		keys, err := readKeys(t.Raw)
		if t.Type != "mcp" || err != nil {
			continue
		}
		for key := range keys {
			if secretKey(key) {
				secret[i] = t.Raw
			}
		}
	}
	if len(secret) == 0 {
		return ""
	}
	plain, err := openai.Marshal(secret)
	if s == nil || err != nil {
		return unsealable
	}
	return s.Seal(org, plain)
}

// unsealTools puts the tools back that sealTools closed. Where they cannot be had there is no going on: the upstream would
// be asked as somebody else.
func unsealTools(s Sealer, org, text string, tools []openai.Tool) error {
	if text == "" {
		return nil
	}
	lost := func(cause error) error {
		return fault.Wrap(fault.Internal, cause, "What the request's mcp tools show their servers could not be kept over the server's end.").
			WithTry("send the request again")
	}
	if s == nil || text == unsealable {
		return lost(fmt.Errorf("nothing is sealed"))
	}
	plain, err := s.Unseal(org, text)
	if err != nil {
		return lost(err)
	}
	var secret map[int]json.RawMessage
	if json.Unmarshal(plain, &secret) != nil {
		return lost(fmt.Errorf("what was sealed is not readable")) // json's own error could quote it
	}
	for i, raw := range secret {
		if i < 0 || i >= len(tools) {
			return lost(fmt.Errorf("there is no tool %d", i))
		}
		if json.Unmarshal(raw, &tools[i]) != nil {
			return lost(fmt.Errorf("tool %d is not readable", i))
		}
	}
	return nil
}
