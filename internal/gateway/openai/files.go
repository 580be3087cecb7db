package openai

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

func (d *Door) createFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "multipart/form-data" && params["boundary"] != "":
		return d.uploadFile(w, r, p, multipart.NewReader(r.Body, params["boundary"]))
	case err == nil && kind == "application/json":
		var req struct {
			FileID string `json:"file_id"`
			Path   string `json:"path"` // an extension of the Hadrian seed
		}
		if _, err := readJSON(r, &req); err != nil {
			return err
		}
		if req.FileID == "" {
			return fault.New(fault.Invalid, "A file_id is needed.").WithCode("missing_required_parameter").WithParam("file_id").
				WithTry("a multipart form with the bytes in a part named file")
		}
		f, err := d.Containers.PutUpload(r.Context(), p.Org, r.PathValue("id"), req.FileID, req.Path)
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, fileObject(f))
	}
	return wrongType("The content type must be multipart/form-data or application/json.", `a multipart form with the bytes in a part named file, or {"file_id": …}`)
}

// uploadFile streams the part named file into the container; nothing is held in memory.
func (d *Door) uploadFile(w http.ResponseWriter, r *http.Request, p tenant.Principal, parts *multipart.Reader) error {
	// The container is asked for first: an unknown one must not cost the client its whole upload.
	id := r.PathValue("id")
	if _, err := d.Containers.Get(r.Context(), p.Org, id); err != nil {
		return err
	}
	gateway.AllowBody(w, d.Containers.MaxFileBytes()+formRoom)
	named := "" // the part named path, where it comes before the file: an extension of the Hadrian seed
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return noFilePart("file")
		}
		if err != nil {
			return brokenForm(err)
		}
		field, name := partNames(part)
		if field == "path" {
			if named, err = readField(part, field); err != nil {
				return err
			}
		}
		if field != "file" {
			continue // NextRawPart skips its bytes
		}
		name = cmp.Or(named, name)
		if name == "" {
			return fault.New(fault.Invalid, "The part named file has no filename.").WithCode("invalid_path").WithParam("file")
		}
		body := &uploadReader{r: part}
		f, err := d.Containers.Put(r.Context(), p.Org, id, name, body, "user")
		if body.err != nil {
			// The client's bytes stopped coming; whatever the room made of that, this is why.
			return brokenForm(body.err)
		}
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, fileObject(f))
	}
}

func fileObject(f container.File) wire.ContainerFile {
	return wire.ContainerFile{ID: f.ID, Object: "container.file", Bytes: f.Bytes, ContainerID: f.ContainerID,
		CreatedAt: f.Created.Unix(), Path: f.Path, Source: f.Source}
}

func (d *Door) listFiles(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	page, err := readPage(r.URL.Query())
	if err != nil {
		return err
	}
	list, more, err := d.Containers.Files(r.Context(), p.Org, r.PathValue("id"),
		container.Page{Limit: page.limit, After: page.after, Order: page.order})
	if err != nil {
		return err
	}
	objects := make([]wire.ContainerFile, len(list))
	for i, f := range list {
		objects[i] = fileObject(f)
	}
	return writeJSON(w, http.StatusOK, struct {
		wire.List[wire.ContainerFile]
		Partial bool `json:"partial,omitempty"` // the workspace is large, and there may be files that are not listed yet
	}{wire.NewList(objects, more, func(f wire.ContainerFile) string { return f.ID }), d.Containers.Partial(r.PathValue("id"))})
}

func (d *Door) getFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	f, err := d.Containers.File(r.Context(), p.Org, r.PathValue("id"), r.PathValue("file"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, fileObject(f))
}

func (d *Door) deleteFile(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("file")
	if err := d.Containers.DeleteFile(r.Context(), p.Org, r.PathValue("id"), id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Deleted{ID: id, Object: "container.file.deleted", Deleted: true})
}

// fileContent serves a workspace file, whole or by range.
func (d *Door) fileContent(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	content, f, err := d.Containers.OpenFile(r.Context(), p.Org, r.PathValue("id"), r.PathValue("file"))
	if err != nil {
		return err
	}
	defer content.Close()
	return gateway.ServeAttachment(w, r, content, path.Base(f.Path), cmp.Or(f.ContentType, "application/octet-stream"))
}
