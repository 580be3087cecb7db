// Package store is a database, not a repository: it opens one SQLite file, migrates it room by room, and gives
// everyone one way to write.
//
// It knows no noun; each room keeps its own SQL and migrations. What holds: what Write has answered with nil survives
// a kill and a power cut (WAL, synchronous FULL); a function that fails is undone alone, though several share a
// transaction; the file belongs to one process at a time.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
)

// Options says where the database is.
type Options struct {
	Path string // the database file; its folder is made when absent, and "<Path>.lock" is locked while it is open
}

// DB is an open database. It is safe for use by many goroutines.
type DB struct {
	path   string
	lock   *os.File
	write  *sql.DB // one connection, used by the writer goroutine and by migrations
	read   *sql.DB
	copier *checkpointer
	writer *writer

	closing sync.Once
	closed  error
}

// busyTimeout bounds the wait for a lock that a backup tool or a checkpoint holds on the file.
const busyTimeout = "busy_timeout(5000)"

// Open opens the database, making it when it is absent. A file that another process, or this one, has open already is
// refused with fault.Conflict.
func Open(ctx context.Context, o Options) (*DB, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, classify(filepath.Dir(path), fmt.Errorf("open database: %w", err))
	}
	var undo cleanup.Stack
	defer undo.Run()
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, classify(filepath.Dir(path), err)
	}
	undo.Add(func() { lock.Close() })
	spare := newBallast(path, filepath.Dir(path))
	if full(filepath.Dir(path)) {
		spare.give()
	}
	// SQLite would make the file readable by everyone; the log and shared-memory files take its mode.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, classify(filepath.Dir(path), fmt.Errorf("open database: %w", err))
	}
	file.Close()

	write, err := sql.Open("sqlite", dsn(path, url.Values{
		"_pragma": {busyTimeout, "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "temp_store(MEMORY)",
			fmt.Sprintf("wal_autocheckpoint(%d)", restartPages), "journal_size_limit(67108864)", "cache_size(-16384)"},
		"_txlock": {"immediate"},
	}))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	undo.Add(func() { write.Close() })
	write.SetMaxOpenConns(1)
	if err := write.PingContext(ctx); err != nil {
		return nil, classify(filepath.Dir(path), fmt.Errorf("open database: %w", err))
	}
	read, err := sql.Open("sqlite", dsn(path, url.Values{
		"mode":    {"ro"},
		"_pragma": {busyTimeout, "query_only(1)", "temp_store(MEMORY)"},
	}))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	undo.Add(func() { read.Close() })
	read.SetMaxOpenConns(max(4, runtime.NumCPU()))
	read.SetMaxIdleConns(max(4, runtime.NumCPU()))
	copier, err := startCheckpointer(path)
	if err != nil {
		return nil, classify(filepath.Dir(path), err)
	}
	undo.Release()
	spare.take()
	return &DB{path: path, lock: lock, write: write, read: read, copier: copier,
		writer: startWriter(write, filepath.Dir(path), spare, copier.look)}, nil
}

func dsn(path string, q url.Values) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

// Read returns the pool for reading. Its connections cannot write.
func (db *DB) Read() *sql.DB { return db.read }

// Migrate brings one room's tables up to date. files holds goose migrations (migrations/NNNNN_name.sql); the room's
// version is kept in the table "<room>_migrations". Rooms migrate at start, before anything is written.
func (db *DB) Migrate(ctx context.Context, room string, files fs.FS) error {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		return fmt.Errorf("migrate %s: %w", room, err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db.write, sub,
		goose.WithTableName(room+"_migrations"), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("migrate %s: %w", room, err)
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return classify(filepath.Dir(db.path), fmt.Errorf("migrate %s: %w", room, err))
	}
	if have > want {
		return fault.New(fault.Conflict, "The database %s was written by a newer version of hardshell.", db.path).
			WithTry("the newer version, or another data folder")
	}
	if _, err := p.Up(ctx); err != nil {
		return classify(filepath.Dir(db.path), fmt.Errorf("migrate %s: %w", room, err))
	}
	return nil
}

// Prepare compiles a statement for use in Write, as tx.Stmt(stmt), where compiling it each time would count.
func (db *DB) Prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	return db.write.PrepareContext(ctx, query)
}

// Write runs fn in a transaction and returns when what it did is durable, or with fn's own error and nothing done.
// Functions that wait at the same time share a transaction, each in a savepoint of its own.
//
// fn uses only its tx, and neither commits nor rolls it back nor ends its goroutine. It should give statements no
// context that may end in the middle: SQLite then throws the whole transaction away. When that, or a full disk, has
// lost a transaction, or room was found on a disk that was full, the functions that were not to blame are run once more, so fn sets results and does not add to
// them. Once fn has started, the end of ctx is not looked at: the caller always learns what happened.
func (db *DB) Write(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return db.writer.do(ctx, fn)
}

// Close waits for the writes that are queued, then closes the file and gives up the lock. A second call answers as the
// first did.
func (db *DB) Close() error {
	db.closing.Do(func() {
		db.writer.stop()
		// The writer's connection goes last: the last one out moves the log into the database.
		db.closed = errors.Join(db.copier.stop(), db.read.Close(), db.write.Close(), db.lock.Close())
	})
	return db.closed
}
