package file

import (
	"context"
	"time"
)

const (
	sweepEvery = time.Minute
	sweepBatch = 500
)

// sweepUntil removes bytes that no file holds any more, first at the start and then now and then.
func (s *Service) sweepUntil(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("the files were not swept", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sweep removes the bytes and rows of files that expired, that were deleted while their store did not answer, and of
// uploads that their process did not finish.
func (s *Service) Sweep(ctx context.Context) error {
	for after := ""; ; {
		files, err := s.query(ctx, `id > $1 AND (status IN ('`+deleted+`', '`+uploading+`') OR expires <= $2) ORDER BY id LIMIT $3`,
			after, s.now().UnixMilli(), sweepBatch)
		if err != nil {
			return err
		}
		for _, f := range files {
			after = f.ID
			if s.busy(f.ID) {
				continue
			}
			stale, err := s.dropStale(ctx, f.ID)
			if err != nil {
				return err
			}
			if stale { // and not committed since it was listed
				s.remove(ctx, f)
			}
		}
		if len(files) < sweepBatch {
			return nil
		}
	}
}

// busy says whether this process is writing a file's bytes.
func (s *Service) busy(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.open[id]
	return ok
}

// removeTimeout bounds the removal of one file's bytes.
const removeTimeout = 30 * time.Second

// remove removes a file's bytes and then its row. What fails is left to the sweeper.
func (s *Service) remove(ctx context.Context, f File) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	bytes, err := s.blobs.Named(f.backend)
	if err == nil {
		err = bytes.Delete(ctx, key(f.ID))
	}
	if err == nil {
		err = s.forget(ctx, f.ID)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Error("the bytes of a file could not be removed yet", "file", f.ID, "error", err)
	}
}
