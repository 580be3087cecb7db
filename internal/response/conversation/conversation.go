// Package conversation holds conversations: items under an id that outlive the responses which added them.
//
// It runs nothing, checks no item and knows no response but by its id. What holds: an item keeps its place; the id of an
// item is one of its conversation's only; one response at a time continues a conversation, and while it does nobody else
// changes the items; what a response adds is added once, in the transaction that ends it (turn.go). A conversation is
// kept until it is deleted. Another organisation's looks absent.
package conversation

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// MaxItems bounds a conversation: every response that continues it reads all of it. Beyond it nothing is added by hand,
// and no response continues it.
const MaxItems = 10_000

// Conversation is one without its items.
type Conversation struct {
	ID       string
	Created  time.Time
	Metadata map[string]string
}

// History is what a response finds that continues a conversation.
type History struct {
	Items       []openai.Item
	ContainerID string // that its latest response used
	Revision    int64  // of the items; see Take
	Running     string // the response that continues it now; "" is none
}

// Room keeps the conversations of one database. It is safe for use by many goroutines.
type Room struct {
	db    *store.DB
	clock func() time.Time
}

//go:embed migrations/*.sql
var migrations embed.FS

// Open migrates the tables. Those of responses must be there.
func Open(ctx context.Context, db *store.DB, clock func() time.Time) (*Room, error) {
	if err := db.Migrate(ctx, "conversation", migrations); err != nil {
		return nil, err
	}
	return &Room{db: db, clock: clock}, nil
}

// Missing is the answer for a conversation that is absent or another organisation's: the two are not to be told apart.
func Missing(id string) *fault.Error {
	return fault.New(fault.NotFound, "Conversation with id '%s' not found.", id).WithCode("conversation_not_found")
}

// busy is the answer, with the vendor's code, while a response continues the conversation.
func busy(id string) *fault.Error {
	return fault.New(fault.Invalid, "A response is running on conversation '%s', or has just changed it.", id).
		WithCode("conversation_locked").WithTry("again when the response has ended")
}

func full() *fault.Error {
	return fault.New(fault.Invalid, "A conversation may have %d items.", MaxItems).WithCode("conversation_too_long").
		WithTry("a new conversation that begins with a summary")
}

// Create makes a conversation of items that have ids, each its own.
func (r *Room) Create(ctx context.Context, org string, items []openai.Item, metadata map[string]string) (Conversation, error) {
	now := r.clock()
	c := Conversation{ID: id.At(id.Conversation, now), Created: time.UnixMilli(now.UnixMilli()), Metadata: metadata}
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	meta, err := json.Marshal(c.Metadata)
	if err != nil {
		return Conversation{}, fmt.Errorf("make conversation: %w", err)
	}
	err = r.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec(`INSERT INTO conversation (id, org, created, metadata, container_id, next_place, items, revision)
			VALUES ($1, $2, $3, $4, '', 0, 0, 0)`, c.ID, org, c.Created.UnixMilli(), string(meta)); err != nil {
			return err
		}
		return add(tx, c.ID, "", items)
	})
	if err != nil {
		return Conversation{}, fmt.Errorf("make conversation: %w", err)
	}
	return c, nil
}

// Get returns a conversation.
func (r *Room) Get(ctx context.Context, org, id string) (Conversation, error) {
	c := Conversation{ID: id}
	var created int64
	var meta string
	err := r.db.Read().QueryRowContext(ctx, `SELECT created, metadata FROM conversation WHERE id = $1 AND org = $2`, id, org).Scan(&created, &meta)
	if errors.Is(err, sql.ErrNoRows) {
		return Conversation{}, Missing(id)
	}
	if err == nil {
		err = json.Unmarshal([]byte(meta), &c.Metadata)
	}
	if err != nil {
		return Conversation{}, fmt.Errorf("read conversation: %w", err)
	}
	c.Created = time.UnixMilli(created)
	return c, nil
}

// SetMetadata replaces a conversation's metadata.
func (r *Room) SetMetadata(ctx context.Context, org, id string, metadata map[string]string) (Conversation, error) {
	if metadata == nil {
		metadata = map[string]string{}
	}
	meta, err := json.Marshal(metadata)
	if err != nil {
		return Conversation{}, fmt.Errorf("change conversation: %w", err)
	}
	err = r.db.Write(ctx, func(tx *sql.Tx) error {
		return one(tx, id, `UPDATE conversation SET metadata = $3 WHERE id = $1 AND org = $2`, id, org, string(meta))
	})
	if err != nil {
		return Conversation{}, err
	}
	return r.Get(ctx, org, id)
}

// Delete removes a conversation with its items. The responses that added them stay; one that runs on it goes on, and adds
// nothing.
func (r *Room) Delete(ctx context.Context, org, id string) error {
	return r.db.Write(ctx, func(tx *sql.Tx) error {
		return one(tx, id, `DELETE FROM conversation WHERE id = $1 AND org = $2`, id, org)
	})
}

// one runs a statement that changes the conversation, if it is there.
func one(tx *sql.Tx, id, query string, args ...any) error {
	res, err := tx.Exec(query, args...)
	if err != nil {
		return fmt.Errorf("change conversation: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return fmt.Errorf("change conversation: %w", err)
	} else if n == 0 {
		return Missing(id)
	}
	return nil
}

// History returns all of a conversation.
func (r *Room) History(ctx context.Context, org, id string) (History, error) {
	var h History
	tx, err := r.db.Read().BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // items and revision of one moment
	if err != nil {
		return h, fmt.Errorf("read conversation: %w", err)
	}
	defer tx.Rollback()
	err = tx.QueryRowContext(ctx, `SELECT c.container_id, c.revision, COALESCE(t.response_id, '') FROM conversation c
		LEFT JOIN conversation_turn t ON t.conversation_id = c.id WHERE c.id = $1 AND c.org = $2`, id, org).
		Scan(&h.ContainerID, &h.Revision, &h.Running)
	if errors.Is(err, sql.ErrNoRows) {
		return h, Missing(id)
	}
	if err != nil {
		return h, fmt.Errorf("read conversation: %w", err)
	}
	rows, err := tx.QueryContext(ctx, `SELECT item FROM conversation_item WHERE conversation_id = $1 ORDER BY place`, id)
	if err != nil {
		return h, fmt.Errorf("read conversation: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		i, err := scan(rows)
		if err != nil {
			return h, fmt.Errorf("read conversation: %w", err)
		}
		h.Items = append(h.Items, i)
	}
	if err := rows.Err(); err != nil {
		return h, fmt.Errorf("read conversation: %w", err)
	}
	return h, nil
}

func scan(row store.Scanner) (i openai.Item, err error) {
	var raw []byte
	if err = row.Scan(&raw); err == nil {
		err = json.Unmarshal(raw, &i)
	}
	return i, err
}
