package e2e

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// messages is the vendor's client of a server. The environment of the test tells it nothing.
func messages(s *server, key string) anthropic.Client {
	return anthropic.NewClient(option.WithoutEnvironmentDefaults(), option.WithBaseURL(s.URL), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func question(text string, more ...anthropic.MessageParam) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{Model: "scripted/scripted", MaxTokens: 2000,
		Messages: append([]anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}, more...)}
}

// hostedBash declares the server's bash, which the SDK has no type for.
var hostedBash = option.WithJSONSet("tools", []any{map[string]any{"type": "openrouter:bash", "parameters": map[string]any{"engine": "openrouter"}}})

func blockTypes(m anthropic.Message) string {
	var out []string
	for _, b := range m.Content {
		out = append(out, b.Type)
	}
	return strings.Join(out, " ")
}

// The Go SDK reads an answer with the server's bash in it, and what it hands back is history.
func TestMessagesWithTheServersBash(t *testing.T) {
	s := start(t)
	client := messages(s, s.Key)
	stream := client.Messages.NewStreaming(within(t), question("$ x=here; cd /tmp\n$ pwd; echo \"<$x>\"; echo oops >&2; false\n"), hostedBash)
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	pair := "server_tool_use bash_code_execution_tool_result"
	if got := blockTypes(m); got != pair+" "+pair+" text" || m.StopReason != anthropic.StopReasonEndTurn || m.Usage.InputTokens == 0 || m.Container.ID == "" {
		t.Fatalf("%s, %s: %s", got, m.StopReason, m.RawJSON())
	}
	result := m.Content[3].AsBashCodeExecutionToolResult().Content.AsResponseBashCodeExecutionResultBlock()
	if result.Stdout != "/tmp\n<here>\n" || result.Stderr != "oops\n" || result.ReturnCode != 1 {
		t.Errorf("the second command: %s", result.RawJSON())
	}
	again, err := client.Messages.New(within(t), question("go", m.ToParam(), anthropic.NewUserMessage(anthropic.NewTextBlock("and now?"))), hostedBash)
	if err != nil {
		t.Fatal(err)
	}
	if blockTypes(*again) != "text" || again.Container.ID != "" {
		t.Errorf("the replay ran something: %s", again.RawJSON())
	}
}

// A bash of the client's comes as tool_use, and its result continues.
func TestMessagesWithTheClientsBash(t *testing.T) {
	s := start(t)
	client := messages(s, s.Key)
	ask := question("$ ls\n")
	ask.Tools = []anthropic.ToolUnionParam{{OfBashTool20250124: &anthropic.ToolBash20250124Param{}}}
	m, err := client.Messages.New(within(t), ask)
	if err != nil {
		t.Fatal(err)
	}
	var input struct{ Command string }
	if m.StopReason != anthropic.StopReasonToolUse || blockTypes(*m) != "tool_use" || json.Unmarshal(m.Content[0].Input, &input) != nil || input.Command != "ls" {
		t.Fatalf("%s", m.RawJSON())
	}
	ask.Messages = append(ask.Messages, m.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(m.Content[0].ID, "two files", false)))
	if m, err = client.Messages.New(within(t), ask); err != nil || m.StopReason != anthropic.StopReasonEndTurn || !strings.Contains(m.Content[0].Text, "two files") {
		t.Errorf("%v %+v", err, m)
	}
}

func TestMessagesCountsModelsAndErrors(t *testing.T) {
	s := start(t)
	client := messages(s, s.Key)
	count, err := client.Messages.CountTokens(within(t), anthropic.MessageCountTokensParams{Model: "scripted/scripted",
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(strings.Repeat("word ", 100)))}})
	if err != nil || count.InputTokens < 80 || count.InputTokens > 200 {
		t.Errorf("%v %+v", err, count)
	}
	models := 0
	pager := client.Models.ListAutoPaging(within(t), anthropic.ModelListParams{})
	for pager.Next() {
		models++
		if pager.Current().ID == "" || pager.Current().CreatedAt.IsZero() {
			t.Errorf("%s", pager.Current().RawJSON())
		}
	}
	if pager.Err() != nil || models == 0 {
		t.Errorf("%d models, %v", models, pager.Err())
	}
	stranger := messages(s, "wrong")
	_, err = stranger.Messages.New(within(t), question("hi"))
	var refused *anthropic.Error
	if !errors.As(err, &refused) || refused.StatusCode != 401 || refused.RequestID == "" || !strings.Contains(refused.RawJSON(), "authentication_error") {
		t.Errorf("a wrong key: %v", err)
	}
	_, err = client.Messages.New(within(t), question("hi"), option.WithJSONSet("model", "nobody/nothing"))
	if !errors.As(err, &refused) || refused.StatusCode != 404 {
		t.Errorf("a model that is not there: %v", err)
	}
}
