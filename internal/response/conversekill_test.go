package response

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// talkDir names the data folder of a child that this test binary plays (TestKillAddsEveryResponseOnce).
const talkDir = "HARDSHELL_TEST_TALK_DIR"

// talkUntilKilled leads four conversations, a response after the other, and prints each that has ended.
func talkUntilKilled(s *Service) {
	ctx := context.Background()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, err := s.Conversations().Create(ctx, org, nil, nil)
			ensure(err)
			for n := 0; ; n++ {
				h, err := s.Conversations().History(ctx, org, c.ID)
				ensure(err)
				r, err := s.Begin(ctx, Begin{Org: org, Store: true, Late: true, Background: n%2 == 0, ConversationID: c.ID, Revision: h.Revision,
					Input: []openai.Item{message(fmt.Sprint("in", n), "user", "q")}})
				ensure(err)
				ensure(r.Announce())
				ensure(r.Emit(openai.NewItemEvent(openai.EventItemDone, 0, message(fmt.Sprint("out", n), "assistant", "a"))))
				ensure(r.Finish(ctx, End{Status: openai.Completed}))
				mu.Lock()
				fmt.Println(c.ID, n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestKillAddsEveryResponseOnce(t *testing.T) {
	dir := t.TempDir()
	for round := range 4 {
		ended := map[string]int{} // how many responses of a conversation are known to have ended
		kill(t, talkDir, dir, 1+rand.IntN(150), func(line string) error {
			var id string
			var n int
			_, err := fmt.Sscan(line, &id, &n)
			if err == nil {
				ended[id] = n + 1
			}
			return err
		})
		db := openDB(t, filepath.Join(dir, "hardshell.db"))
		s := serve(t, db, Options{})
		open := claims(t, s)
		if n := count(t, db, `SELECT COUNT(*) FROM conversation_turn`); n != len(open) {
			t.Errorf("round %d: %d turns are open, of %d responses that go on", round, n, len(open))
		}
		for _, c := range open {
			announce(t, c.Run)
			finish(t, c.Run, openai.Completed)
		}
		for id, n := range ended {
			got := strings.Fields(said(t, s, id))
			var want []string
			for at := 0; at < n || len(want) < len(got); at++ {
				if want = append(want, fmt.Sprint("in", at)); at < n || len(want) < len(got) {
					want = append(want, fmt.Sprint("out", at)) // of the one that was killed there may be no output
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("round %d: %d responses have ended, and the conversation has %q", round, n, got)
			}
			if extra := len(got) - 2*n; extra > 2*2 { // one whose line was not read, and the one that was killed
				t.Errorf("round %d: %d responses have ended, and the conversation has %d items", round, n, len(got))
			}
		}
		if n := count(t, db, `SELECT COUNT(*) FROM conversation_turn`); n != 0 {
			t.Errorf("round %d: %d turns are open at the end", round, n)
		}
		if err := s.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
