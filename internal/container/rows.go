package container

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// row is a container as it is stored.
type row struct {
	Container
	slot    sql.NullInt64 // not valid once the folder is gone
	due     sql.NullInt64
	archive string // the blob that holds its files; empty: none
	backend string // where that blob is
	secrets string // of the network policy, sealed
}

const rowColumns = `id, org, name, status, slot, memory_limit, idle_ttl, network, created, last_active, ended, due, archive, backend, secrets`

func scanRow(s store.Scanner) (row, error) {
	var (
		r                        row
		network                  string
		ttl, created, lastActive int64
		ended                    sql.NullInt64
	)
	if err := s.Scan(&r.ID, &r.Org, &r.Name, &r.Status, &r.slot, &r.MemoryLimit, &ttl, &network, &created, &lastActive,
		&ended, &r.due, &r.archive, &r.backend, &r.secrets); err != nil {
		return row{}, err
	}
	r.IdleTTL = time.Duration(ttl) * time.Millisecond
	r.Created, r.LastActive = time.UnixMilli(created), time.UnixMilli(lastActive)
	if ended.Valid {
		r.Ended = time.UnixMilli(ended.Int64)
	}
	if network != "" {
		r.Network = new(NetworkPolicy)
		if err := json.Unmarshal([]byte(network), r.Network); err != nil {
			return row{}, fmt.Errorf("read network of container %s: %w", r.ID, err)
		}
	}
	return r, nil
}

func absent(id string) error {
	return fault.New(fault.NotFound, "Container %q was not found.", id).WithCode("container_not_found")
}

// row reads a container that is not deleted. An empty org is any.
func (s *Service) row(ctx context.Context, org, id string) (row, error) {
	r, err := scanRow(s.db.Read().QueryRowContext(ctx, `SELECT `+rowColumns+` FROM container WHERE id = $1`, id))
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && (r.Status == Deleted || org != "" && r.Org != org):
		return row{}, absent(id)
	case err != nil:
		return row{}, fmt.Errorf("read container: %w", err)
	}
	return r, nil
}

// insert stores a new container, if its organisation may have one more.
func (s *Service) insert(ctx context.Context, r row) error {
	network := ""
	if r.Network != nil {
		b, err := json.Marshal(r.Network)
		if err != nil {
			return fmt.Errorf("write network of container: %w", err)
		}
		network = string(b)
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := s.limits.admit(tx, r.Org, false); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO container (id, org, name, status, slot, memory_limit, idle_ttl, network, created, last_active, due, secrets)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			r.ID, r.Org, r.Name, r.Status, r.slot, r.MemoryLimit, r.IdleTTL.Milliseconds(), network, r.Created.UnixMilli(),
			r.LastActive.UnixMilli(), r.due, r.secrets)
		return err
	})
	if err != nil {
		return fmt.Errorf("create container: %w", err)
	}
	return nil
}

// end takes a container out of its state, as the table of states allows. It answers false when another transition
// came first.
func (s *Service) end(ctx context.Context, id, status string, due sql.NullInt64) (bool, error) {
	var from []string
	for state, to := range next {
		for _, t := range to {
			if t == status {
				from = append(from, "'"+state+"'") // constants of ours
			}
		}
	}
	done := false
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE container SET status = $1, ended = COALESCE(ended, $2), due = $3, secrets = ''
			WHERE id = $4 AND status IN (`+strings.Join(from, ", ")+`)`, status, s.now().UnixMilli(), due, id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		done = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("end container: %w", err)
	}
	return done, nil
}

// How long a row stays when its folder and its files are gone: a reference to a container that has expired is told so.
const (
	keepExpiredRow = 30 * 24 * time.Hour
	keepDeletedRow = time.Hour
)

// purge forgets a container that has nothing left but its row.
func (s *Service) purge(ctx context.Context, id string) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		const over = `SELECT id FROM container WHERE id = $1 AND status <> '` + Active + `' AND slot IS NULL AND archive = ''`
		if err := dropContents(tx, over, id); err != nil { // what was late may have made some
			return err
		}
		_, err := tx.Exec(`DELETE FROM container WHERE id IN (`+over+`)`, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("forget container: %w", err)
	}
	return nil
}

// dropContents forgets what containers hold.
func dropContents(tx *sql.Tx, containers, id string) error {
	for _, table := range []string{"container_file", "container_skill", "container_input"} {
		if _, err := tx.Exec(`DELETE FROM `+table+` WHERE container IN (`+containers+`)`, id); err != nil {
			return err
		}
	}
	return nil
}

// freed notes that a container's folder is gone, and its files with it. It answers false when that was noted before.
func (s *Service) freed(ctx context.Context, id string) (bool, error) {
	first := false
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := dropContents(tx, `$1`, id); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO container_garbage (backend, key)
			SELECT backend, archive FROM container WHERE id = $1 AND archive <> '' ON CONFLICT DO NOTHING`, id); err != nil {
			return err
		}
		var had bool
		err := tx.QueryRow(`SELECT slot IS NOT NULL FROM container WHERE id = $1`, id).Scan(&had)
		if err != nil {
			return err
		}
		first = had
		now := s.now()
		_, err = tx.Exec(`UPDATE container SET slot = NULL, due = CASE status WHEN '`+Deleted+`' THEN $2 ELSE $3 END, archive = '', backend = '' WHERE id = $1`,
			id, now.Add(keepDeletedRow).UnixMilli(), now.Add(keepExpiredRow).UnixMilli())
		return err
	})
	if err != nil {
		return false, fmt.Errorf("free container: %w", err)
	}
	return first, nil
}

// activity is what a container did lately.
type activity struct {
	at   time.Time
	used sql.NullInt64 // bytes of the disk
}

// touch stores the last activity of containers that are active.
func (s *Service) touch(ctx context.Context, active map[string]activity) error {
	if len(active) == 0 {
		return nil
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		for id, a := range active {
			if _, err := tx.Exec(`UPDATE container SET last_active = $1, due = $1 + idle_ttl, used = COALESCE($2, used)
				WHERE id = $3 AND status = '`+Active+`'`, a.at.UnixMilli(), a.used, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note activity: %w", err)
	}
	return nil
}

// query returns the rows that a condition selects.
func (s *Service) query(ctx context.Context, condition string, args ...any) ([]row, error) {
	rows, err := store.All(ctx, s.db.Read(), scanRow, `SELECT `+rowColumns+` FROM container WHERE `+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	return rows, nil
}

// dueRows are the rows that somebody must look at now.
func (s *Service) dueRows(ctx context.Context, limit int) ([]row, error) {
	return s.query(ctx, `due <= $1 ORDER BY due LIMIT $2`, s.now().UnixMilli(), limit)
}

// foldedRows are the rows whose folders have not been removed.
func (s *Service) foldedRows(ctx context.Context) ([]row, error) {
	return s.query(ctx, `slot IS NOT NULL`)
}

func millis(t time.Time) sql.NullInt64 { return sql.NullInt64{Int64: t.UnixMilli(), Valid: true} }
