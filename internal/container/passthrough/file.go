package passthrough

import (
	"context"
	"fmt"
	"io"
	"mime"
	"path"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	defaultPage = 20
	maxPage     = 100
)

// alive finds a container whose files can be asked for.
func (s *Service) alive(ctx context.Context, org, containerID string) (Container, Upstream, error) {
	c, up, err := s.find(ctx, org, containerID)
	if err == nil && up == nil {
		err = expired(c)
	}
	return c, up, err
}

// failed is what an error of a vendor's about a container or one of its files means. A container that is not there at the
// vendor has expired: it was there.
func (s *Service) failed(ctx context.Context, c Container, fileID string, err error) error {
	if fault.KindOf(err) != fault.NotFound {
		return told(err, c.names())
	}
	if now, getErr := s.Get(ctx, c.Org, c.ID); getErr == nil && now.Status != container.Active {
		return expired(c)
	}
	if fileID != "" {
		return noFile(fileID)
	}
	return told(err, c.names())
}

func (c Container) file(own string, f openai.ContainerFile) container.File {
	return container.File{ID: own, ContainerID: c.ID, Path: f.Path, Bytes: max(0, f.Bytes), Created: time.Unix(f.CreatedAt, 0), Source: f.Source,
		ContentType: mime.TypeByExtension(path.Ext(f.Path))}
}

// Put writes a file into a container.
func (s *Service) Put(ctx context.Context, org, containerID, name string, r io.Reader) (container.File, error) {
	c, up, err := s.alive(ctx, org, containerID)
	if err != nil {
		return container.File{}, err
	}
	f, err := up.PutContainerFile(ctx, c.Theirs, name, r)
	if err != nil {
		return container.File{}, s.failed(ctx, c, "", err)
	}
	return s.known(ctx, c, f)
}

// known is a file under our id.
func (s *Service) known(ctx context.Context, c Container, f openai.ContainerFile) (container.File, error) {
	ids, err := s.mint(ctx, c.ID, f.ID)
	if err != nil {
		return container.File{}, err
	}
	return c.file(ids[f.ID], f), nil
}

// PutUpload copies an uploaded file into a container. An empty name is the file's own.
func (s *Service) PutUpload(ctx context.Context, org, containerID, fileID, name string) (container.File, error) {
	if !id.Valid(id.File, fileID) || s.uploads == nil {
		return container.File{}, fault.New(fault.Invalid, "%q is not the id of a file.", fileID).WithCode("invalid_file_id").WithParam("file_id")
	}
	r, f, err := s.uploads.Open(ctx, org, fileID)
	if err != nil {
		if e, ok := fault.As(err); ok && e.Kind == fault.NotFound {
			return container.File{}, e.WithParam("file_id")
		}
		return container.File{}, err
	}
	defer r.Close()
	if name == "" {
		name = path.Base("/" + f.Name)
	}
	return s.Put(ctx, org, containerID, name, r)
}

// Files returns a page of a container's files and whether more follow.
func (s *Service) Files(ctx context.Context, org, containerID string, page container.Page) ([]container.File, bool, error) {
	if _, err := (store.Page{Limit: page.Limit, After: page.After, Order: page.Order}).Keyset(id.ContainerFile, defaultPage, maxPage); err != nil {
		return nil, false, err
	}
	c, up, err := s.alive(ctx, org, containerID)
	if err != nil {
		return nil, false, err
	}
	if page.After != "" {
		if page.After, err = s.theirFile(ctx, c.ID, page.After); err != nil {
			return nil, false, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := up.ContainerFiles(ctx, c.Theirs, page.Limit, page.After, page.Order)
	if err != nil {
		return nil, false, s.failed(ctx, c, "", err)
	}
	theirs := make([]string, len(list.Data))
	for i, f := range list.Data {
		theirs[i] = f.ID
	}
	ids, err := s.mint(ctx, c.ID, theirs...)
	if err != nil {
		return nil, false, err
	}
	files := make([]container.File, len(list.Data))
	for i, f := range list.Data {
		files[i] = c.file(ids[f.ID], f)
	}
	return files, list.HasMore, nil
}

// File is what a vendor says of a file.
func (s *Service) File(ctx context.Context, org, containerID, fileID string) (container.File, error) {
	c, up, theirs, err := s.fileOf(ctx, org, containerID, fileID)
	if err != nil {
		return container.File{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f, err := up.ContainerFile(ctx, c.Theirs, theirs)
	if err != nil {
		return container.File{}, s.failed(ctx, c, fileID, err)
	}
	return c.file(fileID, f), nil
}

func (s *Service) fileOf(ctx context.Context, org, containerID, fileID string) (c Container, up Upstream, theirs string, err error) {
	if c, up, err = s.alive(ctx, org, containerID); err == nil {
		theirs, err = s.theirFile(ctx, c.ID, fileID)
	}
	return c, up, theirs, err
}

// DeleteFile removes a file at the vendor.
func (s *Service) DeleteFile(ctx context.Context, org, containerID, fileID string) error {
	c, up, theirs, err := s.fileOf(ctx, org, containerID, fileID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := up.DeleteContainerFile(ctx, c.Theirs, theirs); err != nil {
		return s.failed(ctx, c, fileID, err)
	}
	return s.dropFile(ctx, fileID)
}

// OpenFile opens a file's content, which comes from the vendor as it is read. ctx is for all the reading.
func (s *Service) OpenFile(ctx context.Context, org, containerID, fileID string) (io.ReadSeekCloser, container.File, error) {
	c, up, theirs, err := s.fileOf(ctx, org, containerID, fileID)
	if err != nil {
		return nil, container.File{}, err
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f, err := up.ContainerFile(asked, c.Theirs, theirs)
	if err != nil {
		return nil, container.File{}, s.failed(ctx, c, fileID, err)
	}
	r := &content{open: func(from int64) (io.ReadCloser, int64, error) {
		b, size, err := up.ContainerFileContent(ctx, c.Theirs, theirs, from)
		if err != nil {
			err = s.failed(ctx, c, fileID, err)
		}
		return b, size, err
	}}
	if r.body, r.size, err = r.open(0); err != nil {
		return nil, container.File{}, err
	}
	if r.size < 0 { // the vendor does not say
		r.size = max(0, f.Bytes)
	}
	out := c.file(fileID, f)
	out.Bytes = r.size
	return r, out, nil
}

// content is a file at a vendor. Who seeks asks anew from there.
type content struct {
	open func(from int64) (io.ReadCloser, int64, error)
	body io.ReadCloser // at at; nil where it has to be asked for
	at   int64
	size int64
	want int64
}

func (c *content) Read(b []byte) (int, error) {
	if c.want >= c.size {
		return 0, io.EOF
	}
	if c.body == nil || c.at != c.want {
		c.Close()
		body, _, err := c.open(c.want)
		if err != nil {
			return 0, err
		}
		c.body, c.at = body, c.want
	}
	n, err := c.body.Read(b)
	c.at += int64(n)
	c.want = c.at
	return n, err
}

func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.want
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return c.want, fmt.Errorf("seek to %d", offset)
	}
	c.want = offset
	return offset, nil
}

// Close lets go of what is being read.
func (c *content) Close() error {
	if c.body == nil {
		return nil
	}
	body := c.body
	c.body = nil
	return body.Close()
}
