package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/skill"
)

// bundleForm is a skill as it came: a zip in a part named files, or its files in parts named files[]. The bytes are in
// one temporary file, in the order of the parts.
type bundleForm struct {
	file        *os.File
	size        int64
	parts       []bundlePart
	fields      int
	makeDefault bool
	entries     []skill.Entry
}

type bundlePart struct {
	name         string
	offset, size int64
}

// Close lets go of the bytes.
func (f *bundleForm) Close() { f.file.Close() }

const bundleTry = "a zip in a part named files, or the files in parts named files[]"

// readBundle reads a form. What the bundle may hold is not checked here, but for how much of it is taken in.
func readBundle(w http.ResponseWriter, r *http.Request, limits skill.Limits) (*bundleForm, error) {
	gateway.AllowBody(w, limits.MaxArchive+formRoom)
	parts, err := readForm(r, bundleTry)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "skill-*")
	if err != nil {
		return nil, fmt.Errorf("read skill: %w", err)
	}
	os.Remove(file.Name()) // it lives as long as it is open
	f := &bundleForm{file: file}
	if err := f.read(parts, limits); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *bundleForm) read(parts *multipart.Reader, limits skill.Limits) error {
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return f.list(limits)
		}
		if err == nil {
			err = f.part(part, limits)
		}
		if err != nil {
			if _, ok := fault.As(err); ok {
				return err
			}
			return brokenForm(err)
		}
	}
}

func (f *bundleForm) part(part *multipart.Part, limits skill.Limits) error {
	field, name := partNames(part)
	switch field {
	case "files", "files[]":
		if name == "" {
			return fault.New(fault.Invalid, "A part named %s has no filename.", field).WithCode("invalid_value").WithParam("files")
		}
		if len(f.parts) > 2*limits.MaxFiles {
			return fault.New(fault.TooLarge, "The form has more than the %d files that a skill may have.", limits.MaxFiles).WithCode("skill_too_large")
		}
		n, err := io.Copy(f.file, io.LimitReader(part, limits.MaxArchive-f.size+1))
		if err != nil {
			return err
		}
		f.parts = append(f.parts, bundlePart{name: name, offset: f.size, size: n})
		if f.size += n; f.size > limits.MaxArchive {
			return fault.New(fault.TooLarge, "The skill has more than %d bytes.", limits.MaxArchive).WithCode("skill_too_large")
		}
		return nil
	}
	if f.fields++; f.fields > maxFields {
		return fault.New(fault.Invalid, "The form has too many parts.").WithCode("invalid_multipart")
	}
	text, err := readField(part, field)
	if err != nil {
		return err
	}
	if field == "default" {
		switch text {
		case "true":
			f.makeDefault = true
		case "false", "":
		default:
			return fault.New(fault.Invalid, "default must be true or false.").WithCode("invalid_value").WithParam("default")
		}
	}
	return nil // fields of a later API are not ours to refuse
}

// zipStarts are how a zip begins: with a file, or, when it is empty, with its end.
var zipStarts = [][]byte{[]byte("PK\x03\x04"), []byte("PK\x05\x06")}

// list makes entries of the parts.
func (f *bundleForm) list(limits skill.Limits) error {
	if len(f.parts) == 0 {
		return noFilePart("files").WithTry(bundleTry)
	}
	if len(f.parts) == 1 {
		head := make([]byte, 4)
		n, _ := f.file.ReadAt(head, 0)
		for _, start := range zipStarts {
			if bytes.Equal(head[:n], start) {
				var err error
				f.entries, err = skill.ReadZip(io.NewSectionReader(f.file, 0, f.size), f.size, limits)
				return err
			}
		}
	}
	for _, p := range f.parts {
		// A form tells no mode. What begins as a script is one.
		mark := make([]byte, min(p.size, 2))
		f.file.ReadAt(mark, p.offset)
		f.entries = append(f.entries, skill.Entry{Name: p.name, Executable: string(mark) == "#!", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(f.file, p.offset, p.size)), nil
		}})
	}
	return nil
}
