package skill

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

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

type row interface{ Scan(...any) error }

func (v *Version) fields(created *int64) []any {
	return []any{&v.ID, &v.SkillID, &v.Number, &v.Name, &v.Description, &v.Bytes, created, &v.backend}
}

func scanSkill(r row) (Skill, error) {
	var s Skill
	var made, created int64
	err := r.Scan(append([]any{&s.ID, &s.Org, &made, &s.Latest}, s.Default.fields(&created)...)...)
	s.Created, s.Default.Created = time.UnixMilli(made), time.UnixMilli(created)
	return s, err
}

func scanVersion(r row) (Version, error) {
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
func list[T any](ctx context.Context, db *sql.DB, query string, scan func(row) (T, error), limit int, args ...any) ([]T, bool, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, false, fmt.Errorf("list skills: %w", err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, false, fmt.Errorf("list skills: %w", err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("list skills: %w", err)
	}
	if len(out) > limit {
		return out[:limit], true, nil
	}
	return out, false, nil
}

// order turns a page into SQL.
func (p *Page) order(prefix string) (compare, order string, err error) {
	if p.Limit == 0 {
		p.Limit = 20
	}
	switch {
	case p.Limit < 1 || p.Limit > 100:
		return "", "", fault.New(fault.Invalid, "limit must be from 1 to 100.").WithCode("invalid_value").WithParam("limit")
	case p.After != "" && !id.Valid(prefix, p.After):
		return "", "", fault.New(fault.Invalid, "after is not an id of this list.").WithCode("invalid_value").WithParam("after")
	case p.Order == "asc":
		return ">", "ASC", nil
	case p.Order == "" || p.Order == "desc":
		return "<", "DESC", nil
	}
	return "", "", fault.New(fault.Invalid, `order must be "asc" or "desc".`).WithCode("invalid_value").WithParam("order")
}

// List returns a page of an organisation's skills and whether more follow.
func (s *Service) List(ctx context.Context, org string, page Page) ([]Skill, bool, error) {
	compare, order, err := page.order(id.Skill)
	if err != nil {
		return nil, false, err
	}
	return list(ctx, s.db.Read(), skillQuery+`s.org = $1 AND ($2 = '' OR s.id `+compare+` $2) ORDER BY s.id `+order+` LIMIT $3`,
		scanSkill, page.Limit, org, page.After, page.Limit+1)
}

// Versions returns a page of a skill's versions and whether more follow.
func (s *Service) Versions(ctx context.Context, org, skillID string, page Page) ([]Version, bool, error) {
	compare, order, err := page.order(id.SkillVersion)
	if err != nil {
		return nil, false, err
	}
	if _, err := s.Get(ctx, org, skillID); err != nil {
		return nil, false, err
	}
	// Numbers are given when the bytes are whole, so that their order is not always that of the ids.
	return list(ctx, s.db.Read(), versionQuery+`s.org = $1 AND s.id = $4 AND v.status = '`+kept+`' AND ($2 = '' OR
		v.number `+compare+` (SELECT number FROM skill_version WHERE id = $2 AND skill_id = $4)) ORDER BY v.number `+order+` LIMIT $3`,
		scanVersion, page.Limit, org, page.After, page.Limit+1, skillID)
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
