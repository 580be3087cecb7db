package openai

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

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

// fileContent serves a workspace file, whole or by range. What a command wrote is never shown as a page of this
// server: it is an attachment, its type is not guessed, and a browser that opens it anyway runs nothing in it.
func (d *Door) fileContent(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	content, f, err := d.Containers.OpenFile(r.Context(), p.Org, r.PathValue("id"), r.PathValue("file"))
	if err != nil {
		return err
	}
	defer content.Close()
	return serveContent(w, r, content, path.Base(f.Path), cmp.Or(f.ContentType, "application/octet-stream"))
}

// serveContent serves bytes that a client or a command wrote, under a name and a type.
func serveContent(w http.ResponseWriter, r *http.Request, content io.ReadSeeker, name, kind string) error {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", attachment(name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	rw := &rangeWriter{ResponseWriter: w}
	http.ServeContent(rw, r, "", time.Time{}, content)
	if rw.refused {
		for _, name := range []string{"Content-Disposition", "Content-Security-Policy", "Cache-Control"} {
			h.Del(name)
		}
		return gateway.WithStatus(http.StatusRequestedRangeNotSatisfiable,
			fault.New(fault.Invalid, "The file has no such range of bytes.").WithCode("invalid_range"))
	}
	return nil
}

// rangeWriter keeps http.ServeContent's own plain-text refusals from going out, so that the envelope can.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

func (w *rangeWriter) WriteHeader(status int) {
	if status >= 400 {
		w.refused = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// attachment names a download twice: in ASCII for old readers and in UTF-8 as RFC 5987 has it.
func attachment(name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	return fmt.Sprintf(`attachment; filename="%s"; filename*=UTF-8''%s`, ascii, extValue(name))
}

// extValue percent-encodes everything that RFC 5987 does not let stand for itself.
func extValue(s string) string {
	return strings.ReplaceAll(url.QueryEscape(strings.ToValidUTF8(s, "_")), "+", "%20")
}
