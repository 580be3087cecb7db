package openai

import (
	"encoding/json"
	"testing"
)

// slowHead is the head as the standard decoder reads it.
func slowHead(data []byte) (h head, err error) {
	var v struct {
		Type   string `json:"type"`
		ID     string `json:"id"`
		CallID string `json:"call_id"`
		Role   string `json:"role"`
		Status string `json:"status"`
	}
	err = json.Unmarshal(data, &v)
	return head{v.Type, v.ID, v.CallID, v.Role, v.Status}, err
}

func TestHead(t *testing.T) {
	for _, tc := range []struct {
		name, json string
		quick      bool
	}{
		{"empty", `{}`, true},
		{"ours", `{"type":"message","id":"msg_1","role":"user","status":"completed","content":[{"type":"input_text","text":"a \" } b"}]}`, true},
		{"a vendor's", ` { "id" : "fc_1", "call_id":"call_1", "x":{"type":["id",{"role":1.5e3}]}, "y":null,"z":true , "type":"function_call" } `, true},
		{"told twice", `{"id":"a","id":"b"}`, true},
		{"text beyond ASCII elsewhere", `{"type":"message","content":"wörd \\\" \u00e9"}`, true},
		{"another case", `{"Type":"message","ID":"a"}`, false},
		{"a relative of S", `{"ſtatus":"completed"}`, false},
		{"null", `{"type":null,"id":"a"}`, false},
		{"no text", `{"type":7}`, false},
		{"escapes", `{"type":"mess\u0061ge"}`, false},
		{"an escaped key", `{"t\u0079pe":"message"}`, false},
		{"no object", `["type"]`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := readHead([]byte(tc.json))
			want, err := slowHead([]byte(tc.json))
			if ok != tc.quick || ok && (err != nil || got != want) {
				t.Errorf("%+v, %v; the standard decoder has %+v, %v", got, ok, want, err)
			}
		})
	}
}

// FuzzHead holds the quick reading to the standard decoder's wherever it says anything.
func FuzzHead(f *testing.F) {
	for _, s := range []string{`{"type":"message","id":"msg_1","content":[1,-2.5,{"a":"\\"}]}`, `{"ſtatus":"x","ID":"y"}`, `{"a":[[],{}],"role":"user"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := readHead(data) // never panics
		if !ok || !json.Valid(data) {
			return
		}
		if want, err := slowHead(data); err != nil || got != want {
			t.Errorf("%q: %+v; the standard decoder has %+v, %v", data, got, want, err)
		}
	})
}
