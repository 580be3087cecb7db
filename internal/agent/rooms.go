package agent

import (
	"context"
	"iter"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// responses is what the loop uses of the room of responses.
type responses interface {
	// Chain returns what a conversation's earlier turns said, and the container that they used.
	Chain(ctx context.Context, org, previousID string) (response.Chain, error)
	// History returns all of a conversation; Items finds items by their ids, wherever they are kept.
	History(ctx context.Context, org, id string) (conversation.History, error)
	Items(ctx context.Context, org string, ids []string) (map[string]openai.Item, error)
	// Begin opens a response.
	Begin(ctx context.Context, b response.Begin) (run, error)
	// Orphans has a token when Claim may have a response that lost its owner; Claim takes the next one, or one that is to
	// be cancelled, or none, and then the claim is nil. Replay reads its log from a number on.
	Orphans() <-chan struct{}
	Claim(ctx context.Context, unwanted bool) (*response.Claim, run, error)
	Replay(ctx context.Context, id string, from int64) iter.Seq2[response.Frame, error]
	// Wake has a response that was parked claimed. It says whether the response is open.
	Wake(ctx context.Context, id string) (open bool, err error)
}

// run is one response that is being made.
type run interface {
	ID() string
	Context() context.Context // ends when somebody cancels the response
	Cancel(cause error)
	// Queue opens the log of a response that waits, Announce that of one that begins. Neither says a thing twice.
	Queue() error
	Announce() error
	Emit(ev openai.Event) error
	// Journal keeps an entry for an owner who has to go on; it is durable with the next event.
	Journal(entry []byte)
	// Recorded says whether the response is on record by now.
	Recorded() bool
	// Fence is the number under which we own the response.
	Fence() int64
	// Release gives the response back, for another owner to go on with.
	Release(ctx context.Context) error
	// Park gives it back until it is woken; Show tells anew of items that were announced.
	Park(ctx context.Context) error
	Show(items map[int]openai.Item) error
	// Output is what has been put out so far.
	Output() []openai.Item
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
	Admits(ctx context.Context, org, id string, p *openai.NetworkPolicy) error
	// Restore is Usable for a container that may have expired: it is brought back.
	Restore(ctx context.Context, org, id string) (container.Container, error)
	// CheckSkills says what the skills of a request are, Skills what a container has; AddSkills mounts more in it.
	CheckSkills(ctx context.Context, org string, list []container.SkillRequest) ([]container.Skill, error)
	Skills(ctx context.Context, org, id string) ([]container.Skill, error)
	AddSkills(ctx context.Context, org, id string, list []container.SkillRequest) error
	// PutInput puts a request's file into the workspace, once and over nothing. InputAt says under which name it was put
	// there before, HasFile whether a name is taken.
	PutInput(ctx context.Context, org, id string, in container.Input) error
	InputAt(ctx context.Context, org, id, key string) (string, error)
	HasFile(ctx context.Context, org, id, name string) (bool, error)
	File(ctx context.Context, org, id, fileID string) (container.File, error)
	// Exec starts a command; when ctx ends, it is cancelled. An error means that it was not started.
	Exec(ctx context.Context, org, id string, c container.Command) (execution, error)
	// Reattach finds a command again that an earlier owner has or may have started. It starts nothing.
	Reattach(ctx context.Context, org, id string, c container.Command) (execution, container.CallState, error)
	// Acknowledge says that a command's end is on record.
	Acknowledge(ctx context.Context, org, id, key string, index int) error
	Facts(ctx context.Context) container.Facts
}

// execution is a command that was started.
type execution interface {
	FollowFrom(ctx context.Context, from container.Cursor) iter.Seq2[container.Delta, error]
	Wait(ctx context.Context) (container.Result, error)
	Cancel()
	// Release leaves the command to its next owner: the end of Exec's context does not cancel it any more.
	Release()
}

// models is what the loop uses of the room of models.
type models interface {
	Resolve(ctx context.Context, org, model string, more ...string) (llm.Route, error)
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

// History returns all of a conversation.
func (s responseRoom) History(ctx context.Context, org, id string) (conversation.History, error) {
	return s.Conversations().History(ctx, org, id)
}

// Exec starts a command.
func (s containerRoom) Exec(ctx context.Context, org, id string, c container.Command) (execution, error) {
	e, err := s.Service.Exec(ctx, org, id, c)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Claim takes a response that lost its owner.
func (s responseRoom) Claim(ctx context.Context, unwanted bool) (*response.Claim, run, error) {
	c, err := s.Service.Claim(ctx, unwanted)
	if err != nil || c == nil {
		return nil, nil, err
	}
	return c, c.Run, nil
}

// Reattach finds a command again.
func (s containerRoom) Reattach(ctx context.Context, org, id string, c container.Command) (execution, container.CallState, error) {
	e, state, err := s.Service.Reattach(ctx, org, id, c)
	if err != nil || e == nil {
		return nil, state, err
	}
	return e, state, nil
}
