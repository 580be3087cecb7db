package skill

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/fault"
)

// Mount is a skill that a request wants in its container, in a form that does not change any more.
type Mount struct {
	Manifest
	Key    string // names these very files: the version's id, or a digest of what came inline
	limits Limits
	open   func(ctx context.Context) (archive io.ReaderAt, size int64, done func(), err error)
}

// Mount returns a version as something to mount.
func (s *Service) Mount(v Version) Mount {
	return Mount{Manifest: v.Manifest, Key: v.ID, limits: s.limits, open: func(ctx context.Context) (io.ReaderAt, int64, func(), error) {
		r, err := s.Archive(ctx, v)
		if err != nil {
			return nil, 0, nil, err
		}
		defer r.Close()
		file, err := os.CreateTemp(s.dir, "skill-*.zip")
		if err != nil {
			return nil, 0, nil, err
		}
		os.Remove(file.Name()) // it lives as long as it is open
		size, err := io.Copy(file, r)
		if err != nil {
			file.Close()
			return nil, 0, nil, err
		}
		return file, size, func() { file.Close() }, nil
	}}
}

// The media types that a skill may come inline as: the vendor's zip, and a SKILL.md alone.
const (
	mediaZip      = "application/zip"
	mediaMarkdown = "text/markdown"
)

// Inline reads a skill that came with a request. Its name and description are the request's, whatever its SKILL.md says.
func (s *Service) Inline(m Manifest, mediaType string, data []byte) (Mount, error) {
	inline := func(err error) error {
		if e, ok := fault.As(err); ok && e.Kind == fault.Invalid {
			return e.WithCode("invalid_inline_skill")
		}
		return err
	}
	m.Description = oneLine(m.Description)
	if err := m.Check(); err != nil {
		return Mount{}, inline(err)
	}
	var entries []Entry
	switch mediaType {
	case mediaZip:
		var err error
		if entries, err = ReadZip(bytes.NewReader(data), int64(len(data)), s.limits); err != nil {
			return Mount{}, inline(err)
		}
	case mediaMarkdown:
		entries = []Entry{{Name: ManifestFile, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}}
	default:
		return Mount{}, fault.New(fault.Invalid, "An inline skill can't be of type %q.", mediaType).
			WithCode("unsupported_inline_skill_media_type").WithParam("source.media_type").WithTry("%s or %s", mediaZip, mediaMarkdown)
	}
	b, err := gather(entries, s.limits)
	if err != nil {
		return Mount{}, inline(err)
	}
	var packed bytes.Buffer
	if _, _, err := b.pack(&packed); err != nil {
		return Mount{}, inline(err)
	}
	sum := sha256.Sum256(packed.Bytes())
	return Mount{Manifest: m, Key: "inline-" + hex.EncodeToString(sum[:16]), limits: s.limits,
		open: func(context.Context) (io.ReaderAt, int64, func(), error) {
			return bytes.NewReader(packed.Bytes()), int64(packed.Len()), func() {}, nil
		}}, nil
}

// Write writes the files into the folder dir, which must not exist; its parent must. The folder appears whole: until
// then the files stand beside it under another name. Nobody but this process may be able to write to the parent.
func (m Mount) Write(ctx context.Context, dir string) error {
	archive, size, done, err := m.open(ctx)
	if err != nil {
		return fmt.Errorf("mount skill %s: %w", m.Name, err)
	}
	defer done()
	z, err := zip.NewReader(archive, size)
	if err != nil {
		return fmt.Errorf("mount skill %s: %w", m.Name, err)
	}
	half, err := os.MkdirTemp(filepath.Dir(dir), ".skill-")
	if err != nil {
		return fmt.Errorf("mount skill %s: %w", m.Name, err)
	}
	err = m.unpack(ctx, z, half)
	if err == nil {
		err = os.Rename(half, dir)
	}
	if err != nil {
		os.RemoveAll(half)
		return fmt.Errorf("mount skill %s: %w", m.Name, err)
	}
	return nil
}

// unpack trusts the archive, which this package has made, but for where its files go and how much they are.
func (m Mount) unpack(ctx context.Context, z *zip.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	limits := m.limits.filled()
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
			return err
		}
		if err := writeFile(root, f, limits.MaxFile); err != nil {
			return err
		}
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = root.Chmod(name, 0o755) // whatever the umask; the commands run as somebody else
		}
		return err
	})
}

func writeFile(root *os.Root, f *zip.File, most int64) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := root.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode(f.Mode()&0o111 != 0))
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, io.LimitReader(r, most)); err != nil {
		w.Close()
		return err
	}
	if err := w.Chmod(fileMode(f.Mode()&0o111 != 0)); err != nil { // whatever the umask
		w.Close()
		return err
	}
	return w.Close()
}
