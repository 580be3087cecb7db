package chat

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/sse"
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
	{"finish", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, true},
	{"finish twice", `{"choices":[{"index":0,"delta":{},"finish_reason":"stop","finish_reason":"length"}]}`, false},
	{"usage", `{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, true},
	{"usage of OpenAI", `{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":0,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":3,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":5,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":null}}}`, true},
	{"usage twice", `{"choices":[],"usage":{"prompt_tokens":1},"usage":{"total_tokens":1}}`, false},
	{"usage then none", `{"choices":[],"usage":{"prompt_tokens":1},"usage":null}`, false},
	{"usage in another case", `{"choices":[],"usage":{"Prompt_tokens":1}}`, false},
	{"usage with a fraction", `{"choices":[],"usage":{"prompt_tokens":1.5}}`, false},
	{"usage with a leading zero", `{"choices":[],"usage":{"prompt_tokens":01}}`, false},
	{"usage beyond a number", `{"choices":[],"usage":{"prompt_tokens":9999999999999999999999}}`, false},
	{"usage of details only", `{"choices":[],"usage":{"cached_tokens":1}}`, false},
	{"whole answer", `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a\nb","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`, true},
	{"message and delta", `{"choices":[{"delta":{"content":"a"},"message":{"content":"b"}}]}`, false},
	{"message null", `{"choices":[{"delta":{"content":"a"},"message":null}]}`, true},
	{"error", `{"choices":[{"index":0,"delta":{"content":"a"}}],"error":{"message":"x"}}`, false},
	{"error null", `{"choices":[{"index":0,"delta":{"content":"a"}}],"error":null}`, true},
	{"tool calls", `{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[]}}]}`, false},
	{"reasoning", `{"choices":[{"index":0,"delta":{"content":"a","reasoning_content":"b"}}]}`, false},
	{"content null", `{"choices":[{"index":0,"delta":{"content":null}}]}`, false},
	{"other choice", `{"choices":[{"index":1,"delta":{"content":"a"}}]}`, false},
	{"index 00", `{"choices":[{"index":00,"delta":{"content":"a"}}]}`, false},
	{"two choices", `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":0,"delta":{"content":"b"}}]}`, false},
	{"no choices", `{"choices":[]}`, true},
	{"no choices at all", `{"id":"x"}`, false},
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

func TestFastChunk(t *testing.T) {
	for _, tt := range fastCases {
		t.Run(tt.name, func(t *testing.T) {
			var scratch []byte
			if _, ok := fastChunk([]byte(tt.data), &scratch); ok != tt.fast {
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
	fast, ok := fastChunk(data, &scratch)
	if !ok {
		return
	}
	var chunk openai.ChatChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		t.Fatalf("fast read %+v, encoding/json says %v\n%s", fast, err, data)
	}
	var c openai.ChatChoice
	if len(chunk.Choices) == 1 {
		c = chunk.Choices[0]
	}
	d := &c.Delta
	if c.Message != nil {
		d = c.Message
	}
	if len(chunk.Choices) > 1 || dialect.Present(chunk.Error) || c.Index != 0 || dialect.Present(c.Error) || d.ToolCalls != nil ||
		d.Refusal+d.Reasoning+d.ReasoningContent != "" {
		t.Fatalf("fast read what is more than text, end and usage: %s", data)
	}
	if got := d.Content.String(); got != string(fast.content) || c.FinishReason != fast.finish {
		t.Fatalf("fast read %q %q, encoding/json %q %q\n%s", fast.content, fast.finish, got, c.FinishReason, data)
	}
	if fast.counted != (chunk.Usage != nil) || fast.counted && fast.usage != *chunk.Usage {
		t.Fatalf("fast read usage %+v, encoding/json %+v\n%s", fast.usage, chunk.Usage, data)
	}
}

func FuzzFastChunk(f *testing.F) {
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
		turn := llm.NewTurn(func(openai.Event, error) bool { return true }, providertest.Counter())
		d := &decoder{turn: turn, server: upstream.New(upstream.Options{Name: "test"}, upstream.Dialect{})}
		for range 2 {
			if err := d.data("", data); err != nil {
				return
			}
		}
		d.End()
	})
}

func BenchmarkFastChunk(b *testing.B) {
	data := []byte(commonChunk)
	var scratch []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		fastChunk(data, &scratch)
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
	d := &decoder{turn: turn, server: upstream.New(upstream.Options{Name: "bench"}, upstream.Dialect{})}
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Frame(sse.Event{Data: data}, false); err != nil {
			b.Fatal(err)
		}
	}
	if !strings.Contains(string(out), "token ") {
		b.Fatal(string(out))
	}
}
