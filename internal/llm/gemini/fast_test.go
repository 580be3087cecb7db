package gemini

import (
	"encoding/json"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	wire "github.com/hardshell-dev/hardshell/internal/wire/gemini"
)

const commonPiece = `{"candidates":[{"content":{"parts":[{"text":"token "}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":2,"totalTokenCount":6,"promptTokensDetails":[{"modality":"TEXT","tokenCount":4}]},"modelVersion":"gemini-3-flash","responseId":"abc"}`

var fastCases = []struct {
	data string
	fast bool
}{
	{commonPiece, true},
	{`{"candidates":[{"content":{"parts":[{"text":"a\n\"ü\""}]},"finishReason":"STOP"}]}`, true},
	{` { "candidates" : [ { "content" : { "parts" : [ { "text" : "" } ] , "role" : "model" } } ] } `, true},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"thoughtsTokenCount":3,"cachedContentTokenCount":1,"toolUsePromptTokenCount":2,"trafficType":"ON_DEMAND","cacheTokensDetails":[]}}`, true},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokensDetails":[{"modality":"TEXT"},{"modality":"IMAGE","tokenCount":2}]}}`, true},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"promptTokensDetails":[{"modality":"TEXT"},]}}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{"PromptTokenCount":1}}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":{},"usageMetadata":{"promptTokenCount":1}}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"usageMetadata":null}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"c2ln"}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"},{"text":"b"}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"shell","args":{}}}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}],"parts":[{"text":"b"}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a","text":"b"}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]},"content":{}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":1}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","finishReason":"OTHER"}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishMessage":"x"}]}`, false},
	{`{"candidates":[{"finishReason":"STOP"}]}`, false},
	{`{"candidates":[]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"error":{"code":500}}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}],"promptFeedback":{}}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"\u0061"}]}}]}`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a`, false},
	{`{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}x`, false},
	{``, false},
}

func TestFastPiece(t *testing.T) {
	for _, tt := range fastCases {
		var scratch []byte
		if _, ok := fastPiece([]byte(tt.data), &scratch); ok != tt.fast {
			t.Errorf("fast = %v, want %v: %s", ok, tt.fast, tt.data)
		}
		agree(t, []byte(tt.data))
	}
}

// agree fails when the fast path reads an event and encoding/json reads something else.
func agree(t *testing.T, data []byte) {
	t.Helper()
	scratch := make([]byte, 3)
	fast, ok := fastPiece(data, &scratch)
	if !ok {
		return
	}
	var a wire.Answer
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatalf("fast read %+v, encoding/json says %v\n%s", fast, err, data)
	}
	if len(a.Candidates) != 1 || dialect.Present(a.Error) || a.Feedback != nil || len(a.Candidates[0].Content.Parts) != 1 {
		t.Fatalf("fast read what is more than one text: %s", data)
	}
	c := a.Candidates[0]
	p := c.Content.Parts[0]
	if p.Text == nil || *p.Text != string(fast.text) || c.FinishReason != fast.finish || c.FinishMessage != "" {
		t.Fatalf("fast read %q %q, encoding/json %+v\n%s", fast.text, fast.finish, c, data)
	}
	if p.Thought || p.Signature != "" || p.FunctionCall != nil || p.FunctionResponse != nil || p.InlineData != nil || p.FileData != nil {
		t.Fatalf("fast read what is more than text: %s", data)
	}
	if fast.counted != (a.Usage != nil) || fast.counted && fast.usage != *a.Usage {
		t.Fatalf("fast read usage %+v, encoding/json %+v\n%s", fast.usage, a.Usage, data)
	}
}

func FuzzFastPiece(f *testing.F) {
	for _, tt := range fastCases {
		f.Add([]byte(tt.data))
	}
	f.Fuzz(agree)
}

func BenchmarkPiece(b *testing.B) {
	data := []byte(commonPiece)
	b.Run("fast", func(b *testing.B) {
		var scratch []byte
		b.ReportAllocs()
		for b.Loop() {
			fastPiece(data, &scratch)
		}
	})
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var a wire.Answer
			if err := json.Unmarshal(data, &a); err != nil {
				b.Fatal(err)
			}
		}
	})
}
