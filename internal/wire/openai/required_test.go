package openai

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
)

func newReader(b []byte) io.Reader { return strings.NewReader(string(b)) }

// keysOf are the keys of an object.
func keysOf(t *testing.T, v any) map[string]json.RawMessage {
	t.Helper()
	raw, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The SDKs read these keys of zero values too: a key that is absent is a crash in a client.
func TestRequiredKeysAreAlwaysWritten(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		keys  string
	}{
		{"response", Response{}, "id object created_at error incomplete_details instructions metadata model output parallel_tool_calls " +
			"temperature tool_choice tools top_p status store background service_tier presence_penalty frequency_penalty top_logprobs " +
			"truncation text reasoning usage completed_at max_output_tokens max_tool_calls previous_response_id prompt_cache_key safety_identifier user"},
		{"shell call", ShellCall{}, "type id call_id status action environment"},
		{"shell action", ShellAction{}, "commands timeout_ms max_output_length"},
		{"shell call output", ShellCallOutput{}, "type id call_id status max_output_length output"},
		{"shell output", ShellOutput{}, "stdout stderr outcome"},
		{"message", Message{}, "type role content"},
		{"function call", FunctionCall{}, "type call_id name arguments"},
		{"reasoning", Reasoning{}, "type id summary"},
		{"usage", Usage{}, "input_tokens input_tokens_details output_tokens output_tokens_details total_tokens"},
		{"error", ErrorObject{}, "message type param code"},
		{"list", NewList[Model](nil, false, nil), "object data first_id last_id has_more"},
		{"container", Container{}, "id object created_at status name last_active_at expires_after memory_limit network_policy"},
		{"container file", ContainerFile{}, "id object bytes container_id created_at path source"},
		{"deleted", Deleted{}, "id object deleted"},
		{"model", Model{}, "id object created owned_by"},
		{"annotation", Annotation{}, "type container_id file_id filename start_index end_index"},
		{"output file", OutputFile{}, "container_id file_id filename path bytes source"},
	} {
		got := keysOf(t, tt.value)
		for key := range strings.FieldsSeq(tt.keys) {
			if _, ok := got[key]; !ok {
				t.Errorf("%s: %q is not written", tt.name, key)
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	for want, o := range map[string]Outcome{
		`{"type":"exit","exit_code":0}`:   Exit(0),
		`{"type":"exit","exit_code":137}`: Exit(137),
		`{"type":"timeout"}`:              Timeout(),
	} {
		if got, _ := Marshal(o); string(got) != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestList(t *testing.T) {
	l := NewList([]Model{{ID: "a"}, {ID: "b"}}, true, func(m Model) string { return m.ID })
	if *l.FirstID != "a" || *l.LastID != "b" || !l.HasMore || l.Object != "list" {
		t.Errorf("%+v", l)
	}
	if got := keysOf(t, NewList[Model](nil, false, nil))["data"]; string(got) != "[]" {
		t.Errorf("an empty list's data is %s", got)
	}
}

func TestUsageAdds(t *testing.T) {
	u := Usage{1, InputDetails{2, 3}, 4, OutputDetails{5}, 6}
	u.Add(Usage{10, InputDetails{20, 30}, 40, OutputDetails{50}, 60})
	if want := (Usage{11, InputDetails{22, 33}, 44, OutputDetails{55}, 66}); u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
}

func TestMarshalDoesNotEscapeHTML(t *testing.T) {
	if got, err := Marshal(map[string]string{"a": "<b>&\u2028"}); err != nil || string(got) != `{"a":"<b>&\u2028"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("a function is written as JSON")
	}
}

func TestChatShapes(t *testing.T) {
	for raw, want := range map[string]string{`null`: "", `"a"`: "a", `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: "ab"} {
		var c ChatContent
		if err := json.Unmarshal([]byte(raw), &c); err != nil || c.String() != want {
			t.Errorf("%s = %q, %v", raw, c.String(), err)
		}
		if out, err := Marshal(c); err != nil || string(out) != raw {
			t.Errorf("%s written as %s, %v", raw, out, err)
		}
	}
	for raw, want := range map[string]ChatArguments{`null`: "", `""`: "", `"{\"a\":1}"`: `{"a":1}`, `{ "a" : 1.0 }`: `{"a":1.0}`} {
		var a ChatArguments
		if err := json.Unmarshal([]byte(raw), &a); err != nil || a != want {
			t.Errorf("%s = %q, %v", raw, a, err)
		}
	}
	u := ChatUsage{PromptTokens: 3, CompletionTokens: 2, PromptCacheHit: 1}.Responses()
	if u.TotalTokens != 5 || u.InputTokensDetails.CachedTokens != 1 {
		t.Errorf("%+v", u)
	}
	keys := keysOf(t, ChatRequest{})
	if got := len(keys); got != 3 || !slices.Contains([]string{"null", "[]"}, string(keys["messages"])) {
		t.Errorf("an empty request has %d keys: %v", got, keys)
	}
}
