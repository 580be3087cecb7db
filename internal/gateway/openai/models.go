package openai

import (
	"net/http"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func (d *Door) listModels(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	return writeJSON(w, http.StatusOK, wire.NewList(d.Models.Models(r.Context(), p.Org), false, func(m wire.Model) string { return m.ID }))
}

// getModel finds "provider/model", or a bare name that only one provider lists.
func (d *Door) getModel(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name := r.PathValue("id")
	var bare []wire.Model
	for _, m := range d.Models.Models(r.Context(), p.Org) {
		if m.ID == name {
			return writeJSON(w, http.StatusOK, m)
		}
		if _, rest, ok := strings.Cut(m.ID, "/"); ok && rest == name {
			bare = append(bare, m)
		}
	}
	if len(bare) == 1 {
		return writeJSON(w, http.StatusOK, bare[0])
	}
	return fault.New(fault.NotFound, "There is no model with this name.").WithCode("model_not_found").WithParam("model").
		WithTry("GET /v1/models for the names")
}
