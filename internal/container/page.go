package container

import (
	"context"
	"fmt"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

const (
	defaultPage = 20
	maxPage     = 100
)

// keyset turns a page into SQL.
func (p Page) keyset(prefix string) (store.Keyset, error) {
	return store.Page{Limit: p.Limit, After: p.After, Order: p.Order}.Keyset(prefix, defaultPage, maxPage)
}

// List returns a page of an organisation's containers, those that are deleted left out, and whether more follow.
func (s *Service) List(ctx context.Context, org string, page Page) ([]Container, bool, error) {
	k, err := page.keyset(id.Container)
	if err != nil {
		return nil, false, err
	}
	rows, err := s.query(ctx, fmt.Sprintf(`org = $1 AND status <> '%s' AND ($2 = '' OR name = $2) AND ($3 = '' OR id %s $3)
		ORDER BY id %s LIMIT $4`, Deleted, k.Compare, k.Order), org, page.Name, page.After, k.Limit+1)
	if err != nil {
		return nil, false, err
	}
	rows, more := store.Cut(rows, k.Limit)
	out := make([]Container, len(rows))
	for i, r := range rows {
		out[i] = s.seen(r).Container
	}
	return out, more, nil
}
