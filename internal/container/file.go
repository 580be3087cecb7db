package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/id"
)

// Put writes a file into the live workspace, whole or not at all, and returns it. name is relative to /mnt/data, or
// absolute under it. A file that is there is replaced; missing folders are made.
func (s *Service) Put(ctx context.Context, org, containerID, name string, r io.Reader, source string) (File, error) {
	return s.put(ctx, org, containerID, name, r, source, true)
}

// put is Put; without replace a name that is taken is a conflict.
func (s *Service) put(ctx context.Context, org, containerID, name string, r io.Reader, source string, replace bool) (File, error) {
	rel, err := cleanName(name)
	if err != nil {
		return File{}, err
	}
	if source != SourceUser && source != SourceAssistant {
		return File{}, fault.New(fault.Invalid, "source must be %q or %q.", SourceUser, SourceAssistant).WithParam("source")
	}
	if _, err := s.Usable(ctx, org, containerID); err != nil {
		return File{}, err
	}
	p, ws, err := s.prepare(ctx, containerID)
	if err != nil {
		return File{}, err
	}
	if err := p.used(s.now()); err != nil {
		return File{}, err
	}
	room, err := s.disk.spare(p, p.spec.Dir)
	if err != nil {
		return File{}, err
	}
	info, err := s.write(ws, rel, r, room, replace)
	if !replace && errors.Is(err, fs.ErrExist) {
		return File{}, nameTaken(name)
	}
	if err != nil {
		return File{}, pathFault(err, name)
	}
	s.disk.put(p, info.Size())
	p.watched().own(rel)
	rows, err := s.mint(ctx, containerID, []string{rel}, source)
	if err != nil {
		return File{}, err
	}
	return fileOf(containerID, rows[rel], info), nil
}

// watched returns the place's tree; nil before the first boot.
func (p *place) watched() *tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tree
}

// write writes a file of at most room bytes. Without replace a name that is taken is an error of fs.ErrExist.
func (s *Service) write(ws Workspace, rel string, r io.Reader, room int64, replace bool) (fs.FileInfo, error) {
	root, err := os.OpenRoot(ws.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := makeFolders(root, path.Dir(rel), ws); err != nil {
		return nil, err
	}
	var undo cleanup.Stack
	defer undo.Run()
	// The name is in the same folder, so that the rename stays on one file system whatever is mounted there.
	incoming := path.Join(path.Dir(rel), incomingPrefix+rand.Text())
	f, err := root.OpenFile(incoming, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	undo.Add(func() { root.Remove(incoming) })
	n, err := io.Copy(f, io.LimitReader(r, max(min(s.limits.MaxFileBytes, room), 0)+1))
	switch {
	case err == nil && n > s.limits.MaxFileBytes:
		err = fault.New(fault.TooLarge, "The file has more than the %d bytes that are allowed.", s.limits.MaxFileBytes).
			WithCode("file_too_large")
	case err == nil && n > room:
		err = fault.New(fault.TooLarge, "With this file the container would take more than the %s of the disk that it is allowed.",
			sizeText(s.limits.DiskBytes)).WithCode(BreachDisk).WithTry("delete files of the container")
	}
	if err == nil {
		err = own(f, ws, 0o644)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	if !replace {
		return info, root.Link(incoming, rel)
	}
	// A rename replaces whatever has the name, a link or a FIFO too, and opens nothing.
	if err := root.Rename(incoming, rel); err != nil {
		return nil, err
	}
	undo.Release()
	return info, nil
}

// makeFolders makes the missing folders of a path, for the container's user.
func makeFolders(root *os.Root, dir string, ws Workspace) error {
	if dir == "." {
		return nil
	}
	made := ""
	for part := range strings.SplitSeq(dir, "/") {
		made = path.Join(made, part)
		err := root.Mkdir(made, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && ws.UID != 0 {
			err = root.Lchown(made, ws.UID, ws.UID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pathFault gives an error of the workspace's file system its kind.
func pathFault(err error, name string) error {
	if _, ok := fault.As(err); ok {
		return err
	}
	var errno syscall.Errno
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Forbidden, err, "The container's own permissions do not allow writing %q.", name).WithCode("invalid_path")
	case !errors.As(err, &errno), // os.Root: the path leaves the workspace
		errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist), errno == syscall.ENOTDIR, errno == syscall.EISDIR,
		errno == syscall.ENOTEMPTY, errno == syscall.ELOOP, errno == syscall.ENAMETOOLONG, errno == syscall.EINVAL:
		var pathErr *fs.PathError
		var linkErr *os.LinkError
		if errors.As(err, &pathErr) || errors.As(err, &linkErr) {
			e := badPath("The path %q cannot be written: a folder, a link or something else is in the way.", name)
			e.Cause = err
			return e
		}
	}
	return diskFull(fmt.Errorf("write %q: %w", name, err))
}

// File returns one file as it is now.
func (s *Service) File(ctx context.Context, org, containerID, fileID string) (File, error) {
	at, err := s.find(ctx, org, containerID, fileID)
	if err != nil {
		return File{}, err
	}
	defer at.close()
	return at.file()
}

// found is a file's row and where it is: the workspace, or an archive.
type found struct {
	container row
	row       fileRow
	root      *os.Root // nil: the archive
}

func (f found) close() {
	if f.root != nil {
		f.root.Close()
	}
}

// file is the file as it is now, if it exists.
func (f found) file() (File, error) {
	if f.root == nil {
		return archivedFile(f.container.ID, f.row), nil
	}
	info, ok := regular(f.root, f.row.path)
	if !ok {
		return File{}, noFile(f.row.id)
	}
	return fileOf(f.container.ID, f.row, info), nil
}

// find returns the row of a file and the place that holds it.
func (s *Service) find(ctx context.Context, org, containerID, fileID string) (found, error) {
	r, err := s.settled(ctx, org, containerID)
	if err != nil {
		return found{}, err
	}
	if !id.Valid(id.ContainerFile, fileID) {
		return found{}, noFile(fileID)
	}
	f, err := s.fileRow(ctx, containerID, fileID)
	if err != nil {
		return found{}, err
	}
	if r.archive != "" {
		if !f.at.Valid || f.at.Int64 < 0 {
			return found{}, noFile(fileID)
		}
		return found{container: r, row: f}, nil
	}
	_, ws, err := s.prepare(ctx, containerID)
	if fault.KindOf(err) == fault.Expired { // it may have been archived this very moment
		if now, again := s.row(ctx, org, containerID); again == nil && now.archive != "" {
			return s.find(ctx, org, containerID, fileID)
		}
	}
	if err != nil {
		return found{}, err
	}
	root, err := os.OpenRoot(ws.Dir)
	if err != nil {
		return found{}, fmt.Errorf("open workspace: %w", err)
	}
	return found{r, f, root}, nil
}

func archivedFile(containerID string, f fileRow) File {
	return File{ID: f.id, ContainerID: containerID, Path: Workdir + "/" + strings.ToValidUTF8(f.path, "\uFFFD"), Bytes: f.bytes,
		Created: f.created, Source: f.source, ContentType: file.ContentType(f.path)}
}

// regular returns a path's state if it is a regular file. Links are not followed.
func regular(root *os.Root, rel string) (fs.FileInfo, bool) {
	info, err := root.Lstat(rel)
	return info, err == nil && info.Mode().IsRegular()
}

func fileOf(containerID string, row fileRow, info fs.FileInfo) File {
	return File{ID: row.id, ContainerID: containerID, Path: Workdir + "/" + strings.ToValidUTF8(row.path, "\uFFFD"),
		Bytes: info.Size(), Created: row.created, Source: row.source, ContentType: file.ContentType(row.path)}
}

// content is an open file, no longer than it was when it was opened: a download keeps its announced length even while
// the file grows.
type content struct {
	*io.SectionReader
	file *os.File
}

func (c content) Close() error { return c.file.Close() }

// OpenFile opens a file of the live workspace for reading.
func (s *Service) OpenFile(ctx context.Context, org, containerID, fileID string) (io.ReadSeekCloser, File, error) {
	at, err := s.find(ctx, org, containerID, fileID)
	if err != nil {
		return nil, File{}, err
	}
	defer at.close()
	root, row := at.root, at.row
	if root == nil {
		bytes, err := s.archivedContent(ctx, at.container, row)
		return bytes, archivedFile(containerID, row), err
	}
	before, ok := regular(root, row.path)
	if !ok {
		return nil, File{}, noFile(fileID)
	}
	// Between the look and the open the container may put a FIFO or a link there: the open does not block, stays in
	// the workspace, and what was opened must be what was looked at.
	f, err := root.OpenFile(row.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, File{}, fault.Wrap(fault.Forbidden, err, "The container's own permissions do not allow reading this file.")
	case err != nil:
		return nil, File{}, noFile(fileID)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(before, info) {
		f.Close()
		return nil, File{}, noFile(fileID)
	}
	return content{io.NewSectionReader(f, 0, info.Size()), f}, fileOf(containerID, row, info), nil
}

// DeleteFile removes a file from the workspace or the archive. A file that comes to be under its path later has another id.
func (s *Service) DeleteFile(ctx context.Context, org, containerID, fileID string) error {
	at, err := s.find(ctx, org, containerID, fileID)
	if err != nil {
		return err
	}
	defer at.close()
	root, row := at.root, at.row
	if root == nil {
		return s.hideFileRow(ctx, fileID)
	}
	if _, ok := regular(root, row.path); !ok {
		return noFile(fileID)
	}
	if err := root.Remove(row.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return pathFault(err, row.path)
	}
	if at.container.Status != Active { // it may be on its way into an archive, which has it already
		return s.hideFileRow(ctx, fileID)
	}
	return s.dropFileRow(ctx, fileID)
}
