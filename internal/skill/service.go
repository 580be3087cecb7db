package skill

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// Options are what a Service is made of. DB and Blobs are required.
type Options struct {
	DB     *store.DB
	Blobs  *blob.Stores
	Dir    string // for archives that are being made; the system's folder for such when empty
	Limits Limits
	Clock  func() time.Time // nil is time.Now
	Logger *slog.Logger     // nil discards
}

// Service keeps the skills of one database.
type Service struct {
	db     *store.DB
	blobs  *blob.Stores
	dir    string
	limits Limits
	now    func() time.Time
	log    *slog.Logger

	mu   sync.Mutex
	open map[string]struct{} // versions that this process is writing
}

// New opens the skills, and removes what an earlier process did not finish writing.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{db: o.DB, blobs: o.Blobs, dir: o.Dir, limits: o.Limits.filled(), now: o.Clock, log: o.Logger, open: map[string]struct{}{}}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.db.Migrate(ctx, "skill", migrations); err != nil {
		return nil, fmt.Errorf("open skills: %w", err)
	}
	if err := s.Sweep(ctx); err != nil {
		s.log.Error("the skills were not swept", "error", err) // what is left over takes room and does no harm
	}
	return s, nil
}

// Limits are the bounds that hold here.
func (s *Service) Limits() Limits { return s.limits }

// Create makes a skill whose first version holds the entries. Name and description are those of its SKILL.md.
func (s *Service) Create(ctx context.Context, org string, entries []Entry) (Skill, error) {
	v, err := s.add(ctx, org, id.At(id.Skill, s.now()), entries, true, true)
	if err != nil {
		return Skill{}, err
	}
	return s.Get(ctx, org, v.SkillID)
}

// AddVersion adds a version to a skill, which keeps its name.
func (s *Service) AddVersion(ctx context.Context, org, skillID string, entries []Entry, makeDefault bool) (Version, error) {
	if _, err := s.Get(ctx, org, skillID); err != nil {
		return Version{}, err
	}
	return s.add(ctx, org, skillID, entries, false, makeDefault)
}

func (s *Service) add(ctx context.Context, org, skillID string, entries []Entry, first, makeDefault bool) (Version, error) {
	b, err := gather(entries, s.limits)
	if err != nil {
		return Version{}, err
	}
	file, err := os.CreateTemp(s.dir, "skill-*.zip")
	if err != nil {
		return Version{}, fmt.Errorf("pack skill: %w", err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	backend, bytes := s.blobs.Current()
	v := Version{ID: id.At(id.SkillVersion, s.now()), SkillID: skillID, Created: time.UnixMilli(s.now().UnixMilli()), backend: backend}
	if v.Manifest, v.Bytes, err = b.pack(file); err != nil {
		return Version{}, err
	}
	if err := v.Manifest.Check(); err != nil {
		return Version{}, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return Version{}, fmt.Errorf("pack skill: %w", err)
	}
	s.mark(v.ID, true)
	defer s.mark(v.ID, false)
	if err := s.insert(ctx, v); err != nil {
		return Version{}, err
	}
	if _, err = bytes.Put(ctx, key(v.ID), file); err == nil {
		v.Number, err = s.keep(ctx, org, v, first, makeDefault)
	}
	if err != nil {
		s.remove(context.WithoutCancel(ctx), v) // the client may be gone; its bytes go too
		return Version{}, err
	}
	return v, nil
}

func (s *Service) mark(id string, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.open[id] = struct{}{}
	} else {
		delete(s.open, id)
	}
}

func (s *Service) busy(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.open[id]
	return ok
}

func key(versionID string) string { return "skill/" + versionID }

// Archive returns a version's zip.
func (s *Service) Archive(ctx context.Context, v Version) (io.ReadCloser, error) {
	bytes, err := s.blobs.Named(v.backend)
	if err != nil {
		return nil, err
	}
	return bytes.Open(ctx, key(v.ID), 0, -1)
}

// SetDefault chooses the version that a reference without one means.
func (s *Service) SetDefault(ctx context.Context, org, skillID string, number int64) (Skill, error) {
	if _, err := s.Version(ctx, org, skillID, number); err != nil {
		return Skill{}, err
	}
	err := s.write(ctx, "set default version", func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE skill SET default_version = $1 WHERE id = $2 AND org = $3 AND EXISTS
			(SELECT 1 FROM skill_version WHERE skill_id = $2 AND number = $1 AND status = '`+kept+`')`, number, skillID, org)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, absentVersion(skillID, number))
		}
		return nil
	})
	if err != nil {
		return Skill{}, err
	}
	return s.Get(ctx, org, skillID)
}

// Delete removes a skill with all its versions. Containers that have it mounted keep their copy.
func (s *Service) Delete(ctx context.Context, org, skillID string) error {
	if _, err := s.Get(ctx, org, skillID); err != nil {
		return err
	}
	err := s.write(ctx, "delete skill", func(tx *sql.Tx) error {
		if _, err := tx.Exec(`DELETE FROM skill WHERE id = $1 AND org = $2`, skillID, org); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE skill_version SET status = '`+deleted+`' WHERE skill_id = $1`, skillID)
		return err
	})
	if err != nil {
		return err
	}
	return s.Sweep(context.WithoutCancel(ctx))
}

// DeleteVersion removes one version. The default cannot go: a reference without a version would mean another one then.
func (s *Service) DeleteVersion(ctx context.Context, org, skillID string, number int64) (Version, error) {
	v, err := s.Version(ctx, org, skillID, number)
	if err != nil {
		return Version{}, err
	}
	err = s.write(ctx, "delete skill version", func(tx *sql.Tx) error {
		res, err := tx.Exec(`UPDATE skill_version SET status = '`+deleted+`' WHERE id = $1 AND number <> (SELECT default_version FROM skill WHERE id = $2)`,
			v.ID, skillID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fault.New(fault.Conflict, "Version %d is the skill's default.", number).WithCode("default_skill_version").
				WithTry("another default_version first, or deleting the skill"))
		}
		return nil
	})
	if err != nil {
		return Version{}, err
	}
	s.remove(context.WithoutCancel(ctx), v)
	return v, nil
}

// removeTimeout bounds the removal of one version's bytes.
const removeTimeout = 30 * time.Second

// remove removes a version's bytes and then its row. What fails is left to the next sweep.
func (s *Service) remove(ctx context.Context, v Version) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	bytes, err := s.blobs.Named(v.backend)
	if err == nil {
		err = bytes.Delete(ctx, key(v.ID))
	}
	if err == nil {
		err = s.write(ctx, "forget skill version", func(tx *sql.Tx) error {
			_, err := tx.Exec(`DELETE FROM skill_version WHERE id = $1 AND status <> '`+kept+`'`, v.ID)
			return err
		})
	}
	if err != nil {
		s.log.Error("the bytes of a skill could not be removed yet", "version", v.ID, "error", err)
	}
}

// Sweep removes the bytes of versions that were deleted, and of those that their process did not finish.
func (s *Service) Sweep(ctx context.Context) error {
	const batch = 100
	for after := ""; ; {
		versions, more, err := list(ctx, s.db.Read(), `SELECT `+versionColumns+` FROM skill_version v
			WHERE v.status <> '`+kept+`' AND v.id > $1 ORDER BY v.id LIMIT $2`, scanVersion, batch, after, batch+1)
		if err != nil {
			return err
		}
		for _, v := range versions {
			if after = v.ID; !s.busy(v.ID) {
				s.remove(ctx, v)
			}
		}
		if !more {
			return nil
		}
	}
}

// Latest is the word for the version with the highest number.
const Latest = "latest"

// Resolve finds the version that a reference means: a number as text, "latest", or "" for the skill's default.
func (s *Service) Resolve(ctx context.Context, org, skillID, version string) (Version, error) {
	sk, err := s.Get(ctx, org, skillID)
	if fault.KindOf(err) == fault.NotFound {
		return Version{}, fault.New(fault.Invalid, "Skill %q was not found.", skillID).WithCode("invalid_skill_reference").WithParam("skill_id")
	}
	if err != nil {
		return Version{}, err
	}
	number := sk.Latest
	switch version {
	case "":
		return sk.Default, nil
	case Latest:
	default:
		n, err := strconv.ParseInt(version, 10, 64)
		if err != nil || n < 1 {
			return Version{}, fault.New(fault.Invalid, "A skill has no version %q.", version).WithCode("unsupported_skill_version").
				WithParam("version").WithTry(`a number as text, "latest", or no version for the skill's default`)
		}
		number = n
	}
	v, err := s.Version(ctx, org, skillID, number)
	if fault.KindOf(err) == fault.NotFound {
		return Version{}, fault.New(fault.Invalid, "Skill %q has no version %d.", skillID, number).WithCode("unsupported_skill_version").WithParam("version")
	}
	return v, err
}
