package bedrock

import (
	"encoding/json"
	"testing"

	wire "github.com/hardshell-dev/hardshell/internal/wire/converse"
)

var fastCases = []struct {
	data string
	fast bool
}{
	{`{"contentBlockIndex":0,"delta":{"text":"token "},"p":"abcdefgh"}`, true},
	{`{"contentBlockIndex":12,"delta":{"text":"a\nü"}}`, true},
	{` { "delta" : { "text" : "" } , "contentBlockIndex" : 1 } `, true},
	{`{"delta":{"text":"a"}}`, true},
	{`{"contentBlockIndex":null,"delta":{"text":"a"}}`, true},
	{`{"contentBlockIndex":0}`, false},
	{`{"contentBlockIndex":0,"delta":{}}`, false},
	{`{"contentBlockIndex":0,"delta":{"text":null}}`, false},
	{`{"contentBlockIndex":0,"delta":{"text":"a","toolUse":{"input":"{"}}}`, false},
	{`{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{"}}}`, false},
	{`{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}`, false},
	{`{"contentBlockIndex":0,"delta":{"text":"a"},"delta":{"text":"b"}}`, false},
	{`{"contentBlockIndex":0,"contentBlockIndex":1,"delta":{"text":"a"}}`, false},
	{`{"contentBlockIndex":0,"delta":{"Text":"a"}}`, false},
	{`{"contentBlockIndex":0,"delta":{"text":"\u0061"}}`, false},
	{`{"contentBlockIndex":-1,"delta":{"text":"a"}}`, false},
	{`{"contentBlockIndex":1.5,"delta":{"text":"a"}}`, false},
	{`{"contentBlockIndex":99999999999,"delta":{"text":"a"}}`, false},
	{`{"contentBlockIndex":0,"delta":{"text":"a"},"stopReason":"end_turn"}`, false},
	{`{"contentBlockIndex":0,"delta":{"text":"a"},}`, false},
	{`{"contentBlockIndex":0,"delta":{"text":"a"}}x`, false},
	{`{"contentBlockIndex":0,"delta":{"text":"a`, false},
	{`{}`, false},
	{``, false},
}

func TestFastText(t *testing.T) {
	for _, tt := range fastCases {
		var scratch []byte
		if _, _, ok := fastText([]byte(tt.data), &scratch); ok != tt.fast {
			t.Errorf("fast = %v, want %v: %s", ok, tt.fast, tt.data)
		}
		agree(t, []byte(tt.data))
	}
}

// agree fails when the fast path reads an event and encoding/json reads something else.
func agree(t *testing.T, data []byte) {
	t.Helper()
	scratch := make([]byte, 3)
	index, text, ok := fastText(data, &scratch)
	if !ok {
		return
	}
	var ev wire.Event
	if err := json.Unmarshal(data, &ev); err != nil {
		t.Fatalf("fast read %d %q, encoding/json says %v\n%s", index, text, err, data)
	}
	if ev.Delta.Text == nil || *ev.Delta.Text != string(text) || ev.Index != index || ev.Delta.ToolUse != nil || ev.Delta.Reasoning != nil {
		t.Fatalf("fast read %d %q, encoding/json %+v\n%s", index, text, ev, data)
	}
}

func FuzzFastText(f *testing.F) {
	for _, tt := range fastCases {
		f.Add([]byte(tt.data))
	}
	f.Fuzz(agree)
}

func BenchmarkText(b *testing.B) {
	data := []byte(fastCases[0].data)
	b.Run("fast", func(b *testing.B) {
		var scratch []byte
		b.ReportAllocs()
		for b.Loop() {
			fastText(data, &scratch)
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var ev wire.Event
			if err := json.Unmarshal(data, &ev); err != nil {
				b.Fatal(err)
			}
		}
	})
}
