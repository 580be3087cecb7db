package terminal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

func TestTelemetryPreview(t *testing.T) {
	lines := strings.Repeat("line\n", 60)
	for _, c := range []struct{ output, want string }{
		{"", ""}, {"short\n", "short\n"}, {strings.Repeat("line\n", 50), strings.Repeat("line\n", 50)},
		{lines, strings.Repeat("line\n", 50) + TelemetryPreviewTruncationNotice},
		{strings.Repeat("x", 2048), strings.Repeat("x", 2048)}, {strings.Repeat("x", 2049), strings.Repeat("x", 2048) + "\n" + TelemetryPreviewTruncationNotice},
		{"x" + strings.Repeat("é", 1024), "x" + strings.Repeat("é", 1023) + "\n" + TelemetryPreviewTruncationNotice},
	} {
		if got := TelemetryPreview(c.output); got != c.want {
			t.Errorf("%.60q: %q", c.output, got[max(0, len(got)-60):])
		}
	}
}

// TestDeltas cuts a stream of characters of every length at every place, and bytes that are none.
func TestDeltas(t *testing.T) {
	text := "aé€😀\xff\xfe\xc3" + strings.Repeat("😀", 5000) + "\xe2\x82"
	for cut := range 16 {
		var events recorder
		d := newDeltas(&events, "c")
		d.write(process.Stdout, []byte(text[:cut]))
		d.write(process.Stderr, []byte("!"))
		d.write(process.Stdout, []byte(text[cut:]))
		_, digest := d.sum()
		var got bytes.Buffer
		for _, e := range eventsOf[ExecCommandOutputDelta](&events) {
			if e.Stream != Stdout {
				continue
			}
			if len(e.Chunk) > maxDelta {
				t.Errorf("a delta of %d bytes", len(e.Chunk))
			}
			if r, _ := utf8.DecodeLastRune(e.Chunk); r == utf8.RuneError && got.Len()+len(e.Chunk) != len(text) && got.Len()+len(e.Chunk) > 20 {
				t.Errorf("cut %d: half a character at %d", cut, got.Len()+len(e.Chunk))
			}
			got.Write(e.Chunk)
		}
		if got.String() != text {
			t.Fatalf("cut %d: the deltas are not the stream", cut)
		}
		sum := sha256.Sum256([]byte(text[:cut] + "!" + text[cut:]))
		if digest != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Errorf("cut %d: %s", cut, digest)
		}
	}
	var events recorder
	d := newDeltas(&events, "c")
	for range MaxExecOutputDeltasPerCall + 5 {
		d.write(process.Stdout, []byte("x"))
	}
	if n := len(eventsOf[ExecCommandOutputDelta](&events)); n != MaxExecOutputDeltasPerCall {
		t.Errorf("%d deltas", n)
	}
}

func TestTheEventsOfACall(t *testing.T) {
	var events recorder
	p := &person{answer: Approved}
	r := newRig(t, approval.UnlessTrusted, func(c *SessionConfig) { c.Observer, c.Approver = &events, p })
	r.call(ToolShellCommand, `{"command":"touch a; echo out; echo err >&2; exit 3"}`)
	begin, end, asked := eventsOf[ExecCommandBegin](&events), eventsOf[ExecCommandEnd](&events), eventsOf[ApprovalRequested](&events)
	if len(begin) != 1 || len(end) != 1 || len(asked) != 1 {
		t.Fatalf("%d begins, %d ends, %d questions", len(begin), len(end), len(asked))
	}
	b, e := begin[0], end[0]
	if b.CallID != "call_1" || b.Tool != ToolShellCommand || !b.Freeform || b.Source != FromAgent || b.Cwd != r.turn.Cwd || b.Attempt != 1 || b.Decision.By != "person" || b.Report.Got != "jail" ||
		len(b.Lines) != 4 || b.Lines[1] != "echo out" || b.Command[len(b.Command)-1] != "touch a; echo out; echo err >&2; exit 3" {
		t.Errorf("%+v", b)
	}
	if e.ExitCode != 3 || e.Stdout != 4 || e.Stderr != 4 || e.Error != "" || !strings.Contains(e.Preview, "out\n") || e.Digest == "" || e.Decision.Digest != asked[0].Digest {
		t.Errorf("%+v", e)
	}
	if asked[0].Approved != "approved" || asked[0].By != "ann" || asked[0].Tool != ToolShellCommand {
		t.Errorf("%+v", asked[0])
	}
	streams := map[Stream]string{}
	for _, d := range eventsOf[ExecCommandOutputDelta](&events) {
		streams[d.Stream] += string(d.Chunk)
	}
	if streams[Stdout] != "out\n" || streams[Stderr] != "err\n" {
		t.Errorf("%v", streams)
	}

	p.answer = Denied
	r.call(ToolShell, `{"command":["touch","x"]}`)
	end = eventsOf[ExecCommandEnd](&events)
	if len(end) != 2 || end[1].Error != "rejected" || end[1].CallID != "call_2" || len(eventsOf[ExecCommandBegin](&events)) != 1 {
		t.Errorf("%+v", end)
	}
}
