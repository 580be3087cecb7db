package anthropic

import (
	"cmp"
	"net/http"
	"path"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

func fileOf(f container.File) wire.File {
	return wire.File{ID: f.ID, Type: "file", Filename: path.Base(f.Path), MimeType: cmp.Or(f.ContentType, anyBytes),
		SizeBytes: f.Bytes, CreatedAt: f.Created.UTC().Format(time.RFC3339), Downloadable: true}
}

// anyBytes is the type of a file of which nothing is known.
const anyBytes = "application/octet-stream"

// getFile tells of a file that a command wrote, by the id in its result.
func (d *Door) getFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	f, err := d.Containers.FileByID(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, fileOf(f))
}

func (d *Door) fileContent(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	f, err := d.Containers.FileByID(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	content, f, err := d.Containers.OpenFile(r.Context(), p.Org, f.ContainerID, f.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	return gateway.ServeAttachment(w, r, content, path.Base(f.Path), cmp.Or(f.ContentType, anyBytes))
}
