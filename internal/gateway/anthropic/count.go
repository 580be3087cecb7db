package anthropic

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Tokens are estimated, as most upstreams have no way to ask: about four letters of ASCII, or one and a third of another
// script, are one. Pictures and files have a price of their own.
const (
	perMessage  = 4
	perPicture  = 1500
	perTool     = 12
	bytesOfFile = 16 // of base64, a token: a PDF holds more than its text
)

// tokensOf estimates the input tokens of a request.
func tokensOf(r *openai.CreateRequest) int64 {
	var n int64
	if r.Instructions != nil {
		n += perMessage + tokensIn(*r.Instructions)
	}
	for _, i := range r.Input {
		var item struct {
			Content   json.RawMessage `json:"content"`
			Output    json.RawMessage `json:"output"`
			Name      string          `json:"name"`
			Arguments string          `json:"arguments"`
		}
		if i.Decode(&item) != nil {
			continue
		}
		n += perMessage + tokensIn(item.Name) + tokensIn(item.Arguments) + tokensOfContent(item.Content) + tokensOfContent(item.Output)
	}
	for _, t := range r.Tools {
		n += perTool + tokensIn(t.Name) + tokensIn(t.Description) + tokensIn(string(t.Parameters))
	}
	if len(r.Text) > 0 {
		n += tokensIn(string(r.Text))
	}
	return max(n, 1)
}

// tokensOfContent estimates a string, or a list of parts.
func tokensOfContent(raw json.RawMessage) (n int64) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return tokensIn(text)
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return 0
	}
	for _, p := range parts {
		if p.Text != nil {
			n += tokensIn(*p.Text)
		}
		if p.ImageURL != "" {
			n += perPicture
		}
		n += int64(len(p.FileData) / bytesOfFile)
	}
	return n
}

// tokensIn estimates a text.
func tokensIn(s string) int64 {
	ascii, rest := 0, 0
	for _, r := range s {
		if r < utf8.RuneSelf {
			ascii++
		} else {
			rest++
		}
	}
	return int64((3*ascii + 9*rest + 11) / 12)
}
