package anthropic

import (
	"encoding/json"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	wire "github.com/hardshell-dev/hardshell/internal/wire/anthropic"
)

func FuzzRequest(f *testing.F) {
	providertest.FuzzRequest(f, "anthropic", Dialect{Provider: "test", Version: wire.Version2023, SystemRole: true}.Body)
}

func FuzzStream(f *testing.F) { providertest.FuzzStream(f, recorded) }

// FuzzFastDelta holds fastDelta to encoding/json.
func FuzzFastDelta(f *testing.F) {
	for _, s := range []string{`"text_delta","text":"a\"b\\ü\n"}}`, `"thinking_delta","thinking":""}}   }`, `"input_json_delta","partial_json":"{\"a\":"}  }`,
		`"text_delta","text":"a","text":"b"}}`, `"text_delta","text":"\u00fc"}}`, `"text_delta","text":"a"}},`, "\"text_delta\",\"text\":\"\xff\"}}"} {
		f.Add([]byte(`{"type":"content_block_delta","index":0,"delta":{"type":` + s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var scratch []byte
		index, kind, text, ok := fastDelta(data, &scratch)
		if !ok {
			return
		}
		var ev wire.Event
		if err := json.Unmarshal(data, &ev); err != nil {
			t.Fatalf("%q is no JSON: %v", data, err)
		}
		want := map[string]string{wire.DeltaText: ev.Delta.Text, wire.DeltaThinking: ev.Delta.Thinking, wire.DeltaInput: ev.Delta.PartialJSON}[kind]
		if ev.Type != wire.EventBlockDelta || ev.Index != index || ev.Delta.Type != kind || want != string(text) {
			t.Fatalf("%q: %d %s %q, want %+v", data, index, kind, text, ev)
		}
	})
}

func BenchmarkDelta(b *testing.B) {
	data := []byte(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"token "}      }`)
	b.Run("fast", func(b *testing.B) {
		var scratch []byte
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, ok := fastDelta(data, &scratch); !ok {
				b.Fatal("not taken")
			}
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
