package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/sse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// view shows one response as its events come: the model's text on stdout, everything else on stderr.
type view struct {
	out, err  io.Writer
	tty       bool // stdout is a terminal: what the model writes must not drive it
	json      bool // the text is part of the JSON that is printed at the end
	clean     plain
	outColumn bool // stdout is in the middle of a line
	errColumn bool
	progress  *progress

	id      string
	model   string
	calls   map[int][]string  // commands by output index
	byCall  map[string]int    // output index by call id
	outputs map[string]string // call id by the id of the output item
	at      place             // whose command's output is being shown
	screens map[place]*screen
	running int // calls whose commands have not all ended
	files   []openai.OutputFile
	final   *openai.Response
}

// place is one command of one call.
type place struct {
	call    string
	command int
}

// screen is what has been shown of one command.
type screen struct {
	plain
	shown bool
}

func newView(p *program, asJSON bool) *view {
	return &view{out: p.Out, err: p.Err, tty: terminal(p.Out), json: asJSON, progress: newProgress(p.Err),
		calls: map[int][]string{}, byCall: map[string]int{}, outputs: map[string]string{}, screens: map[place]*screen{}}
}

// tick is how often the progress line moves.
const tick = 200 * time.Millisecond

// watch shows a stream until its terminal event.
func (v *view) watch(ctx context.Context, stream io.Reader) error {
	type piece struct {
		event sse.Event
		err   error
	}
	pieces := make(chan piece)
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		for reader := sse.NewReader(stream); ; {
			event, err := reader.Next()
			event.Data = bytes.Clone(event.Data) // the reader's buffer is its own again at the next call
			select {
			case pieces <- piece{event, err}:
			case <-gone:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	clock := time.NewTicker(tick)
	defer clock.Stop()
	defer v.progress.clear()
	v.progress.start("thinking")
	for {
		select {
		case <-clock.C:
			if !v.outColumn && !v.errColumn {
				v.progress.show()
			}
		case p := <-pieces:
			if p.err != nil {
				v.endLines()
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if errors.Is(p.err, io.EOF) || v.final != nil {
					return nil
				}
				return fault.Wrap(fault.Unavailable, p.err, "the answer broke off").WithTry("GET /v1/responses/%s, which may know how it ended", v.id)
			}
			if err := v.event(p.event.Data); err != nil {
				v.endLines()
				return err
			}
		}
	}
}

// event shows one event. What it does not know it passes over, as clients must.
func (v *view) event(data []byte) error {
	if string(data) == "[DONE]" || len(data) == 0 {
		return nil
	}
	typ, _, err := openai.Peek(data)
	if err != nil {
		return fault.Wrap(fault.Upstream, err, "the server sends an event that is not JSON")
	}
	switch typ {
	case openai.EventCreated, openai.EventCompleted, openai.EventFailed, openai.EventIncomplete:
		return decode(data, v.lifecycle)
	case openai.EventInProgress:
		return decode(data, v.asks)
	case openai.EventTextDelta, openai.EventRefusalDelta:
		return decode(data, func(e openai.DeltaEvent) { v.text(e.Delta) })
	case openai.EventItemAdded, openai.EventItemDone:
		return decode(data, func(e openai.ItemEvent) { v.item(e) })
	case openai.EventCommandAdded, openai.EventCommandDone:
		return decode(data, v.command)
	case openai.EventOutputDelta:
		return decode(data, v.output)
	case openai.EventOutputDone:
		return decode(data, v.outputDone)
	case "error":
		return streamError(data)
	}
	return nil
}

// decode reads an event and shows it.
func decode[E any](data []byte, show func(E)) error {
	var e E
	if err := json.Unmarshal(data, &e); err != nil {
		return fault.Wrap(fault.Upstream, err, "the server sends an event of an unknown form")
	}
	show(e)
	return nil
}

func streamError(data []byte) error {
	var e struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &e) == nil && e.Error.Message != "" {
		e.Message = e.Error.Message
	}
	return fault.New(fault.Upstream, "the server ended the answer: %s", visible(e.Message))
}

func (v *view) lifecycle(e openai.Lifecycle) {
	v.id, v.model = e.Response.ID, e.Response.Model
	if e.Type != openai.EventCreated {
		v.final = &e.Response
		v.endLines()
	}
}

// text shows the model's words.
func (v *view) text(delta string) {
	if v.json || delta == "" {
		return
	}
	v.progress.clear()
	v.endErr()
	if v.tty {
		delta = v.clean.Text(delta)
	}
	io.WriteString(v.out, delta)
	if delta != "" {
		v.outColumn = !strings.HasSuffix(delta, "\n")
	}
}

// item notes what an item says, and shows a command when it starts.
func (v *view) item(e openai.ItemEvent) {
	switch e.Item.Type {
	case openai.TypeShellCall:
		var call openai.ShellCall
		if e.Item.Decode(&call) != nil {
			return
		}
		v.byCall[call.CallID] = e.OutputIndex
		if len(call.Action.Commands) > 0 {
			v.calls[e.OutputIndex] = call.Action.Commands
		}
	case openai.TypeShellCallOutput:
		var output openai.ShellCallOutput
		if e.Item.Decode(&output) != nil {
			return
		}
		v.outputs[output.ID] = output.CallID
		if e.Type == openai.EventItemAdded {
			v.running++
			v.begin(place{output.CallID, 0})
			v.progress.start("running")
			return
		}
		v.files = append(v.files, output.OutputFiles...)
		if v.running--; v.running <= 0 {
			v.progress.start("thinking")
		}
	case openai.TypeMessage:
		v.progress.start("thinking")
		if e.Type == openai.EventItemDone {
			v.endLines()
		}
	}
}

// commandEvent is shell_call_command.added or .done, as a client reads it.
type commandEvent struct {
	OutputIndex  int    `json:"output_index"`
	CommandIndex int    `json:"command_index"`
	Command      string `json:"command"`
}

// command notes a command, which is on the wire before its call is done and before it starts.
func (v *view) command(e commandEvent) {
	list := v.calls[e.OutputIndex]
	if e.CommandIndex < 0 || e.CommandIndex > len(list) {
		return
	}
	v.calls[e.OutputIndex] = append(list[:e.CommandIndex:e.CommandIndex], e.Command)
}

// begin shows a command's line, once at its start and again when the view comes back to it from another call.
func (v *view) begin(at place) {
	again := v.screens[at] != nil
	if again && v.at == at {
		return
	}
	if !again {
		v.screens[at] = &screen{}
	}
	v.at = at
	v.endLines()
	command := "…"
	if list := v.calls[v.byCall[at.call]]; at.command >= 0 && at.command < len(list) {
		command = strings.TrimRight(list[at.command], "\n")
	}
	mark := "» "
	if again {
		mark = "» (goes on) "
	}
	v.say(mark + strings.ReplaceAll(visible(command), "\n", "\n  ") + "\n")
}

// output shows what a command prints, indented, without what would drive a terminal.
func (v *view) output(e openai.OutputDeltaEvent) {
	at := place{v.outputs[e.ItemID], e.CommandIndex}
	v.begin(at)
	v.print(v.screens[at], e.Delta.Stdout+e.Delta.Stderr)
}

// print writes a piece of a command's output.
func (v *view) print(s *screen, piece string) {
	s.shown = s.shown || piece != ""
	text := s.Text(piece)
	if text == "" {
		return
	}
	v.progress.clear()
	v.endOut()
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		if line == "" {
			continue
		}
		if !v.errColumn {
			b.WriteString("  ")
		}
		b.WriteString(line)
		v.errColumn = !strings.HasSuffix(line, "\n")
	}
	io.WriteString(v.err, b.String())
}

// outputDone shows a command's receipt.
func (v *view) outputDone(e openai.OutputDoneEvent) {
	if len(e.Output) == 0 {
		return
	}
	at := place{v.outputs[e.ItemID], e.CommandIndex}
	v.begin(at)
	if s := v.screens[at]; !s.shown { // a call that never started has its reason here and nowhere else
		v.print(s, e.Output[0].Stdout+e.Output[0].Stderr)
	}
	v.endLines()
	v.say("  " + receiptLine(e.Output[0]) + "\n")
	v.at = place{}
	for next := range v.calls[v.byCall[at.call]] { // commands of a call may run side by side; each has its line by now
		if at := (place{at.call, next}); v.screens[at] == nil {
			v.begin(at)
			break
		}
	}
}

// receiptLine is the account of one command: sandbox, time, exit, bytes.
func receiptLine(o openai.ShellOutput) string {
	end := "time ran out"
	if o.Outcome.ExitCode != nil {
		end = fmt.Sprintf("exit %d", *o.Outcome.ExitCode)
	}
	r := o.Receipt
	if r == nil {
		return "└ " + end
	}
	parts := []string{r.Rung, duration(time.Duration(r.DurationMS) * time.Millisecond), end}
	if r.Rung == "" {
		parts = parts[1:]
	}
	if r.Signal != "" {
		parts = append(parts, r.Signal)
	}
	if r.Reason != "" && r.Reason != "timed_out" {
		parts = append(parts, strings.ReplaceAll(r.Reason, "_", " "))
	}
	parts = append(parts, bytesText(r.StdoutBytes+r.StderrBytes))
	if len(r.Missing) > 0 {
		parts = append(parts, "missing "+strings.Join(r.Missing, ", "))
	}
	return "└ " + visible(strings.Join(parts, " · "))
}

// say writes a line of our own on stderr.
func (v *view) say(text string) {
	v.progress.clear()
	v.endLines()
	io.WriteString(v.err, text)
}

// endLines ends lines that were begun, so that what comes next has its own.
func (v *view) endLines() {
	v.endOut()
	v.endErr()
}

func (v *view) endOut() {
	if v.outColumn {
		io.WriteString(v.out, "\n")
		v.outColumn = false
	}
}

func (v *view) endErr() {
	if v.errColumn {
		io.WriteString(v.err, "\n")
		v.errColumn = false
	}
}
