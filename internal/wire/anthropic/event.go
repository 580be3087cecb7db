package anthropic

import "encoding/json"

// The events of a stream. Each is sent under the SSE event name of its type: the TypeScript SDK skips unnamed ones.
const (
	EventMessageStart = "message_start"
	EventBlockStart   = "content_block_start"
	EventBlockDelta   = "content_block_delta"
	EventBlockStop    = "content_block_stop"
	EventMessageDelta = "message_delta"
	EventMessageStop  = "message_stop"
	EventPing         = "ping"
	EventError        = "error"
)

// The types of a delta.
const (
	DeltaText      = "text_delta"
	DeltaInput     = "input_json_delta"
	DeltaThinking  = "thinking_delta"
	DeltaSignature = "signature_delta"
	DeltaCitations = "citations_delta"
)

// Event is any event of a stream; which fields matter depends on Type. It marshals to the keys of its type alone.
type Event struct {
	Type         string       `json:"type"`
	Index        int          `json:"index"`         // of block events
	Message      *Response    `json:"message"`       // of message_start
	ContentBlock *Block       `json:"content_block"` // of content_block_start
	Delta        Delta        `json:"delta"`         // of content_block_delta and message_delta
	Usage        *UsageUpdate `json:"usage"`         // of message_delta
	Error        *Error       `json:"error"`         // of error
}

// Delta is what a block gains, or how the message ends.
type Delta struct {
	Type        string          `json:"type,omitempty"`
	Text        string          `json:"text,omitempty"`
	PartialJSON string          `json:"partial_json,omitempty"`
	Thinking    string          `json:"thinking,omitempty"`
	Signature   string          `json:"signature,omitempty"`
	Citation    json.RawMessage `json:"citation,omitempty"`

	StopReason   *string         `json:"stop_reason,omitempty"`
	StopSequence *string         `json:"stop_sequence,omitempty"`
	StopDetails  json.RawMessage `json:"stop_details,omitempty"`
	Container    *Container      `json:"container,omitempty"`
}

// UsageUpdate is the usage of a message_delta: what is nil stays as it was.
type UsageUpdate struct {
	InputTokens         *int64         `json:"input_tokens,omitempty"`
	OutputTokens        *int64         `json:"output_tokens,omitempty"`
	CacheCreationTokens *int64         `json:"cache_creation_input_tokens,omitempty"`
	CacheReadTokens     *int64         `json:"cache_read_input_tokens,omitempty"`
	OutputDetails       *OutputDetails `json:"output_tokens_details,omitempty"`
}

// Apply replaces what the update tells. A zero where a count was known is no news: some servers repeat the field so.
func (u *UsageUpdate) Apply(to *Usage) {
	if u == nil {
		return
	}
	set := func(to, from *int64) {
		if from != nil && *from != 0 {
			*to = *from
		}
	}
	set(&to.InputTokens, u.InputTokens)
	set(&to.OutputTokens, u.OutputTokens)
	if u.CacheCreationTokens != nil {
		to.CacheCreationTokens = u.CacheCreationTokens
	}
	if u.CacheReadTokens != nil {
		to.CacheReadTokens = u.CacheReadTokens
	}
	if u.OutputDetails != nil {
		to.OutputDetails = u.OutputDetails
	}
}

// messageEnd is the delta of a message_delta, whose keys are all written.
type messageEnd struct {
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	StopDetails  json.RawMessage `json:"stop_details,omitempty"`
	Container    *Container      `json:"container,omitempty"`
}

// MarshalJSON writes the keys of the event's type.
func (e Event) MarshalJSON() ([]byte, error) {
	type typed struct {
		Type string `json:"type"`
	}
	type indexed struct {
		typed
		Index int `json:"index"`
	}
	head := typed{e.Type}
	switch e.Type {
	case EventMessageStart:
		return Marshal(struct {
			typed
			Message *Response `json:"message"`
		}{head, e.Message})
	case EventBlockStart:
		return Marshal(struct {
			indexed
			ContentBlock *Block `json:"content_block"`
		}{indexed{head, e.Index}, e.ContentBlock})
	case EventBlockDelta:
		return Marshal(struct {
			indexed
			Delta map[string]any `json:"delta"`
		}{indexed{head, e.Index}, e.Delta.keys()})
	case EventBlockStop:
		return Marshal(indexed{head, e.Index})
	case EventMessageDelta:
		return Marshal(struct {
			typed
			Delta messageEnd   `json:"delta"`
			Usage *UsageUpdate `json:"usage,omitempty"`
		}{head, messageEnd{e.Delta.StopReason, e.Delta.StopSequence, e.Delta.StopDetails, e.Delta.Container}, e.Usage})
	case EventError:
		return Marshal(struct {
			typed
			Error *Error `json:"error"`
		}{head, e.Error})
	}
	return Marshal(head)
}

// keys are those of a block's delta; the one that its type demands is there though it be empty.
func (d Delta) keys() map[string]any {
	m := map[string]any{"type": d.Type}
	switch d.Type {
	case DeltaText:
		m["text"] = d.Text
	case DeltaInput:
		m["partial_json"] = d.PartialJSON
	case DeltaThinking:
		m["thinking"] = d.Thinking
	case DeltaSignature:
		m["signature"] = d.Signature
	case DeltaCitations:
		m["citation"] = d.Citation
	}
	return m
}
