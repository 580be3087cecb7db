package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// floor is the least durable log that can be, on the same SQLite with the same settings: each of n responses hands the
// bytes of its next event to one writer and waits; the writer takes whatever waits and commits it as one row. It knows no
// numbers, owners or readers, and nothing can be read of it again.
func floor(dir string, span time.Duration, n int) (r Result, err error) {
	tmp, err := os.MkdirTemp(dir, "hardshell-events-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(tmp)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(tmp, "floor.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return r, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE segment (id INTEGER PRIMARY KEY, data BLOB)`); err != nil {
		return r, err
	}
	insert, err := db.Prepare(`INSERT INTO segment (data) VALUES ($1)`)
	if err != nil {
		return r, err
	}
	defer insert.Close()

	type item struct {
		response int
		data     []byte
		done     chan struct{}
	}
	waiting := make(chan item, n)
	wrote := make(chan error, 1)
	broken, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		var failure error
		var row []byte
		var batch []item
		for first := range waiting {
			batch = append(batch[:0], first)
			for len(waiting) > 0 {
				batch = append(batch, <-waiting)
			}
			row = row[:0]
			for _, it := range batch {
				row = binary.AppendUvarint(row, uint64(it.response))
				row = binary.AppendUvarint(row, uint64(len(it.data)))
				row = append(row, it.data...)
			}
			if failure == nil {
				failure = commit(db, insert, row)
			}
			if failure != nil {
				stop()
			}
			for _, it := range batch {
				it.done <- struct{}{}
			}
		}
		wrote <- failure
	}()
	var count atomic.Int64
	start, before := time.Now(), spent()
	err = each(n, func(i int) error {
		done := make(chan struct{}, 1)
		ev, events := delta(), int64(0)
		var data []byte
		for ; time.Since(start) < span && broken.Err() == nil; events++ {
			var err error
			if data, err = openai.AppendEvent(data[:0], ev); err != nil {
				return err
			}
			waiting <- item{i, data, done}
			<-done
		}
		count.Add(events)
		return nil
	})
	took := time.Since(start)
	close(waiting)
	r = Result{PerSecond: float64(count.Load()) / took.Seconds(), CPU: (spent() - before) / float64(max(1, count.Load()))}
	return r, errors.Join(err, <-wrote)
}

func commit(db *sql.DB, insert *sql.Stmt, row []byte) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Stmt(insert).Exec(row); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
