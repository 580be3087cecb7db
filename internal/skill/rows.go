package skill

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// The states of a version's row. Only kept ones are seen.
const (
	writing = "writing"
	kept    = "kept"
	deleted = "deleted"
)

const (
	versionColumns = `v.id, v.skill_id, v.number, v.name, v.description, v.bytes, v.created, v.backend`
	skillQuery     = `SELECT s.id, s.org, s.created,
		(SELECT MAX(number) FROM skill_version WHERE skill_id = s.id AND status = '` + kept + `'), ` + versionColumns + ` FROM skill s
		JOIN skill_version v ON v.skill_id = s.id AND v.number = s.default_version AND v.status = '` + kept + `' WHERE `
	versionQuery = `SELECT ` + versionColumns + ` FROM skill_version v JOIN skill s ON s.id = v.skill_id WHERE `
)

func (v *Version) fields(created *int64) []any {
	return []any{&v.ID, &v.SkillID, &v.Number, &v.Name, &v.Description, &v.Bytes, created, &v.backend}
}

func scanSkill(r store.Scanner) (Skill, error) {
	var s Skill
	var made, created int64
	err := r.Scan(append([]any{&s.ID, &s.Org, &made, &s.Latest}, s.Default.fields(&created)...)...)
	s.Created, s.Default.Created = time.UnixMilli(made), time.UnixMilli(created)
	return s, err
}

func scanVersion(r store.Scanner) (Version, error) {
	var v Version
	var created int64
	err := r.Scan(v.fields(&created)...)
	v.Created = time.UnixMilli(created)
	return v, err
}

// Get returns a skill.
func (s *Service) Get(ctx context.Context, org, skillID string) (Skill, error) {
	out, err := scanSkill(s.db.Read().QueryRowContext(ctx, skillQuery+`s.id = $1 AND s.org = $2`, skillID, org))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Skill{}, absent(skillID)
	case err != nil:
		return Skill{}, fmt.Errorf("read skill: %w", err)
	}
	return out, nil
}

func absent(id string) error {
	return fault.New(fault.NotFound, "Skill %q was not found.", id).WithCode("skill_not_found")
}

func absentVersion(id string, number int64) error {
	return fault.New(fault.NotFound, "Version %d of skill %q was not found.", number, id).WithCode("skill_version_not_found")
}

// Version returns a version of a skill.
func (s *Service) Version(ctx context.Context, org, skillID string, number int64) (Version, error) {
	v, err := scanVersion(s.db.Read().QueryRowContext(ctx, versionQuery+`s.id = $1 AND s.org = $2 AND v.number = $3 AND v.status = '`+kept+`'`,
		skillID, org, number))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if _, err := s.Get(ctx, org, skillID); err != nil {
			return Version{}, err
		}
		return Version{}, absentVersion(skillID, number)
	case err != nil:
		return Version{}, fmt.Errorf("read skill version: %w", err)
	}
	return v, nil
}

// list runs a paged query: condition has $1 = org, $2 = after, $3 = limit.
func list[T any](ctx context.Context, db *sql.DB, query string, scan func(store.Scanner) (T, error), limit int, args ...any) ([]T, bool, error) {
	all, err := store.All(ctx, db, scan, query, args...)
	if err != nil {
		return nil, false, fmt.Errorf("skills: %w", err)
	}
	all, more := store.Cut(all, limit)
	return all, more, nil
}

const (
	defaultPage = 20
	maxPage     = 100
)

// List returns a page of an organisation's skills and whether more follow.
func (s *Service) List(ctx context.Context, org string, page Page) ([]Skill, bool, error) {
	k, err := page.Keyset(id.Skill, defaultPage, maxPage)
	if err != nil {
		return nil, false, err
	}
	return list(ctx, s.db.Read(), skillQuery+`s.org = $1 AND ($2 = '' OR s.id `+k.Compare+` $2) ORDER BY s.id `+k.Order+` LIMIT $3`,
		scanSkill, k.Limit, org, page.After, k.Limit+1)
}

// Versions returns a page of a skill's versions and whether more follow.
func (s *Service) Versions(ctx context.Context, org, skillID string, page Page) ([]Version, bool, error) {
	k, err := page.Keyset(id.SkillVersion, defaultPage, maxPage)
	if err != nil {
		return nil, false, err
	}
	if _, err := s.Get(ctx, org, skillID); err != nil {
		return nil, false, err
	}
	// Numbers are given when the bytes are whole, so that their order is not always that of the ids.
	return list(ctx, s.db.Read(), versionQuery+`s.org = $1 AND s.id = $4 AND v.status = '`+kept+`' AND ($2 = '' OR
		v.number `+k.Compare+` (SELECT number FROM skill_version WHERE id = $2 AND skill_id = $4)) ORDER BY v.number `+k.Order+` LIMIT $3`,
		scanVersion, k.Limit, org, page.After, k.Limit+1, skillID)
}

func (s *Service) write(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	if err := s.db.Write(ctx, fn); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// insert notes a version before its bytes are written: whatever happens, somebody knows where they are.
func (s *Service) insert(ctx context.Context, v Version) error {
	return s.write(ctx, "begin skill version", func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO skill_version (id, skill_id, number, name, description, bytes, created, status, backend)
			VALUES ($1, $2, 0, $3, $4, $5, $6, '`+writing+`', $7)`, v.ID, v.SkillID, v.Name, v.Description, v.Bytes, v.Created.UnixMilli(), v.backend)
		return err
	})
}

// keep gives a version its number, and makes its skill if it is the first.
func (s *Service) keep(ctx context.Context, org string, v Version, first, makeDefault bool) (number int64, err error) {
	err = s.write(ctx, "keep skill version", func(tx *sql.Tx) error {
		number = 1
		if first {
			var n int
			if err := tx.QueryRow(`SELECT COUNT(*) FROM skill WHERE org = $1`, org).Scan(&n); err != nil {
				return err
			}
			if n >= s.limits.MaxSkills {
				return fault.New(fault.RateLimited, "This organisation has %d skills, which is all that it may have.", n).
					WithCode("too_many_skills").WithTry("deleting skills that are not needed")
			}
			if _, err := tx.Exec(`INSERT INTO skill (id, org, created, default_version, latest) VALUES ($1, $2, $3, 1, 1)`,
				v.SkillID, org, v.Created.UnixMilli()); err != nil {
				return err
			}
		} else {
			err := tx.QueryRow(`UPDATE skill SET latest = latest + 1 WHERE id = $1 AND org = $2 RETURNING latest`, v.SkillID, org).Scan(&number)
			if errors.Is(err, sql.ErrNoRows) {
				return absent(v.SkillID) // deleted while the bytes came
			}
			if err != nil {
				return err
			}
			if makeDefault {
				if _, err := tx.Exec(`UPDATE skill SET default_version = $1 WHERE id = $2`, number, v.SkillID); err != nil {
					return err
				}
			}
		}
		_, err := tx.Exec(`UPDATE skill_version SET number = $1, status = '`+kept+`' WHERE id = $2`, number, v.ID)
		return err
	})
	return number, err
}
