package openai

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
)

// formRoom is what a form may have beside its file.
const formRoom = 1 << 20

const (
	maxField  = 4 << 10 // bytes of a form's field that is no file
	maxFields = 32      // of those in a form
)

// readForm returns the parts of a form's body; try says what the route takes.
func readForm(r *http.Request, try string) (*multipart.Reader, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, wrongType("The content type must be multipart/form-data.", try)
	}
	return multipart.NewReader(r.Body, params["boundary"]), nil
}

// wrongType refuses a body of a type that a route does not take.
func wrongType(sentence, try string) error {
	return gateway.WithStatus(http.StatusUnsupportedMediaType, fault.New(fault.Invalid, "%s", sentence).WithCode("unsupported_content_type").WithTry("%s", try))
}

// brokenForm is a form that could not be read to its end.
func brokenForm(err error) error {
	return fault.Wrap(fault.Invalid, err, "The multipart form could not be read.").WithCode("invalid_multipart")
}

func noFilePart(name string) *fault.Error {
	return fault.New(fault.Invalid, "The form has no part named %s.", name).WithCode("missing_file_part").WithParam(name)
}

// readField reads a part that is no file.
func readField(part *multipart.Part, name string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	if err != nil {
		return "", brokenForm(err)
	}
	if len(text) > maxField {
		return "", fault.New(fault.Invalid, "The field %.40q is too long.", name).WithCode("invalid_multipart").WithParam(name)
	}
	return string(text), nil
}

// partNames reads a part's Content-Disposition itself: the standard library's FileName keeps only the last element
// of a path, which would turn "a/b" into "b" and hide "../b" from the check that must refuse it.
func partNames(part *multipart.Part) (field, filename string) {
	kind, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || kind != "form-data" {
		return "", ""
	}
	return params["name"], params["filename"]
}

// uploadReader remembers why the client's bytes ended early.
type uploadReader struct {
	r   io.Reader
	err error
}

func (u *uploadReader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}
