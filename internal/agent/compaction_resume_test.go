package agent

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// steps is how many commands a stepper runs.
const steps = 4

// stepper is a model that runs commands of long output, one after the other, and answers. What comes next it reads from the
// last call that it is shown.
type stepper struct{ *ground }

func (m stepper) Stream(ctx context.Context, r llm.Request) iter.Seq2[openai.Event, error] {
	return func(yield func(openai.Event, error) bool) {
		m.mu.Lock()
		m.asked = append(m.asked, r)
		m.mu.Unlock()
		if ctx.Err() != nil {
			yield(nil, fault.Wrap(fault.Upstream, ctx.Err(), "broken off"))
			return
		}
		next := 0
		for _, i := range r.Items {
			var c openai.FunctionCall
			if i.Type == openai.TypeFunctionCall && i.Decode(&c) == nil {
				fmt.Sscanf(c.Arguments, `{"commands":["step %d"`, &next)
				next++
			}
		}
		t := llm.NewTurn(yield, nil)
		if next < steps {
			t.Call("shell").Write(argumentsOf(fmt.Sprintf("step %d", next)))
		} else {
			t.Text([]byte("Done."))
		}
		t.Complete(nil)
	}
}

func longGround(t testing.TB, o Options) *ground {
	g := newGround(t)
	g.options = o
	g.model = stepper{g}
	for n := range steps {
		command := fmt.Sprintf("step %d", n)
		g.scripts[command] = script{deltas: []container.Delta{{Stdout: strings.Repeat(command+"\n", 500)}}}
	}
	return g
}

// checkLong checks what became of a response on a longGround, however often its server died.
func checkLong(t *testing.T, h *house, id string, deaths int) {
	t.Helper()
	log, resp := h.await(id)
	checkLog(t, log)
	if resp.Status != openai.Completed {
		t.Fatalf("status %s, %+v", resp.Status, resp.Error)
	}
	made := 0
	for _, i := range resp.Output {
		if i.Type != openai.TypeCompaction {
			continue
		}
		made++
		if w, err := opened(h.ground.options.Compaction.Sealer, principal.Org, principal.KeyID, i); err != nil || len(w.Items) == 0 {
			t.Errorf("a compaction of %d items: %v", len(w.Items), err)
		}
	}
	if made < 2 || made > 4+deaths {
		t.Errorf("%d compactions after %d deaths: %s", made, deaths, types(*resp))
	}
	for n := range steps {
		if times := h.ground.started(fmt.Sprintf("step %d", n)); times != 1 {
			t.Errorf("step %d was started %d times", n, times)
		}
	}
	h.ground.mu.Lock()
	defer h.ground.mu.Unlock()
	for n, asked := range h.ground.asked {
		if lost := unpaired(asked); len(lost) > 0 || size(asked)/4 > 3000 {
			t.Errorf("model call %d: unpaired %v, %d tokens", n, lost, size(asked)/4)
		}
	}
}

func TestACompactionOutlivesItsServer(t *testing.T) {
	body := strings.Replace(busyRequest, `"input"`, `"context_management":[{"type":"compaction","compact_threshold":1900}],"input"`, 1)
	o := Options{Compaction: Compaction{Enabled: true, Keep: 2, Sealer: compact.NewSealer()}}
	h := newHouse(t, longGround(t, o))
	first := h.play(t, body)
	checkLong(t, h, first.id, 0)
	log, _ := h.await(first.id)
	for n := range len(log) {
		near := log[max(n-3, 0):min(n+2, len(log))] // what is emitted before and after the n-th event
		if !slices.ContainsFunc(near, func(f response.Frame) bool { return f.Type == openai.EventCompacting }) {
			continue
		}
		t.Run(fmt.Sprintf("after %d", n), func(t *testing.T) {
			h := newHouse(t, longGround(t, o), n)
			checkLong(t, h, h.play(t, body).id, 1)
		})
	}
}
