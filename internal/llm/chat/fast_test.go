package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const commonChunk = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini","choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}]}`

var fastCases = []struct {
	name, data string
	fast       bool
}{
	{"common", commonChunk, true},
	{"role only", `{"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`, true},
	{"empty content", `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, true},
	{"every field of OpenAI", `{"id":"c","object":"o","created":1,"model":"m","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abc"}`, true},
	{"spaces", ` { "choices" : [ { "delta" : { "content" : " x " } , "index" : 0 } ] , "usage" : null } `, true},
	{"escapes", `{"choices":[{"delta":{"content":"a\"b\\c\/d\ne\tf\rg\bh\fi"}}]}`, true},
	{"escape first and last", `{"choices":[{"delta":{"content":"\n\n"}}]}`, true},
	{"utf-8", `{"choices":[{"delta":{"content":"üñ漢🦀\u2028"}}]}`, false}, // \u is left to the slow path
	{"raw utf-8", `{"choices":[{"delta":{"content":"üñ漢🦀\n"}}]}`, true},
	{"invalid utf-8", "{\"choices\":[{\"delta\":{\"content\":\"a\xffb\"}}]}", false},
	{"control character", "{\"choices\":[{\"delta\":{\"content\":\"a\nb\"}}]}", false},
	{"unknown escape", `{"choices":[{"delta":{"content":"a\xb"}}]}`, false},
	{"finish", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, false},
	{"usage", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, false},
	{"error", `{"choices":[{"index":0,"delta":{"content":"a"}}],"error":{"message":"x"}}`, false},
	{"error null", `{"choices":[{"index":0,"delta":{"content":"a"}}],"error":null}`, true},
	{"tool calls", `{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[]}}]}`, false},
	{"reasoning", `{"choices":[{"index":0,"delta":{"content":"a","reasoning_content":"b"}}]}`, false},
	{"content null", `{"choices":[{"index":0,"delta":{"content":null}}]}`, false},
	{"other choice", `{"choices":[{"index":1,"delta":{"content":"a"}}]}`, false},
	{"index 00", `{"choices":[{"index":00,"delta":{"content":"a"}}]}`, false},
	{"two choices", `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":0,"delta":{"content":"b"}}]}`, false},
	{"no choices", `{"choices":[]}`, false},
	{"choices twice", `{"choices":[{"delta":{"content":"a"}}],"choices":[{"delta":{"content":"b"}}]}`, false},
	{"delta twice", `{"choices":[{"delta":{"content":"a"},"delta":{}}]}`, false},
	{"content twice", `{"choices":[{"delta":{"content":"a","content":"b"}}]}`, false},
	{"key in another case", `{"choices":[{"delta":{"content":"a","Content":"b"}}]}`, false},
	{"key with an escape", `{"choices":[{"delta":{"content":"a","c\u006fntent":"b"}}]}`, false},
	{"unknown key", `{"choices":[{"delta":{"content":"a"}}],"x":1}`, false},
	{"number with a leading zero", `{"created":01,"choices":[{"delta":{"content":"a"}}]}`, false},
	{"trailing comma", `{"choices":[{"delta":{"content":"a"},}]}`, false},
	{"trailing text", `{"choices":[{"delta":{"content":"a"}}]}x`, false},
	{"cut", `{"choices":[{"delta":{"content":"a`, false},
	{"cut in an escape", `{"choices":[{"delta":{"content":"a\`, false},
	{"done", `[DONE]`, false},
	{"empty", ``, false},
}

func TestFastContent(t *testing.T) {
	for _, tt := range fastCases {
		t.Run(tt.name, func(t *testing.T) {
			var scratch []byte
			if _, ok := fastContent([]byte(tt.data), &scratch); ok != tt.fast {
				t.Errorf("fast = %v, want %v", ok, tt.fast)
			}
			agree(t, []byte(tt.data))
		})
	}
}

// agree fails when the fast path reads a chunk and encoding/json reads something else.
func agree(t *testing.T, data []byte) {
	t.Helper()
	scratch := make([]byte, 3)
	content, ok := fastContent(data, &scratch)
	if !ok {
		return
	}
	var chunk openai.ChatChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		t.Fatalf("fast read %q, encoding/json says %v\n%s", content, err, data)
	}
	if len(chunk.Choices) != 1 || chunk.Usage != nil || present(chunk.Error) {
		t.Fatalf("fast read what is more than a text delta: %s", data)
	}
	c := chunk.Choices[0]
	if c.Index != 0 || c.FinishReason != "" || c.Message != nil || present(c.Error) || c.Delta.ToolCalls != nil ||
		c.Delta.Refusal+c.Delta.Reasoning+c.Delta.ReasoningContent != "" {
		t.Fatalf("fast read what is more than a text delta: %s", data)
	}
	if got := c.Delta.Content.String(); got != string(content) {
		t.Fatalf("fast read %q, encoding/json %q\n%s", content, got, data)
	}
}

func FuzzFastContent(f *testing.F) {
	for _, tt := range fastCases {
		f.Add([]byte(tt.data))
	}
	f.Fuzz(agree)
}

// FuzzChunk holds that no bytes of a server make the decoder panic or break the law's bookkeeping.
func FuzzChunk(f *testing.F) {
	for _, tt := range fastCases {
		f.Add([]byte(tt.data))
	}
	f.Add([]byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{"}},{"id":"a","function":{"name":"x"}}]}}]}`))
	f.Add([]byte(`{"error":{"error":{"error":"x"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		turn := llm.NewTurn(func(openai.Event, error) bool { return true }, counter())
		d := &decoder{turn: turn, provider: "test"}
		for range 2 {
			if err := d.data("", data); err != nil {
				return
			}
		}
		d.end()
	})
}

func BenchmarkFastContent(b *testing.B) {
	data := []byte(commonChunk)
	var scratch []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		fastContent(data, &scratch)
	}
}

func BenchmarkSlowContent(b *testing.B) {
	data := []byte(commonChunk)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		var chunk openai.ChatChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChunk is one chunk on its whole way from the bytes of a frame to an encoded Responses event.
func BenchmarkChunk(b *testing.B) {
	data := []byte(commonChunk)
	var out []byte
	turn := llm.NewTurn(func(ev openai.Event, err error) bool {
		out, _ = openai.AppendEvent(out[:0], ev)
		return true
	}, nil)
	d := &decoder{turn: turn, provider: "bench"}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.data("", data); err != nil {
			b.Fatal(err)
		}
	}
	if !strings.Contains(string(out), "token ") {
		b.Fatal(string(out))
	}
}
