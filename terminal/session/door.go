package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// A person on the same machine answers password prompts through a door: a socket in a folder that is the user's alone,
// and that no box shows. `hardshell answer` knocks there. What passes is one question and one answer, a line of JSON
// each.

const (
	doorSuffix = ".answers"
	doorLimit  = 10 * time.Second // for one question
	mostAnswer = 4 << 10
)

type doorQuestion struct {
	Session int    `json:"session,omitempty"` // 0 asks which sessions wait
	Answer  []byte `json:"answer,omitempty"`
}

type doorAnswer struct {
	Waiting []Waiting `json:"waiting,omitempty"`
	Error   string    `json:"error,omitempty"`
	Kind    string    `json:"kind,omitempty"`
}

// Waiting is a session that asks a person for a password.
type Waiting struct {
	Session int    `json:"session"`
	Name    string `json:"name,omitempty"`
	Prompt  string `json:"prompt"`
	Command string `json:"command"`
	door    string
}

// Door lets people answer the password prompts of a store's sessions, until the context ends. dir is a folder of the
// user's own, made if it is absent; boxes must not see it. Door returns once people can knock.
func (s *Store) Door(ctx context.Context, dir string) (closed <-chan struct{}, err error) {
	if err := ownFolder(dir); err != nil {
		return nil, err
	}
	name := strconv.Itoa(os.Getpid()) + "-" + newKey(0)[3:] + doorSuffix
	var listener net.Listener
	err = inFolder(dir, func(at string) (err error) {
		listener, err = net.Listen("unix", filepath.Join(at, name))
		return err
	})
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "nobody can answer password prompts: the socket in %s cannot be made", dir)
	}
	if u, ok := listener.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its name may be a short one of ours
	}
	path := filepath.Join(dir, name)
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("make the socket for answers: %w", err)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	go func() {
		defer close(over)
		defer os.Remove(path)
		defer stop()
		var wg sync.WaitGroup
		defer wg.Wait()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.answerDoor(ctx, conn) })
		}
	}()
	return over, nil
}

// ownFolder makes a folder, and refuses one that others can enter.
func ownFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for answers: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("open the folder for answers: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !belongsToUs(info) {
		return fault.New(fault.Invalid, "the folder for answers, %s, is not the user's alone", dir).WithTry("chmod 700 %s", dir)
	}
	return nil
}

func (s *Store) answerDoor(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(doorLimit))
	var q doorQuestion
	if err := json.NewDecoder(io.LimitReader(conn, 4*mostAnswer)).Decode(&q); err != nil {
		return
	}
	defer clear(q.Answer)
	var reply doorAnswer
	if q.Session == 0 {
		reply.Waiting = s.waiting(ctx)
	} else if err := s.answerFor(ctx, q); err != nil {
		reply.Kind, reply.Error = fault.KindOf(err).String(), err.Error()
	}
	json.NewEncoder(conn).Encode(reply)
}

func (s *Store) answerFor(ctx context.Context, q doorQuestion) error {
	t, err := s.Get(q.Session)
	if err != nil {
		return err
	}
	return t.Answer(ctx, q.Answer)
}

// waiting looks at every session that lives.
func (s *Store) waiting(ctx context.Context) (out []Waiting) {
	for _, info := range s.List() {
		t, err := s.Get(info.ID)
		if err != nil || t.Over() {
			continue
		}
		if now, err := t.look(ctx, 0); err != nil || !now.password {
			continue
		}
		t.mu.Lock()
		prompt := promptLine(t.screen.Line())
		t.mu.Unlock()
		out = append(out, Waiting{Session: info.ID, Name: info.Name, Prompt: prompt, Command: strings.Join(info.Argv, " ")})
	}
	return out
}

// AllWaiting asks every door of a folder which sessions wait for a password.
func AllWaiting(ctx context.Context, dir string) ([]Waiting, error) {
	if info, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("look for sessions: %w", err)
	} else if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !belongsToUs(info) { // somebody else's would be told the password
		return nil, fault.New(fault.Invalid, "the folder for answers, %s, is not the user's alone", dir)
	}
	doors, err := filepath.Glob(filepath.Join(dir, "*"+doorSuffix))
	if err != nil {
		return nil, fmt.Errorf("look for sessions: %w", err)
	}
	var out []Waiting
	for _, door := range doors {
		reply, err := knock(ctx, door, doorQuestion{})
		if err != nil {
			if errors.Is(err, errNobody) {
				os.Remove(door) // its process is gone
			}
			continue
		}
		for _, w := range reply.Waiting {
			w.door = door
			out = append(out, w)
		}
	}
	return out, nil
}

// Give gives a password to a session that [AllWaiting] found, and wipes it.
func Give(ctx context.Context, w Waiting, password []byte) error {
	defer clear(password)
	if len(password) > mostAnswer {
		return fault.New(fault.TooLarge, "a password has at most %d bytes", mostAnswer)
	}
	reply, err := knock(ctx, w.door, doorQuestion{Session: w.Session, Answer: password})
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "session %d is gone", w.Session)
	}
	if reply.Error != "" {
		return fault.New(fault.Conflict, "%s", reply.Error)
	}
	return nil
}

var errNobody = errors.New("nobody is behind the door")

func knock(ctx context.Context, door string, q doorQuestion) (reply doorAnswer, err error) {
	var conn net.Conn
	err = inFolder(filepath.Dir(door), func(at string) (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(at, filepath.Base(door)))
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return reply, context.Cause(ctx)
		}
		return reply, errNobody
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	conn.SetDeadline(time.Now().Add(doorLimit))
	text, err := json.Marshal(q)
	if err != nil {
		return reply, err
	}
	defer clear(text)
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return reply, err
	}
	err = json.NewDecoder(bufio.NewReader(io.LimitReader(conn, 1<<20))).Decode(&reply)
	return reply, err
}
