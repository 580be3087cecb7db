package anthropic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// teller turns the events of an answer into the vendor's, where one block ends before the next begins. The loop works on
// several items at the same time: each gathers its blocks, and they are told in the order in which the items began.
type teller struct {
	tell   func(wire.Event)
	thinks bool
	scan   gateway.Stops

	units   []*unit
	items   map[int]*unit    // by output index
	calls   map[string]*unit // of the server's bash, by call id
	at      int              // the unit that is being told
	next    int              // the index of the next block
	stopped bool             // by a stop sequence: nothing more is told
	spoken  int64            // an estimate of the tokens that were told

	end *openai.Response // of the terminal event
}

func newTeller(a *asked, tell func(wire.Event)) *teller {
	return &teller{tell: tell, thinks: a.thinks, scan: gateway.Stops{Sequences: a.stops}, items: map[int]*unit{}, calls: map[string]*unit{}}
}

// unit is the blocks of one item, or of a call of the server's bash with its result.
type unit struct {
	kind  string
	ready []wire.Event // to be told; their indexes are not known yet
	open  bool         // the last block has no end yet
	done  bool
	bash  *bashCall
}

// text is what most events carry.
type text struct {
	OutputIndex  int         `json:"output_index"`
	CommandIndex int         `json:"command_index"`
	ContentIndex int         `json:"content_index"`
	Delta        string      `json:"delta"`
	Item         openai.Item `json:"item"`

	Output   []openai.ShellOutput `json:"output"`
	Response *openai.Response     `json:"response"`
}

// take handles one event.
func (t *teller) take(f response.Frame) error {
	switch f.Type {
	case openai.EventTextDone, openai.EventRefusalDone, openai.EventReasonDone, openai.EventArgumentsDone, openai.EventCreated,
		openai.EventInProgress, openai.EventQueued, openai.EventOutputDelta, openai.EventCommandAdded, openai.EventCommandDelta, openai.EventCommandDone:
		return nil // told otherwise, or nowhere
	}
	var e text
	if err := json.Unmarshal(f.Data, &e); err != nil {
		return fault.Wrap(fault.Internal, err, "An event of the answer can't be read.")
	}
	if e.Response != nil {
		t.end = e.Response
		return nil
	}
	if f.Type == openai.EventItemAdded {
		t.begin(e)
	}
	u := t.items[e.OutputIndex]
	if u == nil {
		return nil // of what is not told
	}
	switch f.Type {
	case openai.EventTextDelta, openai.EventRefusalDelta:
		u.grow(wire.Text{Type: wire.TypeText}, wire.Delta{Type: wire.DeltaText, Text: e.Delta})
	case openai.EventReasonDelta:
		u.grow(wire.Thinking{Type: wire.TypeThinking}, wire.Delta{Type: wire.DeltaThinking, Thinking: e.Delta})
	case openai.EventArgumentsDelta:
		u.add(wire.Event{Type: wire.EventBlockDelta, Delta: wire.Delta{Type: wire.DeltaInput, PartialJSON: e.Delta}})
	case openai.EventPartAdded:
		if u.kind == openai.TypeReasoning && u.open { // thoughts of two parts in one block
			u.grow(nil, wire.Delta{Type: wire.DeltaThinking, Thinking: "\n\n"})
		}
	case openai.EventPartDone:
		if u.kind == openai.TypeMessage {
			u.close()
		}
	case openai.EventOutputDone:
		if len(e.Output) > 0 {
			u.bash.ended(e.CommandIndex, e.Output[0])
		}
	case openai.EventItemDone:
		if err := u.finish(e.Item); err != nil {
			return err
		}
	}
	if u.bash != nil {
		u.bash.show(u)
	}
	t.advance()
	return nil
}

// begin opens the unit of an item. What the client did not ask to see has none.
func (t *teller) begin(e text) {
	u := &unit{kind: e.Item.Type}
	switch e.Item.Type {
	case openai.TypeMessage:
	case openai.TypeReasoning:
		if !t.thinks {
			return
		}
	case openai.TypeFunctionCall:
		var c openai.FunctionCall
		if e.Item.Decode(&c) != nil {
			return
		}
		u.grow(wire.ToolUse{Type: wire.TypeToolUse, ID: toolUseID(c.CallID), Name: c.Name, Input: json.RawMessage("{}")}, wire.Delta{})
	case openai.TypeShellCall:
		u.bash = &bashCall{id: e.Item.ID}
		t.calls[e.Item.CallID] = u
	case openai.TypeShellCallOutput: // belongs to its call
		if u = t.calls[e.Item.CallID]; u == nil {
			return
		}
		t.items[e.OutputIndex] = u
		return
	default:
		return
	}
	t.items[e.OutputIndex] = u
	t.units = append(t.units, u)
}

// toolUseID is a call's id as the vendor's look, where it is one of ours.
func toolUseID(callID string) string {
	if rest, ok := strings.CutPrefix(callID, "call_"); ok {
		return "toolu_" + rest
	}
	return callID
}

func (u *unit) add(ev wire.Event) { u.ready = append(u.ready, ev) }

// grow adds to the block that is open, and opens one where none is. An empty delta only opens.
func (u *unit) grow(start any, delta wire.Delta) {
	if !u.open {
		u.open = true
		b := wire.NewBlock(start)
		u.add(wire.Event{Type: wire.EventBlockStart, ContentBlock: &b})
	}
	if delta.Type != "" {
		u.add(wire.Event{Type: wire.EventBlockDelta, Delta: delta})
	}
}

// close ends the block that is open, if one is.
func (u *unit) close() {
	if u.open {
		u.open = false
		u.add(wire.Event{Type: wire.EventBlockStop})
	}
}

// whole adds a block that comes in one piece.
func (u *unit) whole(v any) {
	u.close()
	u.grow(v, wire.Delta{})
	u.close()
}

// finish ends an item.
func (u *unit) finish(item openai.Item) error {
	switch item.Type {
	case openai.TypeShellCall:
		return u.bash.called(item)
	case openai.TypeShellCallOutput:
		if err := u.bash.answered(item); err != nil {
			return err
		}
	case openai.TypeReasoning:
		var r openai.Reasoning
		if err := item.Decode(&r); err != nil {
			return fault.Wrap(fault.Internal, err, "An item of the answer can't be read.")
		}
		switch {
		case u.open && r.EncryptedContent != "":
			u.grow(nil, wire.Delta{Type: wire.DeltaSignature, Signature: r.EncryptedContent})
		case r.EncryptedContent != "":
			u.whole(wire.RedactedThinking{Type: wire.TypeRedactedThinking, Data: r.EncryptedContent})
		}
	}
	if u.bash == nil {
		u.close()
		u.done = true
	}
	return nil
}

// advance tells what may be told by now.
func (t *teller) advance() {
	for ; t.at < len(t.units); t.at++ {
		u := t.units[t.at]
		for _, ev := range u.ready {
			t.say(ev)
		}
		u.ready = u.ready[:0]
		if !u.done {
			return
		}
	}
}

// say tells one event of a block under its index.
func (t *teller) say(ev wire.Event) {
	if t.stopped {
		return
	}
	t.spoken += tokensIn(ev.Delta.Text) + tokensIn(ev.Delta.Thinking) + tokensIn(ev.Delta.PartialJSON)
	switch ev.Type {
	case wire.EventBlockStart:
		t.next++
	case wire.EventBlockDelta:
		if ev.Delta.Type == wire.DeltaText {
			ev.Delta.Text, t.stopped = t.scan.Feed(ev.Delta.Text)
			if ev.Delta.Text == "" && !t.stopped {
				return
			}
		}
	case wire.EventBlockStop:
		if rest := t.scan.Rest(); rest != "" {
			t.tell(wire.Event{Type: wire.EventBlockDelta, Index: t.next - 1, Delta: wire.Delta{Type: wire.DeltaText, Text: rest}})
		}
	}
	ev.Index = t.next - 1
	if ev.Type != wire.EventBlockDelta || ev.Delta.Type != wire.DeltaText || ev.Delta.Text != "" {
		t.tell(ev)
	}
	if t.stopped {
		t.tell(wire.Event{Type: wire.EventBlockStop, Index: ev.Index})
	}
}

// ending says how the answer ends: with a reason, or with an error.
func (t *teller) ending() (stop string, err error) {
	r := t.end
	switch {
	case t.stopped:
		return wire.StopSequence, nil
	case r == nil:
		return "", fault.New(fault.Internal, "The answer has no end.")
	case r.Status == openai.Completed && slices.ContainsFunc(r.Output, func(i openai.Item) bool { return i.Type == openai.TypeFunctionCall }):
		return wire.StopToolUse, nil
	case r.Status == openai.Completed:
		return wire.StopEndTurn, nil
	case r.Status == openai.Incomplete && r.IncompleteDetails != nil:
		switch r.IncompleteDetails.Reason {
		case openai.ReasonMaxMessages:
			return wire.StopPauseTurn, nil
		case openai.ReasonContentFilter:
			return wire.StopRefusal, nil
		}
		return wire.StopMaxTokens, nil
	case r.Status == openai.Cancelled:
		return "", fault.New(fault.Unavailable, "The answer was cancelled, as the server is stopping.").WithTry("the same request in a moment")
	case r.Error == nil:
		return "", fault.New(fault.Internal, "The answer ended as %s.", r.Status)
	}
	kind := fault.Upstream
	switch r.Error.Code {
	case "rate_limit_exceeded":
		kind = fault.RateLimited
	case "unavailable":
		kind = fault.Unavailable
	}
	return "", fault.New(kind, "%s", r.Error.Message).WithCode(r.Error.Code)
}

// usageOf is a count in the vendor's words, whose input leaves out what the cache gave and took.
func usageOf(u *openai.Usage) wire.Usage {
	read, made := u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens
	out := wire.Usage{InputTokens: max(0, u.InputTokens-read-made), OutputTokens: u.OutputTokens, CacheReadTokens: &read, CacheCreationTokens: &made}
	if n := u.OutputTokensDetails.ReasoningTokens; n > 0 {
		out.OutputDetails = &wire.OutputDetails{ThinkingTokens: n}
	}
	return out
}

// messageID is the id of an answer's message.
func messageID(responseID string) string {
	_, rest, _ := strings.Cut(responseID, "_")
	return fmt.Sprintf("msg_%s", rest)
}
