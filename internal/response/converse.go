package response

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/hardshell-dev/hardshell/internal/response/conversation"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// converse adds a response to its conversation in the transaction that ends it: what it was asked, then its output. One
// that failed or was cancelled before it had any output adds nothing, so that its request can be sent again.
func converse(tx *sql.Tx, id string, end *seal) error {
	o := end.object
	ours, err := conversation.Leave(tx, o.Conversation.ID, id)
	if err != nil || !ours {
		return err
	}
	if len(o.Output) == 0 && o.Status != openai.Completed && o.Status != openai.Incomplete {
		return nil
	}
	var raw []byte
	if err := tx.QueryRow(`SELECT items FROM response_input WHERE response_id = $1`, id).Scan(&raw); err != nil {
		return fmt.Errorf("read input of %s: %w", id, err)
	}
	var items []openai.Item
	if err := json.Unmarshal(raw, &items); err != nil {
		return fmt.Errorf("read input of %s: %w", id, err)
	}
	return conversation.Append(tx, o.Conversation.ID, end.container, append(items, o.Output...))
}
