package conversation

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// newRoom is a room on a database that has two responses, resp_1 and resp_2.
func newRoom(t testing.TB) (*Room, *store.DB) {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(t.TempDir(), "x.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	write(t, db, func(tx *sql.Tx) error {
		_, err := tx.Exec(`CREATE TABLE response (id TEXT PRIMARY KEY); INSERT INTO response (id) VALUES ('resp_1'), ('resp_2')`)
		return err
	})
	r, err := Open(context.Background(), db, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return r, db
}

func write(t testing.TB, db *store.DB, do func(*sql.Tx) error) {
	t.Helper()
	if err := db.Write(context.Background(), do); err != nil {
		t.Fatal(err)
	}
}

func item(id string) openai.Item {
	return openai.NewItem(openai.Message{Type: openai.TypeMessage, ID: id, Role: "user", Content: openai.Content{{Type: "input_text", Text: id}}})
}

func items(first, last int) (list []openai.Item) {
	for n := first; n <= last; n++ {
		list = append(list, item(fmt.Sprintf("msg_%d", n)))
	}
	return list
}

func made(t testing.TB, r *Room, first, last int) Conversation {
	t.Helper()
	c, err := r.Create(t.Context(), "one", items(first, last), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ids(list []openai.Item) string {
	var all []string
	for _, i := range list {
		all = append(all, strings.TrimPrefix(i.ID, "msg_"))
	}
	return strings.Join(all, " ")
}

func TestPages(t *testing.T) {
	r, _ := newRoom(t)
	c := made(t, r, 1, 5)
	for _, p := range []struct {
		page Page
		want string
		more bool
	}{
		{Page{Limit: 10}, "5 4 3 2 1", false},
		{Page{Limit: 5}, "5 4 3 2 1", false},
		{Page{Limit: 2}, "5 4", true},
		{Page{Limit: 2, After: "msg_4"}, "3 2", true},
		{Page{Limit: 2, After: "msg_2"}, "1", false},
		{Page{Limit: 2, After: "msg_1"}, "", false},
		{Page{Limit: 3, Order: "asc"}, "1 2 3", true},
		{Page{Limit: 3, Order: "asc", After: "msg_3"}, "4 5", false},
	} {
		got, more, err := r.Items(t.Context(), "one", c.ID, p.page)
		if err != nil || ids(got) != p.want || more != p.more {
			t.Errorf("%+v: %q, more %t, %v", p.page, ids(got), more, err)
		}
	}
	if _, _, err := r.Items(t.Context(), "one", c.ID, Page{Limit: 2, After: "msg_9"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("after an item that is not there: %v", err)
	}
}

func TestAnotherOrganisationsLooksAbsent(t *testing.T) {
	r, db := newRoom(t)
	c := made(t, r, 1, 1)
	take := func(org, id string) error {
		return db.Write(t.Context(), func(tx *sql.Tx) error { return Take(tx, org, id, 1, "resp_1") })
	}
	for name, call := range map[string]func(org, id string) error{
		"get":      func(org, id string) error { _, err := r.Get(t.Context(), org, id); return err },
		"metadata": func(org, id string) error { _, err := r.SetMetadata(t.Context(), org, id, nil); return err },
		"history":  func(org, id string) error { _, err := r.History(t.Context(), org, id); return err },
		"add":      func(org, id string) error { return r.Add(t.Context(), org, id, 1, items(7, 7)) },
		"items":    func(org, id string) error { _, _, err := r.Items(t.Context(), org, id, Page{Limit: 1}); return err },
		"after": func(org, id string) error {
			_, _, err := r.Items(t.Context(), org, id, Page{Limit: 1, After: "msg_1"})
			return err
		},
		"item":        func(org, id string) error { _, err := r.Item(t.Context(), org, id, "msg_1"); return err },
		"delete item": func(org, id string) error { _, err := r.DeleteItem(t.Context(), org, id, "msg_1"); return err },
		"delete":      func(org, id string) error { return r.Delete(t.Context(), org, id) },
		"take":        take,
	} {
		theirs, never := call("two", c.ID), call("one", "conv_never")
		a, ok := fault.As(theirs)
		b, also := fault.As(never)
		if !ok || !also || a.Kind != fault.NotFound || a.Code != b.Code || a.Param != b.Param || a.Code != "conversation_not_found" ||
			strings.ReplaceAll(a.Message, c.ID, "conv_never") != b.Message {
			t.Errorf("%s: %v; one that never was: %v", name, theirs, never)
		}
	}
	if _, found, err := r.Find(t.Context(), "two", "msg_1"); found || err != nil {
		t.Errorf("another organisation's item was found, %v", err)
	}
	if i, found, err := r.Find(t.Context(), "one", "msg_1"); !found || err != nil || i.ID != "msg_1" {
		t.Errorf("the own item was not found, %v", err)
	}
	if got, err := r.History(t.Context(), "one", c.ID); err != nil || ids(got.Items) != "1" {
		t.Errorf("%q, %v", ids(got.Items), err)
	}
}

func TestMetadataIsReplaced(t *testing.T) {
	r, _ := newRoom(t)
	c, err := r.Create(t.Context(), "one", nil, map[string]string{"a": "1", "b": "2"})
	if err != nil || len(c.Metadata) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	if c, err = r.SetMetadata(t.Context(), "one", c.ID, map[string]string{"c": "<3>"}); err != nil || len(c.Metadata) != 1 || c.Metadata["c"] != "<3>" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = r.SetMetadata(t.Context(), "one", c.ID, nil); err != nil || c.Metadata == nil || len(c.Metadata) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// While a response continues a conversation its items are nobody else's to change; its metadata are.
func TestOneTurnAtATime(t *testing.T) {
	r, db := newRoom(t)
	c := made(t, r, 1, 2)
	h, err := r.History(t.Context(), "one", c.ID)
	if err != nil || h.Running != "" {
		t.Fatalf("%+v, %v", h, err)
	}
	take := func(revision int64, response string) error {
		return db.Write(t.Context(), func(tx *sql.Tx) error { return Take(tx, "one", c.ID, revision, response) })
	}
	wantBusy := func(what string, err error) {
		t.Helper()
		if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid || f.Code != "conversation_locked" {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantBusy("a turn on what was there before", take(h.Revision-1, "resp_1"))
	if err := take(h.Revision, "resp_1"); err != nil {
		t.Fatal(err)
	}
	err = take(h.Revision, "resp_2")
	wantBusy("a second turn", err)
	if f, _ := fault.As(err); f.Param != "conversation" {
		t.Errorf("param %q", f.Param)
	}
	wantBusy("an item more", r.Add(t.Context(), "one", c.ID, h.Revision, items(3, 3)))
	_, err = r.DeleteItem(t.Context(), "one", c.ID, "msg_1")
	wantBusy("an item less", err)
	if _, err := r.SetMetadata(t.Context(), "one", c.ID, map[string]string{"a": "b"}); err != nil {
		t.Error(err)
	}
	if h, err := r.History(t.Context(), "one", c.ID); err != nil || h.Running != "resp_1" {
		t.Errorf("%+v, %v", h, err)
	}
	end := func(response string) (ours bool) {
		write(t, db, func(tx *sql.Tx) (err error) {
			if ours, err = Leave(tx, c.ID, response); err != nil || !ours {
				return err
			}
			return Append(tx, c.ID, "cntr_1", items(2, 4)) // msg_2 is there
		})
		return ours
	}
	if end("resp_2") {
		t.Error("a response that was refused has ended a turn")
	}
	if !end("resp_1") || end("resp_1") {
		t.Error("a turn ends once")
	}
	if h, err = r.History(t.Context(), "one", c.ID); err != nil || ids(h.Items) != "1 2 3 4" || h.ContainerID != "cntr_1" || h.Running != "" {
		t.Errorf("%+v, %v", h, err)
	}
	if err := r.Add(t.Context(), "one", c.ID, h.Revision, items(5, 5)); err != nil {
		t.Error(err)
	}
	wantBusy("what was checked against an older list", r.Add(t.Context(), "one", c.ID, h.Revision, items(6, 6)))
	if _, err := r.DeleteItem(t.Context(), "one", c.ID, "msg_3"); err != nil {
		t.Error(err)
	}
	if _, err := r.DeleteItem(t.Context(), "one", c.ID, "msg_3"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
	if h, err = r.History(t.Context(), "one", c.ID); err != nil || ids(h.Items) != "1 2 4 5" {
		t.Errorf("%+v, %v", h, err)
	}
}

// The turn goes with the response's row and with the conversation.
func TestATurnGoesWithEither(t *testing.T) {
	r, db := newRoom(t)
	c := made(t, r, 1, 1)
	write(t, db, func(tx *sql.Tx) error { return Take(tx, "one", c.ID, 1, "resp_1") })
	write(t, db, func(tx *sql.Tx) error { _, err := tx.Exec(`DELETE FROM response WHERE id = 'resp_1'`); return err })
	if err := r.Add(t.Context(), "one", c.ID, 1, items(2, 2)); err != nil {
		t.Errorf("the response is gone: %v", err)
	}
	write(t, db, func(tx *sql.Tx) error { return Take(tx, "one", c.ID, 2, "resp_2") })
	if err := r.Delete(t.Context(), "one", c.ID); err != nil {
		t.Fatal(err)
	}
	write(t, db, func(tx *sql.Tx) error {
		ours, err := Leave(tx, c.ID, "resp_2")
		if ours {
			t.Error("the conversation is gone, and the response's turn is not")
		}
		return err
	})
	var left int
	if err := db.Read().QueryRow(`SELECT (SELECT COUNT(*) FROM conversation_item) + (SELECT COUNT(*) FROM conversation_turn)`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

func TestAConversationIsBounded(t *testing.T) {
	r, db := newRoom(t)
	c := made(t, r, 1, 1)
	write(t, db, func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE conversation SET items = $1`, MaxItems)
		return err
	})
	for what, err := range map[string]error{
		"add":  r.Add(t.Context(), "one", c.ID, 1, items(2, 2)),
		"take": db.Write(t.Context(), func(tx *sql.Tx) error { return Take(tx, "one", c.ID, 1, "resp_1") }),
	} {
		if f, ok := fault.As(err); !ok || f.Code != "conversation_too_long" {
			t.Errorf("%s: %v", what, err)
		}
	}
}
