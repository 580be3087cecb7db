package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/fault"
)

// file is one writer's file, open and locked.
type file struct {
	dir   string
	name  string
	f     disk
	key   ed25519.PrivateKey
	head  head
	dirty bool
	torn  error // why half a record stands at its end that nothing can follow
}

// disk is what a file needs of an *os.File.
type disk interface {
	io.ReaderAt
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// settle has a file's bytes reach the disk. It is a variable for a test that counts.
var settle = (*os.File).Sync

// lock opens a file of a folder and locks it; wait says whether to wait for who has it.
func lock(dir, name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name+logSuffix), os.O_RDWR|os.O_CREATE|os.O_APPEND|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the audit: %w", err)
	}
	if err := flock(f, wait); err != nil {
		f.Close()
		return nil, fault.Wrap(fault.Conflict, err, "the audit file %s has a writer", name)
	}
	return f, nil
}

// resume takes a locked file up where its head says that it stands.
func resume(dir, name string, f *os.File, key ed25519.PrivateKey) (*file, error) {
	out := &file{dir: dir, name: name, f: f, key: key, head: head{File: name, Last: origin(name)}}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open the audit: %w", err)
	}
	text, err := readOwn(filepath.Join(dir, name+headSuffix))
	switch {
	case err == nil:
		if out.head, err = openHead(text, key.Public().(ed25519.PublicKey)); err != nil || out.head.File != name {
			return nil, damaged(name, "its head is not what was written")
		}
		if info.Size() < out.head.Bytes {
			return nil, damaged(name, "it is shorter than its head says")
		}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	case info.Size() > 0 && !onlyTorn(f):
		return nil, damaged(name, "it has records and no head")
	}
	// What a crash left behind the head: records that are whole are taken over, a torn one goes.
	if err := out.catchUp(); err != nil {
		return nil, err
	}
	out.head.Closed = false
	return out, out.writeHead()
}

func onlyTorn(f *os.File) bool {
	text, err := io.ReadAll(io.LimitReader(io.NewSectionReader(f, 0, maxLine), maxLine))
	return err == nil && !bytes.Contains(text, []byte{'\n'})
}

func damaged(name, why string) error {
	return fault.New(fault.Internal, "the audit file %s is damaged: %s", name, why).WithTry("hardshell audit verify")
}

func (a *file) catchUp() error {
	r := bufio.NewReaderSize(io.NewSectionReader(a.f, a.head.Bytes, 1<<62), 64<<10)
	public := a.key.Public().(ed25519.PublicKey)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			if len(line) == 0 {
				return nil
			}
			return a.f.Truncate(a.head.Bytes)
		}
		if err != nil {
			return fmt.Errorf("open the audit: %w", err)
		}
		_, hash, err := open(line[:len(line)-1], public, a.head.Last, a.head.Records+1)
		if err != nil {
			return damaged(a.name, fmt.Sprintf("record %d: %v", a.head.Records+1, err))
		}
		a.head.Records, a.head.Last, a.head.Bytes = a.head.Records+1, hash, a.head.Bytes+int64(len(line))
	}
}

// append writes an entry and then the head. Nothing that is told afterwards can be told of a state before.
func (a *file) append(e Entry) error {
	if a.torn != nil {
		return a.torn
	}
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	r := record{Prev: a.head.Last, Seq: a.head.Records + 1, Entry: text}
	line, hash := seal(r.appendTo(nil), a.key)
	n, err := a.f.Write(line)
	if err != nil || n < len(line) {
		err = fault.Wrap(fault.Unavailable, err, "the audit cannot be written").WithTry("make room on the disk of the data folder")
		if n > 0 {
			// On a full disk what stands there is whole. Where even that fails, a further record would stand behind half a one.
			if cut := a.f.Truncate(a.head.Bytes); cut != nil {
				a.torn = errors.Join(err, cut)
			}
		}
		return err
	}
	a.dirty = true
	a.head.Records, a.head.Last, a.head.Bytes = r.Seq, hash, a.head.Bytes+int64(n)
	return a.writeHead()
}

func (a *file) writeHead() error {
	return replace(a.dir, a.name+headSuffix, a.head.seal(a.key), false)
}

// sync brings all that was written to the disk.
func (a *file) sync() error {
	if !a.dirty {
		return nil
	}
	a.dirty = false
	if err := a.f.Sync(); err != nil {
		return fmt.Errorf("sync the audit: %w", err)
	}
	for _, path := range []string{filepath.Join(a.dir, a.name+headSuffix), a.dir} { // a name must not last longer than what it names
		if err := settlePath(path); err != nil {
			return err
		}
	}
	return nil
}

func settlePath(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return fmt.Errorf("sync the audit: %w", err)
	}
	defer f.Close()
	if err := settle(f); err != nil {
		return fmt.Errorf("sync the audit: %w", err)
	}
	return nil
}

func (a *file) close(end bool) error {
	if end && a.torn == nil {
		a.head.Closed = true
		if err := a.writeHead(); err != nil {
			a.f.Close()
			return err
		}
	}
	err := a.sync()
	if e := a.f.Close(); err == nil {
		err = e
	}
	return err
}
