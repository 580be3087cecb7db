package anthropic

import (
	"encoding/json"
	"testing"
)

// What this package does not know survives a round trip, byte for byte where it is a block or a tool.
func TestUnknownSurvives(t *testing.T) {
	in := `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"<s>","new":1}],"messages":[{"role":"user","content":` +
		`[{"z":1,"type":"new_block","a":[1.0,12345678901234567890]}]}],"tools":[{"type":"bash_20250124","name":"bash","more":{"x":null}}],` +
		`"diagnostics":{"a":1},"mcp_servers":[]}`
	var r Request
	if err := json.Unmarshal([]byte(in), &r); err != nil {
		t.Fatal(err)
	}
	if r.Messages[0].Content[0].Type != "new_block" || r.Tools[0].Type != "bash_20250124" || len(r.Extra) != 2 {
		t.Errorf("%+v", r)
	}
	if out, err := Marshal(r); err != nil || string(out) != in {
		t.Errorf("%v\n%s\n%s", err, out, in)
	}
	r.Extra["model"] = json.RawMessage(`"other"`)
	var back Request
	if out, err := Marshal(r); err != nil || json.Unmarshal(out, &back) != nil || back.Model != "m" {
		t.Errorf("an extra field beats a named one: %v %s", err, out)
	}
}

func TestContentForms(t *testing.T) {
	for in, want := range map[string]string{
		`"a"`:  `[{"type":"text","text":"a"}]`,
		`null`: `[]`,
		`[]`:   `[]`,
		`[{"type":"text","text":"a","citations":null}]`: `[{"type":"text","text":"a","citations":null}]`,
	} {
		var c Content
		if err := json.Unmarshal([]byte(in), &c); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if out, err := Marshal(c); err != nil || string(out) != want {
			t.Errorf("%s is written as %s, %v", in, out, err)
		}
	}
	var c Content
	if err := json.Unmarshal([]byte(`7`), &c); err == nil {
		t.Error("a number is taken as content")
	}
	if got := append(TextContent("a"), TextContent("b")...).Text(); got != "ab" {
		t.Errorf("text %q", got)
	}
}

// The SDKs read these keys of zero values too.
func TestRequiredKeysAreAlwaysWritten(t *testing.T) {
	for _, tt := range []struct {
		value any
		keys  []string
	}{
		{Response{}, []string{"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "container", "usage"}},
		{Usage{}, []string{"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}},
		{Text{}, []string{"type", "text"}},
		{Thinking{}, []string{"type", "thinking", "signature"}},
		{ToolUse{Input: json.RawMessage("{}")}, []string{"type", "id", "name", "input"}},
		{ToolResult{}, []string{"type", "tool_use_id"}},
		{BashOutput{}, []string{"type", "stdout", "stderr", "return_code", "content"}},
		{NewError("t", "m", ""), []string{"type", "error"}},
		{NewModelList(nil, false), []string{"data", "has_more", "first_id", "last_id"}},
		{Model{}, []string{"id", "type", "display_name", "created_at"}},
		{TokenCount{}, []string{"input_tokens"}},
		{Request{}, []string{"model", "messages"}},
	} {
		raw, err := Marshal(tt.value)
		var m map[string]json.RawMessage
		if err != nil || json.Unmarshal(raw, &m) != nil {
			t.Errorf("%T: %v", tt.value, err)
		}
		for _, key := range tt.keys {
			if _, ok := m[key]; !ok {
				t.Errorf("%T: %q is not written: %s", tt.value, key, raw)
			}
		}
	}
	l := NewModelList([]Model{{ID: "a"}, {ID: "b"}}, true)
	if *l.FirstID != "a" || *l.LastID != "b" || !l.HasMore {
		t.Errorf("%+v", l)
	}
}

// An event is written with the keys of its type alone, and reads back as it was.
func TestEvents(t *testing.T) {
	reason, n := StopToolUse, int64(7)
	text := NewBlock(Text{Type: TypeText})
	for want, ev := range map[string]Event{
		`{"type":"ping"}`:         {Type: EventPing},
		`{"type":"message_stop"}`: {Type: EventMessageStop},
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`:                           {Type: EventBlockStart, ContentBlock: &text},
		`{"type":"content_block_delta","index":2,"delta":{"text":"","type":"text_delta"}}`:                             {Type: EventBlockDelta, Index: 2, Delta: Delta{Type: DeltaText}},
		`{"type":"content_block_delta","index":0,"delta":{"partial_json":"{","type":"input_json_delta"}}`:              {Type: EventBlockDelta, Delta: Delta{Type: DeltaInput, PartialJSON: "{"}},
		`{"type":"content_block_delta","index":0,"delta":{"thinking":"<","type":"thinking_delta"}}`:                    {Type: EventBlockDelta, Delta: Delta{Type: DeltaThinking, Thinking: "<"}},
		`{"type":"content_block_delta","index":0,"delta":{"signature":"s","type":"signature_delta"}}`:                  {Type: EventBlockDelta, Delta: Delta{Type: DeltaSignature, Signature: "s"}},
		`{"type":"content_block_stop","index":1}`:                                                                      {Type: EventBlockStop, Index: 1},
		`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":7}}`: {Type: EventMessageDelta, Delta: Delta{StopReason: &reason}, Usage: &UsageUpdate{OutputTokens: &n}},
		`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`:                                           {Type: EventError, Error: &Error{Type: ErrorOverloaded, Message: "m"}},
	} {
		raw, err := Marshal(ev)
		if err != nil || string(raw) != want {
			t.Errorf("%v\n%s\n%s", err, raw, want)
		}
		var back Event
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Error(err)
		}
		if again, _ := Marshal(back); string(again) != want {
			t.Errorf("read back: %s", again)
		}
	}
}

func TestUsageUpdate(t *testing.T) {
	zero, five := int64(0), int64(5)
	u := Usage{InputTokens: 3, OutputTokens: 1, CacheReadTokens: &five}
	(&UsageUpdate{InputTokens: &zero, OutputTokens: &five, CacheReadTokens: &zero, OutputDetails: &OutputDetails{2}}).Apply(&u)
	(*UsageUpdate)(nil).Apply(&u)
	if u.InputTokens != 3 || u.OutputTokens != 5 || *u.CacheReadTokens != 0 || u.OutputDetails.ThinkingTokens != 2 {
		t.Errorf("%+v", u)
	}
}

func TestDecode(t *testing.T) {
	b := NewBlock(ToolUse{Type: TypeToolUse, ID: "i", Name: "n", Input: json.RawMessage(`{"a":12345678901234567890}`)})
	var u ToolUse
	if err := b.Decode(&u); err != nil || string(u.Input) != `{"a":12345678901234567890}` || b.ID != "i" || b.Name != "n" {
		t.Errorf("%v %+v %+v", err, u, b)
	}
	if raw, _ := Marshal(Block{}); string(raw) != "null" {
		t.Errorf("an empty block is written as %s", raw)
	}
	if err := (Block{Type: "x", Raw: []byte("{")}).Decode(&u); err == nil {
		t.Error("a cut block is read")
	}
}
