// Package disk keeps blobs as files of one folder: 0600 in folders of 0700, each written beside its place and renamed
// into it.
package disk

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

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/blob"
)

// Store is a folder of blobs.
type Store struct{ root *os.Root }

var _ blob.Store = (*Store)(nil)

// incoming is where blobs are until they are whole. No key begins with a dot.
const incoming = ".incoming"

// Open opens a folder, making it if it is absent. What an earlier process had begun to write there is removed.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	err = root.RemoveAll(incoming)
	if err == nil {
		err = root.Mkdir(incoming, 0o700)
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("open blobs: %w", err)
	}
	return &Store{root}, nil
}

// Close lets go of the folder.
func (s *Store) Close() error { return s.root.Close() }

// Put writes a blob.
func (s *Store) Put(ctx context.Context, key string, r io.Reader) (n int64, err error) {
	if err := blob.CheckKey(key); err != nil {
		return 0, err
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	half := incoming + "/" + rand.Text()
	f, err := s.root.OpenFile(half, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, full(fmt.Errorf("put blob: %w", err))
	}
	defer func() {
		if err != nil {
			s.root.Remove(half)
		}
	}()
	n, err = io.Copy(f, reader{ctx, r})
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = s.place(half, key)
	}
	if err != nil {
		return 0, full(fmt.Errorf("put blob: %w", err))
	}
	return n, nil
}

// place gives a whole blob its name. Somebody may remove the folder, being empty, at the same moment.
func (s *Store) place(half, key string) error {
	for range 100 {
		if err := s.root.MkdirAll(path.Dir(key), 0o700); err != nil {
			return err
		}
		if err := s.root.Rename(half, key); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				return s.sync(path.Dir(key))
			}
			return err
		}
	}
	return fs.ErrNotExist
}

// sync makes names of a folder, and of those above it, survive a power cut.
func (s *Store) sync(dir string) error {
	for ; ; dir = path.Dir(dir) {
		f, err := s.root.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed, being empty: so the blob is deleted already
		}
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil || dir == "." {
			return err
		}
	}
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// Open reads a blob.
func (s *Store) Open(_ context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := blob.CheckKey(key); err != nil {
		return nil, err
	}
	f, err := s.root.Open(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.Absent(key)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	if length < 0 {
		length = 1<<63 - 1 - offset
	}
	return section{io.NewSectionReader(f, offset, length), f}, nil
}

type section struct {
	*io.SectionReader
	file *os.File
}

func (s section) Close() error { return s.file.Close() }

// Delete removes a blob, and the folders that it leaves empty.
func (s *Store) Delete(_ context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if err := s.root.Remove(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete blob: %w", err)
	}
	for dir := path.Dir(key); dir != "." && strings.Contains(dir, "/"); dir = path.Dir(dir) {
		if s.root.Remove(dir) != nil { // not empty
			break
		}
	}
	return nil
}

// full gives "no space left" its kind.
func full(err error) error {
	if noSpace(err) {
		return fault.Wrap(fault.Unavailable, err, "The disk that holds the files is full.").
			WithTry("delete files or containers that are not needed")
	}
	return err
}
