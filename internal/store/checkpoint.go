package store

import (
	"database/sql"
	"fmt"
	"net/url"
)

// A checkpoint copies the log's pages into the database and syncs both. Done by whoever commits, as SQLite does it,
// everyone's writes stand still for tens of milliseconds. So a goroutine does most of it on a connection of its own,
// beside the writes, and the writer finds little left to do when its own turn comes. The log starts over with the first
// write that finds all of it copied and nobody reading it, whoever has copied the last of it. A page
// has 4 KiB: the driver puts journal_mode before a page_size, which would then change nothing.
const (
	// lookEvery is how many transactions there are between two looks at the log.
	lookEvery = 32
	// copyPages is how many pages make a copy worth its two syncs: 8 MiB.
	copyPages = 2000
	// restartPages is where each commit of the writer tries to finish the copy: 16 MiB.
	restartPages = 4000
)

// checkpointer copies the log beside the writer.
type checkpointer struct {
	db    *sql.DB
	wake  chan struct{} // one token; closed at the end
	ended chan struct{}
}

func startCheckpointer(path string) (*checkpointer, error) {
	db, err := sql.Open("sqlite", dsn(path, url.Values{"_pragma": {busyTimeout, "synchronous(FULL)", "wal_autocheckpoint(0)"}}))
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	db.SetMaxOpenConns(1)
	c := &checkpointer{db: db, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go c.run()
	return c, nil
}

func (c *checkpointer) look() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *checkpointer) run() {
	defer close(c.ended)
	for range c.wake {
		var busy, log, copied int
		// Nobody hears of an error: SQLite keeps those of the writer's own checkpoints to itself too. What is not copied stays
		// in the log, which grows, and is tried again at the next look and, beyond restartPages, at every commit.
		err := c.db.QueryRow(`PRAGMA wal_checkpoint(NOOP)`).Scan(&busy, &log, &copied)
		if err == nil && log-copied >= copyPages {
			c.db.Exec(`PRAGMA wal_checkpoint(PASSIVE)`)
		}
	}
}

// stop is called by the writer's owner when no look can come any more.
func (c *checkpointer) stop() error {
	close(c.wake)
	<-c.ended
	return c.db.Close()
}
