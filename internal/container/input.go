package container

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/hardshell-dev/hardshell/fault"
)

// An Input is a file that a request brings for the root of a workspace. Key is made of where it came from and of its
// bytes: what has a key is put into a container once. Without one nothing is remembered.
type Input struct {
	Name   string
	Key    string
	Upload string // the id of an uploaded file, or
	Data   []byte
}

// InputAt is the name under which an input was put into a container before; empty if it never was. The file may have
// been changed or removed since.
func (s *Service) InputAt(ctx context.Context, org, containerID, key string) (name string, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT name FROM container_input WHERE container = $1 AND key = $2
		AND EXISTS (SELECT 1 FROM container WHERE id = $1 AND org = $3)`, containerID, key, org).Scan(&name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("find input: %w", err)
	}
	return name, nil
}

// HasFile says whether anything in the root of the live workspace has a name.
func (s *Service) HasFile(ctx context.Context, org, containerID, name string) (bool, error) {
	rel, err := cleanName(name)
	if err == nil {
		_, err = s.Usable(ctx, org, containerID)
	}
	if err != nil {
		return false, err
	}
	_, ws, err := s.prepare(ctx, containerID)
	if err != nil {
		return false, err
	}
	root, err := os.OpenRoot(ws.Dir)
	if err != nil {
		return false, fmt.Errorf("open workspace: %w", err)
	}
	defer root.Close()
	_, err = root.Lstat(rel)
	return err == nil, nil
}

// PutInput puts an input into the live workspace. One that was put there before and is there still stays as commands
// have left it. What else has its name is never replaced: that is a conflict, unless it is this very file, which an
// earlier owner of the request has put there and not noted.
func (s *Service) PutInput(ctx context.Context, org, containerID string, in Input) error {
	at, err := s.InputAt(ctx, org, containerID, in.Key)
	if err != nil {
		return err
	}
	if at == in.Name {
		if there, err := s.HasFile(ctx, org, containerID, at); err != nil || there {
			return err
		}
	}
	from, err := s.openInput(ctx, org, in)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = s.put(ctx, org, containerID, in.Name, from, SourceUser, false)
	if f, ok := fault.As(err); ok && f.Code == codeTaken {
		same, bad := s.holds(ctx, containerID, in, from)
		if bad != nil {
			return bad
		}
		if same {
			err = nil
		}
	}
	if err != nil || in.Key == "" {
		return err
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO container_input (container, key, name) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, containerID, in.Key, in.Name)
		return err
	})
	if err != nil {
		return fmt.Errorf("note input: %w", err)
	}
	return nil
}

// codeTaken is the code of a file that would replace another.
const codeTaken = "input_file_name_taken"

// nameTaken is the error of a file whose name something else has.
func nameTaken(name string) error {
	return fault.New(fault.Conflict, "The container already has something called %q, which is not replaced.", name).WithCode(codeTaken).
		WithTry("another filename, or a new container")
}

func (s *Service) openInput(ctx context.Context, org string, in Input) (io.ReadSeekCloser, error) {
	if in.Upload == "" {
		return inline{bytes.NewReader(in.Data)}, nil
	}
	if _, err := s.upload(ctx, org, in.Upload); err != nil {
		return nil, err
	}
	from, _, err := s.uploads.Open(ctx, org, in.Upload)
	return from, err
}

// inline is the bytes of a request.
type inline struct{ *bytes.Reader }

func (inline) Close() error { return nil }

// holds says whether a file of the workspace is an input, byte for byte.
func (s *Service) holds(ctx context.Context, containerID string, in Input, want io.ReadSeeker) (bool, error) {
	_, ws, err := s.prepare(ctx, containerID)
	if err != nil {
		return false, err
	}
	root, err := os.OpenRoot(ws.Dir)
	if err != nil {
		return false, fmt.Errorf("open workspace: %w", err)
	}
	defer root.Close()
	// What is there may be anything that a command has made: nothing is waited for, and no link is followed outwards.
	f, err := root.OpenFile(in.Name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	if _, err := want.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("compare input: %w", err)
	}
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, ended := io.ReadFull(want, a)
		m, over := io.ReadFull(f, b)
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if ended != nil || over != nil {
			return ended != nil && over != nil, nil
		}
	}
}
