package agent

import (
	"context"
	"slices"

	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// before is what a request goes on from: what its connection has kept, or what is on record.
func (a *Agent) before(ctx context.Context, org string, req *openai.CreateRequest) (response.Chain, error) {
	if c := req.Carried; c != nil {
		return response.Chain{Items: slices.Clone(c.Items), ContainerID: c.ContainerID}, nil
	}
	return a.responses.Chain(ctx, org, *req.PreviousResponseID)
}

// link says which response on record another one goes on from. Where that is not on record, one that is to be stored takes
// with it what was said before: nobody else has it when the connection is gone.
func (p *plan) link(b *response.Begin) {
	switch id := p.request.PreviousResponseID; {
	case id == nil:
	case p.request.Carried == nil:
		b.PreviousID = *id
	case b.Store:
		b.Input = slices.Concat(p.history, p.input)
		p.request.PreviousResponseID = nil // who goes on after a crash finds all of it in the input
	}
}
