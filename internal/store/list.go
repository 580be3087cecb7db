package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
)

// Page asks for a part of a list whose order is that of its ids, which begin with their time.
type Page struct {
	Limit int
	After string // an id; the page begins behind it
	Order string // "desc" (newest first, also when empty) or "asc"
}

// Keyset is a checked page in SQL.
type Keyset struct {
	Limit   int
	Compare string // of an id with After: "<" or ">"
	Order   string // "DESC" or "ASC"
}

// Keyset checks a page of things whose ids begin with prefix. A limit of 0 is otherwise, more than most is refused.
func (p Page) Keyset(prefix string, otherwise, most int) (Keyset, error) {
	limit := p.Limit
	if limit == 0 {
		limit = otherwise
	}
	bad := func(param, format string, args ...any) (Keyset, error) {
		return Keyset{}, fault.New(fault.Invalid, format, args...).WithCode("invalid_value").WithParam(param)
	}
	switch {
	case limit < 1 || limit > most:
		return bad("limit", "limit must be from 1 to %d.", most)
	case p.After != "" && !id.Valid(prefix, p.After):
		return bad("after", "after is not the id of an entry.")
	case p.Order == "asc":
		return Keyset{limit, ">", "ASC"}, nil
	case p.Order == "" || p.Order == "desc":
		return Keyset{limit, "<", "DESC"}, nil
	}
	return bad("order", `order must be "asc" or "desc".`)
}

// Cut takes away what a query returned beyond the page's limit, and says whether it did. A query asks for one row more.
func Cut[T any](list []T, limit int) (page []T, more bool) {
	if len(list) > limit {
		return list[:limit:limit], true
	}
	return list, false
}

// Scanner is a row.
type Scanner interface{ Scan(...any) error }

// All reads all rows of a query.
func All[T any](ctx context.Context, db *sql.DB, scan func(Scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return out, nil
}
