package response

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// talk makes a conversation of one item.
func talk(t testing.TB, s *Service) string {
	t.Helper()
	c, err := s.Conversations().Create(within(t), org, []openai.Item{message("msg_0", "user", "before")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// continues begins a response that continues a conversation as it is now.
func continues(t testing.TB, s *Service, talk string, n int, background bool) *Run {
	t.Helper()
	h, err := s.Conversations().History(within(t), org, talk)
	if err != nil {
		t.Fatal(err)
	}
	return begin(t, s, Begin{Store: true, Late: true, Background: background, ConversationID: talk, Revision: h.Revision,
		Input: []openai.Item{message(fmt.Sprint("msg_in", n), "user", "<q>")}})
}

func answer(t testing.TB, r *Run, n int) {
	t.Helper()
	if err := r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, message(fmt.Sprint("msg_out", n), "assistant", "a"))); err != nil {
		t.Fatal(err)
	}
}

// said is a conversation's items by their ids.
func said(t testing.TB, s *Service, talk string) string {
	t.Helper()
	h, err := s.Conversations().History(within(t), org, talk)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range h.Items {
		ids = append(ids, strings.TrimPrefix(i.ID, "msg_"))
	}
	return strings.Join(ids, " ")
}

func TestAResponseIsAddedToItsConversation(t *testing.T) {
	for name, c := range map[string]struct {
		status  string
		answers bool
		want    string
	}{
		"completed":                        {openai.Completed, true, "0 in1 out1"},
		"completed with nothing":           {openai.Completed, false, "0 in1"},
		"incomplete":                       {openai.Incomplete, true, "0 in1 out1"},
		"incomplete with nothing":          {openai.Incomplete, false, "0 in1"},
		"failed after it had said a thing": {openai.Failed, true, "0 in1 out1"},
		"failed":                           {openai.Failed, false, "0"},
		"cancelled":                        {openai.Cancelled, false, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t)
			id := talk(t, s)
			r := continues(t, s, id, 1, false)
			announce(t, r)
			r.SetContainer("cntr_1")
			if c.answers {
				answer(t, r, 1)
			}
			if got := said(t, s, id); got != "0" {
				t.Errorf("while it runs the conversation has %q", got)
			}
			finish(t, r, c.status)
			if got := said(t, s, id); got != c.want {
				t.Errorf("the conversation has %q, want %q", got, c.want)
			}
			got, err := s.Get(within(t), org, r.ID())
			if err != nil || got.Conversation == nil || got.Conversation.ID != id {
				t.Errorf("%+v, %v", got, err)
			}
			h, err := s.Conversations().History(within(t), org, id)
			if used := c.want != "0"; err != nil || (h.ContainerID == "cntr_1") != used || h.Running != "" {
				t.Errorf("%+v, %v", h, err)
			}
			second := continues(t, s, id, 2, false) // the conversation is free again
			answer(t, second, 2)
			finish(t, second, openai.Completed)
			if got := said(t, s, id); got != c.want+" in2 out2" {
				t.Errorf("after the second: %q", got)
			}
		})
	}
}

func TestAConversationUnderARunningResponse(t *testing.T) {
	s := newService(t)
	id := talk(t, s)
	h, err := s.Conversations().History(within(t), org, id)
	if err != nil {
		t.Fatal(err)
	}
	r := continues(t, s, id, 1, true)
	_, err = s.Begin(within(t), Begin{Org: org, Store: true, ConversationID: id, Revision: h.Revision})
	if f, ok := fault.As(err); !ok || f.Code != "conversation_locked" || f.Param != "conversation" {
		t.Errorf("a second response: %v", err)
	}
	_, err = s.Begin(within(t), Begin{Org: "other", Store: true, ConversationID: id, Revision: h.Revision})
	if f, ok := fault.As(err); !ok || f.Code != "conversation_not_found" {
		t.Errorf("another organisation's: %v", err)
	}
	_, err = s.Begin(within(t), Begin{Org: org, ConversationID: id, Revision: h.Revision})
	if f, ok := fault.As(err); !ok || f.Param != "store" {
		t.Errorf("one that is not stored: %v", err)
	}
	if n := count(t, s.db, `SELECT COUNT(*) FROM response`); n != 1 {
		t.Errorf("%d rows of responses, though all but one were refused", n)
	}
	// Deleting the conversation leaves the response, and the response leaves it deleted.
	if err := s.Conversations().Delete(within(t), org, id); err != nil {
		t.Fatal(err)
	}
	announce(t, r)
	answer(t, r, 1)
	finish(t, r, openai.Completed)
	if got, err := s.Get(within(t), org, r.ID()); err != nil || got.Status != openai.Completed || len(got.Output) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Conversations().Get(within(t), org, id); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the conversation is back: %v", err)
	}
}

func TestDeletingAResponseLeavesItsItemsInTheConversation(t *testing.T) {
	s := newService(t)
	id := talk(t, s)
	r := continues(t, s, id, 1, false)
	answer(t, r, 1)
	finish(t, r, openai.Completed)
	if err := s.Delete(within(t), org, r.ID()); err != nil {
		t.Fatal(err)
	}
	if got := said(t, s, id); got != "0 in1 out1" {
		t.Errorf("the conversation has %q", got)
	}
	// One that is deleted while it runs is cancelled; the conversation is free again.
	r = continues(t, s, id, 2, true)
	go func() {
		<-r.Context().Done()
		r.Finish(context.Background(), End{Status: openai.Cancelled})
	}()
	if err := s.Delete(within(t), org, r.ID()); err != nil {
		t.Fatal(err)
	}
	finish(t, continues(t, s, id, 3, false), openai.Completed)
	if got := said(t, s, id); got != "0 in1 out1 in3" {
		t.Errorf("the conversation has %q", got)
	}
}

// An owner that was taken over adds nothing; its heir adds all, once.
func TestAResponseThatChangesHandsIsAddedOnce(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	old := serve(t, db, Options{})
	id := talk(t, old)
	r := continues(t, old, id, 1, true)
	announce(t, r)
	answer(t, r, 1)
	if err := r.Sync(within(t)); err != nil {
		t.Fatal(err)
	}
	next := serve(t, db, Options{})
	c := claims(t, next)[r.ID()]
	if c == nil {
		t.Fatal("the response was not taken over")
	}
	if h, err := next.Conversations().History(within(t), org, id); err != nil || h.Running != r.ID() {
		t.Errorf("the conversation is free though its response goes on: %+v, %v", h, err)
	}
	if err := r.Finish(within(t), End{Status: openai.Completed}); !isConflict(err) {
		t.Errorf("the old owner ended it: %v", err)
	}
	if got := said(t, next, id); got != "0" {
		t.Errorf("the old owner has added %q", got)
	}
	if got := c.Run.Response().Conversation; got == nil || got.ID != id {
		t.Errorf("the heir knows no conversation: %+v", got)
	}
	finish(t, c.Run, openai.Completed)
	if got := said(t, next, id); got != "0 in1 out1" {
		t.Errorf("the conversation has %q", got)
	}
}

// What cannot be added is not ended either: both are one transaction.
func TestEndAndConversationAreOneTransaction(t *testing.T) {
	s := newService(t)
	id := talk(t, s)
	r := continues(t, s, id, 1, false)
	answer(t, r, 1)
	if err := s.db.Write(within(t), execTx(`CREATE TRIGGER refuse BEFORE INSERT ON conversation_item BEGIN SELECT RAISE(ABORT, 'no room'); END`)); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(within(t), End{Status: openai.Completed}); err == nil {
		t.Error("the end was written without the items")
	}
	if n := count(t, s.db, `SELECT COUNT(*) FROM response WHERE completed IS NOT NULL`); n != 0 {
		t.Error("the response has ended in its row")
	}
	if err := s.db.Write(within(t), execTx(`DROP TRIGGER refuse`)); err != nil {
		t.Fatal(err)
	}
	if err := s.settle(within(t)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(within(t), org, r.ID())
	if err != nil || got.Status != openai.Failed {
		t.Errorf("%+v, %v", got, err)
	}
	if got := said(t, s, id); got != "0 in1 out1" {
		t.Errorf("the conversation has %q", got)
	}
}

func TestItemsAreFoundByTheirIDs(t *testing.T) {
	s := newService(t)
	in, out := id.New(id.Message), id.New(id.Message)
	r := begin(t, s, Begin{Store: true, Late: true, Input: []openai.Item{message(in, "user", "q"), message("mine", "user", "q")}})
	if err := r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, message(out, "assistant", "a"))); err != nil {
		t.Fatal(err)
	}
	find := func(org string, ids ...string) string {
		t.Helper()
		found, err := s.Items(within(t), org, ids)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for n, id := range ids {
			if i, ok := found[id]; ok && i.ID == id {
				got = append(got, fmt.Sprint(n))
			}
		}
		return strings.Join(got, " ")
	}
	if got := find(org, in, out); got != "" {
		t.Errorf("of a response that runs: %q", got)
	}
	finish(t, r, openai.Completed) // late: the row comes some milliseconds after it
	if got := find(org, out, in, "mine"); got != "0 1 2" {
		t.Errorf("found %q", got)
	}
	if got := find(org, in); got != "0" {
		t.Errorf("an item of the input alone: %q", got)
	}
	for _, unknown := range []string{id.New(id.Message), "", "%", "%_" + strings.Repeat("0", 26)} {
		if got := find(org, unknown, out); got != "" {
			t.Errorf("%q: found %q", unknown, got)
		}
	}
	if got := find(org, "mine"); got != "" {
		t.Errorf("an id that the client made up: %q", got)
	}
	if got := find("other", in, out); got != "" {
		t.Errorf("another organisation found %q", got)
	}
	long := begin(t, s, Begin{Store: true, Background: true}) // its item is made long after it was begun
	announce(t, long)
	late := id.At(id.Message, time.Now().Add(20*time.Hour))
	if err := long.Emit(openai.NewItemEvent(openai.EventItemDone, 0, message(late, "assistant", "a"))); err != nil {
		t.Fatal(err)
	}
	finish(t, long, openai.Completed)
	if err := s.db.Write(within(t), execTx(`UPDATE response SET completed = completed + 100000000 WHERE id = $1`, long.ID())); err != nil {
		t.Fatal(err)
	}
	if got := find(org, late); got != "0" {
		t.Errorf("of a response that ran for long: %q", got)
	}
	c := talk(t, s)
	if got := find(org, "msg_0", "%sg_0"); got != "0" {
		t.Errorf("in a conversation: %q", got)
	}
	if err := s.Delete(within(t), org, r.ID()); err != nil {
		t.Fatal(err)
	}
	if err := s.Conversations().Delete(within(t), org, c); err != nil {
		t.Fatal(err)
	}
	if got := find(org, in, out, "msg_0"); got != "" {
		t.Errorf("of what was deleted: %q", got)
	}
	if _, err := s.Conversations().Get(within(t), org, c); !errors.Is(err, sql.ErrNoRows) && fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
}

// A chain is a tree: two responses may continue the same one, and each sees its own branch.
func TestBranches(t *testing.T) {
	s := newService(t)
	root := turn(t, s, 0, "", "cntr_1")
	left, right := turn(t, s, 1, root.ID(), ""), turn(t, s, 2, root.ID(), "cntr_2")
	leaf := turn(t, s, 3, left.ID(), "")
	for _, c := range []struct {
		from      *Run
		want      string
		container string
	}{
		{root, "in0 out0", "cntr_1"},
		{leaf, "in0 out0 in1 out1 in3 out3", "cntr_1"},
		{right, "in0 out0 in2 out2", "cntr_2"},
	} {
		chain, err := s.Chain(within(t), org, c.from.ID())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, i := range chain.Items {
			ids = append(ids, strings.TrimPrefix(i.ID, "msg_"))
		}
		if got := strings.Join(ids, " "); got != c.want || chain.ContainerID != c.container {
			t.Errorf("%q in %s, want %q in %s", got, chain.ContainerID, c.want, c.container)
		}
	}
}
