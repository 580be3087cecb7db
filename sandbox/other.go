//go:build !linux

package sandbox

import (
	"context"
	"net"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// A Box is a sandbox with its resident. There is none on this system yet.
type Box struct{}

func unsupported() error {
	return fault.New(fault.Isolation, "there is no sandbox for this operating system yet").WithTry("run hardshell on Linux")
}

// Open refuses: nothing runs weaker than asked.
func Open(context.Context, Spec) (*Box, error) { return nil, unsupported() }

// Report is empty.
func (b *Box) Report() Report { return Report{} }

// Start refuses.
func (b *Box) Start(context.Context, process.Command) (*process.Job, error) {
	return nil, unsupported()
}

// Listen refuses.
func (b *Box) Listen(context.Context, uint16) (net.Listener, error) { return nil, unsupported() }

// Done is never closed.
func (b *Box) Done() <-chan struct{} { return nil }

// Detach does nothing.
func (b *Box) Detach() error { return nil }

// Close does nothing.
func (b *Box) Close() error { return nil }

// StartSpawner starts nothing.
func StartSpawner(context.Context) (stop func(), err error) { return func() {}, nil }

// Probe says that there is nothing to probe.
func Probe(context.Context) []Layer {
	return []Layer{{Name: "jail", State: Missing, Detail: "not on this operating system", Remedy: "run hardshell on Linux"}}
}

// SupportedRung is none.
func SupportedRung(context.Context) (Rung, error) { return "", unsupported() }

// Supported refuses.
func Supported(context.Context) error { return unsupported() }

// Inside is never so: there are no boxes here.
func Inside() (Rung, bool) { return "", false }

// Removed is empty.
func (b *Box) Removed() []string { return nil }
