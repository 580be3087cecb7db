package conversation

import (
	"database/sql"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Take makes a response the one that continues a conversation, in the transaction that begins it: the response's row is
// there. The conversation must be at the revision of the History that the response continues; otherwise the model would
// answer another conversation than the one that its answer is added to.
func Take(tx *sql.Tx, org, id string, revision int64, responseID string) error {
	at, items, err := still(tx, org, id)
	switch {
	case err != nil:
		return OfRequest(err)
	case at != revision:
		return OfRequest(busy(id))
	case items >= MaxItems:
		return OfRequest(full())
	}
	if _, err := tx.Exec(`INSERT INTO conversation_turn (conversation_id, response_id) VALUES ($1, $2)`, id, responseID); err != nil {
		return fmt.Errorf("continue conversation: %w", err)
	}
	return nil
}

// OfRequest says of an error that it is about the conversation which a request for a response names.
func OfRequest(err error) error {
	f, ok := fault.As(err)
	if !ok {
		return err
	}
	named := *f
	named.Param = "conversation"
	return &named
}

// Locked is the refusal of a request that names a conversation which a response is running on.
func Locked(id string) error { return OfRequest(busy(id)) }

// Leave ends a response's turn in the transaction that ends the response. It says whether the turn was there: then the
// caller adds what the response has to add by Append, in the same transaction. It is not there when the conversation was
// deleted meanwhile.
func Leave(tx *sql.Tx, id, responseID string) (bool, error) {
	res, err := tx.Exec(`DELETE FROM conversation_turn WHERE conversation_id = $1 AND response_id = $2`, id, responseID)
	if err != nil {
		return false, fmt.Errorf("end turn: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("end turn: %w", err)
	}
	return n == 1, nil
}

// Append adds what a response was asked and what it answered. container is the one that it used, if it used one.
func Append(tx *sql.Tx, id, container string, items []openai.Item) error {
	return add(tx, id, container, items)
}
