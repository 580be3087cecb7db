package cli

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/sse"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// stream writes events as a server does, numbered from 0.
func stream(t testing.TB, events ...openai.Event) io.Reader {
	t.Helper()
	var b []byte
	for i, e := range events {
		e.SetSequence(int64(i))
		raw, err := openai.AppendEvent(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		b = sse.AppendComment(sse.AppendFrame(b, e.EventType(), raw), "keepalive")
	}
	return bytes.NewReader(append(b, "data: [DONE]\n\n"...))
}

func snapshot(status string) openai.Response {
	return openai.Response{ID: "resp_1", Status: status, Model: "m", Output: []openai.Item{}}
}

// shellTurn is a call of two commands as the wire has it: the output item opens before the call is done.
func shellTurn() []openai.Event {
	call := openai.ShellCall{Type: "shell_call", ID: "sh_1", CallID: "call_1", Status: openai.InProgress, Action: openai.ShellAction{Commands: []string{}}}
	output := openai.ShellCallOutput{Type: "shell_call_output", ID: "sho_1", CallID: "call_1", Status: openai.InProgress, Output: []openai.ShellOutput{}}
	done := call
	done.Status, done.Action.Commands = openai.Completed, []string{"ls\nwc", "fail"}
	first := openai.ShellOutput{Stdout: "a\nb\n", Outcome: openai.Exit(0), Receipt: &openai.Receipt{DurationMS: 12, Rung: "jail", StdoutBytes: 4}}
	second := openai.ShellOutput{Stderr: "no\n", Outcome: openai.Timeout(), Receipt: &openai.Receipt{DurationMS: 3400, Rung: "jail", StderrBytes: 3,
		Missing: []string{"memory limit"}, Reason: "timed_out"}}
	end := output
	end.Status, end.Output = openai.Completed, []openai.ShellOutput{first, second}
	end.OutputFiles = []openai.OutputFile{{ContainerID: "cntr_1", FileID: "cfile_1", Path: "/mnt/data/r.csv", Bytes: 5, Source: "assistant"},
		{ContainerID: "cntr_1", FileID: "cfile_0", Path: "/mnt/data/sent.csv", Bytes: 5, Source: "user"}}
	return []openai.Event{
		openai.NewLifecycle(openai.EventCreated, snapshot(openai.InProgress)),
		openai.NewItemEvent(openai.EventItemAdded, 0, openai.NewItem(call)),
		openai.NewCommand(openai.EventCommandAdded, 0, 0, ""), openai.NewCommand(openai.EventCommandDelta, 0, 0, "ls"),
		openai.NewCommand(openai.EventCommandDone, 0, 0, "ls\nwc"),
		openai.NewCommand(openai.EventCommandAdded, 0, 1, ""), openai.NewCommand(openai.EventCommandDone, 0, 1, "fail"),
		openai.NewItemEvent(openai.EventItemAdded, 1, openai.NewItem(output)),
		openai.NewItemEvent(openai.EventItemDone, 0, openai.NewItem(done)),
		&openai.OutputDeltaEvent{Head: openai.Head{Type: openai.EventOutputDelta}, ItemID: "sho_1", OutputIndex: 1, Delta: openai.OutputDelta{Stdout: "a\nb"}},
		&openai.OutputDeltaEvent{Head: openai.Head{Type: openai.EventOutputDelta}, ItemID: "sho_1", OutputIndex: 1, Delta: openai.OutputDelta{Stdout: "\n"}},
		&openai.OutputDoneEvent{Head: openai.Head{Type: openai.EventOutputDone}, ItemID: "sho_1", OutputIndex: 1, Output: []openai.ShellOutput{first}},
		&openai.OutputDoneEvent{Head: openai.Head{Type: openai.EventOutputDone}, ItemID: "sho_1", OutputIndex: 1, CommandIndex: 1, Output: []openai.ShellOutput{second}},
		openai.NewItemEvent(openai.EventItemDone, 1, openai.NewItem(end)),
		openai.NewDelta(openai.EventTextDelta, "msg_1", 2, 0, "There are "), openai.NewDelta(openai.EventTextDelta, "msg_1", 2, 0, "two."),
		openai.NewItemEvent(openai.EventItemDone, 2, openai.NewItem(openai.Message{Type: "message", ID: "msg_1", Role: "assistant"})),
	}
}

func watched(t testing.TB, asJSON bool, from io.Reader) (*view, string, string, error) {
	t.Helper()
	var out, err strings.Builder
	v := newView(&program{Streams: Streams{Out: &out, Err: &err}}, asJSON)
	e := v.watch(t.Context(), from)
	return v, out.String(), err.String(), e
}

func TestViewOfAShellTurn(t *testing.T) {
	events := append(shellTurn(), openai.NewLifecycle(openai.EventCompleted, snapshot(openai.Completed)))
	v, out, told, err := watched(t, false, stream(t, events...))
	if err != nil || v.verdict() != nil {
		t.Fatal(err, v.verdict())
	}
	if out != "There are two.\n" {
		t.Errorf("stdout = %q", out)
	}
	const want = `» ls
  wc
  a
  b
  └ jail · 12 ms · exit 0 · 4 B
» fail
  no
  └ jail · 3.4 s · time ran out · 3 B · missing memory limit
`
	if told != want {
		t.Errorf("stderr =\n%s\nwant\n%s", told, want)
	}
	if files := v.produced(); len(files) != 1 || files[0].FileID != "cfile_1" {
		t.Errorf("files = %+v", files)
	}
	if _, out, _, _ := watched(t, true, stream(t, events...)); out != "" {
		t.Errorf("with --json the text is on stdout too: %q", out)
	}
}

func TestViewTellsHowAResponseEnds(t *testing.T) {
	failed := snapshot(openai.Failed)
	failed.Error = &openai.ResponseError{Code: "server_error", Message: "the provider is down"}
	incomplete := snapshot(openai.Incomplete)
	incomplete.IncompleteDetails = &openai.IncompleteDetails{Reason: "max_messages"}
	for name, c := range map[string]struct {
		end  openai.Event
		want string
	}{
		"failed":     {openai.NewLifecycle(openai.EventFailed, failed), "failed: the provider is down"},
		"incomplete": {openai.NewLifecycle(openai.EventIncomplete, incomplete), "incomplete: max_messages"},
		"cancelled":  {openai.NewLifecycle(openai.EventIncomplete, snapshot(openai.Cancelled)), "cancelled"},
		"broken off": {nil, "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			events := shellTurn()
			if c.end != nil {
				events = append(events, c.end)
			}
			v, _, _, err := watched(t, false, stream(t, events...))
			if err = errors.Join(err, v.verdict()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestViewOfAnErrorEvent(t *testing.T) {
	for _, data := range []string{`{"type":"error","sequence_number":1,"message":"flat \u001b[31m"}`, `{"type":"error","sequence_number":1,"error":{"message":"nested"}}`, `not json`} {
		_, _, _, err := watched(t, false, strings.NewReader("data: "+data+"\n\n"))
		if err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestProgress(t *testing.T) {
	now := time.Unix(0, 0)
	for name, c := range map[string]struct {
		tty  bool
		at   []time.Duration
		want string
	}{
		"a terminal": {true, []time.Duration{0, 300 * time.Millisecond, 1200 * time.Millisecond}, "\r\x1b[K⠦ running · 1s\r\x1b[K"},
		"a file":     {false, []time.Duration{time.Second, 11 * time.Second, 12 * time.Second, 21 * time.Second}, "… running · 11s\n… running · 21s\n"},
		"quick":      {false, []time.Duration{time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			elapsed := time.Duration(0)
			p := &progress{to: &out, tty: c.tty, now: func() time.Time { return now.Add(elapsed) }}
			p.start("running")
			for _, elapsed = range c.at {
				p.show()
			}
			p.clear()
			if out.String() != c.want {
				t.Errorf("wrote %q, want %q", out.String(), c.want)
			}
		})
	}
}

func TestPlain(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"text":              {"a\tb\nc", "a\tb\nc"},
		"colour":            {"\x1b[1;31mred\x1b[0m", "red"},
		"window title":      {"\x1b]0;owned\x07x", "x"},
		"clipboard":         {"\x1b]52;c;aGk=\x1b\\x", "x"},
		"device string":     {"\x1bPq#0\x1b\\x", "x"},
		"cursor":            {"a\x1b[2Jb\x1b[10;10Hc", "abc"},
		"character set":     {"\x1b(0x", "x"},
		"carriage return":   {"10%\r20%\r\n", "10%\n20%\n"},
		"bell, backspace":   {"a\x07\x08b", "ab"},
		"one-byte controls": {"a\u009b31mb\u0085c", "abc"},
		"reordering marks":  {"a\u202eb\u2066c", "abc"},
		"other scripts":     {"žluťoučký 猫 🐈", "žluťoučký 猫 🐈"},
	} {
		t.Run(name, func(t *testing.T) {
			var whole plain
			if got := whole.Text(c.in); got != c.want {
				t.Errorf("whole: %q, want %q", got, c.want)
			}
			var pieces plain
			var got strings.Builder
			for _, r := range c.in {
				got.WriteString(pieces.Text(string(r)))
			}
			if got.String() != c.want {
				t.Errorf("in pieces: %q, want %q", got.String(), c.want)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[31mx\x1b]0;t\x07\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		var p plain
		for _, r := range p.Text(in) {
			if r != '\n' && r != '\t' && hidden(r) {
				t.Fatalf("%q shows %q", in, r)
			}
		}
	})
}

func FuzzView(f *testing.F) {
	f.Add([]byte(`{"type":"response.shell_call_command.done","output_index":0,"command_index":3,"command":"x"}`), []byte(`{"type":"response.shell_call_output_content.done","item_id":"s","command_index":1,"output":[{}]}`))
	f.Add([]byte(`{}`), []byte(`{"type":"response.shell_call_output_content.done","output":[{}]}`)) // of no item at all
	f.Add([]byte(`{}`), []byte(`{"type":"response.shell_call_output_content.delta","command_index":-1,"delta":{"stdout":"x"}}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		v := newView(&program{Streams: Streams{Out: io.Discard, Err: io.Discard}}, false)
		if v.event(first) == nil {
			v.event(second)
		}
	})
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{12 * time.Millisecond: "12 ms", 3400 * time.Millisecond: "3.4 s", 125 * time.Second: "2 min 5 s"} {
		if got := duration(d); got != want {
			t.Errorf("duration(%v) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 9999: "9999 B", 12345: "12.3 kB", 40_000_000: "40.0 MB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %s, want %s", n, got, want)
		}
	}
}
