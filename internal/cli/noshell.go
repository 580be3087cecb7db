package cli

import (
	"context"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/container"
)

// noShell is the runtime of a server that runs nothing, by its setting: it refuses, and says why.
type noShell struct{ setting string }

func (n noShell) refusal() error {
	if n.setting == config.ShellClient {
		return fault.New(fault.Unsupported, "This server runs no commands: the calls of a shell tool are run by the client.").
			WithCode("shell_disabled").WithTry(`features.shell.type = "jail" for containers here`)
	}
	if n.setting == config.ShellVendor {
		return fault.New(fault.Unsupported, "This server runs no commands: the calls of a shell tool are run by the provider, in its own containers.").
			WithCode("shell_disabled").WithTry(`features.shell.type = "jail" for containers here`)
	}
	return fault.New(fault.Unsupported, "Hosted shells are switched off on this server.").
		WithCode("shell_disabled").WithTry(`features.shell.type = "jail", or a shell tool with the environment "local"`)
}

// Name returns the setting's value.
func (n noShell) Name() string { return n.setting }

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
