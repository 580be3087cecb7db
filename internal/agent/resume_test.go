package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// house is a row of servers, one after the other, on one database and one ground. Each server dies as a paused one does:
// it goes on, knows nothing, and must be refused.
type house struct {
	dir    string // of the database
	t      testing.TB
	db     *store.DB
	ground *ground

	mu      sync.Mutex
	room    *response.Service
	agent   *Agent
	asks    *desk // keeps what is asked; nil asks nothing
	servers int
	dieAt   []int // after so many events of a server it is taken over; the first is the first server's
}

func newHouse(t testing.TB, g *ground, dieAt ...int) *house { return openHouse(t, g, nil, dieAt...) }

func openHouse(t testing.TB, g *ground, asks *desk, dieAt ...int) *house {
	dir := t.TempDir()
	db, err := store.Open(context.Background(), store.Options{Path: filepath.Join(dir, "hardshell.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	h := &house{t: t, db: db, dir: dir, ground: g, asks: asks, dieAt: dieAt}
	h.open()
	return h
}

// open opens the next server.
func (h *house) open() {
	room, err := response.New(context.Background(), response.Options{DB: h.db})
	if err != nil {
		h.t.Error(err)
		return
	}
	h.mu.Lock()
	at := 0
	if h.servers < len(h.dieAt) {
		at = h.dieAt[h.servers]
	}
	h.servers++
	h.mu.Unlock()
	o := h.ground.options
	o.Approvals = h.questions()
	a := newAgent(&mortal{responseRoom: responseRoom{room}, house: h, at: at}, h.ground, h.ground, o)
	h.mu.Lock()
	h.room, h.agent = room, a
	h.mu.Unlock()
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		a.cancelAll()
		if err := a.Close(ctx); err != nil {
			h.t.Errorf("close agent: %v", err)
		}
		if err := room.Close(ctx); err != nil {
			h.t.Errorf("close responses: %v", err)
		}
	})
}

func (h *house) now() (*response.Service, *Agent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.room, h.agent
}

// mortal is a server's room of responses, which counts its events and is taken over after the at-th.
type mortal struct {
	responseRoom
	house *house
	at    int

	mu sync.Mutex
	n  int
}

func (m *mortal) Begin(ctx context.Context, b response.Begin) (run, error) {
	r, err := m.Service.Begin(ctx, b)
	if err != nil {
		return nil, err
	}
	return &counted{r, m}, nil
}

func (m *mortal) Claim(ctx context.Context, unwanted bool) (*response.Claim, run, error) {
	c, err := m.Service.Claim(ctx, unwanted)
	if err != nil || c == nil {
		return nil, nil, err
	}
	return c, &counted{c.Run, m}, nil
}

// counted is a run that counts.
type counted struct {
	*response.Run
	room *mortal
}

func (r *counted) Emit(ev openai.Event) error {
	err := r.Run.Emit(ev)
	r.count()
	return err
}

func (r *counted) Announce() error {
	err := r.Run.Announce()
	r.count()
	return err
}

func (r *counted) Finish(ctx context.Context, end response.End) error {
	r.count()
	return r.Run.Finish(ctx, end)
}

func (r *counted) count() {
	r.room.mu.Lock()
	r.room.n++
	dies := r.room.n == r.room.at
	r.room.mu.Unlock()
	if !dies {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Run.Sync(ctx); err != nil { // everything up to here is on the disk, and nothing after it
		r.room.house.t.Errorf("sync: %v", err)
	}
	r.room.house.open()
}

// await returns a response's whole log, read as a client does that comes back after every death, and the response.
func (h *house) await(id string) ([]response.Frame, *openai.Response) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var log []response.Frame
	for ctx.Err() == nil {
		room, _ := h.now()
		sub, err := room.Subscribe(ctx, principal.Org, id, int64(len(log))-1)
		if err != nil {
			h.t.Fatal(err)
		}
		for {
			frames, err := sub.Next(ctx)
			log = append(log, frames...)
			if errors.Is(err, io.EOF) {
				resp, err := room.Get(ctx, principal.Org, id)
				if err != nil {
					h.t.Fatal(err)
				}
				return log, resp
			}
			if err != nil {
				break // taken over, or cut
			}
		}
		sub.Close()
	}
	h.t.Fatalf("the response did not end; %d events", len(log))
	return nil, nil
}

// checkLog checks a log as a client sees it, and returns the whole output of each command as its deltas tell it.
func checkLog(t testing.TB, log []response.Frame) map[string]string {
	t.Helper()
	var frames [][]byte
	printed := map[string]string{}
	for n, f := range log {
		if f.Seq != int64(n) {
			t.Fatalf("event %d has number %d", n, f.Seq)
		}
		frames = append(frames, f.Data)
		if f.Type == openai.EventOutputDelta {
			var d openai.OutputDeltaEvent
			if err := json.Unmarshal(f.Data, &d); err != nil {
				t.Fatal(err)
			}
			printed[fmt.Sprintf("%d.%d", d.OutputIndex, d.CommandIndex)] += d.Delta.Stdout + d.Delta.Stderr
		}
	}
	requireStream(t, frames)
	return printed
}

// busyGround plays a turn with two calls of three commands, a refused call and a text before them, then another call,
// then an answer that cites.
func busyGround(t testing.TB) *ground {
	g := newGround(t)
	g.scripts = map[string]script{
		"a": {deltas: []container.Delta{{Stdout: "a1 "}, {Stdout: "a2 ", Stderr: "e"}, {Stdout: "a3"}}, files: []container.File{file("a.txt", 1)}},
		"b": {deltas: []container.Delta{{Stdout: "b1 "}, {Stdout: "b2"}}, code: 3, files: []container.File{file("b.txt", 2)}},
		"c": {deltas: []container.Delta{{Stderr: "c1 "}, {Stdout: "c2"}}},
		"d": {deltas: []container.Delta{{Stdout: "d1 "}, {Stdout: "d2"}}, files: []container.File{file("out.csv", 3)}},
	}
	g.rounds[0] = func(t *llm.Turn) {
		t.Reasoning([]byte("I think "))
		t.Reasoning([]byte("hard."))
		t.Text([]byte("Let me "))
		t.Text([]byte("look."))
		t.Call("shell").Write(argumentsOf("a", "b"))
		t.Call("nonsense").Write("{}")
		t.Call("shell").Write(argumentsOf("c"))
		t.Complete(usage(10, 5))
	}
	g.rounds[3] = func(t *llm.Turn) {
		t.Call("shell").Write(argumentsOf("d"))
		t.Complete(usage(10, 5))
	}
	g.rounds[4] = func(t *llm.Turn) {
		t.Text([]byte("It is in "))
		t.Text([]byte("out.csv, see there."))
		t.Complete(usage(10, 5))
	}
	return g
}

const busyRequest = `{"model":"m","input":"go","tools":[{"type":"shell"}],"background":true}`

// checkBusy checks what became of a busyRequest, however often its server died.
func checkBusy(t *testing.T, h *house, id string) {
	t.Helper()
	log, resp := h.await(id)
	checkLog(t, log)
	if resp.Status != openai.Completed {
		t.Fatalf("status %s, %+v", resp.Status, resp.Error)
	}
	for _, s := range []string{"a", "b", "c", "d"} {
		if n := h.ground.started(s); n != 1 {
			t.Errorf("command %s was started %d times", s, n)
		}
	}
	// Of the items that are complete there is what there would be without any death.
	var answer string
	var files []string
	cited := false
	outputs := map[string]string{}
	calls, answered := map[string]int{}, map[string]int{}
	commands := map[string][]string{}
	for _, i := range resp.Output {
		switch i.Type {
		case openai.TypeShellCall:
			var c openai.ShellCall
			if err := i.Decode(&c); err != nil {
				t.Fatal(err)
			}
			calls[i.CallID]++
			commands[i.CallID] = c.Action.Commands
		case openai.TypeShellCallOutput:
			answered[i.CallID]++
			var o shellOutput
			if err := i.Decode(&o); err != nil {
				t.Fatal(err)
			}
			if o.FilesPartial {
				t.Errorf("files may be missing in %s", i.Raw)
			}
			for _, f := range o.OutputFiles {
				files = append(files, f.Filename)
			}
			for n, e := range o.Output {
				if o.Status == openai.Completed {
					outputs[commands[i.CallID][n]] += fmt.Sprintf("%s|%s|%d", e.Stdout, e.Stderr, *e.Outcome.ExitCode)
				}
			}
		case openai.TypeMessage:
			var m openai.Message
			if err := i.Decode(&m); err != nil {
				t.Fatal(err)
			}
			if i.Status == openai.Completed {
				answer = m.Content.Text()
				cited = strings.Contains(string(i.Raw), `"filename":"out.csv"`)
			}
		}
	}
	for callID := range calls {
		if calls[callID] != 1 || answered[callID] != 1 {
			t.Errorf("call %s: %d calls, %d outputs", callID, calls[callID], answered[callID])
		}
	}
	for script, want := range map[string]string{"a": "a1 a2 a3|e|0", "b": "b1 b2||3", "c": "c2|c1 |0", "d": "d1 d2||0"} {
		if outputs[script] != want {
			t.Errorf("output of %s: %q, want %q", script, outputs[script], want)
		}
	}
	if answer != "It is in out.csv, see there." || !cited {
		t.Errorf("answer %q, the file cited %v", answer, cited)
	}
	if slices.Sort(files); !slices.Equal(files, []string{"a.txt", "b.txt", "out.csv"}) {
		t.Errorf("files %q", files)
	}
	checkPrinted(t, log, resp, commands)
	h.ground.mu.Lock()
	last := slices.MaxFunc(h.ground.asked, func(a, b llm.Request) int { return len(a.Items) - len(b.Items) }) // a dead server may ask, too
	h.ground.mu.Unlock()
	var told bytes.Buffer
	for _, i := range last.Items {
		told.Write(i.Raw)
	}
	for _, want := range []string{"a1 a2 a3", "b1 b2", "c2", "d1 d2", "no function named nonsense", "Let me look."} {
		if !bytes.Contains(told.Bytes(), []byte(want)) {
			t.Errorf("the model was not told %q: %s", want, told.Bytes())
		}
	}
}

// checkPrinted checks that the deltas of every command that ran add up to all that it printed, once.
func checkPrinted(t *testing.T, log []response.Frame, resp *openai.Response, commands map[string][]string) {
	t.Helper()
	whole := map[string]string{"a": "a1 a2 ea3", "b": "b1 b2", "c": "c1 c2", "d": "d1 d2"}
	for at, text := range checkLog(t, log) {
		var index, n int
		fmt.Sscanf(at, "%d.%d", &index, &n)
		script := commands[resp.Output[index].CallID][n]
		if text != whole[script] {
			t.Errorf("the deltas of %s are %q", script, text)
		}
	}
}

func TestAServerMayDieAnywhere(t *testing.T) {
	// How many events there are when nobody dies.
	h := newHouse(t, busyGround(t))
	events := h.play(t, busyRequest)
	checkBusy(t, h, events.id)
	log, _ := h.await(events.id)
	for n := 1; n <= len(log)+1; n++ {
		t.Run(fmt.Sprintf("after %d", n), func(t *testing.T) {
			h := newHouse(t, busyGround(t), n)
			checkBusy(t, h, h.play(t, busyRequest).id)
		})
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		deaths := []int{1 + random.IntN(len(log)), 1 + random.IntN(20), 1 + random.IntN(10), 1 + random.IntN(10)}
		t.Run(fmt.Sprintf("after %d, seed %d", deaths, seed), func(t *testing.T) {
			h := newHouse(t, busyGround(t), deaths...)
			checkBusy(t, h, h.play(t, busyRequest).id)
		})
	}
}

// started is a response that was created.
type started struct{ id string }

// play creates a response with the present server.
func (h *house) play(t testing.TB, body string) started {
	t.Helper()
	_, a := h.now()
	r, live, err := a.begin(context.Background(), principal, request(t, body))
	if err != nil {
		t.Fatal(err)
	}
	live()
	return started{r.ID()}
}
