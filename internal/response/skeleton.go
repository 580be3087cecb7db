// Package response holds responses and their numbered event logs.
package response

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

type Options struct {
	DB        *store.DB
	Clock     func() time.Time
	Retention time.Duration
}
type Service struct{}

func New(ctx context.Context, o Options) (*Service, error) { return nil, nil }
func (s *Service) Close(ctx context.Context) error         { return nil }

type Begin struct {
	Org, KeyID string
	Object     openai.Response
	Input      []openai.Item
	Store      bool
	Background bool
	PreviousID string
}
type Run struct{}
type End struct {
	Status string
	Error  *openai.ResponseError
	Reason string
}

func (s *Service) Begin(ctx context.Context, b Begin) (*Run, error) { return nil, nil }
func (r *Run) ID() string                                           { return "" }
func (r *Run) Context() context.Context                             { return nil }
func (r *Run) Cancel(cause error)                                   {}
func (r *Run) Emit(ev openai.Event) error                           { return nil }
func (r *Run) Announce() error                                      { return nil }
func (r *Run) Sync(ctx context.Context) error                       { return nil }
func (r *Run) SetContainer(id string)                               {}
func (r *Run) AddUsage(u openai.Usage)                              {}
func (r *Run) Output() []openai.Item                                { return nil }
func (r *Run) Finish(ctx context.Context, e End) error              { return nil }
func (r *Run) Subscribe(after int64) *Subscription                  { return nil }
func (r *Run) Wait(ctx context.Context) (*openai.Response, error)   { return nil, nil }

type Frame struct {
	Seq  int64
	Type string
	Data []byte
}
type Subscription struct{}

func (s *Subscription) Next(ctx context.Context) ([]Frame, error) { return nil, nil }
func (s *Subscription) Close()                                    {}

type Chain struct {
	Items       []openai.Item
	ContainerID string
}

func (s *Service) Get(ctx context.Context, org, id string) (*openai.Response, error) { return nil, nil }
func (s *Service) Subscribe(ctx context.Context, org, id string, after int64) (*Subscription, error) {
	return nil, nil
}
func (s *Service) Delete(ctx context.Context, org, id string) error { return nil }
func (s *Service) Cancel(ctx context.Context, org, id string) (*openai.Response, error) {
	return nil, nil
}
func (s *Service) Chain(ctx context.Context, org, previousID string) (Chain, error) {
	return Chain{}, nil
}
func (s *Service) InputItems(ctx context.Context, org, id string) ([]openai.Item, error) {
	return nil, nil
}
