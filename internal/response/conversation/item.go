package conversation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Page asks for a part of the items.
type Page struct {
	Limit int
	After string // an item's id; the page begins behind it
	Order string // "desc" (newest first, also when empty) or "asc"
}

func missingItem(id string) *fault.Error {
	return fault.New(fault.NotFound, "Item with id '%s' not found.", id).WithCode("item_not_found")
}

// Add puts items that have ids behind those that a History of that revision has. They were checked against it, so that
// a conversation which has changed since is refused.
func (r *Room) Add(ctx context.Context, org, id string, revision int64, items []openai.Item) error {
	return r.db.Write(ctx, func(tx *sql.Tx) error {
		at, count, err := still(tx, org, id)
		switch {
		case err != nil:
			return err
		case at != revision:
			return busy(id)
		case count+int64(len(items)) > MaxItems:
			return full()
		}
		return add(tx, id, "", items)
	})
}

// still returns the revision of a conversation whose items may be changed, and how many there are.
func still(tx *sql.Tx, org, id string) (revision, items int64, err error) {
	var running bool
	err = tx.QueryRow(`SELECT revision, items, EXISTS (SELECT 1 FROM conversation_turn WHERE conversation_id = $1) FROM conversation
		WHERE id = $1 AND org = $2`, id, org).Scan(&revision, &items, &running)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, 0, Missing(id)
	case err != nil:
		return 0, 0, fmt.Errorf("read conversation: %w", err)
	case running:
		return 0, 0, busy(id)
	}
	return revision, items, nil
}

// add puts items at the end. One whose id is there already stays where it is. container is what the conversation uses
// from now on, "" what it has used.
func add(tx *sql.Tx, id, container string, items []openai.Item) error {
	var place, count int64
	if err := tx.QueryRow(`SELECT next_place, items FROM conversation WHERE id = $1`, id).Scan(&place, &count); err != nil {
		return fmt.Errorf("add to conversation: %w", err)
	}
	for _, i := range items {
		raw, err := openai.Marshal(i)
		if err != nil {
			return fmt.Errorf("add to conversation: %w", err)
		}
		res, err := tx.Exec(`INSERT INTO conversation_item (conversation_id, place, id, item) VALUES ($1, $2, $3, $4)
			ON CONFLICT (id, conversation_id) DO NOTHING`, id, place, i.ID, string(raw))
		if err != nil {
			return fmt.Errorf("add to conversation: %w", err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return fmt.Errorf("add to conversation: %w", err)
		}
		place, count = place+n, count+n
	}
	if _, err := tx.Exec(`UPDATE conversation SET next_place = $2, items = $3, revision = revision + 1,
		container_id = CASE WHEN $4 = '' THEN container_id ELSE $4 END WHERE id = $1`, id, place, count, container); err != nil {
		return fmt.Errorf("add to conversation: %w", err)
	}
	return nil
}

// Items returns a page of a conversation's items, and whether there are more behind it.
func (r *Room) Items(ctx context.Context, org, id string, page Page) ([]openai.Item, bool, error) {
	compare, order := "<", "DESC"
	if page.Order == "asc" {
		compare, order = ">", "ASC"
	}
	query := `SELECT item FROM conversation_item WHERE conversation_id = $1`
	args := []any{id, page.Limit + 1}
	if page.After == "" {
		if _, err := r.Get(ctx, org, id); err != nil {
			return nil, false, err
		}
	} else {
		place, err := r.place(ctx, org, id, page.After)
		if fault.KindOf(err) == fault.NotFound {
			if _, err := r.Get(ctx, org, id); err != nil {
				return nil, false, err
			}
			return nil, false, fault.New(fault.Invalid, "after names no item of this conversation.").WithCode("invalid_value").WithParam("after")
		}
		if err != nil {
			return nil, false, err
		}
		query += ` AND place ` + compare + ` $3`
		args = append(args, place)
	}
	items, err := store.All(ctx, r.db.Read(), scan, query+` ORDER BY place `+order+` LIMIT $2`, args...)
	if err != nil {
		return nil, false, fmt.Errorf("read items: %w", err)
	}
	items, more := store.Cut(items, page.Limit)
	return items, more, nil
}

func (r *Room) place(ctx context.Context, org, id, itemID string) (place int64, err error) {
	err = r.db.Read().QueryRowContext(ctx, `SELECT i.place FROM conversation_item i JOIN conversation c ON c.id = i.conversation_id
		WHERE i.id = $1 AND i.conversation_id = $2 AND c.org = $3`, itemID, id, org).Scan(&place)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, missingItem(itemID)
	}
	return place, err
}

// Item returns one item of a conversation.
func (r *Room) Item(ctx context.Context, org, id, itemID string) (openai.Item, error) {
	i, err := scan(r.db.Read().QueryRowContext(ctx, `SELECT i.item FROM conversation_item i JOIN conversation c ON c.id = i.conversation_id
		WHERE i.id = $1 AND i.conversation_id = $2 AND c.org = $3`, itemID, id, org))
	if errors.Is(err, sql.ErrNoRows) {
		if _, err := r.Get(ctx, org, id); err != nil {
			return i, err
		}
		return i, missingItem(itemID)
	}
	if err != nil {
		return i, fmt.Errorf("read item: %w", err)
	}
	return i, nil
}

// Find looks an item up in all conversations of an organisation.
func (r *Room) Find(ctx context.Context, org, itemID string) (i openai.Item, found bool, err error) {
	i, err = scan(r.db.Read().QueryRowContext(ctx, `SELECT i.item FROM conversation_item i JOIN conversation c ON c.id = i.conversation_id
		WHERE i.id = $1 AND c.org = $2 ORDER BY i.conversation_id LIMIT 1`, itemID, org))
	if errors.Is(err, sql.ErrNoRows) {
		return i, false, nil
	}
	if err != nil {
		return i, false, fmt.Errorf("find item: %w", err)
	}
	return i, true, nil
}

// DeleteItem takes an item out of a conversation.
func (r *Room) DeleteItem(ctx context.Context, org, id, itemID string) (Conversation, error) {
	err := r.db.Write(ctx, func(tx *sql.Tx) error {
		if _, _, err := still(tx, org, id); err != nil {
			return err
		}
		res, err := tx.Exec(`DELETE FROM conversation_item WHERE id = $1 AND conversation_id = $2`, itemID, id)
		if err != nil {
			return fmt.Errorf("delete item: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil {
			return fmt.Errorf("delete item: %w", err)
		} else if n == 0 {
			return missingItem(itemID)
		}
		if _, err := tx.Exec(`UPDATE conversation SET items = items - 1, revision = revision + 1 WHERE id = $1`, id); err != nil {
			return fmt.Errorf("delete item: %w", err)
		}
		return nil
	})
	if err != nil {
		return Conversation{}, err
	}
	return r.Get(ctx, org, id)
}
