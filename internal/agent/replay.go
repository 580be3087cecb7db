package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// seen is what a stretch of the log says.
type seen struct {
	opened map[int]bool // by place in the output
	done   map[int]bool
	open   map[int]*openItem // without shell_calls and their outputs
	shells []*shellItem
	calls  progress
	ends   map[endOf]bool
}

// endOf names an event that ends a piece of an item.
type endOf struct {
	typ            string
	index, content int
}

// openItem is an item that nobody goes on writing.
type openItem struct {
	item      openai.Item
	parts     []*part // done and closed say which of their ends were sent
	texted    map[int]bool
	arguments strings.Builder
}

// shellItem is a shell_call.
type shellItem struct {
	item     openai.Item
	index    int
	commands []string // as far as they were written
	whole    int      // how many of them were ended
	done     bool
	output   *openai.Item // as it was announced
	at       int          // the output's place
}

func (s *seen) shell(match func(*shellItem) bool) *shellItem {
	if at := slices.IndexFunc(s.shells, match); at >= 0 {
		return s.shells[at]
	}
	return nil
}

// replay reads the log from a number on.
func (l *loop) replay(ctx context.Context, from int64) (*seen, error) {
	s := &seen{opened: map[int]bool{}, done: map[int]bool{}, open: map[int]*openItem{}, calls: progress{}, ends: map[endOf]bool{}}
	for f, err := range l.agent.responses.Replay(context.WithoutCancel(ctx), l.run.ID(), from) {
		if err == nil {
			err = s.take(f, l.plan.maxOutput)
		}
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "The response's log can't be read.")
		}
	}
	return s, nil
}

// take reads one event.
func (s *seen) take(f response.Frame, keep int) error {
	var ev struct {
		OutputIndex  int                  `json:"output_index"`
		ContentIndex int                  `json:"content_index"`
		CommandIndex int                  `json:"command_index"`
		Item         openai.Item          `json:"item"`
		Part         openai.Part          `json:"part"`
		Delta        json.RawMessage      `json:"delta"`
		Output       []openai.ShellOutput `json:"output"`
	}
	switch f.Type {
	case openai.EventCreated, openai.EventQueued, openai.EventInProgress:
		return nil
	}
	if err := json.Unmarshal(f.Data, &ev); err != nil {
		return fmt.Errorf("event %d: %w", f.Seq, err)
	}
	i := s.open[ev.OutputIndex]
	switch f.Type {
	case openai.EventItemAdded:
		s.opened[ev.OutputIndex] = true
		switch ev.Item.Type {
		case openai.TypeShellCall:
			s.shells = append(s.shells, &shellItem{item: ev.Item, index: ev.OutputIndex})
		case openai.TypeShellCallOutput:
			if c := s.shell(func(c *shellItem) bool { return c.item.CallID == ev.Item.CallID }); c != nil {
				c.output, c.at = &ev.Item, ev.OutputIndex
			}
		default:
			s.open[ev.OutputIndex] = &openItem{item: ev.Item, texted: map[int]bool{}}
		}
		return nil
	case openai.EventItemDone:
		s.done[ev.OutputIndex] = true
		delete(s.open, ev.OutputIndex)
		if c := s.shell(func(c *shellItem) bool { return c.index == ev.OutputIndex }); c != nil {
			c.item, c.done = ev.Item, true
		}
		if ev.Item.Type == openai.TypeShellCallOutput {
			var o shellOutput
			if err := ev.Item.Decode(&o); err != nil {
				return fmt.Errorf("event %d: %w", f.Seq, err)
			}
			s.calls.at(ev.OutputIndex).item = &o
		}
		return nil
	case openai.EventOutputDelta:
		var d openai.OutputDelta
		if err := json.Unmarshal(ev.Delta, &d); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		c := s.calls.at(ev.OutputIndex)
		if c.tails[ev.CommandIndex] == nil {
			c.tails[ev.CommandIndex] = &tail{}
		}
		c.tails[ev.CommandIndex].add(container.Delta(d), keep)
		return nil
	case openai.EventOutputDone:
		if len(ev.Output) > 0 {
			s.calls.at(ev.OutputIndex).entries[ev.CommandIndex] = ev.Output[0]
		}
		return nil
	}
	if c := s.shell(func(c *shellItem) bool { return c.index == ev.OutputIndex }); c != nil {
		return c.take(f, ev.CommandIndex, ev.Delta)
	}
	s.ends[endOf{f.Type, ev.OutputIndex, ev.ContentIndex}] = true
	if i == nil {
		return nil
	}
	n := entry{parts: i.parts}
	switch f.Type {
	case openai.EventPartAdded:
		n.partAt(ev.ContentIndex, ev.Part.Type).opened = true
	case openai.EventPartDone:
		n.partAt(ev.ContentIndex, ev.Part.Type).closed = true
	case openai.EventTextDelta, openai.EventRefusalDelta, openai.EventReasonDelta:
		var text string
		if err := json.Unmarshal(ev.Delta, &text); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		n.partAt(ev.ContentIndex, partOf[f.Type]).text.WriteString(text)
	case openai.EventTextDone, openai.EventRefusalDone, openai.EventReasonDone:
		i.texted[ev.ContentIndex] = true
	case openai.EventArgumentsDelta:
		var text string
		if err := json.Unmarshal(ev.Delta, &text); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		i.arguments.WriteString(text)
	}
	i.parts = n.parts
	return nil
}

// take reads one event of a shell_call.
func (c *shellItem) take(f response.Frame, command int, delta json.RawMessage) error {
	switch f.Type {
	case openai.EventCommandAdded:
		c.commands = append(c.commands, "")
	case openai.EventCommandDelta:
		var text string
		if err := json.Unmarshal(delta, &text); err != nil {
			return fmt.Errorf("event %d: %w", f.Seq, err)
		}
		if command >= len(c.commands) {
			return fmt.Errorf("event %d: command %d of %d", f.Seq, command, len(c.commands))
		}
		c.commands[command] += text
	case openai.EventCommandDone:
		c.whole++
	}
	return nil
}

// told is what the log has of one call of ours.
type told struct {
	taken   bool // it may have been started
	closed  bool // the end of the shell_call was sent
	entries map[int]openai.ShellOutput
	ends    map[int]endNote // of the commands in entries
	tails   map[int]*tail
	item    *shellOutput // its output, if that has ended
}

// progress is what the log has of calls, by the place of their outputs.
type progress map[int]*told

func (p progress) of(index int) *told {
	if t := p[index]; t != nil {
		return t
	}
	return &told{}
}

func (p progress) at(index int) *told {
	if p[index] == nil {
		p[index] = &told{entries: map[int]openai.ShellOutput{}, tails: map[int]*tail{}}
	}
	return p[index]
}

// heard is what was told of a command's output.
func (t *told) heard(command int) tail {
	if h := t.tails[command]; h != nil {
		return *h
	}
	return tail{}
}
