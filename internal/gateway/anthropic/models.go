package anthropic

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	defaultModels = 20
	maxModels     = 1000
)

func modelOf(m openai.Model) wire.Model {
	return wire.Model{ID: m.ID, Type: "model", DisplayName: m.ID, CreatedAt: time.Unix(m.Created, 0).UTC().Format(time.RFC3339)}
}

func (d *Door) listModels(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q := r.URL.Query()
	limit := defaultModels
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxModels {
			return invalid("limit", "must be a whole number from 1 to %d", maxModels)
		}
		limit = n
	}
	before, after := q.Get("before_id"), q.Get("after_id")
	if before != "" && after != "" {
		return invalid("before_id", "must not be given together with after_id")
	}
	all := d.Models.Models(r.Context(), p.Org)
	at := func(id string) int { return slices.IndexFunc(all, func(m openai.Model) bool { return m.ID == id }) }
	from, to := 0, len(all)
	switch {
	case after != "":
		if from = at(after) + 1; from == 0 {
			return invalid("after_id", "names no model")
		}
	case before != "":
		if to = at(before); to < 0 {
			return invalid("before_id", "names no model")
		}
		from = max(0, to-limit)
	}
	more := to-from > limit
	if before != "" {
		more = from > 0
	}
	page := make([]wire.Model, 0, limit)
	for _, m := range all[from:min(to, from+limit)] {
		page = append(page, modelOf(m))
	}
	return writeJSON(w, http.StatusOK, wire.NewModelList(page, more))
}

// getModel finds "provider/model", or a bare name that only one provider lists.
func (d *Door) getModel(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	name := r.PathValue("id")
	var bare []openai.Model
	for _, m := range d.Models.Models(r.Context(), p.Org) {
		if m.ID == name {
			return writeJSON(w, http.StatusOK, modelOf(m))
		}
		if _, rest, ok := strings.Cut(m.ID, "/"); ok && rest == name {
			bare = append(bare, m)
		}
	}
	if len(bare) == 1 {
		return writeJSON(w, http.StatusOK, modelOf(bare[0]))
	}
	return fault.New(fault.NotFound, "model: %s", name).WithCode("model_not_found").WithTry("GET /v1/models for the names")
}
