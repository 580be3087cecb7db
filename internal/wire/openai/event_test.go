package openai

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// everyEvent is one of each kind of event that is sent, numbered.
func everyEvent() []Event {
	two, limit := int64(2000), int64(4096)
	call := ShellCall{Type: TypeShellCall, ID: "sh_1", CallID: "call_1", Status: InProgress, Action: ShellAction{Commands: []string{}},
		Environment: &ItemEnvironment{Type: "container_reference", ContainerID: "cntr_1"}}
	ran := call
	ran.Status, ran.Action = Completed, ShellAction{Commands: []string{"ls <dir>"}, TimeoutMS: &two, MaxOutputLength: &limit}
	entry := ShellOutput{Stdout: "a\n", Stderr: "\u001b[31mé", Outcome: Exit(1), Receipt: &Receipt{DurationMS: 3, TimeoutMS: 2000, Rung: "jail", StdoutBytes: 2, StderrBytes: 7}}
	output := ShellCallOutput{Type: TypeShellCallOutput, ID: "sho_1", CallID: "call_1", Status: InProgress, Output: []ShellOutput{}}
	answered := output
	answered.Status, answered.Output = Completed, []ShellOutput{entry, {Outcome: Timeout()}}
	answered.OutputFiles = []OutputFile{{ContainerID: "cntr_1", FileID: "cfile_1", Filename: "a.csv", Path: "/mnt/data/a.csv", Bytes: 12, ContentType: "text/csv", Source: "assistant"}}
	cite := Annotation{Type: "container_file_citation", ContainerID: "cntr_1", FileID: "cfile_1", Filename: "a.csv", StartIndex: 3, EndIndex: 8}
	message := Message{Type: TypeMessage, ID: "msg_1", Role: "assistant", Status: InProgress, Content: Content{}}
	response := Response{ID: "resp_1", Object: "response", CreatedAt: 1700000000, Status: InProgress, Model: "scripted", Output: []Item{},
		Metadata: map[string]string{}, Tools: []json.RawMessage{}, Text: json.RawMessage(`{"format":{"type":"text"}}`), ToolChoice: json.RawMessage(`"auto"`)}
	failed := response
	failed.Status, failed.Error = Failed, &ResponseError{Code: "server_error", Message: "no"}
	stopped := response
	stopped.Status, stopped.IncompleteDetails = Incomplete, &IncompleteDetails{Reason: ReasonMaxMessages}
	done := response
	done.Status, done.Output, done.Usage = Completed, []Item{NewItem(ran), NewItem(answered)}, &Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}
	arguments := NewDone(EventArgumentsDone, "fc_1", 3, 0, `{"a":1}`)
	arguments.Name = "weather"
	events := []Event{
		NewLifecycle(EventCreated, response), NewLifecycle(EventQueued, response), NewLifecycle(EventInProgress, response),
		NewItemEvent(EventItemAdded, 0, NewItem(call)),
		NewCommand(EventCommandAdded, 0, 0, ""), NewCommand(EventCommandDelta, 0, 0, "ls <dir>"), NewCommand(EventCommandDone, 0, 0, "ls <dir>"),
		NewItemEvent(EventItemAdded, 1, NewItem(output)), NewItemEvent(EventItemDone, 0, NewItem(ran)),
		&OutputDeltaEvent{Head{Type: EventOutputDelta}, "sho_1", 1, 0, OutputDelta{Stdout: "a\n"}},
		&OutputDeltaEvent{Head{Type: EventOutputDelta}, "sho_1", 1, 0, OutputDelta{Stderr: "é"}},
		&OutputDoneEvent{Head{Type: EventOutputDone}, "sho_1", 1, 0, []ShellOutput{entry}},
		NewItemEvent(EventItemDone, 1, NewItem(answered)),
		NewItemEvent(EventItemAdded, 2, NewItem(message)),
		NewPartEvent(EventPartAdded, "msg_1", 2, 0, Part{Type: "output_text"}),
		NewDelta(EventTextDelta, "msg_1", 2, 0, "a \"b\"\n<c>"),
		&AnnotationEvent{Head{Type: EventAnnotation}, "msg_1", 2, 0, 0, cite},
		NewDone(EventTextDone, "msg_1", 2, 0, "a \"b\"\n<c>"),
		NewPartEvent(EventPartDone, "msg_1", 2, 0, Part{Type: "output_text", Text: "a \"b\"\n<c>", Annotations: []Annotation{cite}}),
		NewDelta(EventRefusalDelta, "msg_1", 2, 1, "no"), NewDone(EventRefusalDone, "msg_1", 2, 1, "no"),
		NewDelta(EventArgumentsDelta, "fc_1", 3, 0, `{"a":`), arguments,
		NewDelta(EventReasonDelta, "rs_1", 4, 0, "hm"), NewDone(EventReasonDone, "rs_1", 4, 0, "hm"), NewDone(EventTextDone, "msg_1", 2, 0, ""),
		NewLifecycle(EventCompleted, done), NewLifecycle(EventFailed, failed), NewLifecycle(EventIncomplete, stopped),
		&Head{Type: EventKeepalive},
	}
	for i, ev := range events {
		ev.SetSequence(int64(i))
	}
	return events
}

func TestEventsGolden(t *testing.T) {
	var got []byte
	for _, ev := range everyEvent() {
		var err error
		if got, err = AppendEvent(got, ev); err != nil {
			t.Fatalf("%s: %v", ev.EventType(), err)
		}
		got = append(got, '\n')
	}
	const path = "testdata/events.golden"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryEventNameIsCovered(t *testing.T) {
	source, err := os.ReadFile("event.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, ev := range everyEvent() {
		seen[ev.EventType()] = true
	}
	names := 0
	for line := range strings.Lines(string(source)) {
		if _, value, ok := strings.Cut(line, "= \""); ok && strings.HasPrefix(strings.TrimSpace(line), "Event") {
			names++
			if name := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "\"")); !seen[name] {
				t.Errorf("no test sends %s", name)
			}
		}
	}
	if names < 20 {
		t.Errorf("%d names found in event.go", names)
	}
}

func TestPeek(t *testing.T) {
	for i, ev := range everyEvent() {
		raw, err := AppendEvent(nil, ev)
		if err != nil {
			t.Fatal(err)
		}
		if typ, n, err := Peek(raw); err != nil || typ != ev.EventType() || n != int64(i) {
			t.Errorf("%q %d, %v; want %q %d", typ, n, err, ev.EventType(), i)
		}
	}
	if _, _, err := Peek([]byte("x")); err == nil {
		t.Error("x is taken as an event")
	}
}

// deltasAgree holds that the hand-written deltas are what encoding/json writes of the same event, but for the keys that
// only one type has.
func deltasAgree(t *testing.T, typ, itemID, delta string, index, content int, sequence int64) {
	t.Helper()
	ev := NewDelta(typ, itemID, index, content, delta)
	ev.SetSequence(sequence)
	fast, err := AppendEvent([]byte("<"), ev)
	if err != nil || fast[0] != '<' {
		t.Fatalf("%s, %v", fast, err)
	}
	slow, err := Marshal(ev)
	if err != nil {
		t.Fatal(err)
	}
	var a, b map[string]any
	if err := json.Unmarshal(fast[1:], &a); err != nil {
		t.Fatalf("%v: %s", err, fast[1:])
	}
	if err := json.Unmarshal(slow, &b); err != nil {
		t.Fatal(err)
	}
	switch typ {
	case EventArgumentsDelta:
		delete(b, "content_index")
	case EventTextDelta:
		b["logprobs"] = []any{}
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Fatalf("(-Marshal +AppendEvent):\n%s", diff)
	}
}

func TestDeltasAgree(t *testing.T) {
	for _, typ := range []string{EventTextDelta, EventRefusalDelta, EventReasonDelta, EventArgumentsDelta} {
		for _, delta := range []string{"", "token ", "a\"b\\c\n\r\t\x00\x1f\x7f", "ü漢🦀\u2028", "bad \xff\xc3 end \xe2\x82", "<&>"} {
			deltasAgree(t, typ, "msg_1\"", delta, 3, 1, 42)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\/\b\f\n\r\t", "\x00\x1f\x7f", "ü漢🦀", "\xff", "\xed\xa0\x80", "a\xc3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		raw := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(raw, &back); err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		std, _ := json.Marshal(s)
		var want string
		if err := json.Unmarshal(std, &want); err != nil {
			t.Fatal(err)
		}
		if back != want {
			t.Fatalf("%q reads back as %q, encoding/json as %q", s, back, want)
		}
		if !utf8.Valid(raw) || bytes.ContainsAny(raw, "\n\r") {
			t.Fatalf("%q is not fit for an SSE line", raw)
		}
		deltasAgree(t, EventTextDelta, "msg_1", s, 0, 0, 1)
	})
}

func BenchmarkAppendEvent(b *testing.B) {
	ev := NewDelta(EventTextDelta, "msg_01jd0000000000000000000000", 0, 0, "token ")
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendEvent(buf[:0], ev)
	}
}
