package sandbox

import (
	"context"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

type Box struct{}

func Open(ctx context.Context, spec Spec) (*Box, error) {
	return nil, fault.New(fault.Isolation, "not yet")
}
func Attach(ctx context.Context, dir string, fence uint64) (*Box, error) {
	return nil, fault.New(fault.NotFound, "not yet")
}
func (b *Box) Report() Report { return Report{} }
func (b *Box) Start(ctx context.Context, c process.Command) (*process.Job, error) {
	return nil, fault.New(fault.Isolation, "not yet")
}
func (b *Box) Done() <-chan struct{}                            { return nil }
func (b *Box) Detach() error                                    { return nil }
func (b *Box) Close() error                                     { return nil }
func StartSpawner(ctx context.Context) (stop func(), err error) { return func() {}, nil }

type Layer struct {
	Name, State, Detail, Remedy string
	Cost                        time.Duration
}

func Probe(ctx context.Context) []Layer   { return nil }
func Supported(ctx context.Context) error { return fault.New(fault.Isolation, "not yet") }
