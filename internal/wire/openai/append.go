package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
)

// The shapes that every response writes several times are written by hand here, to the same values as encoding/json
// writes, at a tenth of its cost. What is rare among their fields goes through encoding/json all the same.

// appendHead begins an event's object.
func appendHead(b []byte, h Head) []byte {
	b = append(b, `{"type":`...)
	b = AppendString(b, h.Type)
	b = append(b, `,"sequence_number":`...)
	return strconv.AppendInt(b, h.Sequence, 10)
}

// appendPlace names the part of an item that an event is about.
func appendPlace(b []byte, itemID string, index int) []byte {
	b = append(b, `,"item_id":`...)
	b = AppendString(b, itemID)
	b = append(b, `,"output_index":`...)
	return strconv.AppendInt(b, int64(index), 10)
}

func appendContentIndex(b []byte, content int) []byte {
	b = append(b, `,"content_index":`...)
	return strconv.AppendInt(b, int64(content), 10)
}

func (e *Lifecycle) append(b []byte) ([]byte, error) {
	b = append(appendHead(b, e.Head), `,"response":`...)
	b, err := e.Response.append(b)
	return append(b, '}'), err
}

func (e *ItemEvent) append(b []byte) ([]byte, error) {
	b = append(appendHead(b, e.Head), `,"output_index":`...)
	b = strconv.AppendInt(b, int64(e.OutputIndex), 10)
	b, err := appendRaw(append(b, `,"item":`...), e.Item.Raw)
	return append(b, '}'), err
}

func (e *PartEvent) append(b []byte) ([]byte, error) {
	b = appendContentIndex(appendPlace(appendHead(b, e.Head), e.ItemID, e.OutputIndex), e.ContentIndex)
	b, err := e.Part.append(append(b, `,"part":`...))
	return append(b, '}'), err
}

func (e *DeltaEvent) append(b []byte) []byte {
	b = appendPlace(appendHead(b, e.Head), e.ItemID, e.OutputIndex)
	if e.Type != EventArgumentsDelta {
		b = appendContentIndex(b, e.ContentIndex)
	}
	b = AppendString(append(b, `,"delta":`...), e.Delta)
	if e.Type == EventTextDelta {
		b = append(b, `,"logprobs":[]`...)
	}
	return append(b, '}')
}

func (e *DoneEvent) append(b []byte) []byte {
	b = appendPlace(appendHead(b, e.Head), e.ItemID, e.OutputIndex)
	if e.Type == EventArgumentsDone {
		b = AppendString(append(b, `,"arguments":`...), e.Text)
		if e.Name != "" {
			b = AppendString(append(b, `,"name":`...), e.Name)
		}
		return append(b, '}')
	}
	b = appendContentIndex(b, e.ContentIndex)
	if e.Type == EventRefusalDone {
		b = append(b, `,"refusal":`...)
	} else {
		b = append(b, `,"text":`...)
	}
	b = AppendString(b, e.Text)
	if e.Type == EventTextDone {
		b = append(b, `,"logprobs":[]`...)
	}
	return append(b, '}')
}

func (p *Part) append(b []byte) ([]byte, error) {
	plain := len(p.Annotations) == 0 && p.Detail == "" && p.ImageURL == "" && p.FileID == "" && p.FileURL == "" &&
		p.FileData == "" && p.Filename == ""
	switch {
	case plain && p.Type == "output_text":
		b = append(b, `{"type":"output_text","text":`...)
		return append(AppendString(b, p.Text), `,"annotations":[]}`...), nil
	case plain && (p.Type == "input_text" || p.Type == "reasoning_text"):
		b = append(append(append(b, `{"type":"`...), p.Type...), `","text":`...)
		return append(AppendString(b, p.Text), '}'), nil
	}
	raw, err := p.MarshalJSON()
	return append(b, raw...), err
}

func (m *Message) append(b []byte) ([]byte, error) {
	room := 96 + len(m.ID)
	for i := range m.Content {
		room += 96 + len(m.Content[i].Text)
	}
	b = slices.Grow(b, room)
	b = AppendString(append(b, `{"type":`...), m.Type)
	if m.ID != "" {
		b = AppendString(append(b, `,"id":`...), m.ID)
	}
	b = AppendString(append(b, `,"role":`...), m.Role)
	if m.Status != "" {
		b = AppendString(append(b, `,"status":`...), m.Status)
	}
	if m.Phase != "" {
		b = AppendString(append(b, `,"phase":`...), m.Phase)
	}
	b = append(b, `,"content":`...)
	if m.Content == nil {
		return append(b, `null}`...), nil
	}
	b = append(b, '[')
	for i := range m.Content {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = m.Content[i].append(b); err != nil {
			return b, err
		}
	}
	return append(b, `]}`...), nil
}

// append writes the object, in the order of its fields.
func (r *Response) append(b []byte) ([]byte, error) {
	var err error
	b = AppendString(append(b, `{"id":`...), r.ID)
	b = AppendString(append(b, `,"object":`...), r.Object)
	b = strconv.AppendInt(append(b, `,"created_at":`...), r.CreatedAt, 10)
	b = appendInt(append(b, `,"completed_at":`...), r.CompletedAt)
	b = AppendString(append(b, `,"status":`...), r.Status)
	b = strconv.AppendBool(append(b, `,"background":`...), r.Background)
	if r.Conversation != nil {
		b = append(AppendString(append(b, `,"conversation":{"id":`...), r.Conversation.ID), '}')
	}
	if b, err = appendRare(append(b, `,"error":`...), r.Error); err != nil {
		return b, err
	}
	if b, err = appendRare(append(b, `,"incomplete_details":`...), r.IncompleteDetails); err != nil {
		return b, err
	}
	b = appendText(append(b, `,"instructions":`...), r.Instructions)
	b = appendInt(append(b, `,"max_output_tokens":`...), r.MaxOutputTokens)
	b = appendInt(append(b, `,"max_tool_calls":`...), r.MaxToolCalls)
	b = appendTexts(append(b, `,"metadata":`...), r.Metadata)
	b = AppendString(append(b, `,"model":`...), r.Model)
	if b, err = appendItems(append(b, `,"output":`...), r.Output); err != nil {
		return b, err
	}
	b = strconv.AppendBool(append(b, `,"parallel_tool_calls":`...), r.ParallelToolCalls)
	if b, err = appendFloat(append(b, `,"presence_penalty":`...), r.PresencePenalty); err != nil {
		return b, err
	}
	if b, err = appendFloat(append(b, `,"frequency_penalty":`...), r.FrequencyPenalty); err != nil {
		return b, err
	}
	b = appendText(append(b, `,"previous_response_id":`...), r.PreviousResponseID)
	b = appendText(append(b, `,"prompt_cache_key":`...), r.PromptCacheKey)
	b = append(b, `,"reasoning":`...)
	if r.Reasoning == nil {
		b = append(b, `null`...)
	} else {
		b = appendText(append(b, `{"effort":`...), r.Reasoning.Effort)
		b = appendText(append(b, `,"summary":`...), r.Reasoning.Summary)
		b = append(b, '}')
	}
	b = appendText(append(b, `,"safety_identifier":`...), r.SafetyIdentifier)
	b = AppendString(append(b, `,"service_tier":`...), r.ServiceTier)
	b = strconv.AppendBool(append(b, `,"store":`...), r.Store)
	if b, err = appendFloat(append(b, `,"temperature":`...), r.Temperature); err != nil {
		return b, err
	}
	if b, err = appendRaw(append(b, `,"text":`...), r.Text); err != nil {
		return b, err
	}
	if b, err = appendRaw(append(b, `,"tool_choice":`...), r.ToolChoice); err != nil {
		return b, err
	}
	if b, err = appendRaws(append(b, `,"tools":`...), r.Tools); err != nil {
		return b, err
	}
	b = strconv.AppendInt(append(b, `,"top_logprobs":`...), r.TopLogprobs, 10)
	if b, err = appendFloat(append(b, `,"top_p":`...), r.TopP); err != nil {
		return b, err
	}
	b = AppendString(append(b, `,"truncation":`...), r.Truncation)
	b = r.Usage.append(append(b, `,"usage":`...))
	b = appendText(append(b, `,"user":`...), r.User)
	if r.ContainerID != "" {
		b = AppendString(append(b, `,"container_id":`...), r.ContainerID)
	}
	return append(b, '}'), nil
}

func (u *Usage) append(b []byte) []byte {
	if u == nil {
		return append(b, `null`...)
	}
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), u.InputTokens, 10)
	b = strconv.AppendInt(append(b, `,"input_tokens_details":{"cached_tokens":`...), u.InputTokensDetails.CachedTokens, 10)
	b = strconv.AppendInt(append(b, `,"cache_write_tokens":`...), u.InputTokensDetails.CacheWriteTokens, 10)
	b = strconv.AppendInt(append(b, `},"output_tokens":`...), u.OutputTokens, 10)
	b = strconv.AppendInt(append(b, `,"output_tokens_details":{"reasoning_tokens":`...), u.OutputTokensDetails.ReasoningTokens, 10)
	b = strconv.AppendInt(append(b, `},"total_tokens":`...), u.TotalTokens, 10)
	return append(b, '}')
}

func appendText(b []byte, s *string) []byte {
	if s == nil {
		return append(b, `null`...)
	}
	return AppendString(b, *s)
}

func appendInt(b []byte, n *int64) []byte {
	if n == nil {
		return append(b, `null`...)
	}
	return strconv.AppendInt(b, *n, 10)
}

func appendFloat(b []byte, f float64) ([]byte, error) {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.AppendInt(b, int64(f), 10), nil
	}
	return appendRare(b, &f)
}

// appendRare writes a value that is nearly always absent.
func appendRare[T any](b []byte, v *T) ([]byte, error) {
	if v == nil {
		return append(b, `null`...), nil
	}
	raw, err := Marshal(v)
	return append(b, raw...), err
}

func appendTexts(b []byte, m map[string]string) []byte {
	if m == nil {
		return append(b, `null`...)
	}
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, key), ':')
		b = AppendString(b, m[key])
	}
	return append(b, '}')
}

func appendItems(b []byte, items []Item) ([]byte, error) {
	if items == nil {
		return append(b, `null`...), nil
	}
	b = append(b, '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendRaw(b, items[i].Raw); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func appendRaws(b []byte, list []json.RawMessage) ([]byte, error) {
	if list == nil {
		return append(b, `null`...), nil
	}
	b = append(b, '[')
	for i, raw := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendRaw(b, raw); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// appendRaw copies JSON that has been read or written before. A line end in it would break an event in two, so such
// JSON is compacted.
func appendRaw(b []byte, raw json.RawMessage) ([]byte, error) {
	switch {
	case len(raw) == 0:
		return append(b, `null`...), nil
	case bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0:
		return append(b, raw...), nil
	}
	out := bytes.NewBuffer(b)
	err := json.Compact(out, raw)
	return out.Bytes(), err
}
