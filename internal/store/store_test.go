package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// openNotes opens a database with a table note(id, text).
func openNotes(t testing.TB) *DB {
	t.Helper()
	db := openAt(t, filepath.Join(t.TempDir(), "data", "hardshell.db"))
	files := fstest.MapFS{"migrations/00001_note.sql": {Data: []byte("-- +goose Up\nCREATE TABLE note (id BIGINT PRIMARY KEY, text TEXT NOT NULL);")}}
	if err := db.Migrate(context.Background(), "note", files); err != nil {
		t.Fatal(err)
	}
	return db
}

func insert(id int) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO note (id, text) VALUES ($1, 'x')`, id)
		return err
	}
}

func notes(t testing.TB, db *DB) (n int) {
	t.Helper()
	if err := db.Read().QueryRow(`SELECT COUNT(*) FROM note`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// together queues functions while the writer is busy, so that they come to share a transaction, and returns their
// errors.
func together(t testing.TB, db *DB, fns ...func(*sql.Tx) error) []error {
	t.Helper()
	busy, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		db.Write(context.Background(), func(*sql.Tx) error { close(busy); <-release; return nil })
	})
	<-busy
	errs := make([]error, len(fns))
	for i, fn := range fns {
		wg.Go(func() { errs[i] = db.Write(context.Background(), fn) })
		until(t, func() bool {
			db.writer.mu.Lock()
			defer db.writer.mu.Unlock()
			return len(db.writer.queue) == i+1
		})
	}
	close(release)
	wg.Wait()
	return errs
}

func until(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited too long")
		}
	}
}

func TestWritesShareATransactionAndFailAlone(t *testing.T) {
	db := openNotes(t)
	var mu sync.Mutex
	seen := map[*sql.Tx]int{}
	var fns []func(*sql.Tx) error
	wrong := errors.New("wrong")
	for i := range 60 {
		fns = append(fns, func(tx *sql.Tx) error {
			mu.Lock()
			seen[tx]++
			mu.Unlock()
			if err := insert(i)(tx); err != nil {
				return err
			}
			switch {
			case i%10 == 3:
				return wrong
			case i%10 == 7:
				panic("at the disco")
			}
			return nil
		})
	}
	errs := together(t, db, fns...)
	if len(seen) != 1 {
		t.Errorf("%d transactions for %d writes", len(seen), len(fns))
	}
	for i, err := range errs {
		switch {
		case i%10 == 3:
			if !errors.Is(err, wrong) {
				t.Errorf("write %d: %v, want its own error", i, err)
			}
		case i%10 == 7:
			if fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "at the disco") {
				t.Errorf("write %d: %v, want the panic", i, err)
			}
		case err != nil:
			t.Errorf("write %d: %v", i, err)
		}
	}
	if n := notes(t, db); n != 48 {
		t.Errorf("%d notes, want 48: the failed twelve left something, or took others along", n)
	}
}

func TestAWriteThatCostsTheTransactionCostsItselfOnly(t *testing.T) {
	db := openNotes(t)
	errs := together(t, db, insert(1), insert(2), func(tx *sql.Tx) error {
		insert(3)(tx)
		tx.Exec("ROLLBACK") // what SQLite does when a statement is interrupted or the disk is full
		return errors.New("lost it")
	}, insert(4), insert(5))
	for i, err := range errs {
		if (err != nil) != (i == 2) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if n := notes(t, db); n != 4 {
		t.Errorf("%d notes, want 4", n)
	}
}

func TestAHiddenErrorIsStillTold(t *testing.T) {
	db := openNotes(t)
	hide := func(tx *sql.Tx) error { insert(9)(tx); tx.Exec("ROLLBACK"); return nil }
	errs := together(t, db, insert(1), hide, insert(2))
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("errors %v, want the second alone", errs)
	}
	if err := db.Write(context.Background(), hide); err == nil {
		t.Error("alone: no error")
	}
	if n := notes(t, db); n != 2 {
		t.Errorf("%d notes, want 2", n)
	}
}

func TestFullDatabase(t *testing.T) {
	db := openNotes(t)
	var pages int
	if err := db.write.QueryRow(`PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	limit := func(n int) {
		if _, err := db.write.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, n)); err != nil {
			t.Fatal(err)
		}
	}
	limit(pages)
	big := func(tx *sql.Tx) error {
		_, err := tx.Exec(`INSERT INTO note (id, text) VALUES (100, $1)`, strings.Repeat("x", 1<<20))
		return err
	}
	errs := together(t, db, insert(1), big, insert(2))
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("small writes beside a big one: %v, %v", errs[0], errs[2])
	}
	f, ok := fault.As(errs[1])
	if !ok || f.Kind != fault.Unavailable || f.Try == "" || !strings.Contains(f.Message, "full") {
		t.Errorf("big write: %v, want fault.Unavailable that says the disk is full", errs[1])
	}
	if err := db.Write(context.Background(), big); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("big write alone: %v, want fault.Unavailable", err)
	}
	limit(1 << 30)
	if err := db.Write(context.Background(), big); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if n := notes(t, db); n != 3 {
		t.Errorf("%d notes, want 3", n)
	}
}

func TestAFolderBelongsToOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hardshell.db")
	db := openAt(t, path)
	_, err := Open(context.Background(), Options{Path: path})
	f, ok := fault.As(err)
	if !ok || f.Kind != fault.Conflict || f.Try == "" {
		t.Fatalf("second open: %v, want fault.Conflict with a try line", err)
	}
	if want := fmt.Sprintf("(process %d)", os.Getpid()); !strings.Contains(f.Message, want) {
		t.Errorf("message %q does not name %s", f.Message, want)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
}

func TestFilesArePrivate(t *testing.T) {
	db := openNotes(t)
	if err := db.Write(context.Background(), insert(1)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(db.path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
}

func TestAWriteThatIsGivenUpDoesNotRun(t *testing.T) {
	db := openNotes(t)
	busy, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		db.Write(context.Background(), func(*sql.Tx) error { close(busy); <-release; return nil })
	})
	<-busy
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancelled := make(chan error)
	go func() { cancelled <- db.Write(ctx, insert(1)) }()
	until(t, func() bool {
		db.writer.mu.Lock()
		defer db.writer.mu.Unlock()
		return len(db.writer.queue) == 1
	})
	cancel(gone)
	if err := <-cancelled; !errors.Is(err, gone) {
		t.Errorf("error %v, want the context's cause", err)
	}
	close(release)
	wg.Wait()
	if err := db.Write(context.Background(), insert(2)); err != nil {
		t.Fatal(err)
	}
	if n := notes(t, db); n != 1 {
		t.Errorf("%d notes, want 1", n)
	}
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hardshell.db")
	db := openAt(t, path)
	if err := db.Write(context.Background(), func(tx *sql.Tx) error {
		_, err := tx.Exec(`CREATE TABLE note (id BIGINT PRIMARY KEY, text TEXT)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	busy, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		db.Write(context.Background(), func(*sql.Tx) error { close(busy); <-release; return nil })
	})
	<-busy
	var queued error
	wg.Go(func() { queued = db.Write(context.Background(), insert(1)) })
	until(t, func() bool {
		db.writer.mu.Lock()
		defer db.writer.mu.Unlock()
		return len(db.writer.queue) == 1
	})
	wg.Go(func() { db.Close() })
	until(t, func() bool {
		db.writer.mu.Lock()
		defer db.writer.mu.Unlock()
		return db.writer.closed
	})
	if err := db.Write(context.Background(), insert(2)); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a write after Close: %v, want fault.Unavailable", err)
	}
	close(release)
	wg.Wait()
	if queued != nil {
		t.Errorf("queued write: %v", queued)
	}
	if n := notes(t, openAt(t, path)); n != 1 {
		t.Errorf("%d notes, want 1", n)
	}
}

func TestReadersCannotWrite(t *testing.T) {
	db := openNotes(t)
	if _, err := db.Read().Exec(`INSERT INTO note (id, text) VALUES (1, 'x')`); err == nil {
		t.Error("the read pool has written")
	}
}

func TestMigrations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hardshell.db")
	db := openAt(t, path)
	ctx := context.Background()
	one := fstest.MapFS{"migrations/00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (n BIGINT);")}}
	two := fstest.MapFS{"migrations/00001_a.sql": one["migrations/00001_a.sql"], "migrations/00002_b.sql": {Data: []byte("-- +goose Up\nALTER TABLE a ADD COLUMN m BIGINT;")}}
	other := fstest.MapFS{"migrations/00001_z.sql": {Data: []byte("-- +goose Up\nCREATE TABLE z (n BIGINT);")}}
	for _, step := range []struct {
		room  string
		files fstest.MapFS
	}{{"a", one}, {"a", one}, {"z", other}, {"a", two}} {
		if err := db.Migrate(ctx, step.room, step.files); err != nil {
			t.Fatalf("%s: %v", step.room, err)
		}
	}
	if _, err := db.Read().Exec(`SELECT n, m FROM a`); err != nil {
		t.Error(err)
	}
	if err := db.Migrate(ctx, "a", one); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an older program on a newer database: %v, want fault.Conflict", err)
	}
}
