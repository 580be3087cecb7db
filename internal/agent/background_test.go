package agent

import (
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// slowGround has a command that prints and does not end before release is closed, then an answer.
func slowGround(t testing.TB) (g *ground, release chan struct{}) {
	g, release = newGround(t), make(chan struct{})
	g.scripts = map[string]script{"slow": {deltas: []container.Delta{{Stdout: "on it "}}, release: release}}
	g.rounds[0] = func(t *llm.Turn) {
		t.Call("shell").Write(argumentsOf("slow"))
		t.Complete(usage(1, 1))
	}
	g.rounds[1] = says("Done.")
	return g, release
}

// until waits for something that must become true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// ran says whether the ground has started a script.
func (g *ground) ran(script string) bool {
	return g.started(script) > 0
}

// killed says whether any job was cancelled.
func (g *ground) killed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, j := range g.jobs {
		select {
		case <-j.ended:
			if j.cancelled {
				return true
			}
		default:
		}
	}
	return false
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestCancelEndsTheCommandAndTheLog(t *testing.T) {
	for _, dies := range []bool{false, true} { // the server before it is cancelled
		t.Run(fmt.Sprintf("after a death %v", dies), func(t *testing.T) {
			g, _ := slowGround(t)
			h := newHouse(t, g)
			r := h.play(t, busyRequest)
			until(t, "the command", func() bool { return g.ran("slow") })
			if dies {
				h.open()
			}
			room, _ := h.now()
			for range 2 { // it is idempotent
				resp, err := room.Cancel(within(t), principal.Org, r.id)
				if err != nil || resp.Status != openai.Cancelled {
					t.Fatalf("%+v, %v", resp, err)
				}
			}
			if !g.killed() {
				t.Error("the command was not killed")
			}
			log, resp := h.await(r.id)
			checkLog(t, log)
			if log[len(log)-1].Type != openai.EventIncomplete || resp.Status != openai.Cancelled || g.started("slow") != 1 {
				t.Errorf("%s, %s, started %d times", log[len(log)-1].Type, resp.Status, g.started("slow"))
			}
			if err := room.Delete(within(t), principal.Org, r.id); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDeleteCancelsWhatRuns(t *testing.T) {
	g, _ := slowGround(t)
	h := newHouse(t, g)
	r := h.play(t, busyRequest)
	until(t, "the command", func() bool { return g.ran("slow") })
	room, _ := h.now()
	if err := room.Delete(within(t), principal.Org, r.id); err != nil {
		t.Fatal(err)
	}
	if !g.killed() {
		t.Error("the command was not killed")
	}
	if _, err := room.Get(within(t), principal.Org, r.id); fault.KindOf(err) != fault.NotFound {
		t.Errorf("after it was deleted: %v", err)
	}
}

func TestAServerThatStopsHandsOver(t *testing.T) {
	g, release := slowGround(t)
	h := newHouse(t, g)
	r := h.play(t, busyRequest)
	until(t, "the command", func() bool { return g.ran("slow") })
	room, a := h.now()
	if err := a.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := room.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if !a.HandedOver() || g.killed() {
		t.Fatalf("handed over %v, killed %v", a.HandedOver(), g.killed())
	}
	h.open()
	close(release)
	log, resp := h.await(r.id)
	checkLog(t, log)
	if resp.Status != openai.Completed || g.started("slow") != 1 {
		t.Errorf("%s, started %d times", resp.Status, g.started("slow"))
	}
}

func TestAForegroundResponseGoesOnToo(t *testing.T) {
	g, release := slowGround(t)
	h := newHouse(t, g)
	_, a := h.now()
	r, live, err := a.begin(context.Background(), principal, request(t, `{"model":"m","input":"go","tools":[{"type":"shell"}],"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	go live()
	until(t, "the command", func() bool { return g.ran("slow") })
	h.open()
	close(release)
	log, resp := h.await(r.ID())
	checkLog(t, log)
	if resp.Status != openai.Completed || resp.Background {
		t.Errorf("%s, background %v", resp.Status, resp.Background)
	}
}

func TestALostBoxIsTold(t *testing.T) {
	g, release := slowGround(t)
	defer close(release)
	g.rounds[1] = func(turn *llm.Turn) { turn.Text([]byte("A pity.")); turn.Complete(nil) }
	h := newHouse(t, g)
	r := h.play(t, busyRequest)
	until(t, "the command", func() bool { return g.ran("slow") })
	room, _ := h.now()
	until(t, "its output", func() bool {
		resp, err := room.Get(within(t), principal.Org, r.id)
		return err == nil && len(resp.Output) == 2
	})
	g.mu.Lock()
	g.gone = true
	g.mu.Unlock()
	h.open()
	log, resp := h.await(r.id)
	checkLog(t, log)
	var o openai.ShellCallOutput
	if err := resp.Output[1].Decode(&o); err != nil {
		t.Fatal(err)
	}
	if e := o.Output[0]; e.Receipt.Reason != reasonInterrupted || !strings.Contains(e.Stderr, "can't be found again") || o.Status != openai.Incomplete {
		t.Errorf("%+v", o)
	}
	last := g.asked[len(g.asked)-1].Items
	if text := string(last[len(last)-1].Raw); !strings.Contains(text, "Interrupted") {
		t.Errorf("the model was told %s", text)
	}
	if resp.Status != openai.Completed || g.started("slow") != 1 {
		t.Errorf("%s, started %d times", resp.Status, g.started("slow"))
	}
}

// TestInputFilesSurvive: they are put where the first command finds them, and never again over what it made of them.
func TestInputFilesSurvive(t *testing.T) {
	for at := 1; at < 20; at++ {
		g := newGround(t)
		g.scripts = map[string]script{"ls": {}}
		g.rounds[0] = runs("ls")
		g.rounds[1] = says("Done.")
		h := newHouse(t, g, at)
		data := base64.StdEncoding.EncodeToString([]byte("a,b"))
		r := h.play(t, `{"model":"m","background":true,"tools":[{"type":"shell"}],"input":[{"role":"user","content":[{"type":"input_file","filename":"x.csv","file_data":"`+data+`"}]}]}`)
		log, resp := h.await(r.id)
		checkLog(t, log)
		if resp.Status != openai.Completed || len(g.put) == 0 || g.put[0] != "x.csv=a,b" || g.late > 0 {
			t.Errorf("death after %d: %s, %q, %d after the command", at, resp.Status, g.put, g.late)
		}
	}
}

func TestAThousandInTheBackground(t *testing.T) {
	const workers, all = 50, 1000
	g := newGround(t)
	var running, most atomic.Int64
	g.rounds[0] = func(turn *llm.Turn) {
		for n := running.Add(1); ; {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		turn.Text([]byte("Hello."))
		turn.Complete(usage(1, 1))
		running.Add(-1)
	}
	h := newHouse(t, g)
	room, _ := h.now()
	a := newAgent(responseRoom{room}, g, g, Options{Workers: workers})
	t.Cleanup(func() { a.Close(context.Background()) })
	ids := make(chan string, all)
	var begun sync.WaitGroup
	for range 8 {
		begun.Go(func() {
			for range all / 8 {
				r, live, err := a.begin(context.Background(), principal, request(t, busyRequest))
				if err != nil {
					t.Error(err)
					return
				}
				live()
				ids <- r.ID()
			}
		})
	}
	begun.Wait()
	close(ids)
	n := 0
	for id := range ids {
		n++
		resp, err := room.Wait(within(t), principal.Org, id)
		if err != nil || resp.Status != openai.Completed {
			t.Fatalf("%s: %+v, %v", id, resp, err)
		}
	}
	if n != all || most.Load() > workers {
		t.Errorf("%d responses, %d at once", n, most.Load())
	}
}

func TestAFullCrewTurnsAwayAndCancelsWhatWaits(t *testing.T) {
	g, release := slowGround(t)
	h := newHouse(t, g)
	room, _ := h.now()
	a := newAgent(responseRoom{room}, g, g, Options{Workers: 1, MaxWaiting: 2})
	t.Cleanup(func() { a.Close(context.Background()) })
	var ids []string
	for range 3 {
		r, live, err := a.begin(context.Background(), principal, request(t, busyRequest))
		if err != nil {
			t.Fatal(err)
		}
		live()
		ids = append(ids, r.ID())
		until(t, "the first command", func() bool { return g.ran("slow") })
	}
	if _, _, err := a.begin(context.Background(), principal, request(t, busyRequest)); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("the fourth: %v", err)
	}
	if resp, err := room.Get(within(t), principal.Org, ids[1]); err != nil || resp.Status != openai.Queued {
		t.Errorf("the second: %+v, %v", resp, err)
	}
	resp, err := room.Cancel(within(t), principal.Org, ids[1])
	if err != nil || resp.Status != openai.Cancelled || len(resp.Output) != 0 {
		t.Errorf("the second, cancelled: %+v, %v", resp, err)
	}
	if _, live, err := a.begin(context.Background(), principal, request(t, busyRequest)); err != nil {
		t.Errorf("there is room again: %v", err)
	} else {
		live()
	}
	close(release)
	if resp, err := room.Wait(within(t), principal.Org, ids[2]); err != nil || resp.Status != openai.Completed {
		t.Errorf("the third: %+v, %v", resp, err)
	}
}

func TestAWaitingResponseIsHandedOverToo(t *testing.T) {
	g, release := slowGround(t)
	h := newHouse(t, g)
	room, old := h.now()
	old.Close(within(t)) // of another test's size
	a := newAgent(responseRoom{room}, g, g, Options{Workers: 1})
	var ids []string
	for range 3 {
		r, live, err := a.begin(context.Background(), principal, request(t, busyRequest))
		if err != nil {
			t.Fatal(err)
		}
		live()
		ids = append(ids, r.ID())
	}
	until(t, "the first command", func() bool { return g.ran("slow") })
	if err := a.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := room.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	h.open()
	close(release)
	for _, id := range ids {
		log, resp := h.await(id)
		checkLog(t, log)
		if resp.Status != openai.Completed {
			t.Errorf("%s: %s", id, resp.Status)
		}
	}
	if g.started("slow") != 3 {
		t.Errorf("%d commands for three responses", g.started("slow"))
	}
}

func TestAKeyBeginsOnce(t *testing.T) {
	g := newGround(t)
	g.rounds[0] = says("Hi.")
	h := newHouse(t, g)
	room, a := h.now()
	for _, store := range []string{"true", "false"} {
		body := `{"model":"m","input":"go","store":` + store + `}`
		req := request(t, body)
		req.Key, req.Digest = "k-"+store, "d1"
		var won, lost atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				mine := *req
				_, live, err := a.begin(context.Background(), principal, &mine)
				if f, ok := fault.As(err); ok && f.Code == response.CodeKeyTaken {
					lost.Add(1)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				won.Add(1)
				live()
			})
		}
		wg.Wait()
		if won.Load() != 1 || lost.Load() != 7 {
			t.Errorf("store %s: %d began", store, won.Load())
		}
		id, err := room.Keyed(within(t), principal.Org, req.Key, "d1")
		if store == "true" {
			if err != nil || id == "" {
				t.Errorf("%q, %v", id, err)
			}
		} else if fault.KindOf(err) != fault.Conflict {
			t.Errorf("not stored: %q, %v", id, err)
		}
		if _, err := room.Keyed(within(t), principal.Org, req.Key, "d2"); fault.KindOf(err) != fault.Invalid {
			t.Errorf("another body: %v", err)
		}
		if id, err := room.Keyed(within(t), "another", req.Key, "d1"); id != "" || err != nil {
			t.Errorf("another organisation: %q, %v", id, err)
		}
	}
}

func TestAFullDiskEndsTheCommandAndIsToldOnce(t *testing.T) {
	g, release := slowGround(t)
	defer close(release)
	h := newHouse(t, g)
	limit := func(pages string) {
		if err := h.db.Write(within(t), func(tx *sql.Tx) error { _, err := tx.Exec(`PRAGMA max_page_count = ` + pages); return err }); err != nil {
			t.Error(err)
		}
	}
	var noise strings.Builder // what does not compress
	for i := range 20_000 {
		fmt.Fprintf(&noise, "%x", i*i*7919)
	}
	slow := g.scripts["slow"]
	slow.hook = func() { limit("1") } // as large as it is now
	slow.deltas = []container.Delta{{Stdout: noise.String()}}
	g.scripts["slow"] = slow
	r := h.play(t, busyRequest)
	room, _ := h.now()
	resp, err := room.Wait(within(t), principal.Org, r.id)
	if err != nil || resp.Status != openai.Failed || resp.Error == nil || !strings.Contains(resp.Error.Message, "stored") {
		t.Fatalf("%+v, %v", resp, err)
	}
	if !g.killed() {
		t.Error("the command was not killed")
	}
	limit("1000000000")
	if err := room.Close(within(t)); err != nil { // what was not stored is, now that there is room
		t.Fatal(err)
	}
	h.open()
	log, resp := h.await(r.id)
	checkLog(t, log)
	if resp.Status != openai.Failed {
		t.Errorf("%s", resp.Status)
	}
}

// TestAPausedOwnerCanNeitherWriteNorStart pauses a server after its turn is on record and before its command.
func TestAPausedOwnerCanNeitherWriteNorStart(t *testing.T) {
	g := newGround(t)
	g.scripts = map[string]script{"a": {deltas: []container.Delta{{Stdout: "once"}}}}
	g.rounds[0] = runs("a")
	g.rounds[1] = says("Done.")
	h := newHouse(t, g)
	g.onExec = func() {
		h.open()
		until(t, "the new owner's command", func() bool { return g.ran("a") })
	}
	r := h.play(t, busyRequest)
	log, resp := h.await(r.id)
	checkLog(t, log)
	until(t, "the old owner's refusal", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.refused > 0
	})
	if resp.Status != openai.Completed || g.started("a") != 1 {
		t.Errorf("%s, started %d times", resp.Status, g.started("a"))
	}
	again, _ := h.await(r.id)
	if len(again) != len(log) {
		t.Errorf("the log has grown from %d to %d events", len(log), len(again))
	}
}

func TestWhatCannotBeGoneOnWithIsStopped(t *testing.T) {
	g, _ := slowGround(t)
	h := newHouse(t, g)
	r := h.play(t, busyRequest)
	until(t, "the command", func() bool { return g.ran("slow") })
	g.mu.Lock()
	g.unknown = map[string]bool{"m": true}
	g.mu.Unlock()
	h.open()
	log, resp := h.await(r.id)
	checkLog(t, log)
	if resp.Status != openai.Failed || resp.Error == nil || resp.Error.Code != "model_not_found" || !g.killed() {
		t.Errorf("%s, %+v, killed %v", resp.Status, resp.Error, g.killed())
	}
}
