package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/hardshell-dev/hardshell/fault"
)

// maxShared bounds how many functions share a transaction, so that the first of them does not wait for a crowd.
const maxShared = 128

// The life of a request: waiting, then either run or given up by a caller whose context ended.
const (
	waiting int32 = iota
	started
	givenUp
)

type request struct {
	fn    func(*sql.Tx) error
	state atomic.Int32
	err   error
	done  chan struct{}
}

func (r *request) finish(err error) {
	r.err = err
	close(r.done)
}

// writer is the one that writes. Whoever comes while nobody writes does so itself, which saves two changes of goroutine;
// what comes meanwhile is queued, and a goroutine takes all of it, commits it together and looks again: it never waits for
// company, which comes by itself while a commit is on its way to the disk.
type writer struct {
	db      *sql.DB
	commits int
	look    func() // called now and then, when the log has grown
	folder  string // where the file is
	spare   *ballast

	mu     sync.Mutex
	filled sync.Cond
	queue  []*request
	busy   bool // somebody writes
	closed bool

	ended chan struct{}
}

func startWriter(db *sql.DB, folder string, spare *ballast, look func()) *writer {
	w := &writer{db: db, look: look, folder: folder, spare: spare, ended: make(chan struct{})}
	w.filled.L = &w.mu
	go w.run()
	return w
}

func (w *writer) do(ctx context.Context, fn func(*sql.Tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r := &request{fn: fn, done: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return fault.New(fault.Unavailable, "The database is closed.")
	}
	if !w.busy && len(w.queue) == 0 {
		w.busy = true
		w.mu.Unlock()
		r.state.Store(started)
		w.alone(r)
		w.rest()
		return r.err
	}
	w.queue = append(w.queue, r)
	w.filled.Signal()
	w.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, givenUp) {
			return context.Cause(ctx)
		}
		<-r.done
	}
	return r.err
}

// rest says that nobody writes any more.
func (w *writer) rest() {
	w.mu.Lock()
	w.busy = false
	if len(w.queue) > 0 || w.closed {
		w.filled.Signal()
	}
	w.mu.Unlock()
}

func (w *writer) stop() {
	w.mu.Lock()
	w.closed = true
	w.filled.Signal()
	w.mu.Unlock()
	<-w.ended
}

func (w *writer) run() {
	defer close(w.ended)
	for {
		batch := w.take()
		if batch == nil {
			return
		}
		for len(batch) > 0 {
			var again []*request
			batch, again = w.share(batch)
			for _, r := range again {
				w.alone(r)
			}
		}
		w.rest()
	}
}

// take returns what is queued, when nobody else writes; or nil when the writer is closed and has nothing left to do.
func (w *writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 || w.busy {
		if w.closed && !w.busy {
			return nil
		}
		w.filled.Wait()
	}
	w.busy = true
	n := min(len(w.queue), maxShared)
	batch := w.queue[:n:n]
	if w.queue = w.queue[n:]; len(w.queue) == 0 {
		w.queue = nil
	}
	return batch
}

// share runs a batch in one transaction. When a function has cost everyone the transaction, share stops there: rest
// has not run yet, and again had run and must run once more.
func (w *writer) share(batch []*request) (rest, again []*request) {
	if len(batch) == 1 {
		if r := batch[0]; r.state.CompareAndSwap(waiting, started) {
			w.alone(r)
		}
		return nil, nil
	}
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		for _, r := range batch {
			if r.state.CompareAndSwap(waiting, started) {
				r.finish(w.classify(err))
			}
		}
		return nil, nil
	}
	var ran []*request
	for i, r := range batch {
		if !r.state.CompareAndSwap(waiting, started) {
			continue
		}
		err, lost := inSavepoint(tx, r.fn)
		if err == nil {
			ran = append(ran, r)
			continue
		}
		full := w.isFull(err)
		if lost || full {
			tx.Rollback()
			if full { // alone it may find room
				return batch[i+1:], append(ran, r)
			}
			r.finish(w.classify(err))
			return batch[i+1:], ran
		}
		r.finish(w.classify(err))
	}
	if len(ran) == 0 {
		tx.Rollback()
		return nil, nil
	}
	if err = w.commit(tx); w.isFull(err) {
		return nil, ran
	}
	for _, r := range ran {
		r.finish(err)
	}
	return nil, nil
}

// alone gives a function a transaction of its own: when nobody else waits, or when another has cost it the shared one.
// On a full disk it is run again with the ballast's room.
func (w *writer) alone(r *request) {
	err := w.once(r.fn)
	if w.isFull(err) && w.spare.give() {
		err = w.once(r.fn)
	}
	r.finish(err)
}

func (w *writer) once(fn func(*sql.Tx) error) error {
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		return w.classify(err)
	}
	if err := guarded(tx, fn); err != nil {
		tx.Rollback()
		return w.classify(err)
	}
	return w.commit(tx)
}

// isFull says whether a write failed because the disk is full.
func (w *writer) isFull(err error) bool {
	return err != nil && codeOf(w.folder, err) == sqlite3.SQLITE_FULL
}

func (w *writer) commit(tx *sql.Tx) error {
	err := tx.Commit()
	if err == nil {
		if w.commits++; w.commits%lookEvery == 0 {
			w.look()
			w.spare.take()
		}
		return nil
	}
	// A commit that failed may leave its transaction open on the connection, while the pool thinks it is over; the
	// next one would then start inside it.
	w.db.Exec("ROLLBACK")
	return w.classify(fmt.Errorf("commit: %w", err))
}

// inSavepoint runs fn so that its failure is undone alone. lost says that the transaction itself is gone.
func inSavepoint(tx *sql.Tx, fn func(*sql.Tx) error) (err error, lost bool) {
	if _, err := tx.Exec("SAVEPOINT fn"); err != nil {
		return err, true
	}
	if err := guarded(tx, fn); err != nil {
		_, gone := tx.Exec("ROLLBACK TO fn; RELEASE fn")
		return err, gone != nil
	}
	if _, err := tx.Exec("RELEASE fn"); err != nil {
		return err, true // fn hid an error that ended the transaction
	}
	return nil, false
}

// guarded turns a panic of fn into its error: one caller's defect must not stop everybody's writes.
func guarded(tx *sql.Tx, fn func(*sql.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Wrap(fault.Internal, fmt.Errorf("panic in a write: %v\n%s", p, debug.Stack()), "A write failed unexpectedly.")
		}
	}()
	return fn(tx)
}

func (w *writer) classify(err error) error { return classify(w.folder, err) }

// conditions are SQLite's result codes that mean "not now" and say what a person can do.
var conditions = map[int]struct{ sentence, try string }{
	sqlite3.SQLITE_FULL:     {"The disk that holds the database is full.", "free space on that disk"},
	sqlite3.SQLITE_IOERR:    {"The disk that holds the database does not answer as it should.", "look at the system's log for errors of that disk"},
	sqlite3.SQLITE_NOMEM:    {"There is not enough memory to write to the database.", ""},
	sqlite3.SQLITE_BUSY:     {"The database is locked by another program.", "end the program that holds the file open"},
	sqlite3.SQLITE_LOCKED:   {"The database is locked.", ""},
	sqlite3.SQLITE_READONLY: {"The database cannot be written.", "check who owns the data folder and its files"},
	sqlite3.SQLITE_CANTOPEN: {"The database cannot be opened.", "check who owns the data folder and its files"},
}

// classify gives an error of SQLite, or of a file beside it, its kind and sentence. An error that a room has classed
// already stays as it is.
func classify(folder string, err error) error {
	if _, ok := fault.As(err); ok || err == nil {
		return err
	}
	code := codeOf(folder, err)
	c, ok := conditions[code]
	if !ok {
		return err
	}
	f := fault.Wrap(fault.Unavailable, err, "%s", c.sentence)
	if c.try != "" {
		f = f.WithTry("%s", c.try)
	}
	return f
}

// codeOf is SQLite's primary result code for an error, or 0.
func codeOf(folder string, err error) int {
	var e *sqlite.Error
	code := 0
	switch {
	case errors.As(err, &e):
		code = e.Code() & 0xff // the low byte is the class, the rest the detail
	case noSpace(err):
		code = sqlite3.SQLITE_FULL
	}
	// SQLite tells a full disk as such only where it writes the database. Where it cannot grow the shared memory or
	// make a file, as at the start, it is an error like any other.
	if (code == sqlite3.SQLITE_IOERR || code == sqlite3.SQLITE_CANTOPEN) && full(folder) {
		code = sqlite3.SQLITE_FULL
	}
	return code
}
