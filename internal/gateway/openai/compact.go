package openai

import (
	"context"
	"net/http"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Compaction makes room in conversations.
type Compaction interface {
	// Compact compacts a conversation now. Its output stands for it as the input of a later request.
	Compact(ctx context.Context, p tenant.Principal, req *wire.CompactRequest) (*wire.Compacted, error)
	// Ignored says what of a request's wishes for its context is not done; empty where all is.
	Ignored(ctx context.Context, p tenant.Principal, req *wire.CreateRequest) string
}

func (d *Door) compact(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req wire.CompactRequest
	if _, err := readJSON(r, &req); err != nil {
		return err
	}
	out, err := d.Compaction.Compact(r.Context(), p, &req)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}

// warn says in a header what of a request is ignored.
func (d *Door) warn(w http.ResponseWriter, r *http.Request, p tenant.Principal, req *wire.CreateRequest) {
	if d.Compaction == nil {
		return
	}
	if what := d.Compaction.Ignored(r.Context(), p, req); what != "" {
		gateway.Warn(w, []string{what})
	}
}
