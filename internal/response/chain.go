package response

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Chain is what came before a turn: the inputs and outputs of all its ancestors, oldest first, and the container that
// the latest of them used.
type Chain struct {
	Items       []openai.Item
	ContainerID string
}

// maxTurns bounds a chain. A longer conversation has long outgrown every model's window; it is refused, not cut.
const maxTurns = 200

// lost is the answer for a previous response that cannot be gone on from.
func lost(id string) error {
	return fault.New(fault.NotFound, "Previous response with id '%s' not found.", id).
		WithCode("previous_response_not_found").WithParam("previous_response_id")
}

// Chain rebuilds the transcript that ends with the response previousID.
func (s *Service) Chain(ctx context.Context, org, previousID string) (Chain, error) {
	s.onRecord(ctx, org, previousID)
	rows, err := s.db.Read().QueryContext(ctx, `
		WITH RECURSIVE turn (id, previous_id, depth) AS (
			SELECT id, previous_id, 1 FROM response WHERE id = $1 AND org = $2
			UNION ALL
			SELECT r.id, r.previous_id, t.depth + 1 FROM turn t JOIN response r ON r.id = t.previous_id
			WHERE r.org = $2 AND t.depth <= $3
		)
		SELECT t.id, t.previous_id, t.depth, r.completed IS NOT NULL, r.container_id, r.object, i.items
		FROM turn t JOIN response r ON r.id = t.id JOIN response_input i ON i.response_id = t.id
		ORDER BY t.depth DESC`, previousID, org, maxTurns)
	if err != nil {
		return Chain{}, fmt.Errorf("rebuild conversation: %w", err)
	}
	defer rows.Close()
	var c Chain
	for turn := 0; rows.Next(); turn++ {
		var id, before, container, object, input string
		var depth int
		var ended bool
		if err := rows.Scan(&id, &before, &depth, &ended, &container, &object, &input); err != nil {
			return Chain{}, fmt.Errorf("rebuild conversation: %w", err)
		}
		switch {
		case depth > maxTurns:
			return Chain{}, fault.New(fault.Invalid, "The conversation before this response has more than %d turns.", maxTurns).
				WithCode("conversation_too_long").WithParam("previous_response_id").WithTry("a new conversation that begins with a summary")
		case turn == 0 && before != "":
			return Chain{}, lost(before) // an ancestor was deleted or has expired: half a transcript would mislead the model
		case !ended:
			return Chain{}, fault.New(fault.Conflict, "Response %s is still running.", id).
				WithParam("previous_response_id").WithTry("again when it has ended")
		}
		var items []openai.Item
		if err := json.Unmarshal([]byte(input), &items); err != nil {
			return Chain{}, fmt.Errorf("read input of %s: %w", id, err)
		}
		var final struct {
			Output []openai.Item `json:"output"`
		}
		if err := json.Unmarshal([]byte(object), &final); err != nil {
			return Chain{}, fmt.Errorf("read output of %s: %w", id, err)
		}
		c.Items = append(append(c.Items, items...), final.Output...)
		if container != "" {
			c.ContainerID = container
		}
	}
	if err := rows.Err(); err != nil {
		return Chain{}, fmt.Errorf("rebuild conversation: %w", err)
	}
	if c.Items == nil {
		return s.empty(ctx, org, previousID, c)
	}
	return c, nil
}

// empty tells a conversation without items from one that is not there.
func (s *Service) empty(ctx context.Context, org, previousID string, c Chain) (Chain, error) {
	if _, err := s.Get(ctx, org, previousID); err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return Chain{}, lost(previousID)
		}
		return Chain{}, err
	}
	return c, nil
}

// InputItems returns what a response was asked, in order.
func (s *Service) InputItems(ctx context.Context, org, id string) ([]openai.Item, error) {
	s.onRecord(ctx, org, id)
	var raw string
	err := s.db.Read().QueryRowContext(ctx, `SELECT i.items FROM response r JOIN response_input i ON i.response_id = r.id
		WHERE r.id = $1 AND r.org = $2`, id, org).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, missing(id)
	}
	if err != nil {
		return nil, fmt.Errorf("read input: %w", err)
	}
	var items []openai.Item
	if err := json.Unmarshal([]byte(raw), &items); err != nil {
		return nil, fmt.Errorf("read input of %s: %w", id, err)
	}
	return items, nil
}
