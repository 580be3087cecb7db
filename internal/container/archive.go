package container

import (
	"archive/tar"
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
	"time"
)

// An archive is a workspace as one blob: a tar file, whose regular files are read by their offset without unpacking
// it. It holds what a workspace can hold that means anything later: files, folders and links with their modes and
// times, of any name. Sockets, FIFOs and devices are left out, and set-id bits with them.

// archived is a file within an archive.
type archived struct {
	path  string
	at    int64
	bytes int64
}

// maxIndexed bounds the files of an archive that can be listed and downloaded one by one. All of them are brought back.
const maxIndexed = maxKnown

// writeArchive writes a workspace, and tells each file that it wrote. The tree is nobody's any more, but what is in it
// was made by strangers: no step follows a link.
func writeArchive(ctx context.Context, root *os.Root, w io.Writer, each func(archived)) error {
	counted := &countingWriter{w: w}
	a := archiver{ctx: ctx, root: root, out: counted, tar: tar.NewWriter(counted), each: each}
	if err := a.folder("."); err != nil {
		return err
	}
	return a.tar.Close()
}

type archiver struct {
	ctx  context.Context
	root *os.Root
	out  *countingWriter
	tar  *tar.Writer
	each func(archived)
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// folder writes what is in a folder, and then the folders in it. It holds no folder open while it writes another.
func (a *archiver) folder(dir string) error {
	var below []string
	var failed error
	err := eachEntry(a.root, dir, func(e fs.DirEntry) bool {
		if strings.HasPrefix(e.Name(), incomingPrefix) {
			return true
		}
		if failed = context.Cause(a.ctx); failed != nil {
			return false
		}
		rel := path.Join(dir, e.Name())
		isDir, err := a.entry(rel)
		if isDir {
			below = append(below, rel)
		}
		failed = err
		return err == nil
	})
	if errors.Is(err, fs.ErrPermission) && dir != "." && a.root.Chmod(dir, 0o700) == nil {
		return a.folder(dir) // its owner, who is us, was denied; the mode is in the archive already
	}
	if err == nil {
		err = failed
	}
	for _, rel := range below {
		if err == nil {
			err = a.folder(rel)
		}
	}
	return err
}

// entry writes one name.
func (a *archiver) entry(rel string) (isDir bool, err error) {
	info, err := a.root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("archive: %w", err)
	}
	h := &tar.Header{Name: rel, ModTime: info.ModTime().Truncate(time.Microsecond), Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX}
	if info.Mode()&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch {
	case info.Mode().IsRegular():
		return false, a.file(rel, h)
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, rel+"/"
		isDir = true
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = a.root.Readlink(rel); err != nil {
			return false, fmt.Errorf("archive: %w", err)
		}
	default:
		return false, nil
	}
	if err := a.tar.WriteHeader(h); err != nil {
		return false, fmt.Errorf("archive %q: %w", rel, err)
	}
	return isDir, nil
}

func (a *archiver) file(rel string, h *tar.Header) error {
	f, err := a.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) && a.root.Chmod(rel, 0o600) == nil {
		f, err = a.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := a.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("archive %q: %w", rel, err)
	}
	at := a.out.n
	if _, err := io.Copy(a.tar, io.LimitReader(reading{a.ctx, f}, h.Size)); err != nil {
		return fmt.Errorf("archive %q: %w", rel, err)
	}
	if err := a.tar.Flush(); err != nil {
		return fmt.Errorf("archive %q: %w", rel, err)
	}
	a.each(archived{rel, at, h.Size})
	return nil
}

// reading ends with its context.
type reading struct {
	ctx context.Context
	io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// readArchive puts an archive back into an empty workspace, without the files that skip names. Folders get their modes
// last: one may deny writing into it.
func readArchive(ctx context.Context, ws Workspace, r io.Reader, skip map[string]bool) error {
	root, err := os.OpenRoot(ws.Dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer root.Close()
	type folder struct {
		path string
		mode fs.FileMode
		at   time.Time
	}
	var folders []folder
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		rel := strings.TrimSuffix(h.Name, "/")
		mode := fs.FileMode(h.Mode) & fs.ModePerm
		if h.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		switch {
		case skip[rel]:
			continue
		case h.Typeflag == tar.TypeDir:
			err = root.Mkdir(rel, 0o700)
			folders = append(folders, folder{rel, mode, h.ModTime})
		case h.Typeflag == tar.TypeSymlink:
			err = root.Symlink(h.Linkname, rel)
		case h.Typeflag == tar.TypeReg:
			err = unpack(root, rel, mode, h.ModTime, in)
		default:
			continue
		}
		if err == nil && ws.UID != 0 {
			err = root.Lchown(rel, ws.UID, ws.UID)
		}
		if err != nil {
			return diskFull(fmt.Errorf("restore %q: %w", rel, err))
		}
	}
	for i := len(folders) - 1; i >= 0; i-- {
		f := folders[i]
		err := root.Chtimes(f.path, f.at, f.at)
		if err == nil {
			err = root.Chmod(f.path, f.mode)
		}
		if err != nil {
			return fmt.Errorf("restore %q: %w", f.path, err)
		}
	}
	return nil
}

func unpack(root *os.Root, rel string, mode fs.FileMode, at time.Time, r io.Reader) error {
	f, err := root.OpenFile(rel, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Chmod(mode)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = root.Chtimes(rel, at, at)
	}
	return err
}

// archiveKey is a key that was never used.
func archiveKey(id string) string { return "container/" + id + "-" + strings.ToLower(rand.Text()) }
