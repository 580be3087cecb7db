package response

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// birth is the row of a response that is not on record yet. It goes along with whatever is written for the response
// first: its first events, or, when it is short, its end. Until then nobody finds the response after a crash; those who
// ask for it while it runs find the run.
type birth struct {
	begin     Begin
	owner     string
	created   int64
	container string
	status    string
	object    string
	input     string
	work      []byte
}

// Statements that every stored response runs are compiled once.
const (
	insertRow = `INSERT INTO response (id, org, key_id, status, background, model, previous_id, container_id,
	owner, fence, created, completed, expires, last_seq, object)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (id) DO NOTHING`
	insertWork  = `INSERT INTO response_work (response_id, work) VALUES ($1, $2)`
	insertInput = `INSERT INTO response_input (response_id, items) VALUES ($1, $2)`
	insertBlock = `INSERT INTO event_block (response_id, first_seq, last_seq, data)
	SELECT id, $3, $4, $5 FROM response WHERE id = $1 AND fence = $2`
)

// statements are the compiled ones.
type statements struct{ row, input, work, block *sql.Stmt }

func prepare(ctx context.Context, db *store.DB) (s statements, err error) {
	for query, to := range map[string]**sql.Stmt{insertRow: &s.row, insertInput: &s.input, insertWork: &s.work, insertBlock: &s.block} {
		if *to, err = db.Prepare(ctx, query); err != nil {
			return s, fmt.Errorf("open responses: %w", err)
		}
	}
	return s, nil
}

func (s *Service) birth(r *Run, b Begin) (*birth, error) {
	object, err := openai.Marshal(r.object)
	if err != nil {
		return nil, fmt.Errorf("begin response: %w", err)
	}
	input := []byte("[]")
	if len(b.Input) > 0 {
		if input, err = openai.Marshal(b.Input); err != nil {
			return nil, fmt.Errorf("begin response: %w", err)
		}
	}
	return &birth{begin: b, owner: s.owner, created: s.clock().UnixMilli(), container: r.object.ContainerID,
		status: r.object.Status, object: string(object), input: string(input)}, nil
}

// write inserts the rows as they were at the beginning, unless they are there.
func (b *birth) write(tx *sql.Tx, st statements, r *Run) error {
	made, err := b.insert(tx, st, r.id, r.fence, b.status, b.container, b.object, nil, nil, nil)
	if err != nil || !made || b.begin.Work == nil {
		return err
	}
	if b.work == nil { // a transaction may be tried again
		if b.work, err = b.begin.Work(); err != nil {
			return fmt.Errorf("begin response: %w", err)
		}
	}
	if _, err := tx.Stmt(st.work).Exec(r.id, b.work); err != nil {
		return fmt.Errorf("begin response: %w", err)
	}
	return nil
}

// writeEnded inserts the rows in their final form. It says false when the response is on record already.
func (b *birth) writeEnded(tx *sql.Tx, st statements, id string, fence int64, end *seal, expires int64) (bool, error) {
	return b.insert(tx, st, id, fence, end.object.Status, end.container, string(objectIn(end.terminal.Data)),
		end.completed.UnixMilli(), expires, end.terminal.Seq)
}

func (b *birth) insert(tx *sql.Tx, st statements, id string, fence int64, status, container, object string, completed, expires, last any) (bool, error) {
	res, err := tx.Stmt(st.row).Exec(id, b.begin.Org, b.begin.KeyID, status, btoi(b.begin.Background), b.begin.Object.Model,
		b.begin.PreviousID, container, b.owner, fence, b.created, completed, expires, last, object)
	if err != nil {
		return false, fmt.Errorf("begin response: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	if _, err := tx.Stmt(st.input).Exec(id, b.input); err != nil {
		return false, fmt.Errorf("begin response: %w", err)
	}
	return true, nil
}

// onRecord returns when the rows of a running response can be read, or never will be.
func (s *Service) onRecord(ctx context.Context, org, id string) {
	r, err := s.undecided(ctx, org, id)
	if r == nil || err != nil {
		return
	}
	r.mu.Lock()
	unborn := r.unborn != nil
	r.mu.Unlock()
	if unborn {
		newSubscription(s, r, id, 0, true).reached(ctx) // whatever became of it, the rows are there or not
	}
}
