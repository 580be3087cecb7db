package openai

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestItemKeepsWhatItDoesNotKnow(t *testing.T) {
	for _, raw := range []string{
		`{"type":"message","role":"user","content":"hi","x_unknown":{"deep":[1,2.50,"<é>"]},"id":"msg_1"}`,
		`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search"}}`,
		`{"z":1,"a":2,"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"abc=="}`,
		`{ "type" : "message", "role" : "user", "content" : [] , "big": 12345678901234567890 }`,
	} {
		var i Item
		if err := json.Unmarshal([]byte(raw), &i); err != nil {
			t.Fatal(err)
		}
		out, err := i.MarshalJSON()
		if err != nil || string(out) != raw {
			t.Errorf("round trip of %s gave %s, %v", raw, out, err)
		}
		list, err := Marshal([]Item{i, i})
		if err != nil {
			t.Fatal(err)
		}
		var back []Item
		if err := json.Unmarshal(list, &back); err != nil || len(back) != 2 || !sameJSON(t, back[1].Raw, []byte(raw)) {
			t.Errorf("through a list: %s, %v", list, err)
		}
	}
}

// sameJSON compares values exactly, numbers by their text.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	return cmp.Equal(canonical(t, a), canonical(t, b))
}

func canonical(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(newReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

func TestItemDoesNotShareItsBytes(t *testing.T) {
	raw := []byte(`{"type":"message","role":"user","content":"hi"}`)
	var i Item
	if err := i.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	copy(raw, "XXXXXXXXXX")
	if i.Raw[0] != '{' {
		t.Error("the item shares its bytes with the decoder's buffer")
	}
}

func TestItemHeader(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want Item
	}{
		{`{"role":"user","content":"hi"}`, Item{Type: TypeMessage, Role: "user"}},
		{`{"type":null,"role":"user"}`, Item{Type: TypeMessage, Role: "user"}},
		{`{"id":"msg_1"}`, Item{Type: TypeItemReference, ID: "msg_1"}},
		{`{"type":null,"id":"msg_1"}`, Item{Type: TypeItemReference, ID: "msg_1"}},
		{`{"type":"item_reference","id":"msg_1"}`, Item{Type: TypeItemReference, ID: "msg_1"}},
		{`{"type":"function_call","call_id":"c","id":"fc_1","status":"completed"}`, Item{Type: TypeFunctionCall, ID: "fc_1", CallID: "c", Status: Completed}},
		{`{}`, Item{}},
	} {
		var got Item
		if err := json.Unmarshal([]byte(tt.raw), &got); err != nil {
			t.Fatal(err)
		}
		got.Raw = nil
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.raw, diff)
		}
	}
	for _, raw := range []string{`"text"`, `7`, `[]`, `{"type":7}`, `{"role":{}}`} {
		if err := json.Unmarshal([]byte(raw), new(Item)); err == nil {
			t.Errorf("%s is taken as an item", raw)
		}
	}
	if raw, err := Marshal(Item{}); err != nil || string(raw) != "null" {
		t.Errorf("an empty item is %s, %v", raw, err)
	}
}

func TestContentForms(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want Content
	}{
		{`"plain \"text\""`, Content{{Type: "input_text", Text: `plain "text"`}}},
		{`[]`, Content{}},
		{`null`, nil},
		{`[{"type":"input_text","text":"a"},{"type":"output_text","text":"b","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"c"}]`,
			Content{{Type: "input_text", Text: "a"}, {Type: "output_text", Text: "b", Annotations: []Annotation{}}, {Type: "refusal", Refusal: "c"}}},
		{`[{"type":"input_image","detail":"low","image_url":"u"},{"type":"input_file","file_data":"d","filename":"f","file_id":"i","file_url":"l"}]`,
			Content{{Type: "input_image", Detail: "low", ImageURL: "u"}, {Type: "input_file", FileData: "d", Filename: "f", FileID: "i", FileURL: "l"}}},
	} {
		var got Content
		if err := json.Unmarshal([]byte(tt.raw), &got); err != nil {
			t.Fatalf("%s: %v", tt.raw, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.raw, diff)
		}
	}
	for _, raw := range []string{`7`, `{}`, `[7]`, `[{"type":7}]`} {
		if err := json.Unmarshal([]byte(raw), new(Content)); err == nil {
			t.Errorf("%s is taken as content", raw)
		}
	}
	if got := (Content{{Text: "a"}, {Refusal: "b"}, {ImageURL: "x"}}).Text(); got != "ab" {
		t.Errorf("Text = %q", got)
	}
}

func TestOutputTextForms(t *testing.T) {
	for raw, want := range map[string]OutputText{
		`"a"`: "a",
		`[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]`: "ab",
		`[]`: "",
	} {
		var got OutputText
		if err := json.Unmarshal([]byte(raw), &got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", raw, got, err, want)
		}
	}
	if raw, _ := Marshal(FunctionCallOutput{Type: TypeFunctionCallOutput, CallID: "c", Output: "<x>"}); string(raw) != `{"type":"function_call_output","call_id":"c","output":"<x>"}` {
		t.Errorf("written as %s", raw)
	}
}

func TestPartKeys(t *testing.T) {
	for _, tt := range []struct {
		part Part
		want string
	}{
		{Part{Type: "output_text"}, `{"type":"output_text","text":"","annotations":[]}`},
		{Part{Type: "input_text"}, `{"type":"input_text","text":""}`},
		{Part{Type: "reasoning_text"}, `{"type":"reasoning_text","text":""}`},
		{Part{Type: "summary_text"}, `{"type":"summary_text","text":""}`},
		{Part{Type: "refusal"}, `{"type":"refusal","refusal":""}`},
		{Part{Type: "input_image", ImageURL: "u"}, `{"type":"input_image","image_url":"u"}`},
	} {
		if got, err := Marshal(tt.part); err != nil || string(got) != tt.want {
			t.Errorf("%s = %s, %v", tt.part.Type, got, err)
		}
	}
}

func TestInputForms(t *testing.T) {
	var r CreateRequest
	if err := json.Unmarshal([]byte(`{"model":"m","input":"hi","unknown":1}`), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Input) != 1 || r.Input[0].Role != "user" || r.Input[0].Type != TypeMessage {
		t.Errorf("input = %+v", r.Input)
	}
	if err := json.Unmarshal([]byte(`{"input":[{"role":"user","content":"a"},{"id":"x"}]}`), &r); err != nil || len(r.Input) != 2 {
		t.Errorf("input = %+v, %v", r.Input, err)
	}
	for _, raw := range []string{`{"input":7}`, `{"input":{}}`, `{"input":["a"]}`, `{"stream":"yes"}`} {
		if err := json.Unmarshal([]byte(raw), new(CreateRequest)); err == nil {
			t.Errorf("%s is taken as a request", raw)
		}
	}
}

func TestToolRoundTrip(t *testing.T) {
	raw := `{"type":"shell","environment":{"type":"container_auto","memory_limit":"4g","network_policy":{"type":"allowlist","allowed_domains":["a.example"]},"x":1},"y":[2]}`
	var tool Tool
	if err := json.Unmarshal([]byte(raw), &tool); err != nil {
		t.Fatal(err)
	}
	if tool.Type != "shell" || tool.Environment.Type != "container_auto" || *tool.Environment.MemoryLimit != "4g" ||
		tool.Environment.NetworkPolicy.AllowedDomains[0] != "a.example" {
		t.Errorf("%+v", tool)
	}
	if out, err := tool.MarshalJSON(); err != nil || string(out) != raw {
		t.Errorf("written as %s, %v", out, err)
	}
	strict := true
	if out, _ := Marshal(Tool{Type: "function", Name: "f", Strict: &strict}); string(out) != `{"type":"function","name":"f","strict":true}` {
		t.Errorf("made here: %s", out)
	}
}
