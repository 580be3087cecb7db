package cli

import (
	"context"

	"github.com/hardshell-dev/hardshell/internal/agent"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/container/passthrough"
	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/gateway/openai"
	"github.com/hardshell-dev/hardshell/internal/llm"
	responsesapi "github.com/hardshell-dev/hardshell/internal/llm/openai"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// vendorsOf makes the room of vendors' containers, where calls are theirs to run, and says what the door shows as
// containers. Without it both are this server's own.
func vendorsOf(ctx context.Context, c config.Config, db *store.DB, providers map[string]llm.Provider, own *container.Service,
	files *file.Service) (agent.Vendors, openai.Containers, error) {
	if c.Features.Shell.Type != config.ShellVendor {
		return nil, own, nil
	}
	upstreams := map[string]passthrough.Upstream{}
	for name, p := range providers {
		if o, ok := p.(*responsesapi.Provider); ok && o.HostsShell() {
			upstreams[name] = o.Containers()
		}
	}
	vendors, err := passthrough.New(ctx, passthrough.Options{DB: db, Upstreams: upstreams, Uploads: files})
	if err != nil {
		return nil, nil, err
	}
	return vendors, passthrough.NewHall(own, vendors), nil
}
