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
	f     *os.File
	key   ed25519.PrivateKey
	head  head
	dirty bool
}

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
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write the audit: %w", err)
	}
	r := record{Prev: a.head.Last, Seq: a.head.Records + 1, Entry: text}
	line, hash := seal(r.appendTo(nil), a.key)
	n, err := a.f.Write(line)
	if err != nil || n < len(line) {
		a.f.Truncate(a.head.Bytes) // on a full disk: what stands there is whole
		return fault.Wrap(fault.Unavailable, err, "the audit cannot be written").WithTry("make room on the disk of the data folder")
	}
	a.dirty = true
	a.head.Records, a.head.Last, a.head.Bytes = r.Seq, hash, a.head.Bytes+int64(n)
	return a.writeHead()
}

func (a *file) writeHead() error { return replace(a.dir, a.name+headSuffix, a.head.seal(a.key)) }

// sync brings all that was written to the disk.
func (a *file) sync() error {
	if !a.dirty {
		return nil
	}
	a.dirty = false
	if err := a.f.Sync(); err != nil {
		return fmt.Errorf("sync the audit: %w", err)
	}
	d, err := os.Open(a.dir)
	if err != nil {
		return fmt.Errorf("sync the audit: %w", err)
	}
	defer d.Close()
	return d.Sync()
}

func (a *file) close(end bool) error {
	if end {
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
