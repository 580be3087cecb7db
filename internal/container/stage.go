package container

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/id"
)

// Uploads are the files that clients keep on the server. Another organisation's look absent.
type Uploads interface {
	Get(ctx context.Context, org, id string) (file.File, error)
	Open(ctx context.Context, org, id string) (io.ReadSeekCloser, file.File, error)
}

// checkUploads says whether the files of a request can be had, before anything is made.
func (s *Service) checkUploads(ctx context.Context, org string, ids []string) error {
	for i, fileID := range ids {
		param := fmt.Sprintf("file_ids[%d]", i)
		if !id.Valid(id.File, fileID) {
			return fault.New(fault.Invalid, "%q is not the id of a file.", fileID).WithCode("invalid_file_id").WithParam(param)
		}
		if _, err := s.upload(ctx, org, fileID); err != nil {
			if f, ok := fault.As(err); ok && f.Kind == fault.NotFound {
				// A request that names what is not there is wrong itself; 404 is for the path of a request.
				return fault.New(fault.Invalid, "File %q was not found.", fileID).WithCode("file_not_found").WithParam(param)
			}
			return err
		}
	}
	return nil
}

func (s *Service) upload(ctx context.Context, org, fileID string) (file.File, error) {
	if s.uploads == nil {
		return file.File{}, fault.New(fault.NotFound, "File %q was not found.", fileID).WithCode("file_not_found")
	}
	return s.uploads.Get(ctx, org, fileID)
}

// stage puts uploaded files into a fresh workspace, each under the last element of its name.
func (s *Service) stage(ctx context.Context, c Container, ids []string) error {
	names := make([]string, len(ids))
	for i, fileID := range ids {
		f, err := s.upload(ctx, c.Org, fileID)
		if err != nil {
			return err
		}
		names[i] = f.Name
	}
	for i, name := range StagedNames(names) {
		if _, err := s.PutUpload(ctx, c.Org, c.ID, ids[i], name); err != nil {
			return err
		}
	}
	return nil
}

// StagedNames are the names that uploaded files get in a fresh workspace: the last element of each, and "name-2.ext"
// beside another of that name.
func StagedNames(names []string) []string {
	taken := map[string]bool{}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = free(baseName(name), taken)
	}
	return out
}

// baseName is the last element of an uploaded file's name, or "file" where that is none.
func baseName(name string) string {
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	if _, err := cleanName(base); err != nil {
		return "file"
	}
	return base
}

// free is a name that is not taken, and takes it.
func free(name string, taken map[string]bool) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d%s", stem, n, ext)
	}
	taken[name] = true
	return name
}

// PutUpload copies an uploaded file into the live workspace. An empty name is the file's own.
func (s *Service) PutUpload(ctx context.Context, org, containerID, fileID, name string) (File, error) {
	if !id.Valid(id.File, fileID) {
		return File{}, fault.New(fault.Invalid, "%q is not the id of a file.", fileID).WithCode("invalid_file_id").WithParam("file_id")
	}
	if _, err := s.Usable(ctx, org, containerID); err != nil {
		return File{}, err
	}
	f, err := s.upload(ctx, org, fileID)
	if err != nil {
		if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
			return File{}, e.WithParam("file_id")
		}
		return File{}, err
	}
	if name == "" {
		name = baseName(f.Name)
	}
	r, _, err := s.uploads.Open(ctx, org, fileID)
	if err != nil {
		return File{}, err
	}
	defer r.Close()
	return s.Put(ctx, org, containerID, name, r, SourceUser)
}
