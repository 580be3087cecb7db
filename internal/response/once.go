package response

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// keyLife is how long a client's name for a request is remembered.
const keyLife = 24 * time.Hour

// CodeKeyTaken says that Begin has begun nothing, as another request of the same name came first; Keyed finds it.
const CodeKeyTaken = "idempotency_key_in_use"

// Keyed finds the response that an organisation's request of that name has begun, if one has. A name stands for one
// request only: with another body, told by its digest, it is refused.
func (s *Service) Keyed(ctx context.Context, org, key, digest string) (id string, err error) {
	var first string
	err = s.db.Read().QueryRowContext(ctx, `SELECT digest, response_id FROM response_key WHERE org = $1 AND key = $2 AND expires > $3`,
		org, key, s.clock().UnixMilli()).Scan(&first, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("find request: %w", err)
	case first != digest:
		return "", fault.New(fault.Invalid, "This Idempotency-Key was used for another request.").WithCode("idempotency_key_reused").
			WithParam("Idempotency-Key").WithTry("a fresh key for each request")
	case id == "":
		return "", fault.New(fault.Conflict, "The request of this Idempotency-Key has been taken already, and its response was not stored.").
			WithCode("idempotent_response_not_stored").WithTry("store: true, and the response can be had again")
	}
	return id, nil
}

// claimKey writes down which response a name stands for. A name whose time is over is free again.
func (s *Service) claimKey(tx *sql.Tx, r *Run, b Begin) error {
	if b.Key == "" {
		return nil
	}
	now := s.clock()
	res, err := tx.Exec(`INSERT INTO response_key (org, key, digest, response_id, expires) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (org, key) DO UPDATE SET digest = excluded.digest, response_id = excluded.response_id, expires = excluded.expires
		WHERE response_key.expires <= $6`, b.Org, b.Key, b.Digest, keyedID(r), now.Add(keyLife).UnixMilli(), now.UnixMilli())
	if err != nil {
		return fmt.Errorf("begin response: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return fmt.Errorf("begin response: %w", err)
	} else if n == 0 {
		return fault.New(fault.Conflict, "The request of this Idempotency-Key has been taken already.").WithCode(CodeKeyTaken)
	}
	return nil
}

// releaseKey takes the name back of a response that was not begun after all.
func releaseKey(tx *sql.Tx, r *Run, b Begin) error {
	_, err := tx.Exec(`DELETE FROM response_key WHERE org = $1 AND key = $2 AND digest = $3 AND response_id = $4`, b.Org, b.Key, b.Digest, keyedID(r))
	return err
}

// keyedID is the response that a name stands for; empty is one that is not stored.
func keyedID(r *Run) string {
	if !r.stored {
		return ""
	}
	return r.id
}

// Wait returns a stored response when it has ended.
func (s *Service) Wait(ctx context.Context, org, id string) (*openai.Response, error) {
	return s.Attend(ctx, org, id, nil)
}
