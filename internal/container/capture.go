package container

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/internal/blob"
)

// moves are the containers whose files are on their way into an archive or out of it: one way at a time.
type moves struct {
	mu sync.Mutex
	of map[string]*move
}

type move struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// begin waits until nothing moves a container's files, and holds them. With interrupt it ends what does.
func (m *moves) begin(ctx context.Context, id string, interrupt bool) (context.Context, func(), error) {
	for {
		m.mu.Lock()
		other := m.of[id]
		if other == nil {
			inner, cancel := context.WithCancel(ctx)
			mine := &move{cancel: cancel, done: make(chan struct{})}
			if m.of == nil {
				m.of = map[string]*move{}
			}
			m.of[id] = mine
			m.mu.Unlock()
			return inner, func() {
				m.mu.Lock()
				delete(m.of, id)
				m.mu.Unlock()
				cancel()
				close(mine.done)
			}, nil
		}
		m.mu.Unlock()
		if interrupt {
			other.cancel()
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// moving says whether a container's files are on their way.
func (m *moves) moving(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[id] != nil
}

// maxArchiving bounds the workspaces that are archived at the same time.
const maxArchiving = 2

// retryCapture is when a workspace that could not be archived is tried again. Until then its files are read where
// they are.
const retryCapture = 5 * time.Minute

// capture moves an expired container's workspace into an archive and gives its folder and slot back. Nobody waits for
// it. When it fails the folder stays for as long as the archive would have.
func (s *Service) capture(r row) {
	ctx, end, err := s.moves.begin(s.ctx, r.ID, false)
	if err != nil {
		return
	}
	defer end()
	select { // as one that moves, so that the next round does not send for it again
	case s.archiving <- struct{}{}:
		defer func() { <-s.archiving }()
	case <-ctx.Done():
		return
	}
	if r, err = s.row(ctx, "", r.ID); err != nil || r.Status != Expired || !r.slot.Valid {
		return // something else came first
	}
	err = s.archive(ctx, r)
	switch {
	case err == nil:
		s.log.Info("an expired container's files were archived", "container", r.ID)
		return
	case ctx.Err() == nil:
		s.log.Error("an expired container's files could not be archived yet", "container", r.ID, "error", err)
	}
	if err := s.postpone(context.WithoutCancel(ctx), r.ID, s.now().Add(retryCapture)); err != nil {
		s.log.Error("an expired container's next look could not be noted", "container", r.ID, "error", err)
	}
}

func (s *Service) archive(ctx context.Context, r row) error {
	backend, store := s.blobs.Current()
	key := archiveKey(r.ID)
	// Noted as garbage before it is there, it is no stray whatever happens now.
	if err := s.discardLater(ctx, backend, key); err != nil {
		return err
	}
	ws, err := s.runtime.Prepare(ctx, s.spec(r))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(ws.Dir)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer root.Close()
	var index []archived
	in, out := io.Pipe()
	var writing sync.WaitGroup
	writing.Go(func() {
		out.CloseWithError(writeArchive(ctx, root, out, func(f archived) {
			if len(index) < maxIndexed {
				index = append(index, f)
			}
		}))
	})
	_, err = store.Put(ctx, key, in)
	in.CloseWithError(errors.New("the archive could not be stored"))
	writing.Wait()
	if err == nil {
		err = s.archivedRow(ctx, r, backend, key, index)
	}
	if err != nil {
		s.sweepBlobs(context.WithoutCancel(ctx), r.ID)
		return err
	}
	// The archive is what counts from here on; a folder that stays behind is a stray of the next start.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	p := s.place(r.ID)
	p.refuse(usable(r.Container), usable(r.Container))
	err = s.empty(ctx, p, r)
	s.forget(p)
	if err != nil {
		s.log.Error("an archived container's folder could not be removed", "container", r.ID, "error", err)
		return nil // nor is its slot given to another
	}
	s.slots.free(int(r.slot.Int64))
	return nil
}

// archivedRow notes an archive and what is in it: from here on the files are read from it. Where each file begins is
// noted before, a piece at a time: everybody's writes wait for one transaction, and nobody reads that of a folder that
// is there.
func (s *Service) archivedRow(ctx context.Context, r row, backend, key string, index []archived) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error { // an earlier try may have noted other places
		_, err := tx.Exec(`UPDATE container_file SET at = NULL WHERE container = $1 AND at >= 0`, r.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("note archive: %w", err)
	}
	for batch := range slices.Chunk(index, mintBatch) {
		if err := s.noteArchived(ctx, r.ID, batch); err != nil {
			return err
		}
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE container SET archive = $1, backend = $2, slot = NULL, due = $3 WHERE id = $4 AND status = '`+Expired+`' AND slot IS NOT NULL`,
			key, backend, r.Ended.Add(s.limits.KeepExpired).UnixMilli(), r.ID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, errors.New("the container was changed meanwhile"))
		}
		_, err = tx.Exec(`DELETE FROM container_garbage WHERE backend = $1 AND key = $2`, backend, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("note archive: %w", err)
	}
	return nil
}

// noteArchived notes where files begin in an archive.
func (s *Service) noteArchived(ctx context.Context, id string, files []archived) error {
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = f.path
	}
	rows, err := s.mint(ctx, id, paths, "")
	if err != nil {
		return err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		for _, f := range files {
			if _, err := tx.Exec(`UPDATE container_file SET at = $1, bytes = $2 WHERE id = $3 AND (at IS NULL OR at >= 0)`, f.at, f.bytes, rows[f.path].id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note archive: %w", err)
	}
	return nil
}

func (s *Service) postpone(ctx context.Context, id string, due time.Time) error {
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE container SET due = $1 WHERE id = $2 AND status = '`+Expired+`' AND slot IS NOT NULL`, due.UnixMilli(), id)
		return err
	})
}

// discardLater notes a blob that nobody needs.
func (s *Service) discardLater(ctx context.Context, backend, key string) error {
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO container_garbage (backend, key) VALUES ($1, $2) ON CONFLICT DO NOTHING`, backend, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("note blob: %w", err)
	}
	return nil
}

// sweepBlobs removes blobs that nobody needs, those of one container or, without an id, of all whose files do not move.
func (s *Service) sweepBlobs(ctx context.Context, id string) {
	if s.blobs == nil {
		return
	}
	rows, err := s.db.Read().QueryContext(ctx, `SELECT backend, key FROM container_garbage WHERE $1 = '' OR key LIKE 'container/' || $1 || '-%' LIMIT 500`, id)
	if err != nil {
		s.log.Error("blobs that nobody needs could not be listed", "error", err)
		return
	}
	var garbage [][2]string
	for rows.Next() {
		var g [2]string
		if rows.Scan(&g[0], &g[1]) == nil {
			garbage = append(garbage, g)
		}
	}
	rows.Close()
	for _, g := range garbage {
		if owner := ownerOf(g[1]); id == "" && s.moves.moving(owner) {
			continue // on its way to be needed
		}
		if err := s.removeGarbage(ctx, g[0], g[1]); err != nil && ctx.Err() == nil {
			s.log.Error("a blob that nobody needs could not be removed yet", "key", g[1], "error", err)
		}
	}
}

// removeGarbage removes a blob that was listed as garbage, unless it has come to be needed since: whoever needs it takes
// it from the list before its files stop moving.
func (s *Service) removeGarbage(ctx context.Context, backend, key string) error {
	var listed bool
	if err := s.db.Read().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM container_garbage WHERE backend = $1 AND key = $2)`,
		backend, key).Scan(&listed); err != nil || !listed {
		return err
	}
	store, err := s.blobs.Named(backend)
	if err == nil {
		err = store.Delete(ctx, key)
	}
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM container_garbage WHERE backend = $1 AND key = $2`, backend, key)
		return err
	})
}

// ownerOf is the container in an archive's key.
func ownerOf(key string) string {
	const prefix = "container/"
	if len(key) < len(prefix) {
		return ""
	}
	id := key[len(prefix):]
	for i := len(id) - 1; i > 0; i-- {
		if id[i] == '-' {
			return id[:i]
		}
	}
	return id
}

// content is a file of an archive.
func (s *Service) archivedContent(ctx context.Context, r row, f fileRow) (io.ReadSeekCloser, error) {
	store, err := s.blobs.Named(r.backend)
	if err != nil {
		return nil, err
	}
	content := blob.NewSection(ctx, store, r.archive, f.at.Int64, f.bytes)
	if err := content.Ready(); err != nil {
		return nil, err
	}
	return content, nil
}
