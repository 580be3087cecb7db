package agent

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// release writes the closing events of the finished message that is held back. Its citations, by content index, come
// first: each before the end of the text that it stands in, and again in the part and the item.
func (t *turn) release(notes map[int][]openai.Annotation) {
	n := t.held
	if n == nil {
		return
	}
	t.held = nil
	var events []openai.Event
	for _, ev := range n.pending {
		switch e := ev.(type) {
		case *openai.DoneEvent:
			for i, a := range notes[e.ContentIndex] {
				if e.Type != openai.EventTextDone {
					break
				}
				events = append(events, &openai.AnnotationEvent{Head: openai.Head{Type: openai.EventAnnotation},
					ItemID: n.id, OutputIndex: n.index, ContentIndex: e.ContentIndex, AnnotationIndex: i, Annotation: a})
			}
		case *openai.PartEvent:
			e.Part.Annotations = append(e.Part.Annotations, notes[e.ContentIndex]...)
		case *openai.ItemEvent:
			e.Item = annotated(e.Item, notes)
			n.item = e.Item
		}
		events = append(events, ev)
	}
	n.pending = nil
	t.loop.wire.emit(events...)
}

// notes makes the citations of the message that is held back, which is the answer.
func (t *turn) notes(ctx context.Context) map[int][]openai.Annotation {
	if t.held == nil {
		return nil
	}
	return t.loop.citations(ctx, t.held.parts)
}

// final is the message that is held back as it will be with its citations.
func (t *turn) final(notes map[int][]openai.Annotation) *openai.Item {
	if t.held == nil {
		return nil
	}
	t.held.item = annotated(t.held.item, notes)
	return &t.held.item
}

// citations makes the citations of an answer's text parts, by content index.
func (l *loop) citations(ctx context.Context, parts []*part) map[int][]openai.Annotation {
	out := map[int][]openai.Annotation{}
	if len(l.files) == 0 {
		return out
	}
	var texts []string
	var indexes []int
	for _, p := range parts {
		if p.kind == "output_text" {
			texts, indexes = append(texts, p.text.String()), append(indexes, p.index)
		}
	}
	for n, notes := range cite(texts, l.living(ctx, l.files), l.living(ctx, l.recent)) {
		if len(notes) > 0 {
			out[indexes[n]] = notes
		}
	}
	return out
}

// living leaves out files that a later command removed: a citation must be downloadable.
func (l *loop) living(ctx context.Context, files []openai.OutputFile) []openai.OutputFile {
	return slices.DeleteFunc(slices.Clone(files), func(f openai.OutputFile) bool {
		_, err := l.agent.containers.File(ctx, l.plan.principal.Org, f.ContainerID, f.FileID)
		return err != nil
	})
}

// annotated returns a message with citations in its parts. Keys that we don't know stay.
func annotated(i openai.Item, notes map[int][]openai.Annotation) openai.Item {
	if len(notes) == 0 {
		return i
	}
	var m struct{ Content []object }
	if err := i.Decode(&m); err != nil {
		return i
	}
	for n, o := range m.Content {
		if len(notes[n]) == 0 {
			continue
		}
		var have []json.RawMessage
		if present(o["annotations"]) {
			_ = json.Unmarshal(o["annotations"], &have) // not a list: replaced by ours
		}
		for _, a := range notes[n] {
			raw, err := openai.Marshal(a)
			if err == nil {
				have = append(have, raw)
			}
		}
		o.set("annotations", have)
	}
	out, err := withKeys(i, map[string]any{"content": m.Content})
	if err != nil {
		return i
	}
	return out
}

// errNotComplete is why a call of a turn that was not complete is not run.
var errNotComplete = fault.New(fault.Upstream, "The model's turn was not complete; the call was not run.")

// abandon closes what the turn left open, as incomplete, with what there is of it.
func (t *turn) abandon(ctx context.Context) {
	t.release(nil)
	for _, n := range t.entries {
		switch {
		case n.fate == ours && !n.call.closed:
			t.loop.refuse(ctx, n.call, errNotComplete)
		case n.fate == relayedCall && !n.done && n.call.read:
			t.loop.closeCall(n.call, false)
		case n.done, n.fate == refused, n.fate == dropped, n.fate == ours, n.fate == relayedCall, n.fate == patchCall:
		case lentItem(n.typ):
			t.cutLent(n)
		case n.fate == toClient:
			n.item = openai.NewItem(openai.FunctionCall{Type: openai.TypeFunctionCall, ID: n.id, CallID: n.callID,
				Name: n.name, Arguments: n.arguments.String(), Status: openai.Incomplete})
			t.loop.wire.emit(openai.NewItemEvent(openai.EventItemDone, n.index, n.item))
		default:
			t.cutShort(n)
		}
		n.done = true
	}
}

// doneOf names the event that ends a part's text.
var doneOf = map[string]string{"output_text": openai.EventTextDone, "refusal": openai.EventRefusalDone,
	"reasoning_text": openai.EventReasonDone}

// cutShort ends a message or reasoning that the model did not end.
func (t *turn) cutShort(n *entry) {
	pending := n.pending
	n.pending = nil
	var events []openai.Event
	events, n.item = cut(n.typ, n.id, n.index, n.parts, func(content int) bool {
		return slices.ContainsFunc(pending, func(ev openai.Event) bool {
			e, ok := ev.(*openai.DoneEvent)
			return ok && e.ContentIndex == content
		})
	})
	t.loop.wire.emit(append(append(pending, events...), openai.NewItemEvent(openai.EventItemDone, n.index, n.item))...)
}

// cut is a message or reasoning that breaks off, with what there is of it: the events that end its open parts, and the
// item as it ends. told says of a part whether the end of its text was told.
func cut(typ, id string, index int, parts []*part, told func(content int) bool) (events []openai.Event, item openai.Item) {
	content := openai.Content{}
	for _, p := range parts {
		content = append(content, p.whole())
		if p.closed {
			continue
		}
		if !told(p.index) {
			events = append(events, openai.NewDone(doneOf[p.kind], id, index, p.index, p.text.String()))
		}
		if p.opened {
			events = append(events, openai.NewPartEvent(openai.EventPartDone, id, index, p.index, p.whole()))
		}
	}
	if typ == openai.TypeReasoning {
		return events, openai.NewItem(openai.Reasoning{Type: typ, ID: id, Summary: []openai.Part{}, Content: content, Status: openai.Incomplete})
	}
	return events, openai.NewItem(openai.Message{Type: typ, ID: id, Role: "assistant", Status: openai.Incomplete, Content: content})
}

// whole is a part as far as it was written.
func (p *part) whole() openai.Part {
	if p.kind == "refusal" {
		return openai.Part{Type: p.kind, Refusal: p.text.String()}
	}
	return openai.Part{Type: p.kind, Text: p.text.String()}
}

// answered says whether the turn has words for the client.
func (t *turn) answered() bool {
	return slices.ContainsFunc(t.entries, (*entry).words)
}

// words says whether an entry is a message that says something.
func (n *entry) words() bool {
	return n.said || n.typ == openai.TypeMessage && slices.ContainsFunc(n.parts, func(p *part) bool { return p.text.Len() > 0 })
}

// unfinished says whether the provider ended its turn with an item still open.
func (t *turn) unfinished() bool {
	return slices.ContainsFunc(t.entries, func(n *entry) bool { return !n.done })
}

// has says whether a call of the turn has a fate.
func (t *turn) has(f fate) bool {
	return slices.ContainsFunc(t.entries, func(n *entry) bool {
		return n.typ == openai.TypeFunctionCall && n.fate == f
	})
}
