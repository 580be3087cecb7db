package container

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// fileRow is a path of a workspace that was seen at some time. Whether the file exists, only the workspace knows.
type fileRow struct {
	id      string
	path    string // relative, as it is on disk
	source  string
	created time.Time
	at      sql.NullInt64 // where its bytes begin in the archive; not valid: not in one; -1: deleted there
	bytes   int64         // in the archive
}

const fileColumns = `id, path, source, created, at, bytes`

// pathBatch bounds the paths of one statement and the rows of one read.
const pathBatch = 200

func scanFile(s store.Scanner) (fileRow, error) {
	var (
		f       fileRow
		created int64
	)
	if err := s.Scan(&f.id, &f.path, &f.source, &created, &f.at, &f.bytes); err != nil {
		return fileRow{}, err
	}
	f.path, f.created = pathOf(f.path), time.UnixMilli(created)
	return f, nil
}

func (s *Service) fileRows(ctx context.Context, condition string, args ...any) ([]fileRow, error) {
	rows, err := store.All(ctx, s.db.Read(), scanFile, `SELECT `+fileColumns+` FROM container_file WHERE `+condition, args...)
	if err != nil {
		return nil, fmt.Errorf("files of a container: %w", err)
	}
	return rows, nil
}

func noFile(fileID string) error {
	return fault.New(fault.NotFound, "File %q was not found in this container.", fileID).WithCode("file_not_found")
}

func (s *Service) fileRow(ctx context.Context, containerID, fileID string) (fileRow, error) {
	f, err := scanFile(s.db.Read().QueryRowContext(ctx,
		`SELECT `+fileColumns+` FROM container_file WHERE id = $1 AND container = $2`, fileID, containerID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fileRow{}, noFile(fileID)
	case err != nil:
		return fileRow{}, fmt.Errorf("read file: %w", err)
	}
	return f, nil
}

// mint returns the rows of paths, making those that are missing. An empty source leaves the source of known paths as it
// is and makes new ones the assistant's. Nothing is written when nothing changes.
func (s *Service) mint(ctx context.Context, containerID string, paths []string, source string) (map[string]fileRow, error) {
	known := make(map[string]fileRow, len(paths))
	for rest := paths; len(rest) > 0; {
		n := min(len(rest), pathBatch)
		args := []any{containerID}
		marks := make([]string, n)
		for i, p := range rest[:n] {
			args = append(args, storedPath(p))
			marks[i] = fmt.Sprintf("$%d", i+2)
		}
		rows, err := s.fileRows(ctx, `container = $1 AND path IN (`+strings.Join(marks, ", ")+`)`, args...)
		if err != nil {
			return nil, err
		}
		for _, f := range rows {
			known[f.path] = f
		}
		rest = rest[n:]
	}
	var write []fileRow
	now := time.UnixMilli(s.now().UnixMilli())
	for _, p := range paths {
		f, ok := known[p]
		if ok && (source == "" || f.source == source) {
			continue
		}
		if !ok {
			f = fileRow{id: id.At(id.ContainerFile, now), path: p, created: now, source: SourceAssistant}
		}
		if source != "" {
			f.source = source
		}
		known[p] = f
		write = append(write, f)
	}
	if len(write) == 0 {
		return known, nil
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		for _, f := range write {
			// Somebody may have seen the path at the same moment: whose id is stored is the one that counts.
			row := tx.QueryRow(`INSERT INTO container_file (id, container, path, source, created) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (container, path) DO UPDATE SET source = excluded.source
				RETURNING `+fileColumns, f.id, containerID, storedPath(f.path), f.source, f.created.UnixMilli())
			stored, err := scanFile(row)
			if err != nil {
				return err
			}
			known[stored.path] = stored
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("note files: %w", err)
	}
	return known, nil
}

// dropFileRows forgets those files that are gone from a workspace. What an archive has by now is not looked for there.
func (s *Service) dropFileRows(ctx context.Context, root *os.Root, files []fileRow) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		for _, f := range files {
			if _, back := regular(root, f.path); back {
				continue
			}
			if _, err := tx.Exec(`DELETE FROM container_file WHERE id = $1 AND at IS NULL`, f.id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("drop files: %w", err)
	}
	return nil
}

// dropFileRow forgets a file of a workspace, or hides it in the archive that it has come into.
func (s *Service) dropFileRow(ctx context.Context, fileID string) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM container_file WHERE id = $1 AND at IS NULL`, fileID)
		if err == nil {
			_, err = tx.Exec(`UPDATE container_file SET at = -1 WHERE id = $1`, fileID)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drop file: %w", err)
	}
	return nil
}

// hideFileRow deletes a file of an archive: it is not found any more, and a restore leaves it out.
func (s *Service) hideFileRow(ctx context.Context, fileID string) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE container_file SET at = -1 WHERE id = $1`, fileID)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop file: %w", err)
	}
	return nil
}
