package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"
)

// The recorded answers of the dialects were written from documents. Here the vendors' own clients read them, and must
// find in them what our decoders find.

// replay answers every request with a recording, and keeps what was sent.
type replay struct {
	answer []byte
	sent   []byte
	path   string
}

func (r *replay) RoundTrip(req *http.Request) (*http.Response, error) {
	r.path = req.URL.EscapedPath()
	if req.Body != nil {
		r.sent, _ = io.ReadAll(req.Body)
	}
	return http.ReadResponse(bufio.NewReader(bytes.NewReader(r.answer)), req)
}

// Do is what the AWS client wants of one.
func (r *replay) Do(req *http.Request) (*http.Response, error) { return r.RoundTrip(req) }

func recording(t *testing.T, dialect, name string) *replay {
	t.Helper()
	raw, err := os.ReadFile("../internal/llm/" + dialect + "/testdata/answers/" + name + ".http")
	if err != nil {
		t.Fatal(err)
	}
	return &replay{answer: raw}
}

// found is what a client reads in an answer.
type found struct {
	text string
	call string // the last one's name and arguments
}

// ours is what our decoder found, as the golden file says.
func ours(t *testing.T, dialect, name string) (f found) {
	t.Helper()
	raw, err := os.ReadFile("../internal/llm/" + dialect + "/testdata/answers/" + name + ".golden")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var ev struct {
			Type  string
			Delta string
			Item  struct{ Type, Name, Arguments string }
		}
		if json.Unmarshal(line, &ev) != nil {
			continue
		}
		switch {
		case ev.Type == "response.output_text.delta":
			f.text += ev.Delta
		case ev.Type == "response.output_item.done" && ev.Item.Type == "function_call":
			f.call = ev.Item.Name + " " + canonical(t, ev.Item.Arguments)
		}
	}
	return f
}

// canonical is JSON without the freedom of writing it.
func canonical(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		text = "{}"
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestTheVendorsReadOurRecordings(t *testing.T) {
	for dialect, c := range map[string]struct {
		read func(*testing.T, context.Context, *replay) found
		more []string
	}{
		"openai":    {readResponses, []string{"reasoning_summary", "calls_in_parallel_interleaved", "text_then_call"}},
		"chat":      {readChat, []string{"thinking_reasoning_content", "calls_parallel_interleaved", "text_then_call"}},
		"anthropic": {readMessages, []string{"thinking", "calls_parallel", "thinking_then_call", "usage_late"}},
		"bedrock":   {readConverse, []string{"thinking", "calls_interleaved", "thinking_twice_then_call", "call_without_arguments"}},
		"gemini":    {readGenerate, []string{"thinking_signed", "calls_parallel", "thinking_then_a_signed_call", "call_with_an_id"}},
	} {
		for _, name := range append([]string{"text", "call"}, c.more...) {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				got, want := c.read(t, ctx, recording(t, dialect, name)), ours(t, dialect, name)
				if got != want || got == (found{}) {
					t.Errorf("the vendor's client reads %+v, we read %+v", got, want)
				}
			})
		}
	}
}

func readResponses(t *testing.T, ctx context.Context, r *replay) (f found) {
	client := openai.NewClient(option.WithAPIKey("k"), option.WithHTTPClient(&http.Client{Transport: r}), option.WithMaxRetries(0))
	stream := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "m"})
	for stream.Next() {
		switch ev := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			f.text += ev.Delta
		case responses.ResponseOutputItemDoneEvent:
			if call := ev.Item; call.Type == "function_call" {
				f.call = call.Name + " " + canonical(t, call.AsFunctionCall().Arguments)
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
	return f
}

func readChat(t *testing.T, ctx context.Context, r *replay) (f found) {
	client := openai.NewClient(option.WithAPIKey("k"), option.WithHTTPClient(&http.Client{Transport: r}), option.WithMaxRetries(0))
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "m"})
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || len(all.Choices) == 0 {
		t.Fatalf("%d choices, %v", len(all.Choices), err)
	}
	f.text = all.Choices[0].Message.Content
	for _, call := range all.Choices[0].Message.ToolCalls {
		f.call = call.Function.Name + " " + canonical(t, call.Function.Arguments)
	}
	return f
}

func readMessages(t *testing.T, ctx context.Context, r *replay) (f found) {
	client := anthropic.NewClient(anthropicoption.WithAPIKey("k"), anthropicoption.WithHTTPClient(&http.Client{Transport: r}), anthropicoption.WithMaxRetries(0))
	stream := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{Model: "m", MaxTokens: 1})
	var all anthropic.Message
	for stream.Next() {
		if err := all.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
	for _, block := range all.Content {
		switch block := block.AsAny().(type) {
		case anthropic.TextBlock:
			f.text += block.Text
		case anthropic.ToolUseBlock:
			f.call = block.Name + " " + canonical(t, string(block.Input))
		}
	}
	return f
}

func gemini(t *testing.T, ctx context.Context, r *replay) *genai.Client {
	t.Helper()
	client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "k", Backend: genai.BackendGeminiAPI, HTTPClient: &http.Client{Transport: r}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func readGenerate(t *testing.T, ctx context.Context, r *replay) (f found) {
	for piece, err := range gemini(t, ctx, r).Models.GenerateContentStream(ctx, "m", genai.Text("a"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range piece.Candidates[0].Content.Parts {
			if !part.Thought {
				f.text += part.Text
			}
			if call := part.FunctionCall; call != nil {
				arguments, err := json.Marshal(call.Args)
				if err != nil {
					t.Fatal(err)
				}
				f.call = call.Name + " " + canonical(t, string(arguments))
			}
		}
	}
	return f
}

func bedrock(r *replay) *bedrockruntime.Client {
	return bedrockruntime.New(bedrockruntime.Options{Region: "us-east-1", HTTPClient: r, RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "s"}, nil
		})})
}

func readConverse(t *testing.T, ctx context.Context, r *replay) (f found) {
	out, err := bedrock(r).ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String("m")})
	if err != nil {
		t.Fatal(err)
	}
	stream := out.GetStream()
	defer stream.Close()
	type call struct{ name, arguments string }
	var calls []call // one behind the other, as blocks begin
	of := map[int32]int{}
	for ev := range stream.Events() {
		switch ev := ev.(type) {
		case *types.ConverseStreamOutputMemberContentBlockStart:
			if use, ok := ev.Value.Start.(*types.ContentBlockStartMemberToolUse); ok {
				of[*ev.Value.ContentBlockIndex] = len(calls)
				calls = append(calls, call{name: *use.Value.Name})
			}
		case *types.ConverseStreamOutputMemberContentBlockDelta:
			switch delta := ev.Value.Delta.(type) {
			case *types.ContentBlockDeltaMemberText:
				f.text += delta.Value
			case *types.ContentBlockDeltaMemberToolUse:
				calls[of[*ev.Value.ContentBlockIndex]].arguments += *delta.Value.Input
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		f.call = c.name + " " + canonical(t, c.arguments)
	}
	return f
}

// TestAnExceptionOfOursIsOneOfTheirs: the vendor's client knows an exception in the stream for what it is.
func TestAnExceptionOfOursIsOneOfTheirs(t *testing.T) {
	out, err := bedrock(recording(t, "bedrock", "exception_throttling")).ConverseStream(t.Context(), &bedrockruntime.ConverseStreamInput{ModelId: aws.String("m")})
	if err != nil {
		t.Fatal(err)
	}
	stream := out.GetStream()
	defer stream.Close()
	for range stream.Events() {
	}
	var throttled *types.ThrottlingException
	if !errors.As(stream.Err(), &throttled) || *throttled.Message != "Too many tokens" {
		t.Errorf("err = %v", stream.Err())
	}
}
