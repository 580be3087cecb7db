package openai

import (
	"encoding/json"
	"unicode/utf8"
)

// Event is one event of a Responses stream. Its owner sets the sequence number once, just before it is encoded.
type Event interface {
	EventType() string
	SetSequence(n int64)
}

// Head is the part that all events share.
type Head struct {
	Type     string `json:"type"`
	Sequence int64  `json:"sequence_number"`
}

// EventType returns the wire name, such as "response.created".
func (h *Head) EventType() string { return h.Type }

// SetSequence sets the number that the event carries.
func (h *Head) SetSequence(n int64) { h.Sequence = n }

// The event names that this program emits; every one is known to the official SDKs.
const (
	EventCreated        = "response.created"
	EventQueued         = "response.queued"
	EventInProgress     = "response.in_progress"
	EventCompleted      = "response.completed"
	EventFailed         = "response.failed"
	EventIncomplete     = "response.incomplete"
	EventItemAdded      = "response.output_item.added"
	EventItemDone       = "response.output_item.done"
	EventPartAdded      = "response.content_part.added"
	EventPartDone       = "response.content_part.done"
	EventTextDelta      = "response.output_text.delta"
	EventTextDone       = "response.output_text.done"
	EventAnnotation     = "response.output_text.annotation.added"
	EventRefusalDelta   = "response.refusal.delta"
	EventRefusalDone    = "response.refusal.done"
	EventArgumentsDelta = "response.function_call_arguments.delta"
	EventArgumentsDone  = "response.function_call_arguments.done"
	EventReasonDelta    = "response.reasoning_text.delta"
	EventReasonDone     = "response.reasoning_text.done"
	EventCommandAdded   = "response.shell_call_command.added"
	EventCommandDelta   = "response.shell_call_command.delta"
	EventCommandDone    = "response.shell_call_command.done"
	EventOutputDelta    = "response.shell_call_output_content.delta"
	EventOutputDone     = "response.shell_call_output_content.done"
	EventKeepalive      = "keepalive"
)

// Lifecycle is an event that carries the whole response object.
type Lifecycle struct {
	Head
	Response Response `json:"response"`
}

// ItemEvent opens or closes an output item (added, done).
type ItemEvent struct {
	Head
	OutputIndex int  `json:"output_index"`
	Item        Item `json:"item"`
}

// PartEvent opens or closes a content part (added, done).
type PartEvent struct {
	Head
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
	Part         Part   `json:"part"`
}

// DeltaEvent adds text to an open part or to a call's arguments: output_text, refusal, reasoning_text and
// function_call_arguments deltas.
type DeltaEvent struct {
	Head
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
	Delta        string `json:"delta"`
}

// DoneEvent closes what deltas built; the whole text stands under the key that the event's type demands.
type DoneEvent struct {
	Head
	ItemID       string
	OutputIndex  int
	ContentIndex int
	Text         string
	Name         string // the function's name, for arguments
}

// AnnotationEvent adds a citation to a text part.
type AnnotationEvent struct {
	Head
	ItemID          string     `json:"item_id"`
	OutputIndex     int        `json:"output_index"`
	ContentIndex    int        `json:"content_index"`
	AnnotationIndex int        `json:"annotation_index"`
	Annotation      Annotation `json:"annotation"`
}

// CommandEvent builds one command of a shell_call (added, delta, done). It goes by output index; it has no item_id.
type CommandEvent struct {
	Head
	OutputIndex  int
	CommandIndex int
	Text         string // the delta, or the command so far
}

// OutputDeltaEvent is live output of one command: only the streams that have new text are set.
type OutputDeltaEvent struct {
	Head
	ItemID       string      `json:"item_id"`
	OutputIndex  int         `json:"output_index"`
	CommandIndex int         `json:"command_index"`
	Delta        OutputDelta `json:"delta"`
}

// OutputDelta is text that a command has just printed.
type OutputDelta struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// OutputDoneEvent closes one command's output with its entry.
type OutputDoneEvent struct {
	Head
	ItemID       string        `json:"item_id"`
	OutputIndex  int           `json:"output_index"`
	CommandIndex int           `json:"command_index"`
	Output       []ShellOutput `json:"output"`
}

// NewLifecycle makes a lifecycle event of a snapshot.
func NewLifecycle(typ string, r Response) *Lifecycle { return &Lifecycle{Head{Type: typ}, r} }

// NewItemEvent makes output_item.added or .done.
func NewItemEvent(typ string, index int, item Item) *ItemEvent {
	return &ItemEvent{Head{Type: typ}, index, item}
}

// NewPartEvent makes content_part.added or .done.
func NewPartEvent(typ, itemID string, index, content int, part Part) *PartEvent {
	return &PartEvent{Head{Type: typ}, itemID, index, content, part}
}

// NewDelta makes a delta event of the given type.
func NewDelta(typ, itemID string, index, content int, delta string) *DeltaEvent {
	return &DeltaEvent{Head{Type: typ}, itemID, index, content, delta}
}

// NewDone makes the event that closes a run of deltas.
func NewDone(typ, itemID string, index, content int, text string) *DoneEvent {
	return &DoneEvent{Head: Head{Type: typ}, ItemID: itemID, OutputIndex: index, ContentIndex: content, Text: text}
}

// NewCommand makes a shell_call_command event.
func NewCommand(typ string, index, command int, text string) *CommandEvent {
	return &CommandEvent{Head{Type: typ}, index, command, text}
}

// MarshalJSON writes the keys of the event's type.
func (e *DoneEvent) MarshalJSON() ([]byte, error) { return e.append(nil), nil }

// MarshalJSON writes "delta" for deltas and "command" for the rest.
func (e *CommandEvent) MarshalJSON() ([]byte, error) {
	m := struct {
		Head
		OutputIndex  int     `json:"output_index"`
		CommandIndex int     `json:"command_index"`
		Delta        *string `json:"delta,omitempty"`
		Command      *string `json:"command,omitempty"`
	}{Head: e.Head, OutputIndex: e.OutputIndex, CommandIndex: e.CommandIndex}
	if e.Type == EventCommandDelta {
		m.Delta = &e.Text
	} else {
		m.Command = &e.Text
	}
	return Marshal(m)
}

// AppendEvent appends the event's JSON to b.
func AppendEvent(b []byte, ev Event) ([]byte, error) {
	switch e := ev.(type) {
	case *DeltaEvent:
		return e.append(b), nil
	case *DoneEvent:
		return e.append(b), nil
	case *PartEvent:
		return e.append(b)
	case *ItemEvent:
		return e.append(b)
	case *Lifecycle:
		return e.append(b)
	}
	raw, err := Marshal(ev)
	return append(b, raw...), err
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, as encoding/json writes it.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(b, s[start:i]...)
			b = append(b, "\uFFFD"...)
			i++
			start = i
			continue
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// Peek reads an encoded event's type and number without decoding the rest.
func Peek(data []byte) (typ string, sequence int64, err error) {
	var h Head
	err = json.Unmarshal(data, &h)
	return h.Type, h.Sequence, err
}
