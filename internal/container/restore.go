package container

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// Restore brings an expired container back: under its id, with its files and without its processes. One that is active
// is answered as it is.
func (s *Service) Restore(ctx context.Context, org, id string) (Container, error) {
	r, err := s.settled(ctx, org, id)
	if err != nil || r.Status == Active {
		return r.Container, err
	}
	if r.Status != Expired {
		return Container{}, usable(r.Container)
	}
	if err := s.runtime.Supported(ctx); err != nil {
		return Container{}, err
	}
	ctx, end, err := s.moves.begin(ctx, id, true)
	if err != nil {
		return Container{}, err
	}
	defer end()
	if r, err = s.row(ctx, org, id); err != nil || r.Status != Expired {
		return r.Container, err
	}
	// From here on the caller's going away would leave half of it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreTimeout)
	defer cancel()
	switch {
	case r.slot.Valid: // its folder is still here
		err = s.revive(ctx, r, r.slot.Int64)
	case r.archive != "":
		err = s.unarchive(ctx, r)
	default:
		return Container{}, s.expired(ctx, r)
	}
	if err != nil {
		return Container{}, err
	}
	s.log.Info("container restored", "container", id)
	r, err = s.row(ctx, org, id)
	return r.Container, err
}

// restoreTimeout bounds the way back of a workspace as large as they get, from a slow bucket.
const restoreTimeout = 15 * time.Minute

// unarchive makes the folder again, and then the row.
func (s *Service) unarchive(ctx context.Context, r row) error {
	slot, err := s.slots.next()
	if err != nil {
		return err
	}
	r.slot = sql.NullInt64{Int64: int64(slot), Valid: true}
	err = s.unpack(ctx, r)
	if err == nil {
		err = s.revive(ctx, r, int64(slot))
	}
	if err != nil {
		if gone := s.runtime.Remove(context.WithoutCancel(ctx), s.spec(r)); gone != nil {
			s.log.Error("a half restored container's folder could not be removed", "container", r.ID, "error", gone)
			return err // nor is its slot given to another
		}
		s.slots.free(slot)
		return err
	}
	s.sweepBlobs(ctx, r.ID)
	return nil
}

func (s *Service) unpack(ctx context.Context, r row) error {
	// Whatever lies there is of a restore that was killed.
	if err := s.runtime.Remove(ctx, s.spec(r)); err != nil {
		return failed(err, "The container's folders could not be made.")
	}
	ws, err := s.runtime.Prepare(ctx, s.spec(r))
	if err != nil {
		return failed(err, "The container's folders could not be made.")
	}
	store, err := s.blobs.Named(r.backend)
	if err != nil {
		return err
	}
	deleted, err := s.fileRows(ctx, `container = $1 AND at = -1`, r.ID)
	if err != nil {
		return err
	}
	skip := map[string]bool{}
	for _, f := range deleted {
		skip[f.path] = true
	}
	in, err := store.Open(ctx, r.archive, 0, -1)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := readArchive(ctx, ws, in, skip); err != nil {
		return err
	}
	return s.remountSkills(ctx, r)
}

// revive makes the row an active one, over a folder that is there.
func (s *Service) revive(ctx context.Context, r row, slot int64) error {
	now := s.now()
	if old := s.known(r.ID); old != nil {
		if err := s.shut(ctx, old); err != nil {
			return failed(err, "The container's old processes could not be ended.")
		}
		s.forget(old)
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := s.limits.admit(tx, r.Org, true); err != nil {
			return err
		}
		res, err := tx.Exec(`UPDATE container SET status = '`+Active+`', ended = NULL, slot = $1, last_active = $2, due = $3, archive = '', backend = ''
			WHERE id = $4 AND status = '`+Expired+`'`, slot, now.UnixMilli(), now.Add(r.IdleTTL).UnixMilli(), r.ID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, fault.New(fault.Conflict, "Container %s was deleted while it was restored.", r.ID))
		}
		if _, err := tx.Exec(`DELETE FROM container_file WHERE container = $1 AND at = -1`, r.ID); err != nil {
			return err // what comes under such a path is another file
		}
		if _, err := tx.Exec(`UPDATE container_file SET at = NULL WHERE container = $1`, r.ID); err != nil {
			return err
		}
		if r.archive != "" {
			_, err = tx.Exec(`INSERT INTO container_garbage (backend, key) VALUES ($1, $2) ON CONFLICT DO NOTHING`, r.backend, r.archive)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("restore container: %w", err)
	}
	return nil
}

// Survivors are the files of a container whose life is over. It is the cause of the error that tells so.
type Survivors struct {
	ContainerID string
	Files       []File
	More        bool // than these, or files that were never named before
	Until       time.Time
}

func (s *Survivors) Error() string {
	return fmt.Sprintf("%d files survive until %s", len(s.Files), s.Until.UTC().Format(time.RFC3339))
}

// maxSurvivors bounds the files that an error names.
const maxSurvivors = 20

// expired is the error of a container that has expired: with the files that are left of it, and how to have it back.
// It asks the rows only, whatever the size of the workspace.
func (s *Service) expired(ctx context.Context, r row) error {
	gone := fault.New(fault.Expired, "Container %s has expired: nothing used it for %s.", r.ID, r.IdleTTL).WithCode("container_expired").
		WithTry("a new container")
	if !r.slot.Valid && r.archive == "" {
		return gone
	}
	left := &Survivors{ContainerID: r.ID, Until: r.Ended.Add(s.limits.KeepExpired)}
	files, more, err := s.page(ctx, r, Page{Limit: maxSurvivors, Order: "asc"})
	if err != nil {
		s.log.Error("the files of an expired container could not be listed", "container", r.ID, "error", err)
		return gone
	}
	left.Files, left.More = files, more || r.slot.Valid
	names := ""
	for i, f := range files {
		if i == 5 {
			names += ", …"
			break
		}
		if i > 0 {
			names += ", "
		}
		names += f.Path
	}
	if names == "" {
		names = "what it held"
	}
	gone.Cause = left
	gone.Message += fmt.Sprintf(" Until %s can still be had: %s.", left.Until.UTC().Format(time.RFC3339), names)
	return gone.WithTry(`{"type": "container_reference", "container_id": %q, "restore": true}, or a new container`, r.ID)
}
