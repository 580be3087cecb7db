package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
)

// Options say how a writer writes.
type Options struct {
	Writer string // what it is, for people: "mcp", "run"
	// Mask takes secrets out of a text. nil is none, and then no output is kept.
	Mask func(string) string
	// Failed is called when something that Observe wrote did not reach the file, or the disk, as there is nobody else to
	// tell. nil is nobody; Err keeps it.
	Failed func(error)
	// Now is the clock; nil is the machine's.
	Now func() time.Time
}

// A Log is one writer of an audit folder. Its methods may be called from any goroutine.
type Log struct {
	o    Options
	name string

	mu     sync.Mutex
	file   *file
	err    error
	timer  *time.Timer
	closed bool
}

// syncAfter bounds how much of the newest records a power cut can take; a crash of ours takes none.
const syncAfter = time.Second

// Open makes a writer of a folder, which is made if it is absent: with a file of its own, entered in the list of
// writers. The folder is its owner's alone.
func Open(dir string, o Options) (*Log, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := prepare(dir); err != nil {
		return nil, err
	}
	list, err := lock(dir, writersName, true)
	if err != nil {
		return nil, err
	}
	defer list.Close()
	tidy(dir, o.Now())
	key, err := loadKey(dir)
	if err != nil {
		return nil, err
	}
	writers, err := resume(dir, writersName, list, key)
	if err != nil {
		return nil, err
	}
	at := o.Now()
	name := strings.ToLower(id.At("writer", at))
	f, err := lock(dir, name, false)
	if err != nil {
		return nil, err
	}
	own, err := resume(dir, name, f, key)
	if err != nil {
		f.Close()
		return nil, err
	}
	// The list comes last: a file that it does not name was made by a crash at this very place, and is empty.
	if err := writers.append(Entry{Time: at.UTC(), Kind: KindWriter, Writer: name, Note: fmt.Sprintf("%s, process %d", o.Writer, os.Getpid())}); err != nil {
		f.Close()
		return nil, err
	}
	if err := writers.sync(); err != nil {
		f.Close()
		return nil, err
	}
	return &Log{o: o, name: name, file: own}, nil
}

// prepare makes the folder, and refuses one that others can write.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the audit folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("open the audit folder: %w", err)
	}
	switch {
	case !info.IsDir():
		return fault.New(fault.Invalid, "the audit folder %s is no folder", dir)
	case somebodyElses(info):
		return fault.New(fault.Invalid, "the audit folder %s belongs to somebody else", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fault.New(fault.Invalid, "the audit folder %s can be written by others", dir).WithTry("chmod 700 %s", dir)
	}
	return nil
}

// tidy removes what a crash left half written.
func tidy(dir string, now time.Time) {
	left, _ := filepath.Glob(filepath.Join(dir, ".*-*"))
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && now.Sub(info.ModTime()) > time.Minute {
			os.Remove(path)
		}
	}
}

// Name is the writer's file, without its ending.
func (l *Log) Name() string { return l.name }

// Append writes an entry. When it returns, a crash of this process takes nothing of it.
func (l *Log) Append(e Entry) error {
	if e.Time.IsZero() {
		e.Time = l.o.Now()
	}
	e.Time = e.Time.UTC()
	e = e.masked(l.o.Mask)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fault.New(fault.Conflict, "the audit is closed")
	}
	if err := l.file.append(e); err != nil {
		if l.err == nil {
			l.err = err
		}
		return err
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(syncAfter, l.sync)
	}
	return nil
}

func (l *Log) sync() {
	if err := l.settled(); err != nil && l.o.Failed != nil {
		l.o.Failed(err)
	}
}

func (l *Log) settled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if l.closed {
		return nil
	}
	err := l.file.sync()
	if l.err == nil {
		l.err = err
	}
	return err
}

// Err is the first thing that could not be written.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the writer. Its error is the first thing that did not reach the file, or the disk; without one the file is
// complete, and its head says so.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
	if err := l.file.close(true); l.err == nil {
		l.err = err
	}
	return l.err
}
