package file

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

const columns = `id, org, name, bytes, purpose, backend, created, expires`

func scan(row store.Scanner) (File, error) {
	var (
		f       File
		created int64
		expires sql.NullInt64
	)
	if err := row.Scan(&f.ID, &f.Org, &f.Name, &f.Bytes, &f.Purpose, &f.backend, &created, &expires); err != nil {
		return File{}, err
	}
	f.Created = time.UnixMilli(created)
	if expires.Valid {
		f.Expires = time.UnixMilli(expires.Int64)
	}
	return f, nil
}

func (s *Service) row(ctx context.Context, org, id string) (File, error) {
	f, err := scan(s.db.Read().QueryRowContext(ctx, `SELECT `+columns+` FROM file
		WHERE id = $1 AND org = $2 AND status = '`+kept+`' AND (expires IS NULL OR expires > $3)`, id, org, s.now().UnixMilli()))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return File{}, absent(id)
	case err != nil:
		return File{}, fmt.Errorf("read file: %w", err)
	}
	return f, nil
}

// insert notes an upload before its bytes are written: whatever happens, somebody knows where they are.
func (s *Service) insert(ctx context.Context, f File) error {
	return s.write(ctx, "begin upload", `INSERT INTO file (id, org, name, bytes, purpose, status, backend, created)
		VALUES ($1, $2, '', 0, '', '`+uploading+`', $3, $4)`, f.ID, f.Org, f.backend, f.Created.UnixMilli())
}

func (s *Service) keep(ctx context.Context, f File) error {
	var expires sql.NullInt64
	if !f.Expires.IsZero() {
		expires = sql.NullInt64{Int64: f.Expires.UnixMilli(), Valid: true}
	}
	return s.write(ctx, "keep file", `UPDATE file SET name = $1, bytes = $2, purpose = $3, expires = $4, status = '`+kept+`' WHERE id = $5`,
		f.Name, f.Bytes, f.Purpose, expires, f.ID)
}

// drop makes a file invisible. Its row stays until its bytes are gone.
func (s *Service) drop(ctx context.Context, id string) error {
	return s.write(ctx, "delete file", `UPDATE file SET status = '`+deleted+`' WHERE id = $1`, id)
}

// dropStale is drop for a file that nobody sees any more. It answers false for one that is kept.
func (s *Service) dropStale(ctx context.Context, id string) (bool, error) {
	stale := false
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE file SET status = '`+deleted+`' WHERE id = $1 AND (status <> '`+kept+`' OR expires <= $2)`, id, s.now().UnixMilli())
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		stale = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete file: %w", err)
	}
	return stale, nil
}

func (s *Service) forget(ctx context.Context, id string) error {
	return s.write(ctx, "forget file", `DELETE FROM file WHERE id = $1`, id)
}

func (s *Service) write(ctx context.Context, what, query string, args ...any) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(query, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// used is what the files of an organisation take, those included whose bytes are still being removed.
func (s *Service) used(ctx context.Context, org string) (int64, error) {
	var sum int64
	if err := s.db.Read().QueryRowContext(ctx, `SELECT COALESCE(SUM(bytes), 0) FROM file WHERE org = $1`, org).Scan(&sum); err != nil {
		return 0, fmt.Errorf("sum files: %w", err)
	}
	return sum, nil
}

const (
	defaultPage = 10_000
	maxPage     = 10_000
)

// List returns a page of an organisation's files and whether more follow.
func (s *Service) List(ctx context.Context, org string, page Page) ([]File, bool, error) {
	k, err := store.Page{Limit: page.Limit, After: page.After, Order: page.Order}.Keyset(id.File, defaultPage, maxPage)
	if err != nil {
		return nil, false, err
	}
	files, err := s.query(ctx, `org = $1 AND status = '`+kept+`' AND (expires IS NULL OR expires > $2) AND ($3 = '' OR purpose = $3)
		AND ($4 = '' OR id `+k.Compare+` $4) ORDER BY id `+k.Order+` LIMIT $5`, org, s.now().UnixMilli(), page.Purpose, page.After, k.Limit+1)
	if err != nil {
		return nil, false, err
	}
	files, more := store.Cut(files, k.Limit)
	return files, more, nil
}

func (s *Service) query(ctx context.Context, condition string, args ...any) ([]File, error) {
	files, err := store.All(ctx, s.db.Read(), scan, `SELECT `+columns+` FROM file WHERE `+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	return files, nil
}
