package e2e

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

var container = regexp.MustCompile(`cntr_[0-9a-z]+`)

// Check 22: a stream that cannot go on ends with a StreamError that carries our code, and GetStreaming goes on behind
// the last event that came, after the server is back.
func TestAStreamThatBreaksOffIsTakenUpAgain(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	// The command ends when the server is back, however long that takes.
	r := request("$ echo line 1; echo line 2; until [ -e /mnt/data/go ]; do sleep 0.05; done; echo line 3")
	r.Background = openai.Bool(true)
	stream := s.Client.Responses.NewStreaming(ctx, r)
	last, id, out, place := int64(-1), "", "", ""
	take := func(e responses.ResponseStreamEventUnion) {
		if e.SequenceNumber != last+1 {
			t.Fatalf("event %s is numbered %d behind %d", e.Type, e.SequenceNumber, last)
		}
		last = e.SequenceNumber
		if e.Response.ID != "" {
			id = e.Response.ID
		}
		if found := container.FindString(e.RawJSON()); found != "" {
			place = found
		}
		if e.Type == "response.shell_call_output_content.delta" {
			out += e.RawJSON()
		}
	}
	var stopped chan struct{}
	for stream.Next() {
		take(stream.Current())
		if strings.Contains(out, "line 2") && stopped == nil {
			stopped = make(chan struct{})
			go func() { defer close(stopped); s.stop(t) }()
		}
	}
	var told *ssestream.StreamError
	if err := stream.Err(); !errors.As(err, &told) || !strings.Contains(err.Error(), "server_stopping") {
		t.Fatalf("the stream of a server that stops ended with %v", err)
	}
	<-stopped
	s.launch(t)
	file := openai.ContainerFileNewParams{File: openai.File(strings.NewReader("now"), "go", "text/plain")}
	if _, err := s.Client.Containers.Files.New(ctx, place, file); err != nil {
		t.Fatalf("a file for container %q: %v", place, err)
	}
	again := s.Client.Responses.GetStreaming(ctx, id, responses.ResponseGetParams{StartingAfter: openai.Int(last)})
	var final *responses.Response
	var ended string
	for again.Next() {
		e := again.Current()
		ended = e.RawJSON()
		take(e)
		if e.Type == "response.completed" {
			final = &e.Response
		}
	}
	if err := again.Err(); err != nil {
		t.Fatal(err)
	}
	if final == nil {
		t.Fatalf("the last event is %s", ended)
	}
	if got := final.Output[1].AsShellCallOutput().Output[0].Stdout; got != "line 1\nline 2\nline 3\n" {
		t.Errorf("stdout %q", got)
	}
}
