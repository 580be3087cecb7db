package response

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
)

// A request that a stopping server has not begun may come again under its name, also where nothing is stored.
func TestTheNameOfARequestThatWasNotBegunIsFree(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	old := serve(t, db, Options{})
	if err := old.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]bool{"stored": true, "not stored": false} {
		b := Begin{Org: org, Store: store, Key: name, Digest: "d"}
		if _, err := old.Begin(within(t), b); fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("%s: begun by a server that has stopped: %v", name, err)
		}
		s := serve(t, db, Options{})
		if id, err := s.Keyed(within(t), org, name, "d"); id != "" || err != nil {
			t.Errorf("%s: the name stands for %q, %v", name, id, err)
		}
		if _, err := s.Begin(within(t), b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
