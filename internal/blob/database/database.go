// Package database keeps blobs in the database, in pieces. It is for those who want one file to back up; large files
// are better anywhere else.
package database

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/hardshell-dev/hardshell/internal/blob"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// DB is what the store needs of a database.
type DB interface {
	Read() *sql.DB
	Write(ctx context.Context, fn func(tx *sql.Tx) error) error
	Migrate(ctx context.Context, room string, files fs.FS) error
}

// Store keeps blobs in tables of its own.
type Store struct{ db DB }

var _ blob.Store = (*Store)(nil)

// Open makes the tables. What an earlier process had begun to write is removed.
func Open(ctx context.Context, db DB) (*Store, error) {
	err := db.Migrate(ctx, "blob", migrationFiles)
	if err == nil {
		err = db.Write(ctx, func(tx *sql.Tx) error {
			// Nobody reads what was replaced any more.
			_, err := tx.Exec(`DELETE FROM blob_piece WHERE version NOT IN (SELECT version FROM blob)`)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	return &Store{db}, nil
}

// pieceSize is what one row holds: large enough to be few, small enough for a page cache.
const pieceSize = 256 << 10

// Put writes a blob under a version of its own, piece by piece, and then lets the key point to it.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (n int64, err error) {
	if err := blob.CheckKey(key); err != nil {
		return 0, err
	}
	version := rand.Text()
	defer func() {
		if err != nil {
			// Whoever goes away must not leave half a blob.
			s.drop(context.WithoutCancel(ctx), version)
		}
	}()
	buf := make([]byte, pieceSize)
	for piece := 0; ; piece++ {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		k, readErr := io.ReadFull(r, buf)
		if readErr != nil && readErr != io.EOF && readErr != io.ErrUnexpectedEOF {
			return 0, fmt.Errorf("put blob: %w", readErr)
		}
		if k > 0 {
			err := s.db.Write(ctx, func(tx *sql.Tx) error {
				_, err := tx.Exec(`INSERT INTO blob_piece (version, piece, data) VALUES ($1, $2, $3)`, version, piece, buf[:k])
				return err
			})
			if err != nil {
				return 0, fmt.Errorf("put blob: %w", err)
			}
		}
		n += int64(k)
		if readErr != nil {
			break
		}
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		// Keys of ours are not used twice, so a replaced version is rare: its pieces wait for the next start, and
		// whoever reads it now reads it to its end.
		_, err := tx.Exec(`INSERT INTO blob (key, version, size) VALUES ($1, $2, $3)
			ON CONFLICT (key) DO UPDATE SET version = excluded.version, size = excluded.size`, key, version, n)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("put blob: %w", err)
	}
	return n, nil
}

func (s *Store) drop(ctx context.Context, version string) {
	// What fails here is removed at the next start.
	_ = s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM blob_piece WHERE version = $1`, version)
		return err
	})
}

// Open reads a blob. It holds no connection between two reads: a client may be slow.
func (s *Store) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	p := &pieces{ctx: ctx, db: s.db, piece: offset / pieceSize, skip: offset % pieceSize}
	var size int64
	err := s.db.Read().QueryRowContext(ctx, `SELECT version, size FROM blob WHERE key = $1`, key).Scan(&p.version, &size)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, blob.Absent(key)
	case err != nil:
		return nil, fmt.Errorf("open blob: %w", err)
	}
	if p.left = max(size-offset, 0); length >= 0 {
		p.left = min(p.left, length)
	}
	return p, nil
}

// pieces reads one piece after the other.
type pieces struct {
	ctx     context.Context // of the request that reads
	db      DB
	version string
	piece   int64
	skip    int64
	left    int64
	data    []byte
}

func (p *pieces) Read(to []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	if len(p.data) == 0 {
		err := p.db.Read().QueryRowContext(p.ctx, `SELECT data FROM blob_piece WHERE version = $1 AND piece = $2`,
			p.version, p.piece).Scan(&p.data)
		if err != nil || int64(len(p.data)) <= p.skip {
			return 0, fmt.Errorf("read piece %d of a blob: %w", p.piece, cmp.Or(err, io.ErrUnexpectedEOF))
		}
		p.piece++
		p.data, p.skip = p.data[p.skip:], 0
	}
	n := copy(to, p.data[:min(int64(len(p.data)), p.left)])
	p.data, p.left = p.data[n:], p.left-int64(n)
	return n, nil
}

func (p *pieces) Close() error { return nil }

// Delete removes a blob.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.Exec(`DELETE FROM blob_piece WHERE version IN (SELECT version FROM blob WHERE key = $1)`, key); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM blob WHERE key = $1`, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("delete blob: %w", err)
	}
	return nil
}
