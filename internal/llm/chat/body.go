package chat

import (
	"github.com/hardshell-dev/hardshell/internal/llm"
)

// Dialect is how a server wants its requests.
type Dialect struct {
	Provider            string // for messages
	MaxCompletionTokens bool   // max_completion_tokens, not max_tokens
	KeepRoles           bool   // knows the role "developer" and takes several system messages
}

// Body translates a request to the bytes to send.
func (d Dialect) Body(r llm.Request) ([]byte, error) { return nil, nil }
