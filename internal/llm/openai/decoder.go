package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/sse"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// decoder turns the events of an answer into the events of one turn: the same events under ids and indexes of ours.
type decoder struct {
	turn    *llm.Turn
	server  *upstream.Server
	seal    llm.Seal
	shell   string // the name of our function for the shell
	patch   string // and of that for apply_patch
	hosted  *hosting
	scratch []byte

	open  map[int]*piece // by the upstream's output index
	begun map[place]bool
	end   *final
	done  bool // nothing more is to come
	count int  // events so far
}

// place is where an item of the answer stands, its id and what it is: one that is told twice is still one.
type place struct {
	index   int
	id, typ string
}

// piece is an item of the answer that is being built.
type piece struct {
	typ     string
	call    *llm.Call
	text    int // bytes of text and refusal that were said
	thought int // bytes of thinking that were said
	part    int // index of the summary that was said last
	live    *live
}

// final is the answer as its last event has it.
type final struct {
	Status            string                  `json:"status"`
	Error             json.RawMessage         `json:"error"`
	IncompleteDetails *wire.IncompleteDetails `json:"incomplete_details"`
	Output            json.RawMessage         `json:"output"` // items, which matter only when nothing was streamed
	Usage             *wire.Usage             `json:"usage"`
}

// event is any event of the answer. Which fields matter depends on its type.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        json.RawMessage `json:"delta"`
	Arguments    string          `json:"arguments"`
	CommandIndex int             `json:"command_index"`
	Command      string          `json:"command"`
	Output       json.RawMessage `json:"output"`
	Item         *wire.Item      `json:"item"`
	Annotation   json.RawMessage `json:"annotation"`
	Response     *final          `json:"response"`
}

// Begin implements [upstream.Answer].
func (d *decoder) Begin() {
	d.turn.Drop()
	d.open, d.begun, d.end, d.done, d.count = map[int]*piece{}, map[place]bool{}, nil, false, 0
}

// Said implements [upstream.Answer].
func (d *decoder) Said() bool { return d.turn.Items() > 0 }

// Late says that the answer is over; only the mark of the end may still come.
func (d *decoder) Late() bool { return d.end != nil }

// Over implements [upstream.Answer].
func (d *decoder) Over() bool { return d.done || d.turn.Gone() }

// Gone implements [upstream.Answer].
func (d *decoder) Gone() bool { return d.turn.Gone() }

// Frame implements [upstream.Answer].
func (d *decoder) Frame(f sse.Event, more bool) error {
	err := d.frame(f.Name, f.Data)
	if err == nil {
		d.turn.Flush(more)
	}
	return err
}

func (d *decoder) frame(name string, data []byte) error {
	if index, text, ok := fastText(data, &d.scratch); ok {
		if p := d.open[index]; p != nil {
			d.count++
			p.text += len(text)
			d.turn.Hold(text)
			return nil
		}
	}
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return nil
	case string(data) == "[DONE]":
		d.done = true
		return nil
	}
	d.count++
	if silent(data) {
		return nil
	}
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		if name == "error" {
			return d.server.Told(upstream.ReadError(data))
		}
		return d.server.Unreadable("an event", err)
	}
	if ev.Type == "" {
		ev.Type = name
	}
	return d.event(&ev, data)
}

// silent says whether an event that begins with its type is one that says nothing to us. It is seen before it is decoded, as
// there are five of them in each answer, two with the whole response.
func silent(data []byte) bool {
	rest, ok := bytes.CutPrefix(data, []byte(`{"type":"response.`))
	if !ok {
		return false
	}
	typ, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return false
	}
	switch string(typ) {
	case "created", "queued", "in_progress", "content_part.added", "content_part.done", "output_text.done":
		return json.Valid(data)
	}
	return false
}

// event takes an event. One that says nothing to us, as those of the tools that the upstream runs, is left out: their
// items come whole.
func (d *decoder) event(ev *event, data []byte) error {
	p := d.open[ev.OutputIndex]
	if p == nil { // some servers say deltas of an item that they did not announce
		p = &piece{}
	}
	switch ev.Type {
	case "response.output_item.added":
		if ev.Item == nil {
			return d.server.Broken("began an item without an item")
		}
		return d.added(ev.OutputIndex, *ev.Item)
	case "response.output_item.done":
		if ev.Item == nil {
			return d.server.Broken("ended an item without an item")
		}
		return d.ended(ev.OutputIndex, *ev.Item)
	case "response.output_text.delta":
		d.text(p, word(ev.Delta))
	case "response.refusal.delta":
		d.refusal(p, word(ev.Delta))
	case "response.reasoning_text.delta":
		d.think(p, word(ev.Delta))
	case "response.reasoning_summary_text.delta":
		d.summary(p, ev.SummaryIndex, word(ev.Delta))
	case "response.output_text.annotation.added":
		return d.annotate(ev.Annotation)
	case "response.function_call_arguments.delta":
		if p.call != nil {
			p.call.Write(word(ev.Delta))
		}
	case "response.function_call_arguments.done":
		if p.call != nil && p.call.Arguments() == "" { // they came in one piece
			p.call.Write(ev.Arguments)
		}
	case wire.EventCommandAdded, wire.EventCommandDelta, wire.EventCommandDone, wire.EventOutputDelta, wire.EventOutputDone:
		if p.live != nil {
			p.live.tell(ev)
		}
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if ev.Response == nil {
			return d.server.Broken("ended its answer without an answer")
		}
		d.end = ev.Response
		if d.end.Status == "" {
			d.end.Status = strings.TrimPrefix(ev.Type, "response.")
		}
		if d.end.Status == wire.Failed {
			return d.failure()
		}
	case "error":
		return d.server.Told(upstream.ReadError(data))
	}
	return nil
}

// word reads a delta that is text.
func word(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s) // a delta of another form says nothing
	return s
}

func (d *decoder) text(p *piece, s string) {
	p.text += len(s)
	d.turn.Hold([]byte(s))
}

func (d *decoder) refusal(p *piece, s string) {
	p.text += len(s)
	d.turn.Refusal([]byte(s))
}

func (d *decoder) think(p *piece, s string) {
	p.thought += len(s)
	d.turn.Reasoning([]byte(s))
}

// summary adds to the model's summary of its thinking. Each part is a paragraph.
func (d *decoder) summary(p *piece, index int, s string) {
	if p.thought > 0 && index != p.part && s != "" {
		s = "\n\n" + s
	}
	p.part = index
	d.think(p, s)
}

// annotate passes on notes whose ids mean something outside the upstream.
func (d *decoder) annotate(raw json.RawMessage) error {
	var note wire.Annotation
	switch err := json.Unmarshal(raw, &note); {
	case err == nil && (note.Type == "url_citation" || note.Type == "file_citation"):
		d.turn.Annotate(note)
	case err == nil && note.Type == "container_file_citation" && d.hosted != nil:
		note, err := d.hosted.citation(note)
		if err != nil {
			return err
		}
		d.turn.Annotate(note)
	}
	return nil
}

// added begins an item. Text and thinking open themselves, with their first piece.
func (d *decoder) added(index int, item wire.Item) error {
	at := place{index, item.ID, item.Type}
	if item.ID != "" && d.begun[at] {
		return nil
	}
	d.begun[at] = true
	d.turn.End()
	p := &piece{typ: item.Type}
	d.open[index] = p
	if d.hosted != nil && (item.Type == wire.TypeShellCall || item.Type == wire.TypeShellCallOutput) {
		var err error
		p.live, err = d.hosted.begin(d, item)
		return err
	}
	switch item.Type {
	case wire.TypeMessage:
		if !bytes.Contains(item.Raw, []byte(`"phase"`)) {
			break
		}
		var m wire.Message
		if item.Decode(&m) == nil {
			d.turn.Phase(m.Phase)
		}
	case wire.TypeFunctionCall:
		var f wire.FunctionCall
		if item.Decode(&f) != nil || f.Name == "" {
			return d.server.Broken("sent a function call without a name")
		}
		p.call = d.turn.Call(f.Name)
	case wire.TypeShellCall:
		if d.shell == "" {
			return d.server.Broken("called a shell that it was not given")
		}
		p.call = d.turn.Call(d.shell)
	case wire.TypeApplyPatchCall:
		if d.patch == "" {
			return d.server.Broken("called apply_patch, which it was not given")
		}
		p.call = d.turn.Call(d.patch)
	}
	return nil
}

// ended ends an item. What its deltas did not say is taken from the item itself: some servers send none.
func (d *decoder) ended(index int, item wire.Item) error {
	p := d.open[index]
	if p == nil && item.ID != "" && d.begun[place{index, item.ID, item.Type}] {
		return nil // it has ended before
	}
	if p == nil || p.typ != item.Type {
		if err := d.added(index, item); err != nil {
			return err
		}
		p = d.open[index]
	}
	delete(d.open, index)
	if p.live != nil {
		return p.live.end(d, item)
	}
	switch item.Type {
	case wire.TypeMessage:
		if p.text > 0 {
			break
		}
		var m wire.Message
		if err := item.Decode(&m); err != nil {
			return d.server.Unreadable("a message", err)
		}
		for _, part := range m.Content {
			d.turn.Text([]byte(part.Text))
			d.turn.Refusal([]byte(part.Refusal))
			for _, note := range part.Annotations {
				raw, err := wire.Marshal(note)
				if err == nil {
					err = d.annotate(raw)
				}
				if err != nil {
					return err
				}
			}
		}
	case wire.TypeReasoning:
		return d.reasoned(p, item)
	case wire.TypeFunctionCall:
		var f wire.FunctionCall
		if p.call.Arguments() == "" && item.Decode(&f) == nil {
			p.call.Write(f.Arguments)
		}
		return nil // calls stay open until the end of the turn
	case wire.TypeShellCall:
		var s wire.ShellCall
		if err := item.Decode(&s); err != nil {
			return d.server.Unreadable("a call of the shell", err)
		}
		p.call.Write(ourArguments(s.Action))
		return nil
	case wire.TypeApplyPatchCall:
		var a wire.ApplyPatchCall
		if err := item.Decode(&a); err != nil {
			return d.server.Unreadable("a call of apply_patch", err)
		}
		p.call.Write(patchArguments(a.Operation))
		return nil
	default:
		if !known(item.Type) {
			return d.server.Broken("sent an item of type %q, which is not served here", item.Type)
		}
		d.turn.Item(item)
	}
	if item.Status != wire.Incomplete { // that one is closed by the end of the turn, which says why
		d.turn.End()
	}
	return nil
}

// known says whether an item is one of a tool that the upstream runs, and may be passed on.
func known(typ string) bool {
	switch typ {
	case "web_search_call", "file_search_call", "image_generation_call", "mcp_call", "mcp_list_tools", "mcp_approval_request", wire.TypeCompaction:
		return true
	}
	return false
}

// reasoned ends a reasoning item and seals what must go back.
func (d *decoder) reasoned(p *piece, item wire.Item) error {
	var r wire.Reasoning
	if err := item.Decode(&r); err != nil {
		return d.server.Unreadable("reasoning", err)
	}
	if p.thought == 0 {
		for i, part := range r.Summary {
			d.summary(p, i, part.Text)
		}
		for _, part := range r.Content {
			d.think(p, part.Text)
		}
	}
	if r.EncryptedContent != "" || len(r.Content) > 0 {
		var keys map[string]json.RawMessage
		if item.Decode(&keys) == nil {
			delete(keys, "id") // it means nothing where nothing is stored
			delete(keys, "status")
			if block, err := wire.Marshal(keys); err == nil {
				d.turn.Keep(d.seal, block)
			}
		}
	}
	d.turn.End()
	return nil
}

// Whole takes an answer that came in one piece: a Response, or an error under status 200.
func (d *decoder) Whole(raw []byte) error {
	d.count++
	var object struct {
		Object string `json:"object"`
		final
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return d.server.Unreadable("an answer", err)
	}
	if object.Status == "" && !dialect.Present(object.Output) {
		e := upstream.ReadError(raw)
		if e.Message == "" {
			e.Message = "the answer is JSON and no response"
		}
		return d.server.Told(e)
	}
	d.end = &object.final
	if d.end.Status == wire.Failed {
		return d.failure()
	}
	return nil
}

// failure is the error of an answer that failed.
func (d *decoder) failure() error {
	e := upstream.ReadError(d.end.Error)
	if e == (upstream.ErrorObject{}) {
		e.Message = "it did not say why"
	}
	return d.server.Told(e)
}

// End ends the turn as the answer ended.
func (d *decoder) End() error {
	switch {
	case d.count == 0:
		return d.server.Broken("answered with an empty stream")
	case d.end == nil:
		return d.server.CutShort()
	}
	if d.turn.Flush(false); d.turn.Items() == 0 { // nothing was streamed: the answer has it all
		var items []wire.Item
		if len(d.end.Output) > 0 {
			if err := json.Unmarshal(d.end.Output, &items); err != nil {
				return d.server.Unreadable("an answer", err)
			}
		}
		for i, item := range items {
			if err := d.ended(i, item); err != nil {
				return err
			}
		}
	}
	switch {
	case d.end.Status == wire.Incomplete && d.end.IncompleteDetails != nil && d.end.IncompleteDetails.Reason == wire.ReasonContentFilter:
		d.turn.Stop(wire.ReasonContentFilter, d.end.Usage)
	case d.end.Status == wire.Incomplete:
		d.turn.Stop(wire.ReasonMaxOutputTokens, d.end.Usage)
	case d.end.Status == wire.Completed:
		d.turn.Complete(d.end.Usage)
	default:
		return d.server.Broken("ended its answer as %q", d.end.Status)
	}
	return nil
}
