package approvals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/internal/store"
)

const columns = `SELECT id, org, key_id, response_id, item_id, call_id, container_id, digest, parts, question, status, scope, reason,
	decided_by, created, expires, decided FROM approval `

// asker is a database or a transaction.
type asker interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func scan(row store.Scanner) (a Approval, err error) {
	var parts, question string
	var created, expires int64
	var decided sql.NullInt64
	if err := row.Scan(&a.ID, &a.Org, &a.KeyID, &a.Response, &a.Item, &a.Call, &a.Container, &a.Digest, &parts, &question, &a.Status,
		&a.Scope, &a.Reason, &a.By, &created, &expires, &decided); err != nil {
		return a, err
	}
	a.Created, a.Expires = time.UnixMilli(created), time.UnixMilli(expires)
	if decided.Valid {
		a.Decided = time.UnixMilli(decided.Int64)
	}
	if err := json.Unmarshal([]byte(parts), &a.Parts); err != nil {
		return a, fmt.Errorf("read approval: %w", err)
	}
	if err := json.Unmarshal([]byte(question), &a.Question); err != nil {
		return a, fmt.Errorf("read approval: %w", err)
	}
	return a, nil
}

func (s *Service) find(ctx context.Context, db asker, org, id string) (Approval, error) {
	a, err := scan(db.QueryRowContext(ctx, columns+`WHERE id = $1 AND org = $2`, id, org))
	if errors.Is(err, sql.ErrNoRows) {
		return a, missing(id)
	}
	if err != nil {
		return a, fmt.Errorf("find approval: %w", err)
	}
	return a, nil
}

func (s *Service) rows(ctx context.Context, where string, args ...any) ([]Approval, error) {
	return store.All(ctx, s.db.Read(), scan, columns+where, args...)
}

func (s *Service) insert(tx *sql.Tx, a Approval) error {
	parts, err := text(a.Parts)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	question, err := text(a.Question)
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO approval (id, org, key_id, response_id, item_id, call_id, container_id, digest, parts, question, status,
		scope, reason, decided_by, created, expires, settled) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '', '', '', $12, $13, 0)
		ON CONFLICT (id) DO NOTHING`, a.ID, a.Org, a.KeyID, a.Response, a.Item, a.Call, a.Container, a.Digest, parts, question, a.Status,
		a.Created.UnixMilli(), a.Expires.UnixMilli())
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	return nil
}

// decide writes an answer.
func (s *Service) decide(tx *sql.Tx, a Approval) error {
	_, err := tx.Exec(`UPDATE approval SET status = $2, scope = $3, reason = $4, decided_by = $5, decided = $6 WHERE id = $1 AND status = 'pending'`,
		a.ID, a.Status, a.Scope, a.Reason, a.By, a.Decided.UnixMilli())
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// grant lets exactly the commands that asked run in their container without a question.
func (s *Service) grant(tx *sql.Tx, a Approval, by string, now time.Time) error {
	for _, digest := range a.Parts {
		_, err := tx.Exec(`INSERT INTO approval_grant (org, container_id, digest, approval_id, granted_by, expires) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (org, container_id, digest) DO UPDATE SET approval_id = excluded.approval_id, granted_by = excluded.granted_by,
			expires = excluded.expires`, a.Org, a.Container, digest, a.ID, by, now.Add(keep).UnixMilli())
		if err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return nil
}

// withdraw ends a response's open questions, but for some.
func (s *Service) withdraw(tx *sql.Tx, response string, but []string, now time.Time) error {
	kept, err := text(but)
	if err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	_, err = tx.Exec(`UPDATE approval SET status = 'cancelled', decided = $2, settled = 1 WHERE response_id = $1 AND status = 'pending'
		AND id NOT IN (SELECT value FROM json_each($3) WHERE value IS NOT NULL)`, response, now.UnixMilli(), kept)
	if err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	return nil
}

func (s *Service) settle(tx *sql.Tx, response string) error {
	_, err := tx.Exec(`UPDATE approval SET settled = 1 WHERE response_id = $1 AND settled = 0 AND status <> 'pending'`, response)
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// expire ends the questions whose time is over and returns them.
func (s *Service) expire(tx *sql.Tx, now time.Time) (list []Approval, err error) {
	rows, err := tx.Query(columns+`WHERE status = 'pending' AND expires <= $1`, now.UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("expire: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		a, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("expire: %w", err)
		}
		a.Status, a.Decided = Expired, now
		list = append(list, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("expire: %w", err)
	}
	for _, a := range list {
		if err := s.decide(tx, a); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// prune forgets what nobody asks for any more.
func (s *Service) prune(tx *sql.Tx, now time.Time) error {
	if _, err := tx.Exec(`DELETE FROM approval WHERE settled = 1 AND decided <= $1`, now.Add(-keep).UnixMilli()); err != nil {
		return fmt.Errorf("forget approvals: %w", err)
	}
	if _, err := tx.Exec(`DELETE FROM approval_grant WHERE expires <= $1`, now.UnixMilli()); err != nil {
		return fmt.Errorf("forget approvals: %w", err)
	}
	return nil
}
