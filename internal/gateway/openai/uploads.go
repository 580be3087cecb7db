package openai

import (
	"context"
	"errors"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Files are what clients uploaded. Another organisation's look absent.
type Files interface {
	// Upload keeps the bytes of r; then told says what they are.
	Upload(ctx context.Context, org string, r io.Reader, told func() (file.Upload, error)) (file.File, error)
	Get(ctx context.Context, org, id string) (file.File, error)
	List(ctx context.Context, org string, page file.Page) ([]file.File, bool, error)
	Open(ctx context.Context, org, id string) (io.ReadSeekCloser, file.File, error)
	Delete(ctx context.Context, org, id string) error
	MaxBytes() int64
}

// createUpload streams the part named file to its store. The fields may come before or after it.
func (d *Door) createUpload(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	gateway.AllowBody(w, d.Files.MaxBytes()+formRoom)
	parts, err := readForm(r, "a form with the parts file and purpose")
	if err != nil {
		return err
	}
	form := uploadForm{parts: parts}
	part, name, err := form.next()
	if err != nil {
		return err
	}
	if part == nil {
		return noFilePart("file")
	}
	form.upload.Name = name
	if form.upload.Purpose != "" { // what is wrong already must not cost the client its whole upload
		if err := form.upload.Check(); err != nil {
			return err
		}
	}
	body := &uploadReader{r: part}
	f, err := d.Files.Upload(r.Context(), p.Org, body, func() (file.Upload, error) {
		if second, _, err := form.next(); err != nil {
			return file.Upload{}, err
		} else if second != nil {
			return file.Upload{}, fault.New(fault.Invalid, "The form has more than one part named file.").WithCode("invalid_multipart").WithParam("file")
		}
		return form.upload, nil
	})
	if body.err != nil {
		return brokenForm(body.err)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, uploadObject(f))
}

// uploadForm gathers the fields of a form around its file.
type uploadForm struct {
	parts  *multipart.Reader
	upload file.Upload
	anchor string
	fields int
}

// next reads fields up to the next part named file; nil is the form's end.
func (u *uploadForm) next() (*multipart.Part, string, error) {
	for {
		part, err := u.parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil, "", u.checkAnchor()
		}
		if err != nil {
			return nil, "", brokenForm(err)
		}
		field, name := partNames(part)
		if field == "file" {
			if name == "" {
				return nil, "", fault.New(fault.Invalid, "The part named file has no filename.").WithCode("invalid_value").WithParam("file")
			}
			return part, name, nil
		}
		if u.fields++; u.fields > maxFields {
			return nil, "", fault.New(fault.Invalid, "The form has too many parts.").WithCode("invalid_multipart")
		}
		text, err := readField(part, field)
		if err != nil {
			return nil, "", err
		}
		if err := u.field(field, text); err != nil {
			return nil, "", err
		}
	}
}

func (u *uploadForm) field(name, value string) error {
	switch name {
	case "purpose":
		u.upload.Purpose = value
	case "expires_after[anchor]":
		u.anchor = value
	case "expires_after[seconds]":
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds < 1 || seconds > math.MaxInt64/int64(time.Second) {
			return fault.New(fault.Invalid, "expires_after.seconds must be a whole number of seconds.").WithCode("invalid_value").
				WithParam("expires_after.seconds")
		}
		u.upload.Expires = time.Duration(seconds) * time.Second
	}
	return nil // fields of a later API are not ours to refuse
}

func (u *uploadForm) checkAnchor() error {
	if (u.anchor != "" || u.upload.Expires != 0) && u.anchor != "created_at" {
		return fault.New(fault.Invalid, `expires_after.anchor must be "created_at".`).WithCode("invalid_value").WithParam("expires_after.anchor")
	}
	if u.anchor != "" && u.upload.Expires == 0 {
		return fault.New(fault.Invalid, "expires_after needs seconds.").WithCode("missing_required_parameter").WithParam("expires_after.seconds")
	}
	return nil
}

func uploadObject(f file.File) wire.File {
	o := wire.File{ID: f.ID, Object: "file", Bytes: f.Bytes, CreatedAt: f.Created.Unix(), Filename: f.Name, Purpose: f.Purpose, Status: "processed"}
	if !f.Expires.IsZero() {
		at := f.Expires.Unix()
		o.ExpiresAt = &at
	}
	return o
}

func (d *Door) listUploads(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q := r.URL.Query()
	page := file.Page{After: q.Get("after"), Order: q.Get("order"), Purpose: q.Get("purpose")}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fault.New(fault.Invalid, "limit must be a whole number from 1 to 10000.").WithCode("invalid_value").WithParam("limit")
		}
		page.Limit = n
	}
	list, more, err := d.Files.List(r.Context(), p.Org, page)
	if err != nil {
		return err
	}
	objects := make([]wire.File, len(list))
	for i, f := range list {
		objects[i] = uploadObject(f)
	}
	return writeJSON(w, http.StatusOK, wire.NewList(objects, more, func(f wire.File) string { return f.ID }))
}

func (d *Door) getUpload(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	f, err := d.Files.Get(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, uploadObject(f))
}

func (d *Door) deleteUpload(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id := r.PathValue("id")
	if err := d.Files.Delete(r.Context(), p.Org, id); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, wire.Deleted{ID: id, Object: "file", Deleted: true})
}

func (d *Door) uploadContent(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	content, f, err := d.Files.Open(r.Context(), p.Org, r.PathValue("id"))
	if err != nil {
		return err
	}
	defer content.Close()
	return gateway.ServeAttachment(w, r, content, f.Name, file.ContentType(f.Name))
}
