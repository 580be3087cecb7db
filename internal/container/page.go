package container

import (
	"context"
	"fmt"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
)

const (
	defaultPage = 20
	maxPage     = 100
)

// keyset turns a page into SQL: rows are ordered by id, which begins with its time.
func (p Page) keyset(noun string) (limit int, compare, order string, err error) {
	limit = p.Limit
	if limit == 0 {
		limit = defaultPage
	}
	if limit < 1 || limit > maxPage {
		return 0, "", "", fault.New(fault.Invalid, "limit must be from 1 to %d.", maxPage).WithCode("invalid_value").WithParam("limit")
	}
	if p.After != "" && !id.Valid(noun, p.After) {
		return 0, "", "", fault.New(fault.Invalid, "after is not the id of an entry.").WithCode("invalid_value").WithParam("after")
	}
	switch p.Order {
	case "", "desc":
		return limit, "<", "DESC", nil
	case "asc":
		return limit, ">", "ASC", nil
	}
	return 0, "", "", fault.New(fault.Invalid, `order must be "asc" or "desc".`).WithCode("invalid_value").WithParam("order")
}

// List returns a page of an organisation's containers, those that are deleted left out, and whether more follow.
func (s *Service) List(ctx context.Context, org string, page Page) ([]Container, bool, error) {
	limit, compare, order, err := page.keyset(id.Container)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.query(ctx, fmt.Sprintf(`org = $1 AND status <> '%s' AND ($2 = '' OR name = $2) AND ($3 = '' OR id %s $3)
		ORDER BY id %s LIMIT $4`, Deleted, compare, order), org, page.Name, page.After, limit+1)
	if err != nil {
		return nil, false, err
	}
	more := len(rows) > limit
	out := make([]Container, 0, limit)
	for _, r := range rows[:min(limit, len(rows))] {
		out = append(out, s.seen(r).Container)
	}
	return slices.Clip(out), more, nil
}
