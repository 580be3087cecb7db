package providertest

import (
	"errors"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// lawful is a turn with every kind of item.
func lawful() []openai.Event {
	var events []openai.Event
	w := llm.NewTurn(func(ev openai.Event, _ error) bool { events = append(events, ev); return true }, nil)
	w.Reasoning([]byte("hm"))
	w.Text([]byte("a"))
	w.Text([]byte("b"))
	w.Refusal([]byte("no"))
	w.Call("f").Write(`{"a":1}`)
	w.Complete(&openai.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3})
	return events
}

// find is the place of the first event of a type.
func find(t *testing.T, events []openai.Event, typ string) int {
	t.Helper()
	for i, ev := range events {
		if ev.EventType() == typ {
			return i
		}
	}
	t.Fatalf("no %s", typ)
	return 0
}

// A checker that never complains proves nothing: each way to break the law must be noticed.
func TestTheLawIsChecked(t *testing.T) {
	if err := (&Answer{Events: lawful()}).Judge(); err != nil {
		t.Fatalf("a lawful turn: %v", err)
	}
	drop := func(typ string) func(*testing.T, *Answer) {
		return func(t *testing.T, a *Answer) {
			i := find(t, a.Events, typ)
			a.Events = append(a.Events[:i:i], a.Events[i+1:]...)
		}
	}
	twice := func(typ string) func(*testing.T, *Answer) {
		return func(t *testing.T, a *Answer) {
			i := find(t, a.Events, typ)
			a.Events = append(a.Events[:i+1:i+1], a.Events[i:]...)
		}
	}
	tests := map[string]func(*testing.T, *Answer){
		"no delta before its done":  drop(openai.EventTextDelta),
		"an event behind the end":   func(_ *testing.T, a *Answer) { a.Events = append(a.Events, a.Events[0]) },
		"an error behind the end":   func(_ *testing.T, a *Answer) { a.Err = fault.New(fault.Upstream, "x") },
		"an error that is no fault": func(_ *testing.T, a *Answer) { a.Events, a.Err = a.Events[:3], errors.New("x") },
		"an event of the shell": func(_ *testing.T, a *Answer) {
			a.Events[0] = openai.NewCommand(openai.EventCommandAdded, 0, 0, "")
		},
		"an upstream's item id": func(t *testing.T, a *Answer) {
			ev := a.Events[find(t, a.Events, openai.EventItemAdded)].(*openai.ItemEvent)
			ev.Item.ID = "chatcmpl-1"
		},
		"an upstream's call id": func(t *testing.T, a *Answer) {
			for _, ev := range a.Events {
				if ev, ok := ev.(*openai.ItemEvent); ok && ev.Item.Type == openai.TypeFunctionCall {
					ev.Item.CallID = "call_abc"
				}
			}
		},
		"another index": func(t *testing.T, a *Answer) {
			a.Events[find(t, a.Events, openai.EventTextDelta)].(*openai.DeltaEvent).OutputIndex = 0
		},
		"another item id": func(t *testing.T, a *Answer) {
			a.Events[find(t, a.Events, openai.EventTextDelta)].(*openai.DeltaEvent).ItemID = id.New(id.Message)
		},
		"another text at the end": func(t *testing.T, a *Answer) {
			a.Events[find(t, a.Events, openai.EventTextDone)].(*openai.DoneEvent).Text = "ba"
		},
		"an empty delta": func(t *testing.T, a *Answer) {
			i := find(t, a.Events, openai.EventTextDelta)
			e := *a.Events[i].(*openai.DeltaEvent)
			e.Delta = ""
			a.Events = append(a.Events[:i:i], append([]openai.Event{&e}, a.Events[i:]...)...)
		},
		"a failed end that says completed": func(t *testing.T, a *Answer) {
			a.Events[find(t, a.Events, openai.EventCompleted)].(*openai.Lifecycle).Response.Status = openai.Failed
		},
		"an incomplete end without a reason": func(t *testing.T, a *Answer) {
			ev := a.Events[find(t, a.Events, openai.EventCompleted)].(*openai.Lifecycle)
			ev.Type, ev.Response.Status = openai.EventIncomplete, openai.Incomplete
		},
		"an item that says something else": func(t *testing.T, a *Answer) {
			for _, ev := range a.Events {
				if ev, ok := ev.(*openai.ItemEvent); ok && ev.Type == openai.EventItemDone && ev.Item.Type == openai.TypeMessage {
					var m openai.Message
					if err := ev.Item.Decode(&m); err != nil {
						t.Fatal(err)
					}
					m.Content[0].Text = "other"
					ev.Item = openai.NewItem(m)
				}
			}
		},
	}
	for _, typ := range []string{openai.EventItemAdded, openai.EventItemDone, openai.EventPartAdded, openai.EventPartDone, openai.EventTextDone,
		openai.EventRefusalDone, openai.EventArgumentsDone, openai.EventArgumentsDelta, openai.EventCompleted} {
		tests["no "+typ] = drop(typ)
		tests["twice "+typ] = twice(typ)
	}
	for name, spoil := range tests {
		t.Run(strings.ReplaceAll(name, ".", "_"), func(t *testing.T) {
			a := &Answer{Events: lawful()}
			spoil(t, a)
			if err := a.Judge(); err == nil {
				t.Errorf("nobody noticed:\n%s", Dump(a.Events))
			}
		})
	}
}
