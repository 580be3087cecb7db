package openai

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/skill"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Skills are bundles that a container can mount. Another organisation's look absent.
type Skills interface {
	Create(ctx context.Context, org string, entries []skill.Entry) (skill.Skill, error)
	AddVersion(ctx context.Context, org, id string, entries []skill.Entry, makeDefault bool) (skill.Version, error)
	Get(ctx context.Context, org, id string) (skill.Skill, error)
	Version(ctx context.Context, org, id string, number int64) (skill.Version, error)
	List(ctx context.Context, org string, page skill.Page) ([]skill.Skill, bool, error)
	Versions(ctx context.Context, org, id string, page skill.Page) ([]skill.Version, bool, error)
	SetDefault(ctx context.Context, org, id string, number int64) (skill.Skill, error)
	Delete(ctx context.Context, org, id string) error
	DeleteVersion(ctx context.Context, org, id string, number int64) (skill.Version, error)
	Archive(ctx context.Context, v skill.Version) (io.ReadCloser, error)
	Limits() skill.Limits
}

func (d *Door) createSkill(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	form, err := readBundle(w, r, d.Skills.Limits())
	if err != nil {
		return err
	}
	defer form.Close()
	s, err := d.Skills.Create(r.Context(), p.Org, form.entries)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, skillObject(s))
}

func (d *Door) createSkillVersion(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	// The skill is asked for first: an unknown one must not cost the client its whole upload.
	id := r.PathValue("id")
	if _, err := d.Skills.Get(r.Context(), p.Org, id); err != nil {
		return err
	}
	form, err := readBundle(w, r, d.Skills.Limits())
	if err != nil {
		return err
	}
	defer form.Close()
	v, err := d.Skills.AddVersion(r.Context(), p.Org, id, form.entries, form.makeDefault)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, versionObject(v))
}

func skillObject(s skill.Skill) wire.Skill {
	return wire.Skill{ID: s.ID, Object: "skill", CreatedAt: s.Created.Unix(), Name: s.Default.Name, Description: s.Default.Description,
		DefaultVersion: number(s.Default.Number), LatestVersion: number(s.Latest)}
}

func versionObject(v skill.Version) wire.SkillVersion {
	return wire.SkillVersion{ID: v.ID, Object: "skill.version", SkillID: v.SkillID, Version: number(v.Number), CreatedAt: v.Created.Unix(),
		Name: v.Name, Description: v.Description}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (d *Door) listSkills(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	page, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	list, more, err := d.Skills.List(r.Context(), p.Org, skill.Page{Limit: page.limit, After: page.after, Order: page.order})
	if err != nil {
		return err
	}
	objects := make([]wire.Skill, len(list))
	for i, s := range list {
		objects[i] = skillObject(s)
	}
	return writeJSON(w, http.StatusOK, wire.NewList(objects, more, func(s wire.Skill) string { return s.ID }))
}

func (d *Door) getSkill(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	s, err := d.Skills.Get(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, skillObject(s))
}

func (d *Door) updateSkill(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req struct {
		DefaultVersion string `json:"default_version"`
	}
	if _, err := readJSON(r, &req); err != nil {
		return err
	}
	n, err := strconv.ParseInt(req.DefaultVersion, 10, 64)
	if err != nil || n < 1 {
		return fault.New(fault.Invalid, "default_version must be the number of a version, as text.").WithCode("invalid_value").WithParam("default_version")
	}
	s, err := d.Skills.SetDefault(r.Context(), p.Org, r.PathValue("id"), n)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, skillObject(s))
}

func (d *Door) deleteSkill(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	if err := d.Skills.Delete(r.Context(), p.Org, id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Deleted{ID: id, Object: "skill.deleted", Deleted: true})
}

func (d *Door) skillContent(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	s, err := d.Skills.Get(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return d.archive(w, r, s.Default)
}

// archive sends a version as a zip.
func (d *Door) archive(w http.ResponseWriter, r *http.Request, v skill.Version) error {
	content, err := d.Skills.Archive(r.Context(), v)
	if err != nil {
		return err
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", gateway.Attachment(v.Name+"-"+number(v.Number)+".zip"))
	h.Set("X-Content-Type-Options", "nosniff")
	if _, err := io.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler) // a short archive must not look whole
	}
	return nil
}

func (d *Door) listSkillVersions(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	page, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	list, more, err := d.Skills.Versions(r.Context(), p.Org, r.PathValue("id"),
		skill.Page{Limit: page.limit, After: page.after, Order: page.order})
	if err != nil {
		return err
	}
	objects := make([]wire.SkillVersion, len(list))
	for i, v := range list {
		objects[i] = versionObject(v)
	}
	return writeJSON(w, http.StatusOK, wire.NewList(objects, more, func(v wire.SkillVersion) string { return v.ID }))
}

// version finds the version that a path names.
func (d *Door) version(r *http.Request, p tenant.Principal) (skill.Version, error) {
	id, text := r.PathValue("id"), r.PathValue("version")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || number(n) != text {
		if _, err := d.Skills.Get(r.Context(), p.Org, id); err != nil {
			return skill.Version{}, err
		}
		return skill.Version{}, fault.New(fault.NotFound, "Version %q of skill %q was not found.", text, id).WithCode("skill_version_not_found")
	}
	return d.Skills.Version(r.Context(), p.Org, id, n)
}

func (d *Door) getSkillVersion(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	v, err := d.version(r, p)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, versionObject(v))
}

func (d *Door) deleteSkillVersion(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	v, err := d.version(r, p)
	if err != nil {
		return err
	}
	if v, err = d.Skills.DeleteVersion(r.Context(), p.Org, v.SkillID, v.Number); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.DeletedSkillVersion{ID: v.ID, Object: "skill.version.deleted", Deleted: true, Version: number(v.Number)})
}

func (d *Door) skillVersionContent(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	v, err := d.version(r, p)
	if err != nil {
		return err
	}
	return d.archive(w, r, v)
}
