package response

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// crashDir names the data folder of a child that this test binary plays (TestKillLosesNothingThatAReaderHasSeen).
const crashDir = "HARDSHELL_TEST_CRASH_DIR"

// children are the parts that this test binary plays until it is killed.
var children = map[string]func(*Service){crashDir: emitUntilKilled, talkDir: talkUntilKilled}

func TestMain(m *testing.M) {
	for name, play := range children {
		if dir := os.Getenv(name); dir != "" {
			db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(dir, "hardshell.db")})
			ensure(err)
			s, err := New(context.Background(), Options{DB: db})
			ensure(err)
			play(s)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// ensure ends a child that cannot go on.
func ensure(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kill has a child play a part on a data folder, reads its lines, and kills it after some of them.
func kill(t testing.TB, part, dir string, after int, read func(line string) error) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), part+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for scan := bufio.NewScanner(out); scan.Scan(); lines++ {
		if read(scan.Text()) != nil {
			break // the line in which the child was killed
		}
		if lines == after {
			child.Process.Kill()
		}
	}
	child.Wait()
	if lines < after {
		t.Fatalf("the child ended by itself after %d lines", lines)
	}
}

// word is the delta that a crash child emits as event seq of its run.
func word(run int, seq int64) string { return fmt.Sprintf("run %d event %d", run, seq) }

// emitUntilKilled runs eight background responses and prints every event that a reader has seen.
func emitUntilKilled(s *Service) {
	ctx := context.Background()
	var mu sync.Mutex
	out := bufio.NewWriterSize(os.Stdout, 256)
	var wg sync.WaitGroup
	for n := range 8 {
		r, err := s.Begin(ctx, Begin{Org: org, Store: true, Background: true})
		ensure(err)
		ensure(r.Announce())
		wg.Go(func() {
			for seq := int64(3); ; seq++ {
				ensure(r.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, word(n, seq))))
				if seq%20 == 0 {
					ensure(r.Sync(ctx)) // otherwise there are millions before the kill
				}
			}
		})
		wg.Go(func() {
			sub := r.Subscribe(-1)
			for {
				frames, err := sub.Next(ctx)
				ensure(err)
				mu.Lock()
				fmt.Fprintln(out, n, r.ID(), frames[len(frames)-1].Seq)
				out.Flush()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestKillLosesNothingThatAReaderHasSeen(t *testing.T) {
	dir := t.TempDir()
	for round := range 4 {
		seen, names := map[string]int64{}, map[string]int{}
		kill(t, crashDir, dir, 1+rand.IntN(1500), func(line string) error {
			var n int
			var id string
			var seq int64
			_, err := fmt.Sscan(line, &n, &id, &seq)
			if err == nil {
				seen[id], names[id] = seq, n
			}
			return err
		})
		db := openDB(t, filepath.Join(dir, "hardshell.db"))
		s := serve(t, db, Options{})
		early := map[string]*Subscription{} // readers that come before anybody goes on
		for id := range seen {
			sub, err := s.Subscribe(within(t), org, id, -1)
			if err != nil {
				t.Fatal(err)
			}
			early[id] = sub
		}
		for _, c := range claims(t, s) {
			seq := c.Run.ring.end()
			if last, known := seen[c.Run.ID()]; known && last >= seq {
				t.Errorf("round %d: %s goes on at %d; a reader has seen %d", round, c.Run.ID(), seq, last)
			}
			announce(t, c.Run) // the child may have died before it had said so
			say(t, c.Run, word(names[c.Run.ID()], max(seq, 3)))
			finish(t, c.Run, openai.Completed)
		}
		for id, seq := range seen {
			log := drain(t, early[id])
			wantLog(t, log, 0)
			sameFrames(t, stored(t, s, id), log)
			end := log[len(log)-1]
			if end.Type != openai.EventCompleted || end.Seq <= seq {
				t.Errorf("round %d: %s ends with %s at %d; a reader has seen %d", round, id, end.Type, end.Seq, seq)
			}
			for _, f := range log[3 : len(log)-1] {
				var ev openai.DeltaEvent
				if err := json.Unmarshal(f.Data, &ev); err != nil || ev.Delta != word(names[id], f.Seq) {
					t.Fatalf("round %d: %s event %d is %s (%v)", round, id, f.Seq, f.Data, err)
				}
			}
			resp, err := s.Get(within(t), org, id)
			if err != nil || resp.Status != openai.Completed {
				t.Errorf("round %d: %s is %+v, %v", round, id, resp, err)
			}
		}
		if err := s.Close(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t testing.TB, db *store.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.Read().QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// claims takes everything that waits.
func claims(t testing.TB, s *Service) map[string]*Claim {
	t.Helper()
	all := map[string]*Claim{}
	for {
		c, err := s.Claim(within(t), false)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			return all
		}
		all[c.Run.ID()] = c
	}
}

func TestAClaimHasTheWholeOutput(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	old := serve(t, db, Options{})
	for _, words := range []int{3, 3000} { // the log in segments only; most of it in blocks
		r := begin(t, old, Begin{Store: true})
		r.SetContainer("cntr_1")
		announce(t, r)
		message := func(status string) openai.Item {
			return openai.NewItem(openai.Message{Type: openai.TypeMessage, ID: "msg_" + status, Role: "assistant", Status: status})
		}
		emit := func(ev openai.Event) {
			if err := r.Emit(ev); err != nil {
				t.Fatal(err)
			}
		}
		emit(openai.NewItemEvent(openai.EventItemAdded, 0, message(openai.InProgress)))
		emit(openai.NewItemEvent(openai.EventItemDone, 0, message(openai.Completed)))
		emit(openai.NewItemEvent(openai.EventItemAdded, 2, message(openai.InProgress)))
		for i := range words {
			say(t, r, fmt.Sprint(i))
		}
		if err := r.Sync(within(t)); err != nil {
			t.Fatal(err)
		}
		s := serve(t, db, Options{})
		c := claims(t, s)[r.ID()]
		if c == nil {
			t.Fatal("there is no claim")
		}
		if open := c.Run.Output(); len(open) != 2 || open[1].Status != openai.InProgress {
			t.Errorf("%d words: claimed with %+v", words, open)
		}
		if err := c.Run.Announce(); err != nil { // it is there already
			t.Fatal(err)
		}
		finish(t, c.Run, openai.Failed)
		resp, err := s.Get(within(t), org, r.ID())
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.Output) != 2 || resp.Output[0].Status != openai.Completed || resp.Output[1].Status != openai.Incomplete {
			t.Errorf("%d words: output %+v", words, resp.Output)
		}
		if resp.Status != openai.Failed || resp.ContainerID != "cntr_1" || resp.CompletedAt != nil {
			t.Errorf("%d words: %+v", words, resp)
		}
		log := stored(t, s, r.ID())
		wantLog(t, log, 0)
		if len(log) != 2+3+words+1 {
			t.Errorf("%d words: %d events", words, len(log))
		}
		if err := s.Close(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStaleOwnerCanNeitherAppendNorEnd(t *testing.T) {
	db := openDB(t, filepath.Join(t.TempDir(), "hardshell.db"))
	old := serve(t, db, Options{})
	runs := make([]*Run, 3)
	for i := range runs {
		runs[i] = begin(t, old, Begin{Store: true})
		announce(t, runs[i])
		if err := runs[i].Sync(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	appends, ends, waits := runs[0], runs[1], runs[2]
	sub := waits.Subscribe(1)
	fresh := serve(t, db, Options{}) // takes everything over
	for _, c := range claims(t, fresh) {
		finish(t, c.Run, openai.Failed)
	}

	// A response of the old owner that was not taken over goes on beside those that were.
	own := begin(t, old, Begin{Store: true})
	announce(t, own)
	if err := own.Sync(within(t)); err != nil { // a flush of its own, so that the next has only what was checked before
		t.Fatal(err)
	}
	if err := appends.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, "too late")); err != nil {
		t.Fatal(err) // in the foreground the owner learns of it with the flush
	}
	if err := appends.Sync(within(t)); !isConflict(err) {
		t.Fatalf("append: %v, want fault.Conflict", err)
	}
	<-appends.Context().Done()
	if cause := context.Cause(appends.Context()); !isConflict(cause) {
		t.Errorf("the context ended with %v", cause)
	}
	if err := appends.Emit(openai.NewDelta(openai.EventTextDelta, "msg_1", 0, 0, "later still")); !isConflict(err) {
		t.Errorf("another append: %v, want fault.Conflict", err)
	}
	for name, r := range map[string]*Run{"lost already": appends, "not told yet": ends, "with a reader": waits} {
		if err := r.Finish(within(t), End{Status: openai.Completed}); !isConflict(err) {
			t.Errorf("end, %s: %v, want fault.Conflict", name, err)
		}
		if _, err := r.Wait(within(t)); !isConflict(err) {
			t.Errorf("wait, %s: %v, want fault.Conflict", name, err)
		}
		log := stored(t, fresh, r.ID())
		wantLog(t, log, 0)
		if len(log) != 3 || log[2].Type != openai.EventFailed {
			t.Errorf("%s: the log has %d events and ends with %s", name, len(log), log[len(log)-1].Type)
		}
	}
	if _, err := sub.Next(within(t)); !isConflict(err) || errors.Is(err, io.EOF) {
		t.Errorf("a reader of the lost run got %v, want the reason", err)
	}
	say(t, own, "still here")
	finish(t, own, openai.Completed)
	sameFrames(t, stored(t, fresh, own.ID()), drain(t, own.Subscribe(-1)))
}
