package agent

import (
	"context"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// CountInput says how many tokens a model would be asked with by a request: what it continues, its input, instructions and
// tools, as the model would get them. It is an estimate, and says so: no provider is asked. The request is checked as one
// for a response is, and nothing is begun.
func (a *Agent) CountInput(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (openai.InputTokens, error) {
	out, err := a.draft(ctx, p, req)
	if err != nil {
		return openai.InputTokens{}, err
	}
	return openai.InputTokens{Object: "response.input_tokens", InputTokens: estimate(*out.first), Estimated: true}, nil
}

// What is not text counts as so much of it. A token is about four characters of English or of code.
const (
	charsPerToken = 4
	frameChars    = 24   // around an item
	imageChars    = 4800 // an image, however it is sent
)

func estimate(req llm.Request) int64 {
	chars := len(req.Instructions) + len(req.Text)
	for _, t := range req.Tools {
		raw, err := t.MarshalJSON()
		if err == nil { // what cannot be written was refused before
			chars += len(raw)
		}
	}
	for _, i := range req.Items {
		chars += frameChars + weight(i)
	}
	return int64((chars + charsPerToken - 1) / charsPerToken)
}

// weight is how many characters of an item the model reads.
func weight(i openai.Item) int {
	switch i.Type {
	case openai.TypeMessage:
		var m openai.Message
		if i.Decode(&m) == nil {
			n := 0
			for _, p := range m.Content {
				if n += len(p.Text) + len(p.Refusal); p.Type == "input_image" {
					n += imageChars
				}
			}
			return n
		}
	case openai.TypeFunctionCall:
		var c openai.FunctionCall
		if i.Decode(&c) == nil {
			return len(c.Name) + len(c.Arguments)
		}
	case openai.TypeFunctionCallOutput:
		var o openai.FunctionCallOutput
		if i.Decode(&o) == nil {
			return len(o.Output)
		}
	}
	return len(i.Raw)
}
