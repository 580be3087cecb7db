package container

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/skill"
)

// SkillDir is where commands find the skills of their container, read-only: a folder each, with its SKILL.md.
const SkillDir = "/skills"

// maxSkills bounds what a container may have mounted.
const maxSkills = 50

// Skills are the bundles that containers can mount. Another organisation's look absent.
type Skills interface {
	// Resolve finds the version that a reference means: a number as text, "latest", or "" for the skill's default.
	Resolve(ctx context.Context, org, id, version string) (skill.Version, error)
	Mount(v skill.Version) skill.Mount
	Inline(m skill.Manifest, mediaType string, data []byte) (skill.Mount, error)
}

// SkillRequest is a skill as a request names it or brings it along.
type SkillRequest struct {
	Type    string       `json:"type"` // "skill_reference" | "inline"
	SkillID string       `json:"skill_id,omitempty"`
	Version string       `json:"version,omitempty"`
	Name    string       `json:"name,omitempty"`
	About   string       `json:"description,omitempty"`
	Source  *SkillSource `json:"source,omitempty"`
}

// SkillSource is an inline skill's bytes.
type SkillSource struct {
	Type      string `json:"type"` // "base64"
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// Skill is one that a container has.
type Skill struct {
	skill.Manifest
	SkillID string // empty for one that came inline
	Version int64
	key     string
	inline  []byte // the request that brought it
}

// Path is where commands find the skill.
func (s Skill) Path() string { return SkillDir + "/" + s.Name }

// readSkills reads the skills of a request.
func readSkills(raw json.RawMessage) ([]SkillRequest, error) {
	if !given(raw) {
		return nil, nil
	}
	var list []SkillRequest
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "skills must be a list of skill_reference and inline objects.").
			WithCode("invalid_skill_reference").WithParam("skills")
	}
	if len(list) > maxSkills {
		return nil, fault.New(fault.Invalid, "skills has %d entries; %d are possible.", len(list), maxSkills).
			WithCode("invalid_skill_reference").WithParam("skills")
	}
	for i, s := range list {
		bad := func(code, field, format string, args ...any) error {
			return fault.New(fault.Invalid, format, args...).WithCode(code).WithParam(fmt.Sprintf("skills[%d]%s", i, field))
		}
		switch {
		case s.Type == "skill_reference" && s.SkillID == "":
			return nil, bad("invalid_skill_reference", ".skill_id", "A skill_reference needs a skill_id.")
		case s.Type == "inline" && (s.Source == nil || s.Source.Type != "base64"):
			return nil, bad("invalid_inline_skill", ".source", "An inline skill needs a source of type base64.")
		case s.Type != "skill_reference" && s.Type != "inline":
			return nil, bad("invalid_skill_reference", ".type", "%q is not a kind of skill.", s.Type)
		}
	}
	return list, nil
}

// mounted is a skill with its files.
type mounted struct {
	Skill
	files skill.Mount
}

// resolveSkills finds what a request means. What it names twice is one; two of one name cannot stand side by side.
func (s *Service) resolveSkills(ctx context.Context, org string, list []SkillRequest) ([]mounted, error) {
	var out []mounted
	named := map[string]string{}
	for i, r := range list {
		m, err := s.resolveSkill(ctx, org, r)
		if err != nil {
			f, ok := fault.As(err)
			if !ok {
				return nil, err
			}
			param := fmt.Sprintf("skills[%d]", i)
			if f.Param != "" {
				param += "." + f.Param
			}
			return nil, f.WithParam(param)
		}
		switch named[m.Name] {
		case "":
			named[m.Name] = m.key
			out = append(out, m)
		case m.key:
		default:
			return nil, skillConflict(m.Name).WithParam(fmt.Sprintf("skills[%d]", i))
		}
	}
	return out, nil
}

func skillConflict(name string) *fault.Error {
	return fault.New(fault.Invalid, "Two different skills are named %q; both would be at %s/%s.", name, SkillDir, name).
		WithCode("skill_mount_conflict").WithParam("skills").WithTry("one of them, or another container")
}

func (s *Service) resolveSkill(ctx context.Context, org string, r SkillRequest) (mounted, error) {
	if s.skills == nil {
		return mounted{}, fault.New(fault.Invalid, "This server has no skills.").WithCode("invalid_skill_reference")
	}
	if r.Type == "skill_reference" {
		v, err := s.skills.Resolve(ctx, org, r.SkillID, r.Version)
		if err != nil {
			return mounted{}, err
		}
		files := s.skills.Mount(v)
		return mounted{Skill{Manifest: files.Manifest, SkillID: v.SkillID, Version: v.Number, key: files.Key}, files}, nil
	}
	data, err := base64.StdEncoding.DecodeString(r.Source.Data)
	if err != nil {
		return mounted{}, fault.Wrap(fault.Invalid, err, "The inline skill is not base64.").WithCode("invalid_inline_skill").WithParam("source.data")
	}
	files, err := s.skills.Inline(skill.Manifest{Name: r.Name, Description: r.About}, r.Source.MediaType, data)
	if err != nil {
		return mounted{}, err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return mounted{}, fmt.Errorf("keep inline skill: %w", err)
	}
	return mounted{Skill{Manifest: files.Manifest, key: files.Key, inline: raw}, files}, nil
}

// CheckSkills says what a request's skills are, without mounting them anywhere.
func (s *Service) CheckSkills(ctx context.Context, org string, list []SkillRequest) ([]Skill, error) {
	found, err := s.resolveSkills(ctx, org, list)
	if err != nil {
		return nil, err
	}
	out := make([]Skill, len(found))
	for i, m := range found {
		out[i] = m.Skill
	}
	return out, nil
}

// AddSkills mounts skills in a container, also while commands run in it. One that it has already stays as it is.
func (s *Service) AddSkills(ctx context.Context, org, id string, list []SkillRequest) error {
	if len(list) == 0 {
		return nil
	}
	found, err := s.resolveSkills(ctx, org, list)
	if err != nil {
		return err
	}
	s.mounting.Lock()
	defer s.mounting.Unlock()
	r, err := s.settled(ctx, org, id)
	if err == nil {
		err = usable(r.Container)
	}
	if err != nil {
		return err
	}
	has, err := s.Skills(ctx, org, id)
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for _, h := range has {
		keys[h.Name] = h.key
	}
	for _, m := range found {
		switch keys[m.Name] {
		case m.key:
		case "":
			if err := s.mountSkill(ctx, r, m); err != nil {
				return err
			}
		default:
			return skillConflict(m.Name)
		}
	}
	return nil
}

// mountSkill writes the files, and then the row: a folder without a row is of an attempt that was cut off.
func (s *Service) mountSkill(ctx context.Context, r row, m mounted) error {
	ws, err := s.runtime.Prepare(ctx, s.spec(r))
	if err != nil {
		return failed(err, "The container's folders could not be made.")
	}
	if ws.Skills == "" {
		return fault.New(fault.Unsupported, "Skills can't be mounted by the runtime %s.", s.runtime.Name()).WithCode("invalid_skill_reference")
	}
	dir := filepath.Join(ws.Skills, m.Name)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("mount skill: %w", err)
	}
	if err := m.files.Write(ctx, dir); err != nil {
		return err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO container_skill (container, name, description, key, skill_id, version, inline)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, r.ID, m.Name, m.Description, m.key, m.SkillID, m.Version, m.inline)
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("mount skill: %w", err), os.RemoveAll(dir))
	}
	return nil
}

// Skills are the ones that a container has, by name.
func (s *Service) Skills(ctx context.Context, org, id string) ([]Skill, error) {
	return s.skillRows(ctx, `name, description, key, skill_id, version, NULL`, org, id)
}

func (s *Service) skillRows(ctx context.Context, columns, org, id string) ([]Skill, error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT `+columns+` FROM container_skill WHERE container = $1
		AND EXISTS (SELECT 1 FROM container WHERE id = $1 AND org = $2) ORDER BY name`, id, org)
	if err != nil {
		return nil, fmt.Errorf("list skills of container: %w", err)
	}
	defer rows.Close()
	var out []Skill
	for rows.Next() {
		var k Skill
		if err := rows.Scan(&k.Name, &k.Description, &k.key, &k.SkillID, &k.Version, &k.inline); err != nil {
			return nil, fmt.Errorf("list skills of container: %w", err)
		}
		out = append(out, k)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list skills of container: %w", err)
	}
	return out, nil
}

// remountSkills gives a container that comes back its skills again. One whose files are gone is left out, and no more
// told of.
func (s *Service) remountSkills(ctx context.Context, r row) error {
	has, err := s.skillRows(ctx, `name, description, key, skill_id, version, inline`, r.Org, r.ID)
	if err != nil {
		return err
	}
	for _, k := range has {
		if err := s.db.Write(ctx, func(tx *sql.Tx) error {
			_, err := tx.Exec(`DELETE FROM container_skill WHERE container = $1 AND name = $2`, r.ID, k.Name)
			return err
		}); err != nil {
			return fmt.Errorf("mount skill again: %w", err)
		}
		request := SkillRequest{Type: "skill_reference", SkillID: k.SkillID, Version: fmt.Sprint(k.Version)}
		if k.inline != nil {
			if err := json.Unmarshal(k.inline, &request); err != nil {
				return fmt.Errorf("mount skill again: %w", err)
			}
		}
		m, err := s.resolveSkill(ctx, r.Org, request)
		if err == nil {
			err = s.mountSkill(ctx, r, m)
		}
		if err != nil {
			s.log.Warn("a skill of a restored container is not there any more", "container", r.ID, "skill", k.Name, "error", err)
		}
	}
	return nil
}

// String is what a model is told of a skill.
func (s Skill) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s (%s/%s): %s", s.Name, s.Path(), skill.ManifestFile, s.Description))
}
