package container

import (
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
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
