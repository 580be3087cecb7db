package anthropic

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// The versions of the API, as the header anthropic-version says them.
const (
	Version2023 = "2023-06-01"
	Version2026 = "2026-10-21" // refuses temperature, top_p and top_k, and takes the key as a bearer token
)

// Request is the body of POST /v1/messages, and of POST /v1/messages/count_tokens, where MaxTokens is nil. Fields that
// it does not name are kept in Extra and written again.
type Request struct {
	Model         string          `json:"model"`
	MaxTokens     *int64          `json:"max_tokens,omitempty"`
	System        Content         `json:"system,omitempty"`
	Messages      []Message       `json:"messages"`
	Tools         []Tool          `json:"tools,omitempty"`
	ToolChoice    *ToolChoice     `json:"tool_choice,omitempty"`
	Stream        bool            `json:"stream,omitempty"`
	StopSequences []string        `json:"stop_sequences,omitempty"`
	Temperature   *float64        `json:"temperature,omitempty"`
	TopP          *float64        `json:"top_p,omitempty"`
	TopK          *int64          `json:"top_k,omitempty"`
	Thinking      *ThinkingConfig `json:"thinking,omitempty"`
	OutputConfig  *OutputConfig   `json:"output_config,omitempty"`
	Metadata      *Metadata       `json:"metadata,omitempty"`
	ServiceTier   string          `json:"service_tier,omitempty"`
	Container     json.RawMessage `json:"container,omitempty"` // an id, or {id, skills}
	CacheControl  json.RawMessage `json:"cache_control,omitempty"`

	Extra map[string]json.RawMessage `json:"-"`
}

// requestFields is a Request without its methods.
type requestFields Request

// UnmarshalJSON reads the fields that are named and keeps the others.
func (r *Request) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	var f requestFields
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	t := reflect.TypeFor[requestFields]()
	for field := range t.Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		maps.DeleteFunc(all, func(k string, _ json.RawMessage) bool { return strings.EqualFold(k, key) })
	}
	*r = Request(f)
	if len(all) > 0 {
		r.Extra = all
	}
	return nil
}

// MarshalJSON writes the named fields, then the others by name. A named field wins.
func (r Request) MarshalJSON() ([]byte, error) {
	if r.Messages == nil {
		r.Messages = []Message{}
	}
	out, err := Marshal(requestFields(r))
	if err != nil || len(r.Extra) == 0 {
		return out, err
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(out, &named); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(out[:len(out)-1])
	for _, key := range slices.Sorted(maps.Keys(r.Extra)) {
		if _, ok := named[key]; ok {
			continue
		}
		name, err := Marshal(key)
		if err != nil {
			return nil, err
		}
		b.WriteByte(',')
		b.Write(name)
		b.WriteByte(':')
		b.Write(r.Extra[key])
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Message is one message of a conversation. Role is user or assistant, and system where the model knows it.
type Message struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// Tool is one declared tool, kept as the JSON it came as. Type is empty or "custom" for a client's own; others are
// Anthropic's, such as bash_20250124.
type Tool struct {
	Type         string
	Name         string
	Description  string
	InputSchema  json.RawMessage
	Strict       *bool
	CacheControl json.RawMessage
	Raw          json.RawMessage
}

type toolJSON struct {
	Type         string          `json:"type,omitempty"`
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema,omitempty"`
	Strict       *bool           `json:"strict,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

// UnmarshalJSON keeps the bytes and reads the fields above.
func (t *Tool) UnmarshalJSON(data []byte) error {
	var j toolJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*t = Tool{Type: j.Type, Name: j.Name, Description: j.Description, InputSchema: j.InputSchema, Strict: j.Strict,
		CacheControl: j.CacheControl, Raw: bytes.Clone(data)}
	return nil
}

// MarshalJSON returns the bytes that the tool came as, or the fields when it was made here.
func (t Tool) MarshalJSON() ([]byte, error) {
	if len(t.Raw) > 0 {
		return t.Raw, nil
	}
	return Marshal(toolJSON{t.Type, t.Name, t.Description, t.InputSchema, t.Strict, t.CacheControl})
}

// ToolChoice says which tools the model may or must use.
type ToolChoice struct {
	Type                   string `json:"type"` // auto | any | tool | none
	Name                   string `json:"name,omitempty"`
	DisableParallelToolUse bool   `json:"disable_parallel_tool_use,omitempty"`
}

// ThinkingConfig says whether and how the model thinks.
type ThinkingConfig struct {
	Type         string `json:"type"` // enabled | disabled | adaptive | between_tools
	BudgetTokens int64  `json:"budget_tokens,omitempty"`
	Display      string `json:"display,omitempty"` // summarized | omitted
}

// OutputConfig says how much effort an answer is worth, and its form.
type OutputConfig struct {
	Effort string        `json:"effort,omitempty"` // low | medium | high | xhigh | max
	Format *OutputFormat `json:"format,omitempty"`
}

// OutputFormat is the schema that an answer must follow.
type OutputFormat struct {
	Type   string          `json:"type"` // "json_schema"
	Schema json.RawMessage `json:"schema"`
}

// Metadata names the person on whose behalf a request is made, opaquely.
type Metadata struct {
	UserID string `json:"user_id,omitempty"`
}
