package container

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
)

// TestNothingOfAContainerStaysForEver: files go first, the row that tells of them later.
func TestNothingOfAContainerStaysForEver(t *testing.T) {
	b := newBench(t, Limits{DefaultIdleTTL: time.Minute, KeepExpired: time.Hour})
	expired, deleted := b.create(t), b.create(t)
	if _, err := b.Create(b.ctx, "org", CreateSpec{IdleTTL: 60 * 24 * time.Hour}); err != nil { // one that stays
		t.Fatal(err)
	}
	b.fake.programs["write"] = func(p *proc) int { p.file("f", "x"); return 0 }
	for _, c := range []Container{expired, deleted} {
		b.run(t, c.ID, "write")
	}
	if err := b.Delete(b.ctx, "org", deleted.ID); err != nil {
		t.Fatal(err)
	}
	rows := func() (n int) {
		t.Helper()
		err := b.db.Read().QueryRow(`SELECT (SELECT COUNT(*) FROM container) + (SELECT COUNT(*) FROM container_file) + (SELECT COUNT(*) FROM container_input)`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	lastly := time.Duration(0)
	for _, step := range []struct {
		after time.Duration
		code  string
		kind  fault.Kind
		rows  int // the file of the expired one too
	}{
		{50 * time.Second, "", 0, 4},
		{50 * time.Second, "container_expired", fault.Expired, 4},
		{keepDeletedRow, "container_expired", fault.Expired, 2}, // of the deleted one nothing is left
		{keepExpiredRow - time.Hour, "container_expired", fault.Expired, 2},
		{2 * time.Hour, "container_not_found", fault.NotFound, 1},
	} {
		lastly += step.after
		b.clock.advance(step.after)
		for range 2 { // what one round makes due the next one sees
			if err := b.reap(b.ctx); err != nil {
				t.Fatal(err)
			}
		}
		_, err := b.Usable(b.ctx, "org", expired.ID)
		if step.code == "" {
			if err != nil {
				t.Errorf("after %v: %v", lastly, err)
			}
		} else {
			wantFault(t, err, step.kind, step.code)
		}
		if got := rows(); got != step.rows {
			t.Errorf("after %v there are %d rows, want %d", lastly, got, step.rows)
		}
	}
}

// TestNothingOfAPurgedContainerHangsAbout, in whatever table, and nothing goes before that.
func TestNothingOfAPurgedContainerHangsAbout(t *testing.T) {
	b := newBench(t, Limits{})
	tables, err := store.All(b.ctx, b.db.Read(), func(row store.Scanner) (name string, err error) { return name, row.Scan(&name) },
		`SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'container' ORDER BY m.name`)
	if err != nil || !slices.Contains(tables, "container_file") || len(tables) < 3 {
		t.Fatalf("tables %q, %v", tables, err)
	}
	gone, stays := b.create(t), b.create(t)
	must(t, b.Delete(b.ctx, "org", gone.ID))
	// What was on its way when its folder went comes late.
	for _, table := range tables {
		for _, c := range []Container{gone, stays} {
			must(t, b.db.Write(b.ctx, func(tx *sql.Tx) error { return fill(tx, table, c.ID) }))
		}
	}
	must(t, b.purge(b.ctx, gone.ID), b.purge(b.ctx, stays.ID))
	for _, table := range tables {
		owners, err := store.All(b.ctx, b.db.Read(), func(row store.Scanner) (id string, err error) { return id, row.Scan(&id) },
			`SELECT container FROM `+table)
		if err != nil || !slices.Equal(owners, []string{stays.ID}) {
			t.Errorf("%s has rows of %q, want one of %s: %v", table, owners, stays.ID, err)
		}
	}
}

// fill makes a row of a container in a table, whatever else is in it.
func fill(tx *sql.Tx, table, container string) error {
	rows, err := tx.Query(`SELECT name FROM pragma_table_info($1) WHERE name = 'container' OR pk > 0 OR "notnull" AND dflt_value IS NULL`, table)
	if err != nil {
		return err
	}
	defer rows.Close()
	var columns, marks []string
	var values []any
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		columns, marks, values = append(columns, name), append(marks, "?"), append(values, container)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`) VALUES (`+strings.Join(marks, ", ")+`)`, values...)
	return err
}
