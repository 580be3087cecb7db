package anthropic

import (
	"context"

	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Creator is the real agent, which gives out concrete runs.
type Creator interface {
	Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (*response.Run, error)
}

// Rooms makes a door of the real rooms.
func Rooms(agent Creator, containers Containers, models Models) Door {
	return Door{Agent: creating{agent}, Containers: containers, Models: models}
}

// creating and running turn the rooms' concrete types into the door's interfaces; a nil pointer must not become an
// interface that is not nil, so the error is looked at first.
type creating struct{ agent Creator }

func (c creating) Create(ctx context.Context, p tenant.Principal, req *openai.CreateRequest) (Run, error) {
	run, err := c.agent.Create(ctx, p, req)
	if err != nil {
		return nil, err
	}
	return running{run}, nil
}

type running struct{ *response.Run }

func (r running) Subscribe(after int64) Stream { return r.Run.Subscribe(after) }
