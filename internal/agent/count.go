package agent

import (
	"context"

	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// CountInput says how many tokens a model would be asked with by a request: what it continues, its input, instructions and
// tools, as the model would get them. It is an estimate, by what the model counted before where that is known, and says so:
// no provider is asked. The request is checked as one for a response is, and nothing is begun.
func (a *Agent) CountInput(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (openai.InputTokens, error) {
	out, err := a.draft(ctx, p, req)
	if err != nil {
		return openai.InputTokens{}, err
	}
	tokens := a.limits(out, beside(*out.first)).Tokens(compact.Window{Items: out.first.Items})
	return openai.InputTokens{Object: "response.input_tokens", InputTokens: tokens, Estimated: true}, nil
}
