package openai

import (
	"net/http"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func (d *Door) createContainer(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	var req wire.ContainerRequest
	if _, err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Name == "" {
		return fault.New(fault.Invalid, "A container needs a name.").WithCode("missing_required_parameter").WithParam("name")
	}
	spec, err := container.ReadRequest(req)
	if err != nil {
		return err
	}
	c, err := d.Containers.Create(r.Context(), p.Org, spec)
	if err != nil {
		return err
	}
	return d.writeContainer(w, r, c)
}

// writeContainer answers with a container and the skills that it has.
func (d *Door) writeContainer(w http.ResponseWriter, r *http.Request, c container.Container) error {
	o := containerObject(c)
	skills, err := d.Containers.Skills(r.Context(), c.Org, c.ID)
	if err != nil {
		return err
	}
	for _, k := range skills {
		m := wire.MountedSkill{Type: "inline", Name: k.Name, Description: k.Description, Path: k.Path()}
		if k.SkillID != "" {
			m.Type, m.SkillID, m.Version = "skill_reference", k.SkillID, number(k.Version)
		}
		o.Skills = append(o.Skills, m)
	}
	return writeJSON(w, http.StatusOK, o)
}

// containerObject writes a container as the SDKs read it. No secret can be in it: the room's type holds none.
func containerObject(c container.Container) wire.Container {
	network := wire.NetworkPolicy{Type: "disabled"}
	if c.Network != nil {
		network = wire.NetworkPolicy{Type: c.Network.Type, AllowedDomains: c.Network.AllowedDomains}
	}
	o := wire.Container{
		ID: c.ID, Object: "container", CreatedAt: c.Created.Unix(), Status: c.Status, Name: c.Name,
		LastActiveAt:  c.LastActive.Unix(),
		ExpiresAfter:  &wire.ExpiresAfter{Anchor: "last_active_at", Minutes: int64(c.IdleTTL / time.Minute)},
		NetworkPolicy: &network,
		ExpiresAt:     c.Expires().Unix(), // of one that is over: when that was
		IdleTTLSecs:   int64(c.IdleTTL / time.Second),
	}
	if c.MemoryLimit != "" {
		o.MemoryLimit = &c.MemoryLimit
	}
	if c.DiskLimit > 0 {
		o.Disk = &wire.DiskLimit{LimitBytes: c.DiskLimit, EnforcedBy: "watchdog"}
	}
	return o
}

func survivors(s *container.Survivors) *wire.Survivors {
	o := &wire.Survivors{ContainerID: s.ContainerID, Until: s.Until.Unix(), Files: make([]wire.ContainerFile, len(s.Files)), More: s.More, Restore: true}
	for i, f := range s.Files {
		o.Files[i] = fileObject(f)
	}
	return o
}

// restoreContainer brings an expired container back under its id. An active one is answered as it is.
func (d *Door) restoreContainer(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	c, err := d.Containers.Restore(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return d.writeContainer(w, r, c)
}

func (d *Door) listContainers(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q := r.URL.Query()
	page, err := readPage(q)
	if err != nil {
		return err
	}
	list, more, err := d.Containers.List(r.Context(), p.Org,
		container.Page{Limit: page.limit, After: page.after, Order: page.order, Name: q.Get("name")})
	if err != nil {
		return err
	}
	objects := make([]wire.Container, len(list))
	for i, c := range list {
		objects[i] = containerObject(c)
	}
	return writeJSON(w, http.StatusOK, wire.NewList(objects, more, func(c wire.Container) string { return c.ID }))
}

func (d *Door) getContainer(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	c, err := d.Containers.Get(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return d.writeContainer(w, r, c)
}

func (d *Door) deleteContainer(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	if err := d.Containers.Delete(r.Context(), p.Org, id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Deleted{ID: id, Object: "container.deleted", Deleted: true})
}
