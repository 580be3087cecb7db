package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// awkward holds what JSON has to escape.
const awkward = "a \"b\" <c>&\\ \u2028 é\x00\x1f\n😀"

// fill sets every field below v to something that is not its zero value, so that a field that is new in a shape is in
// the comparison.
func fill(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes(fmt.Appendf(nil, `{"raw":[%d,"<é>"]}`, *n))
		return
	case v.Type() == reflect.TypeFor[Item]():
		v.Set(reflect.ValueOf(Item{Type: "x", Raw: json.RawMessage(fmt.Sprintf(`{"type":"x","n":%d}`, *n))}))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"z" + awkward: awkward, "a": "1", "": ""}))
	case reflect.String:
		v.SetString(fmt.Sprint(awkward, *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) * 1_000_003)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("fill: " + v.Type().String())
	}
}

// byReflection is what encoding/json alone makes of v.
func byReflection(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAppendWritesWhatEncodingJSONWrites(t *testing.T) {
	filled := func(v any) any {
		n := 0
		fill(reflect.ValueOf(v).Elem(), &n)
		return v
	}
	response := filled(new(Response)).(*Response)
	message := *filled(new(Message)).(*Message)
	bare := Response{Output: []Item{{}, UserText("x")}, Tools: []json.RawMessage{nil}, Metadata: map[string]string{}, Temperature: -0.7,
		TopP: 1e300, PresencePenalty: 1e-9, FrequencyPenalty: 2}
	for _, v := range []any{*response, Response{}, bare, message, Message{}, Message{Content: Content{}},
		Message{Type: TypeMessage, Role: "user", Content: Content{{Type: "input_text", Text: awkward}, {Type: "output_text", Text: awkward},
			{Type: "reasoning_text"}, {Type: "input_image", ImageURL: "u"}, {Type: "summary_text", Text: "s"}, {Type: "strange"}}}} {
		got, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(canonical(t, byReflection(t, v)), canonical(t, got)); diff != "" {
			t.Errorf("%T (-encoding/json +ours):\n%s", v, diff)
		}
	}
	for _, ev := range []Event{NewLifecycle(EventCompleted, *response), filled(new(ItemEvent)).(*ItemEvent), filled(new(PartEvent)).(*PartEvent)} {
		got, err := AppendEvent(nil, ev)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(canonical(t, byReflection(t, ev)), canonical(t, got)); diff != "" {
			t.Errorf("%T (-encoding/json +ours):\n%s", ev, diff)
		}
	}
}

func TestAppendKeepsAnEventOnOneLine(t *testing.T) {
	r := Response{Output: []Item{{Raw: json.RawMessage("{\r\n \"a\": 1\n}")}}, ToolChoice: json.RawMessage("{\n}"), Tools: []json.RawMessage{[]byte("[\r]")}}
	got, err := AppendEvent([]byte("before "), NewLifecycle(EventCreated, r))
	if err != nil || bytes.ContainsAny(got, "\r\n") || !bytes.HasPrefix(got, []byte(`before {"type":"response.created"`)) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAppendRefusesWhatJSONCannotHold(t *testing.T) {
	if _, err := Marshal(Response{Temperature: math.NaN()}); err == nil {
		t.Error("a temperature that is no number was written")
	}
	if _, err := Marshal(Response{Text: json.RawMessage("{\n")}); err == nil {
		t.Error("half an object was written")
	}
}

func TestNewItemKnowsWhatItWrote(t *testing.T) {
	for _, v := range []any{Message{Type: TypeMessage, ID: "msg_1", Role: "user", Status: Completed}, Message{Role: "user"},
		FunctionCall{Type: TypeFunctionCall, ID: "fc_1", CallID: "call_1", Name: "f", Status: InProgress}, FunctionCall{ID: "x"}} {
		var read Item
		if err := read.UnmarshalJSON(byReflection(t, v)); err != nil {
			t.Fatal(err)
		}
		made := NewItem(v)
		read.Raw, made.Raw = nil, nil
		if diff := cmp.Diff(read, made); diff != "" {
			t.Errorf("%+v (-read +made):\n%s", v, diff)
		}
	}
}

func TestOnePartOfContent(t *testing.T) {
	for _, text := range []string{"", "plain", awkward, `","text":"`, `"}]`, `\`} {
		raw, err := Marshal(Content{{Type: "input_text", Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		var c Content
		if err := json.Unmarshal(raw, &c); err != nil || len(c) != 1 || c[0].Text != text || c[0].Type != "input_text" {
			t.Errorf("%q became %+v, %v", text, c, err)
		}
	}
	for _, raw := range []string{`[{"type":"input_text","text":"a","text":"b"}]`, `[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]`} {
		var c Content
		if err := json.Unmarshal([]byte(raw), &c); err != nil || c[len(c)-1].Text != "b" {
			t.Errorf("%s became %+v, %v", raw, c, err)
		}
	}
}

func TestPlainMessageReadsWhatDecodeReads(t *testing.T) {
	type slow Message // without the short cut
	for _, tt := range []struct {
		raw   string
		plain bool
	}{
		{`{"type":"message","role":"user","content":[{"type":"input_text","text":"a\n\"b\" é"}]}`, true},
		{`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"","annotations":[]}]}`, true},
		{`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}`, false},
		{`{"type":"message","role":"user","content":[{"type":"input_text","text":"a","text":"b"}]}`, false},
		{`{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}],"phase":"commentary","content":[{"type":"input_text","text":"b"}]}`, false},
		{`{"type":"message","role":"user","phase":"commentary","content":[{"type":"input_text","text":"a"}]}`, false},
		{`{"type":"message","role":"user","content":[{"type":"input_text","text":7}]}`, false},
		{`{"type":"message","role":"user","content":"a"}`, false},
		{`{"role":"user","content":[{"type":"input_text","text":"a"}]}`, false},
		{`{"type":"message","role":"user","content":[{"type":"refusal","refusal":"no"}]}`, false},
		{`{"type":"message","role":"user","content":[]}`, false},
		{`{"type":"reasoning","id":"rs_1","summary":[]}`, false},
	} {
		var i Item
		if err := json.Unmarshal([]byte(tt.raw), &i); err != nil {
			t.Fatal(err)
		}
		got, ok := i.PlainMessage()
		if ok != tt.plain {
			t.Errorf("%s: plain is %t", tt.raw, ok)
		}
		var want slow
		err := json.Unmarshal([]byte(tt.raw), &want)
		if ok && (err != nil || !cmp.Equal(Message(want), got)) {
			t.Errorf("%s: %+v, want %+v, %v", tt.raw, got, want, err)
		}
		if ok && string(NewItem(got).Raw) != tt.raw {
			t.Errorf("%s is written back as %s", tt.raw, NewItem(got).Raw)
		}
		var m Message
		if gotErr := i.Decode(&m); (gotErr != nil) != (err != nil) || err == nil && !cmp.Equal(Message(want), m) {
			t.Errorf("%s: decoded to %+v, %v; want %+v, %v", tt.raw, m, gotErr, want, err)
		}
	}
}
