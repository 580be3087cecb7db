package openai

import (
	"context"

	"github.com/hardshell-dev/hardshell/internal/agent"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Creator is the real agent, which gives out concrete runs.
type Creator interface {
	Create(ctx context.Context, p tenant.Principal, req *wire.CreateRequest) (*response.Run, error)
	Counter
}

// Rooms makes a door of the real rooms.
func Rooms(creator Creator, responses *response.Service, containers Containers, models Models) Door {
	return Door{Agent: creating{creator}, Responses: kept{responses}, Containers: containers, Models: models,
		State: State{Conversations: agent.NewConversations(responses), Counter: creator}}
}

// creating, running and kept turn the rooms' concrete types into the door's interfaces; a nil pointer must not
// become an interface that is not nil, so each looks at the error first.
type creating struct{ agent Creator }

func (c creating) Create(ctx context.Context, p tenant.Principal, req *wire.CreateRequest) (Run, error) {
	run, err := c.agent.Create(ctx, p, req)
	if err != nil {
		return nil, err
	}
	return running{run}, nil
}

type running struct{ *response.Run }

func (r running) Subscribe(after int64) Stream { return r.Run.Subscribe(after) }

type kept struct{ *response.Service }

func (k kept) Subscribe(ctx context.Context, org, id string, after int64) (Stream, error) {
	s, err := k.Service.Subscribe(ctx, org, id, after)
	if err != nil {
		return nil, err
	}
	return s, nil
}
