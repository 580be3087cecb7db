// Package providertest is the suite that every llm.Provider passes: the law of Stream, and the behaviour that the
// agent builds on. Tests only.
package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Answer is one turn, gathered.
type Answer struct {
	Events []openai.Event
	Items  []openai.Item // of output_item.done, by output index
	Final  *openai.Response
	Err    error
	Hosted bool // the request left the shell to the upstream
}

// Text joins the text of all messages.
func (a Answer) Text() string {
	var b strings.Builder
	for _, item := range a.Items {
		var m openai.Message
		if item.Type == openai.TypeMessage && item.Decode(&m) == nil {
			b.WriteString(m.Content.Text())
		}
	}
	return b.String()
}

// Thinking joins the text of all reasoning items.
func (a Answer) Thinking() string {
	var b strings.Builder
	for _, item := range a.Items {
		var r openai.Reasoning
		if item.Type == openai.TypeReasoning && item.Decode(&r) == nil {
			b.WriteString(openai.Content(r.Content).Text())
		}
	}
	return b.String()
}

// Calls are the function calls, in order.
func (a Answer) Calls() []openai.FunctionCall {
	var calls []openai.FunctionCall
	for _, item := range a.Items {
		var f openai.FunctionCall
		if item.Type == openai.TypeFunctionCall && item.Decode(&f) == nil {
			calls = append(calls, f)
		}
	}
	return calls
}

// Collect asks for a turn, gathers it and fails the test when the law is broken.
func Collect(t testing.TB, ctx context.Context, p llm.Provider, r llm.Request) Answer {
	t.Helper()
	a := Answer{Hosted: r.Hosted != nil}
	for ev, err := range p.Stream(ctx, r) {
		if a.Err != nil {
			t.Fatalf("the sequence went on after its error %v", a.Err)
		}
		if err != nil {
			if ev != nil {
				t.Errorf("an event and an error came together: %s, %v", ev.EventType(), err)
			}
			a.Err = err
			continue
		}
		a.Events = append(a.Events, ev)
	}
	if err := a.Judge(); err != nil {
		t.Errorf("the law of Stream is broken: %v\n%s", err, Dump(a.Events))
	}
	return a
}

// Dump writes events as lines of JSON, for people.
func Dump(events []openai.Event) string {
	var b []byte
	for _, ev := range events {
		b, _ = openai.AppendEvent(b, ev)
		b = append(b, '\n')
	}
	return string(b)
}

// state is an item between its added and its done.
type state struct {
	item    openai.Item
	done    bool
	text    strings.Builder // of the open part, or the arguments
	parts   []string
	inPart  bool
	sawDone bool // the closing event of the text has come
}

// Judge checks the law over Events and Err, and gathers Items and Final.
func (a *Answer) Judge() error {
	var items []*state
	ids := map[string]bool{}
	at := func(index int, itemID string) (*state, error) {
		if index < 0 || index >= len(items) {
			return nil, fmt.Errorf("output index %d was not added", index)
		}
		s := items[index]
		if s.done {
			return nil, fmt.Errorf("item %d is done already", index)
		}
		if itemID != s.item.ID {
			return nil, fmt.Errorf("item %d is %s, the event says %s", index, s.item.ID, itemID)
		}
		return s, nil
	}
	for n, ev := range a.Events {
		if a.Final != nil {
			return fmt.Errorf("event %d (%s) comes behind the lifecycle event", n, ev.EventType())
		}
		var s *state
		var err error
		switch ev := ev.(type) {
		case *openai.ItemEvent:
			if ev.Type == openai.EventItemAdded {
				if ev.OutputIndex != len(items) {
					return fmt.Errorf("item added at %d, want %d", ev.OutputIndex, len(items))
				}
				if ids[ev.Item.ID] || !minted(ev.Item) && !(a.Hosted && hosted(ev.Item)) || ev.Item.Status != openai.InProgress && (ours(ev.Item) || ev.Item.Status != "") {
					return fmt.Errorf("item added with id %q, call id %q, status %q", ev.Item.ID, ev.Item.CallID, ev.Item.Status)
				}
				ids[ev.Item.ID] = true
				items = append(items, &state{item: ev.Item})
				a.Items = append(a.Items, openai.Item{})
				continue
			}
			if s, err = at(ev.OutputIndex, ev.Item.ID); err == nil {
				err = s.close(ev.Item)
				a.Items[ev.OutputIndex] = ev.Item
			}
		case *openai.PartEvent:
			if s, err = at(ev.OutputIndex, ev.ItemID); err == nil {
				err = s.part(ev)
			}
		case *openai.DeltaEvent:
			if s, err = at(ev.OutputIndex, ev.ItemID); err == nil {
				if ev.Delta == "" {
					err = errors.New("an empty delta")
				}
				if ev.Type != openai.EventArgumentsDelta && (!s.inPart || ev.ContentIndex != len(s.parts)) {
					err = errors.New("a delta for a part that is not open")
				}
				s.text.WriteString(ev.Delta)
			}
		case *openai.DoneEvent:
			if s, err = at(ev.OutputIndex, ev.ItemID); err == nil {
				if s.text.String() != ev.Text || s.sawDone {
					err = fmt.Errorf("%s says %q, the deltas said %q", ev.Type, ev.Text, s.text.String())
				}
				s.sawDone = true
			}
		case *openai.AnnotationEvent:
			if s, err = at(ev.OutputIndex, ev.ItemID); err == nil && (!s.inPart || s.sawDone || ev.ContentIndex != len(s.parts)) {
				err = errors.New("a note for a text that is not open")
			}
		case *openai.CommandEvent:
			if !a.Hosted || ev.OutputIndex < 0 || ev.OutputIndex >= len(items) || items[ev.OutputIndex].done || items[ev.OutputIndex].item.Type != openai.TypeShellCall {
				err = errors.New("a command for no open call")
			}
		case *openai.OutputDeltaEvent:
			if _, err = at(ev.OutputIndex, ev.ItemID); err == nil && !a.Hosted {
				err = errors.New("an output of nobody's")
			}
		case *openai.OutputDoneEvent:
			if _, err = at(ev.OutputIndex, ev.ItemID); err == nil && (!a.Hosted || len(ev.Output) != 1) {
				err = errors.New("an output of nobody's")
			}
		case *openai.Lifecycle:
			a.Final = &ev.Response
			err = judgeFinal(ev, items)
		default:
			err = fmt.Errorf("no event of the law")
		}
		if err != nil {
			return fmt.Errorf("event %d (%s): %w", n, ev.EventType(), err)
		}
	}
	switch {
	case a.Err == nil && a.Final == nil:
		return errors.New("neither a lifecycle event nor an error")
	case a.Err != nil && a.Final != nil:
		return errors.New("both a lifecycle event and an error")
	case a.Err != nil:
		if _, ok := fault.As(a.Err); !ok {
			return fmt.Errorf("the error is no fault: %v", a.Err)
		}
	}
	return nil
}

// minted says whether an item's ids are of our making.
func minted(i openai.Item) bool {
	switch i.Type {
	case openai.TypeMessage:
		return id.Valid(id.Message, i.ID)
	case openai.TypeReasoning:
		return id.Valid(id.Reasoning, i.ID)
	case openai.TypeFunctionCall:
		return id.Valid(id.FunctionCall, i.ID) && id.Valid(id.Call, i.CallID)
	}
	prefix, _, _ := strings.Cut(i.ID, "_")
	return !ours(i) && id.Valid(prefix, i.ID)
}

// hosted says whether an item is one of a shell that the upstream runs, under ids of our making.
func hosted(i openai.Item) bool {
	return (i.Type == openai.TypeShellCall && id.Valid(id.ShellCall, i.ID) || i.Type == openai.TypeShellCallOutput && id.Valid(id.ShellCallOutput, i.ID)) &&
		id.Valid(id.Call, i.CallID)
}

// ours says whether an item is built by events; others are the upstream's, and come whole.
func ours(i openai.Item) bool {
	switch i.Type {
	case openai.TypeMessage, openai.TypeReasoning, openai.TypeFunctionCall, openai.TypeShellCall, openai.TypeShellCallOutput, "":
		return true
	}
	return false
}

func (s *state) part(ev *openai.PartEvent) error {
	if ev.ContentIndex != len(s.parts) {
		return fmt.Errorf("part %d, want %d", ev.ContentIndex, len(s.parts))
	}
	if ev.Type == openai.EventPartAdded {
		if s.inPart {
			return errors.New("a part is open already")
		}
		s.inPart, s.sawDone = true, false
		s.text.Reset()
		return nil
	}
	if text := ev.Part.Text + ev.Part.Refusal; !s.inPart || !s.sawDone || text != s.text.String() {
		return fmt.Errorf("the part says %q, the deltas said %q", text, s.text.String())
	}
	s.parts = append(s.parts, s.text.String())
	s.inPart = false
	return nil
}

// close checks a done item against what built it.
func (s *state) close(done openai.Item) error {
	if done.Type != s.item.Type || done.CallID != s.item.CallID {
		return errors.New("the item changed its type or call id")
	}
	if !ours(done) {
		s.done = true
		return nil
	}
	if done.Status != openai.Completed && done.Status != openai.Incomplete {
		return fmt.Errorf("status %q", done.Status)
	}
	if s.done = true; hosted(done) {
		return nil
	}
	var text string
	switch done.Type {
	case openai.TypeFunctionCall:
		var f openai.FunctionCall
		if err := done.Decode(&f); err != nil {
			return err
		}
		text = f.Arguments
		if text != s.text.String() || !s.sawDone {
			return fmt.Errorf("arguments %q, the deltas said %q", text, s.text.String())
		}
		return nil
	case openai.TypeReasoning:
		var r openai.Reasoning
		if err := done.Decode(&r); err != nil {
			return err
		}
		text = openai.Content(r.Content).Text()
	default:
		var m openai.Message
		if err := done.Decode(&m); err != nil {
			return err
		}
		text = m.Content.Text()
	}
	if s.inPart || len(s.parts) == 0 {
		return errors.New("the item has no part, or an open one")
	}
	if want := strings.Join(s.parts, ""); text != want {
		return fmt.Errorf("the item says %q, its parts said %q", text, want)
	}
	return nil
}

func judgeFinal(ev *openai.Lifecycle, items []*state) error {
	for i, s := range items {
		if !s.done {
			return fmt.Errorf("item %d is not done", i)
		}
	}
	r := ev.Response
	switch {
	case ev.Type == openai.EventCompleted && r.Status == openai.Completed && r.IncompleteDetails == nil && r.Error == nil:
	case ev.Type == openai.EventIncomplete && r.Status == openai.Incomplete && r.IncompleteDetails != nil && r.Error == nil:
	case ev.Type == openai.EventFailed && r.Status == openai.Failed && r.Error != nil:
	default:
		return fmt.Errorf("status %q, details %v, error %v", r.Status, r.IncompleteDetails, r.Error)
	}
	if u := r.Usage; u != nil && (u.InputTokens < 0 || u.OutputTokens < 0 || u.TotalTokens < u.OutputTokens) {
		return fmt.Errorf("usage %+v", *u)
	}
	return nil
}
