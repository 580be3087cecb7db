package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

func request(input string) responses.ResponseNewParams {
	return responses.ResponseNewParams{
		Model: "scripted",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(input)},
		Tools: []responses.ToolUnionParam{{OfShell: &responses.FunctionShellToolParam{
			Environment: responses.FunctionShellToolEnvironmentUnionParam{OfContainerAuto: &responses.ContainerAutoParam{}},
		}}},
	}
}

// Every event of a shell turn has a typed variant, numbers have no gap, and the last event carries the whole response.
func TestStreamedShellTurnIsTyped(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream := s.Client.Responses.NewStreaming(ctx, request("$ echo hello\n$ echo bad >&2; exit 4"))
	var next int64
	var live strings.Builder
	var final *responses.Response
	for stream.Next() {
		e := stream.Current()
		if e.SequenceNumber != next {
			t.Fatalf("event %s is numbered %d, want %d", e.Type, e.SequenceNumber, next)
		}
		next++
		switch v := e.AsAny().(type) {
		case nil:
			t.Errorf("event %s has no typed variant", e.Type)
		case responses.ResponseCompletedEvent:
			final = &v.Response
		}
		if e.Type == "response.shell_call_output_content.delta" {
			live.WriteString(e.RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if final == nil {
		t.Fatal("no response.completed")
	}
	var kinds []string
	for _, item := range final.Output {
		kinds = append(kinds, item.Type)
		if item.AsAny() == nil {
			t.Errorf("item %s has no typed variant", item.Type)
		}
	}
	want := "shell_call shell_call_output shell_call shell_call_output message"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("items = %s, want %s", got, want)
	}
	out := final.Output[3].AsShellCallOutput()
	if got := out.Output[0].Outcome.ExitCode; got != 4 {
		t.Errorf("exit code = %d, want 4", got)
	}
	if out.Output[0].Stderr != "bad\n" {
		t.Errorf("stderr = %q", out.Output[0].Stderr)
	}
	if !strings.Contains(live.String(), "hello") {
		t.Errorf("no live output: %s", live.String())
	}
	got, err := s.Client.Responses.Get(ctx, final.ID, responses.ResponseGetParams{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != "completed" || len(got.Output) != len(final.Output) {
		t.Errorf("stored: status %s, %d items", got.Status, len(got.Output))
	}
}

// A chained response works in the same container, and a plain answer equals a streamed one.
func TestChainedResponseKeepsTheContainer(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	one, err := s.Client.Responses.New(ctx, request("$ echo kept > note.txt"))
	if err != nil {
		t.Fatal(err)
	}
	second := request("$ cat /mnt/data/note.txt")
	second.PreviousResponseID = openai.String(one.ID)
	two, err := s.Client.Responses.New(ctx, second)
	if err != nil {
		t.Fatal(err)
	}
	if got := two.Output[1].AsShellCallOutput().Output[0].Stdout; got != "kept\n" {
		t.Errorf("stdout = %q, want what the first response wrote", got)
	}
}

// Pages of containers and of their files come through the SDK's auto pager, each entry once.
func TestAutoPaging(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	want := map[string]bool{}
	for _, name := range []string{"a", "b", "c"} {
		c, err := s.Client.Containers.New(ctx, openai.ContainerNewParams{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		want[c.ID] = true
	}
	pages := s.Client.Containers.ListAutoPaging(ctx, openai.ContainerListParams{Limit: openai.Int(2)})
	for pages.Next() {
		if !want[pages.Current().ID] {
			t.Errorf("container %s came twice, or is not ours", pages.Current().ID)
		}
		delete(want, pages.Current().ID)
	}
	if err := pages.Err(); err != nil {
		t.Fatal(err)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}
