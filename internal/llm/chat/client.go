package chat

import (
	"context"
	"net/http"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func newClient(o Options) *http.Client { return o.Client }

func (p *Provider) stream(ctx context.Context, body []byte, yield func(openai.Event, error) bool) {}

// Models implements [llm.Provider].
func (p *Provider) Models(ctx context.Context) ([]openai.Model, error) { return nil, nil }
