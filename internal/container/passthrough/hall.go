package passthrough

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
)

// Own are the containers of this server, which were there before the vendors' or are beside them.
type Own interface {
	Get(ctx context.Context, org, id string) (container.Container, error)
	Skills(ctx context.Context, org, id string) ([]container.Skill, error)
	List(ctx context.Context, org string, page container.Page) ([]container.Container, bool, error)
	Delete(ctx context.Context, org, id string) error
	Put(ctx context.Context, org, id, name string, r io.Reader, source string) (container.File, error)
	Files(ctx context.Context, org, id string, page container.Page) ([]container.File, bool, error)
	Partial(id string) bool
	File(ctx context.Context, org, id, fileID string) (container.File, error)
	OpenFile(ctx context.Context, org, id, fileID string) (io.ReadSeekCloser, container.File, error)
	DeleteFile(ctx context.Context, org, id, fileID string) error
	PutUpload(ctx context.Context, org, id, fileID, name string) (container.File, error)
	Restore(ctx context.Context, org, id string) (container.Container, error)
	MaxFileBytes() int64
}

// Hall shows an organisation's containers, the vendors' and this server's own, as those of one place. It has the methods
// that a door wants.
type Hall struct {
	own     Own
	vendors *Service
}

// NewHall makes a Hall.
func NewHall(own Own, vendors *Service) *Hall { return &Hall{own, vendors} }

// of says whether a container is a vendor's.
func (h *Hall) of(ctx context.Context, org, id string) (bool, error) {
	_, _, err := h.vendors.find(ctx, org, id)
	switch fault.KindOf(err) {
	case fault.NotFound:
		return false, nil
	case fault.Unavailable: // its vendor cannot be asked: it is the vendor's all the same
		return true, nil
	}
	return err == nil, err
}

// Create makes a container at the vendor.
func (h *Hall) Create(ctx context.Context, org string, spec container.CreateSpec) (container.Container, error) {
	providers := slices.Sorted(maps.Keys(h.vendors.upstreams))
	if len(providers) != 1 {
		return container.Container{}, fault.New(fault.Invalid, "A container is made by the provider that is to run its commands, and there is not one but %d: %s.",
			len(providers), cmp.Or(strings.Join(providers, ", "), "none")).WithCode("shell_environment_rejected").
			WithTry(`a response with {"type":"shell","environment":{"type":"container_auto"}}`)
	}
	c, err := h.vendors.Make(ctx, org, providers[0], spec)
	return c.Container, err
}

// Get returns a container.
func (h *Hall) Get(ctx context.Context, org, id string) (container.Container, error) {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return container.Container{}, err
	case !theirs:
		return h.own.Get(ctx, org, id)
	}
	c, err := h.vendors.Get(ctx, org, id)
	return c.Container, err
}

// Skills returns what is mounted. What a vendor has mounted it does not say.
func (h *Hall) Skills(ctx context.Context, org, id string) ([]container.Skill, error) {
	if theirs, err := h.of(ctx, org, id); err != nil || theirs {
		return nil, err
	}
	return h.own.Skills(ctx, org, id)
}

// List returns a page of both.
func (h *Hall) List(ctx context.Context, org string, page container.Page) ([]container.Container, bool, error) {
	theirs, moreTheirs, err := h.vendors.list(ctx, org, page)
	if err != nil {
		return nil, false, err
	}
	all, more, err := h.own.List(ctx, org, page)
	if err != nil {
		return nil, false, err
	}
	for _, c := range theirs {
		all = append(all, c.Container)
	}
	slices.SortFunc(all, func(a, b container.Container) int {
		if page.Order == "asc" {
			return cmp.Compare(a.ID, b.ID)
		}
		return cmp.Compare(b.ID, a.ID)
	})
	if limit := cmp.Or(page.Limit, defaultPage); len(all) > limit {
		all, more = all[:limit], true
	}
	return all, more || moreTheirs, nil
}

// Delete ends a container.
func (h *Hall) Delete(ctx context.Context, org, id string) error {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return err
	case !theirs:
		return h.own.Delete(ctx, org, id)
	}
	return h.vendors.Delete(ctx, org, id)
}

// Put writes a file into a container.
func (h *Hall) Put(ctx context.Context, org, id, name string, r io.Reader, source string) (container.File, error) {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return container.File{}, err
	case !theirs:
		return h.own.Put(ctx, org, id, name, r, source)
	}
	return h.vendors.Put(ctx, org, id, name, r)
}

// PutUpload copies an uploaded file into a container.
func (h *Hall) PutUpload(ctx context.Context, org, id, fileID, name string) (container.File, error) {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return container.File{}, err
	case !theirs:
		return h.own.PutUpload(ctx, org, id, fileID, name)
	}
	return h.vendors.PutUpload(ctx, org, id, fileID, name)
}

// Files returns a page of a container's files.
func (h *Hall) Files(ctx context.Context, org, id string, page container.Page) ([]container.File, bool, error) {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return nil, false, err
	case !theirs:
		return h.own.Files(ctx, org, id, page)
	}
	return h.vendors.Files(ctx, org, id, page)
}

// Partial says whether the last list of files may have missed some. A vendor's list is the vendor's.
func (h *Hall) Partial(id string) bool { return h.own.Partial(id) }

// File describes a file.
func (h *Hall) File(ctx context.Context, org, id, fileID string) (container.File, error) {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return container.File{}, err
	case !theirs:
		return h.own.File(ctx, org, id, fileID)
	}
	return h.vendors.File(ctx, org, id, fileID)
}

// OpenFile opens a file.
func (h *Hall) OpenFile(ctx context.Context, org, id, fileID string) (io.ReadSeekCloser, container.File, error) {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return nil, container.File{}, err
	case !theirs:
		return h.own.OpenFile(ctx, org, id, fileID)
	}
	return h.vendors.OpenFile(ctx, org, id, fileID)
}

// DeleteFile removes a file.
func (h *Hall) DeleteFile(ctx context.Context, org, id, fileID string) error {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return err
	case !theirs:
		return h.own.DeleteFile(ctx, org, id, fileID)
	}
	return h.vendors.DeleteFile(ctx, org, id, fileID)
}

// Restore brings an expired container back. Nobody can bring a vendor's back.
func (h *Hall) Restore(ctx context.Context, org, id string) (container.Container, error) {
	theirs, err := h.of(ctx, org, id)
	switch {
	case err != nil:
		return container.Container{}, err
	case !theirs:
		return h.own.Restore(ctx, org, id)
	}
	c, err := h.vendors.Usable(ctx, org, id)
	return c.Container, err
}

// MaxFileBytes bounds an upload.
func (h *Hall) MaxFileBytes() int64 { return h.own.MaxFileBytes() }
