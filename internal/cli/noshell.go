package cli

import (
	"context"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
)

// noShell is the runtime of features.shell.type = "none": it refuses, and says why.
type noShell struct{}

func (noShell) refusal() error {
	return fault.New(fault.Unsupported, "Hosted shells are switched off on this server.").
		WithCode("shell_disabled").WithTry(`features.shell.type = "jail", or a shell tool with the environment "local"`)
}

// Name returns the setting's value.
func (noShell) Name() string { return "none" }

// Supported refuses.
func (n noShell) Supported(context.Context) error { return n.refusal() }

// Prepare refuses.
func (n noShell) Prepare(context.Context, container.Spec) (container.Workspace, error) {
	return container.Workspace{}, n.refusal()
}

// Open refuses.
func (n noShell) Open(context.Context, container.Spec) (container.Box, error) {
	return nil, n.refusal()
}

// Remove has nothing to remove: nothing was ever made.
func (noShell) Remove(context.Context, container.Spec) error { return nil }
