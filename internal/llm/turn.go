package llm

import (
	"encoding/json"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// slab is how many delta events are allocated at once. Tokens come by the hundred; a slab lives as long as its last
// event, some two kilobytes.
const slab = 16

// Turn writes one model turn as events that keep the law of [Provider.Stream]: it opens items and parts when the
// first piece of them comes, and closes what is open when another kind of item begins or the turn ends. Calls stay
// open until the end, because upstreams interleave them.
//
// Its methods say false once the consumer has broken off; everything after that does nothing. A Turn is for one
// goroutine.
type Turn struct {
	yield func(openai.Event, error) bool
	mint  func(prefix string) string
	gone  bool // the consumer broke off, or the turn has ended

	next   int // output index of the next item
	open   kind
	itemID string
	index  int // output index of the open message or reasoning item
	part   int // content index of the open part
	parts  openai.Content
	text   strings.Builder // of the open part
	calls  []*Call
	deltas []openai.DeltaEvent
	held   []byte              // text that waits, see Hold
	phase  string              // of the next message
	notes  []openai.Annotation // of the open text
	seal   Seal                // of what is kept
	kept   []json.RawMessage   // opaque thinking of the open reasoning item
}

// kind is what the open item is building.
type kind int

const (
	nothing kind = iota
	text
	refusal
	reasoning
)

// NewTurn starts a turn. mint makes ids; nil means [id.New].
func NewTurn(yield func(openai.Event, error) bool, mint func(prefix string) string) *Turn {
	if mint == nil {
		mint = id.New
	}
	return &Turn{yield: yield, mint: mint}
}

// Items is how many output items the turn has opened.
func (t *Turn) Items() int { return t.next }

// maxHeld bounds the text that deltas are put together to.
const maxHeld = 2 << 10

// Hold adds to the answer what may wait for the [Turn.Flush] behind it, so that text that came together costs one event.
func (t *Turn) Hold(b []byte) { t.held = append(t.held, b...) }

// Flush says the text that is held. With more, when the next frame is there already and will be read at once, it may
// wait for that. Text that comes alone is never held. Whatever else is said of the turn flushes it first.
func (t *Turn) Flush(more bool) bool {
	if len(t.held) == 0 || more && len(t.held) < maxHeld {
		return !t.gone
	}
	held := t.held
	t.held = t.held[:0]
	return t.write(text, held)
}

// Drop forgets what is held: another try begins.
func (t *Turn) Drop() { t.held = t.held[:0] }

// End closes the message or reasoning item that is open, so that what follows is an item of its own.
func (t *Turn) End() bool { return t.Flush(false) && t.endItem(openai.Completed) }

// Phase names the phase of the messages that begin from here: commentary, final_answer, or none.
func (t *Turn) Phase(phase string) { t.phase = phase }

// Gone says that nothing more can be said: the consumer has broken off, or the turn has ended.
func (t *Turn) Gone() bool { return t.gone }

// emit hands an event over and notes when nobody wants more.
func (t *Turn) emit(ev openai.Event) bool {
	if t.gone {
		return false
	}
	t.gone = !t.yield(ev, nil)
	return !t.gone
}

// delta makes a delta event out of the slab.
func (t *Turn) delta(typ, itemID string, index, content int, s string) bool {
	if len(t.deltas) == 0 {
		t.deltas = make([]openai.DeltaEvent, slab)
	}
	d := &t.deltas[0]
	t.deltas = t.deltas[1:]
	d.Type, d.ItemID, d.OutputIndex, d.ContentIndex, d.Delta = typ, itemID, index, content, s
	return t.emit(d)
}

// Text adds to the answer. Empty text opens nothing.
func (t *Turn) Text(b []byte) bool { return t.Flush(false) && t.write(text, b) }

// Refusal adds to the words in which the model refuses.
func (t *Turn) Refusal(b []byte) bool { return t.Flush(false) && t.write(refusal, b) }

// Reasoning adds to the model's shown thinking.
func (t *Turn) Reasoning(b []byte) bool { return t.Flush(false) && t.write(reasoning, b) }

// Thinking says whether a reasoning item is open that shows something.
func (t *Turn) Thinking() bool { return t.open == reasoning && t.text.Len() > 0 }

// Keep keeps a block of opaque thinking, as it came, in the reasoning item that is open, or in one that it opens and
// that shows nothing. The item carries what was kept when it is done, under the seal.
func (t *Turn) Keep(s Seal, block json.RawMessage) bool {
	if !t.Flush(false) || t.open != reasoning && !t.begin(reasoning) {
		return false
	}
	t.seal, t.kept = s, append(t.kept, block)
	return !t.gone
}

// write appends b to the part of kind k and emits it. The delta is a substring of the growing text, so that it costs
// no allocation of its own.
func (t *Turn) write(k kind, b []byte) bool {
	if len(b) == 0 {
		return !t.gone
	}
	if t.open != k && !t.begin(k) {
		return false
	}
	start := t.text.Len()
	t.text.Write(b)
	return t.delta(deltaTypes[k], t.itemID, t.index, t.part, t.text.String()[start:])
}

var deltaTypes = [...]string{text: openai.EventTextDelta, refusal: openai.EventRefusalDelta, reasoning: openai.EventReasonDelta}
var doneTypes = [...]string{text: openai.EventTextDone, refusal: openai.EventRefusalDone, reasoning: openai.EventReasonDone}

// begin opens a part of kind k, and an item for it unless the open one can hold it.
func (t *Turn) begin(k kind) bool {
	same := t.open != nothing && (t.open == reasoning) == (k == reasoning)
	if same {
		if !t.endPart() {
			return false
		}
		t.part++
	} else {
		if !t.endItem(openai.Completed) {
			return false
		}
		t.index, t.part, t.parts = t.next, 0, nil
		t.next++
		var item openai.Item
		if k == reasoning {
			t.itemID = t.mint(id.Reasoning)
			item = t.reasoningItem(openai.InProgress)
		} else {
			t.itemID = t.mint(id.Message)
			item = t.messageItem(openai.InProgress)
		}
		if !t.emit(openai.NewItemEvent(openai.EventItemAdded, t.index, item)) {
			return false
		}
	}
	t.open = k
	t.text = strings.Builder{}
	return t.emit(openai.NewPartEvent(openai.EventPartAdded, t.itemID, t.index, t.part, t.partOf("")))
}

// partOf is the open part with the given text.
func (t *Turn) partOf(s string) openai.Part {
	switch t.open {
	case refusal:
		return openai.Part{Type: "refusal", Refusal: s}
	case reasoning:
		return openai.Part{Type: "reasoning_text", Text: s}
	default:
		return openai.Part{Type: "output_text", Text: s, Annotations: t.notes}
	}
}

func (t *Turn) messageItem(status string) openai.Item {
	parts := t.parts
	if parts == nil {
		parts = openai.Content{}
	}
	return openai.NewItem(openai.Message{Type: openai.TypeMessage, ID: t.itemID, Role: "assistant", Status: status, Phase: t.phase, Content: parts})
}

func (t *Turn) reasoningItem(status string) openai.Item {
	r := openai.Reasoning{Type: openai.TypeReasoning, ID: t.itemID, Summary: []openai.Part{}, Content: t.parts, Status: status}
	if len(t.kept) > 0 {
		r.EncryptedContent = t.seal.Close(t.kept)
		t.kept = nil
	}
	return openai.NewItem(r)
}

// endPart closes the open part and remembers it for the item.
func (t *Turn) endPart() bool {
	s := t.text.String()
	part := t.partOf(s)
	t.parts, t.notes = append(t.parts, part), nil
	return t.emit(openai.NewDone(doneTypes[t.open], t.itemID, t.index, t.part, s)) &&
		t.emit(openai.NewPartEvent(openai.EventPartDone, t.itemID, t.index, t.part, part))
}

// endItem closes the open message or reasoning item, if there is one.
func (t *Turn) endItem(status string) bool {
	if t.open == nothing {
		return !t.gone
	}
	if !t.endPart() {
		return false
	}
	item := t.messageItem
	if t.open == reasoning {
		item = t.reasoningItem
	}
	t.open = nothing
	return t.emit(openai.NewItemEvent(openai.EventItemDone, t.index, item(status)))
}

// Item adds an item that the upstream made and ran, such as a web_search_call, under an id of ours that keeps the prefix
// of its own.
func (t *Turn) Item(item openai.Item) bool {
	t.Flush(false)
	t.endItem(openai.Completed)
	var keys map[string]json.RawMessage
	if item.Decode(&keys) != nil || keys == nil {
		return !t.gone
	}
	prefix, _, ok := strings.Cut(item.ID, "_")
	if !ok || len(prefix) > 8 {
		prefix = id.Item
	}
	keys["id"], _ = openai.Marshal(t.mint(prefix)) // strings always marshal
	index, done := t.next, openai.NewItem(keys)
	t.next++
	if done.Status != "" {
		keys["status"] = json.RawMessage(`"` + openai.InProgress + `"`)
	}
	return t.emit(openai.NewItemEvent(openai.EventItemAdded, index, openai.NewItem(keys))) &&
		t.emit(openai.NewItemEvent(openai.EventItemDone, index, done))
}

// Annotate adds a note to the text that is open, such as a citation of a page.
func (t *Turn) Annotate(note openai.Annotation) bool {
	if t.Flush(false); t.open != text {
		return !t.gone
	}
	t.notes = append(t.notes, note)
	return t.emit(&openai.AnnotationEvent{Head: openai.Head{Type: openai.EventAnnotation}, ItemID: t.itemID, OutputIndex: t.index,
		ContentIndex: t.part, AnnotationIndex: len(t.notes) - 1, Annotation: note})
}

// Call is one function call of the turn, open until the turn ends.
type Call struct {
	turn  *Turn
	item  openai.FunctionCall
	index int
	args  strings.Builder
}

// Call opens a function call. The ids are minted here: the upstream's may be empty, repeated or changing.
func (t *Turn) Call(name string) *Call {
	t.Flush(false)
	t.endItem(openai.Completed)
	c := &Call{turn: t, index: t.next, item: openai.FunctionCall{Type: openai.TypeFunctionCall, ID: t.mint(id.FunctionCall),
		CallID: t.mint(id.Call), Name: name, Status: openai.InProgress}}
	t.next++
	t.calls = append(t.calls, c)
	t.emit(openai.NewItemEvent(openai.EventItemAdded, c.index, openai.NewItem(c.item)))
	return c
}

// Name is the function's name.
func (c *Call) Name() string { return c.item.Name }

// Arguments is the JSON text so far.
func (c *Call) Arguments() string { return c.args.String() }

// Write adds a piece of the arguments.
func (c *Call) Write(piece string) bool {
	if piece == "" {
		return !c.turn.gone
	}
	start := c.args.Len()
	c.args.WriteString(piece)
	return c.turn.delta(openai.EventArgumentsDelta, c.item.ID, c.index, 0, c.args.String()[start:])
}

// end closes the call. A call without arguments has the arguments "{}".
func (c *Call) end(status string) bool {
	if strings.TrimSpace(c.args.String()) == "" && status == openai.Completed {
		c.args.Reset()
		c.Write("{}")
	}
	c.item.Arguments, c.item.Status = c.args.String(), status
	done := openai.NewDone(openai.EventArgumentsDone, c.item.ID, c.index, 0, c.item.Arguments)
	done.Name = c.item.Name
	return c.turn.emit(done) && c.turn.emit(openai.NewItemEvent(openai.EventItemDone, c.index, openai.NewItem(c.item)))
}

// Complete ends the turn as the model wished it. A turn without any item gets an empty message, so that the
// conversation shows that the model had its turn.
func (t *Turn) Complete(usage *openai.Usage) bool {
	if !t.Flush(false) || t.next == 0 && !t.begin(text) {
		return false
	}
	return t.finish(openai.EventCompleted, openai.Completed, openai.Response{Status: openai.Completed, Usage: usage})
}

// Stop ends the turn early for a reason such as [openai.ReasonMaxOutputTokens]. What was open is incomplete.
func (t *Turn) Stop(reason string, usage *openai.Usage) bool {
	t.Flush(false)
	return t.finish(openai.EventIncomplete, openai.Incomplete, openai.Response{Status: openai.Incomplete, Usage: usage,
		IncompleteDetails: &openai.IncompleteDetails{Reason: reason}})
}

// finish closes what is open and sends the one lifecycle event.
func (t *Turn) finish(typ, status string, r openai.Response) bool {
	// Only the last item was cut: a call before it had its last piece.
	itemStatus, cut := openai.Completed, len(t.calls)-1
	if t.open != nothing {
		itemStatus, cut = status, -1
	}
	if !t.endItem(itemStatus) {
		return false
	}
	for i, c := range t.calls {
		s := openai.Completed
		if i == cut {
			s = status
		}
		if !c.end(s) {
			return false
		}
	}
	ok := t.emit(openai.NewLifecycle(typ, r))
	t.gone = true
	return ok
}

// Fail ends the sequence with an error. Items may be left open.
func (t *Turn) Fail(err error) {
	t.Flush(false)
	if !t.gone {
		t.gone = true
		t.yield(nil, err)
	}
}
