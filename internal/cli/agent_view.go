package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/shellcall"
	tools "github.com/hardshell-dev/hardshell/terminal"
)

// agentView shows an agent's turn: the model's text on stdout, its commands and their receipts on stderr. With --json stdout
// has an object per line instead.
type agentView struct {
	mu sync.Mutex
	*view
	p       *program
	c       agentCommand
	sandbox sandbox.Policy
	boxes   *watchedBoxes
	keys    *keyboard
	lines   *json.Encoder // nil without --json
	decode  map[place]*[3]process.Decoder
	told    string // the text of the responses so far
	ids     string // the last response's
}

func newAgentView(p *program, c agentCommand) *agentView {
	v := &agentView{view: newView(p, c.JSON), p: p, c: c, boxes: &watchedBoxes{}, keys: &keyboard{}, decode: map[place]*[3]process.Decoder{}}
	if c.JSON {
		v.lines = json.NewEncoder(p.Out)
		v.lines.SetEscapeHTML(false)
	}
	return v
}

// say writes a line of our own.
func (v *agentView) say(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.view.say(text)
}

func (v *agentView) note(text string) { v.say("hardshell: " + text + "\n") }

// line writes an object of --json; v.mu is held.
func (v *agentView) line(object map[string]any) {
	if v.lines != nil {
		v.lines.Encode(object) // a reader who is gone ends us by SIGPIPE
	}
}

// watch shows a response's stream.
func (v *agentView) watch(ctx context.Context, stream interface{ Read([]byte) (int, error) }) error {
	v.final, v.calls, v.byCall = nil, map[int][]string{}, map[string]int{}
	return v.view.watch(ctx, stream)
}

// response tells of a response that has ended.
func (v *agentView) response() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ids = v.final.ID
	var text strings.Builder
	for _, item := range v.final.Output {
		var m openai.Message
		if item.Type == openai.TypeMessage && item.Decode(&m) == nil {
			text.WriteString(m.Content.Text())
		}
	}
	v.told = text.String()
	v.line(map[string]any{"type": "response", "id": v.final.ID, "model": v.final.Model, "status": v.final.Status, "text": v.told})
}

// end is the last line of --json.
func (v *agentView) end(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	object := map[string]any{"type": "end", "status": "completed", "id": v.ids, "text": v.told}
	if err != nil {
		object["status"], object["error"] = "failed", err.Error()
	}
	v.line(object)
}

// tick shows how long something goes on, until it is stopped.
func (v *agentView) tick(what string) (stop func()) {
	v.mu.Lock()
	v.progress.start(what)
	v.mu.Unlock()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for {
			select {
			case <-over:
				return
			case <-clock.C:
				v.mu.Lock()
				if !v.outColumn && !v.errColumn {
					v.progress.show()
				}
				v.mu.Unlock()
			}
		}
	}()
	return func() {
		close(over)
		<-ended
		v.mu.Lock()
		v.progress.clear()
		v.mu.Unlock()
	}
}

// Observe shows what the executor does.
func (v *agentView) Observe(event shellcall.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := event.(type) {
	case shellcall.Begun:
		at := place{e.CallID, e.Index}
		v.command(e.CallID, e.Index, e.Command)
		v.decode[at] = &[3]process.Decoder{}
		v.begin(at)
		v.line(map[string]any{"type": "command", "call_id": e.CallID, "index": e.Index, "command": e.Command})
	case shellcall.Printed:
		at := place{e.CallID, e.Index}
		v.printed(at, e.Stream, v.decode[at][e.Stream].Write(e.Data))
	case shellcall.Ended:
		v.ended(e)
	case shellcall.Patched:
		v.patched(e)
	}
}

// command knows a command for its line; the stream may not have told it.
func (v *agentView) command(call string, index int, command string) {
	at, ok := v.byCall[call]
	if !ok {
		at = -1 - len(v.byCall)
		v.byCall[call] = at
	}
	for len(v.calls[at]) <= index {
		v.calls[at] = append(v.calls[at], "…")
	}
	v.calls[at][index] = command
}

func (v *agentView) printed(at place, stream int, text string) {
	if text == "" {
		return
	}
	v.begin(at)
	v.print(v.screens[at], text)
	name := "stdout"
	if stream == process.Stderr {
		name = "stderr"
	}
	v.line(map[string]any{"type": "output", "call_id": at.call, "index": at.command, "stream": name, "text": text})
}

// ended shows a command's receipt, which is that of `hardshell run`.
func (v *agentView) ended(e shellcall.Ended) {
	at := place{e.CallID, e.Index}
	for stream := range v.decode[at] {
		v.printed(at, stream, v.decode[at][stream].Flush())
	}
	delete(v.decode, at)
	v.begin(at)
	for _, n := range e.Notes {
		if e.Denial == nil || n != e.Denial.String()+"." { // the receipt has it
			v.view.say("hardshell: " + visible(n) + "\n")
		}
	}
	object := map[string]any{"type": "receipt", "call_id": e.CallID, "index": e.Index, "command": e.Command, "outcome": e.Outcome}
	if e.Refused != "" {
		object["refused"] = e.Refused
		v.view.say(fmt.Sprintf("hardshell: not run · exit %d\n", e.Exit.Code))
	} else {
		run := runCommand{Sandbox: v.sandbox.Mode.String(), Network: v.sandbox.Network.String()}
		if e.Outside {
			run.Sandbox, run.Network = sandbox.DangerFullAccess.String(), sandbox.NetworkFull.String()
		}
		r := run.account(e.Exit, e.Report, 0)
		r.Cancelled, r.Denial, r.Removed = e.Exit.Cancelled, e.Denial, v.boxes.removed()
		v.progress.clear()
		v.endLines()
		r.write(v.p, false)
		object["receipt"] = r
	}
	v.line(object)
	v.at = place{}
}

func (v *agentView) patched(e shellcall.Patched) {
	v.view.say("» " + visible(e.Operation.Type+" "+e.Operation.Path) + "\n")
	if v.lines == nil && e.Output.Status == shellcall.PatchCompleted && e.Operation.Diff != "" {
		shown := &screen{}
		v.print(shown, strings.TrimSuffix(e.Operation.Diff, "\n")+"\n")
	}
	v.view.say("hardshell: " + visible(e.Output.Output) + "\n")
	v.line(map[string]any{"type": "patch", "call_id": e.CallID, "operation": e.Operation.Type, "path": e.Operation.Path, "status": e.Output.Status,
		"output": e.Output.Output, "added": e.Added, "removed": e.Removed})
}

// Approve asks at the terminal that we were started from. What else would be shown waits meanwhile.
func (v *agentView) Approve(ctx context.Context, r tools.ApprovalRequest) (tools.Review, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress.clear()
	v.endLines()
	a, err := v.keys.asker(ctx)
	if err != nil {
		return tools.Review{}, err
	}
	review, err := a.Approve(ctx, r)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(a.out)
		err = context.Cause(ctx)
	}
	return review, err
}

// watchedBoxes are the sandboxes of a turn, which say what they took away.
type watchedBoxes struct {
	tools.LocalBackend
	mu    sync.Mutex
	boxes []*sandbox.Box
	told  []string
}

// Open opens a box and remembers it.
func (w *watchedBoxes) Open(ctx context.Context, spec tools.PlaceSpec) (tools.Place, error) {
	opened, err := w.LocalBackend.Open(ctx, spec)
	if box, ok := opened.(*sandbox.Box); ok && err == nil {
		w.mu.Lock()
		w.boxes = append(w.boxes, box)
		w.mu.Unlock()
	}
	return opened, err
}

// removed are the files that were taken away since it was asked last.
func (w *watchedBoxes) removed() (fresh []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, box := range w.boxes {
		for _, path := range box.Removed() {
			if !slices.Contains(w.told, path) {
				w.told, fresh = append(w.told, path), append(fresh, path)
			}
		}
	}
	return fresh
}

var errNoLine = errors.New("the question was withdrawn")
