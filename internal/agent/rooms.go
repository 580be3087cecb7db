package agent

import (
	"context"
	"io"
	"iter"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// responses is what the loop uses of the room of responses.
type responses interface {
	// Chain returns what a conversation's earlier turns said, and the container that they used.
	Chain(ctx context.Context, org, previousID string) (response.Chain, error)
	// Begin opens a response.
	Begin(ctx context.Context, b response.Begin) (run, error)
}

// run is one response that is being made.
type run interface {
	ID() string
	Context() context.Context // ends when somebody cancels the response
	Cancel(cause error)
	Announce() error
	Emit(ev openai.Event) error
	// Sync waits until what was emitted is durable, if the response is stored.
	Sync(ctx context.Context) error
	SetContainer(id string)
	AddUsage(u openai.Usage)
	Finish(ctx context.Context, end response.End) error
}

// containers is what the loop uses of the room of containers.
type containers interface {
	Create(ctx context.Context, org string, spec container.CreateSpec) (container.Container, error)
	Usable(ctx context.Context, org, id string) (container.Container, error)
	Put(ctx context.Context, org, id, name string, r io.Reader, source string) (container.File, error)
	File(ctx context.Context, org, id, fileID string) (container.File, error)
	// Exec starts a command; when ctx ends, it is cancelled. An error means that it was not started.
	Exec(ctx context.Context, org, id string, c container.Command) (execution, error)
	Facts(ctx context.Context) container.Facts
}

// execution is a command that was started.
type execution interface {
	Follow(ctx context.Context) iter.Seq2[container.Delta, error]
	Wait(ctx context.Context) (container.Result, error)
	Cancel()
}

// models is what the loop uses of the room of models.
type models interface {
	Resolve(ctx context.Context, model string) (llm.Route, error)
}

// responseRoom and containerRoom give the rooms' concrete types the loop's interfaces.
type (
	responseRoom  struct{ *response.Service }
	containerRoom struct{ *container.Service }
)

// Begin opens a response.
func (s responseRoom) Begin(ctx context.Context, b response.Begin) (run, error) {
	r, err := s.Service.Begin(ctx, b)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Exec starts a command.
func (s containerRoom) Exec(ctx context.Context, org, id string, c container.Command) (execution, error) {
	e, err := s.Service.Exec(ctx, org, id, c)
	if err != nil {
		return nil, err
	}
	return e, nil
}
