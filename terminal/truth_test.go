package terminal

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/process"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// Case 30, for both tools: words are no denial, on whatever stream, and are told as what they are; a path that is closed is one.
func TestWordsAreNoDenial(t *testing.T) {
	r := newRig(t, approval.OnRequest, nil)
	for _, tool := range both {
		for _, command := range []string{"echo permission denied; exit 1", "echo permission denied >&2; exit 1", "echo operation not permitted in sandbox; exit 1",
			"echo read-only file system; exit 1"} {
			got := r.call(tool, `{"command":"`+command+`"}`)
			if got.Failure != "" || got.Denial != nil || code(got) != 1 {
				t.Errorf("%s %s: %q, %+v", tool, command, got.Failure, got.Denial)
			}
		}
		for _, command := range []string{"echo x > /usr/hardshell-test", "(echo x > /usr/hardshell-test) 2>&1"} {
			got := r.call(tool, `{"command":"`+command+`"}`)
			if got.Failure != "denied" || got.Denial == nil || got.Denial.Path != "/usr/hardshell-test" {
				t.Errorf("%s %s: %q, %+v", tool, command, got.Failure, got.Denial)
			}
		}
		if got := r.call(tool, `{"command":"echo permission denied >&2; exit 1"}`); !strings.Contains(got.Format(Labelled), "Note: what the command printed may mean") {
			t.Errorf("%s: %s", tool, got.Format(Labelled))
		}
	}
}

// What becomes of a command after its call is told by the next one, as it would have been by the first.
func TestTheEndThatComesLater(t *testing.T) {
	var events recorder
	r := newRig(t, approval.OnRequest, func(c *SessionConfig) { c.Observer = &events })
	first := r.call(ToolExecCommand, `{"cmd":"read x; echo x > /usr/hardshell-test","tty":true,"yield_time_ms":250}`)
	if !first.living() {
		t.Fatalf("%+v", first)
	}
	got := r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"chars":"\n","wait_for":"exit"}`)
	if text := got.Format(Labelled); got.Failure != "denied" || got.Denial == nil || !strings.Contains(text, "Denied: ") || !strings.Contains(text, "require_escalated") || got.Profile != r.turn.Profile() {
		t.Errorf("%+v", got)
	}
	first = r.call(ToolExecCommand, `{"cmd":"sleep 600","timeout_ms":600,"yield_time_ms":250}`)
	got = r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"wait_for":"exit"}`)
	if text := got.Format(Labelled); got.Failure != "timeout" || code(got) != 124 || !strings.Contains(text, "command timed out after 600 milliseconds") {
		t.Errorf("%s", text)
	}
	r.session.Close()
	ends := eventsOf[ExecCommandEnd](&events)
	if len(ends) != 2 || ends[0].Error != "denied" || ends[0].Denial == nil || ends[0].CallID != "call_1" || ends[1].Error != "timeout" || ends[1].Session == 0 {
		t.Errorf("%+v", ends)
	}
}

// What is typed in front of a password prompt is not given to it, and the model is told.
func TestNobodyTypesIntoAPasswordPrompt(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
		first := r.call(ToolExecCommand, `{"cmd":"sudo -s","tty":true,"yield_time_ms":250}`)
		j := b.made()[0].last()
		j.says(process.Stdout, "Password: ")
		j.mu.Lock()
		j.look = process.Look{Clear: true, Reads: true, Lines: true}
		j.mu.Unlock()
		synctest.Wait()
		got := r.call(ToolWriteStdin, `{"session_id":`+first.ProcessID+`,"chars":"hunter2\n"}`)
		text := got.Format(Labelled)
		if !got.Password || !strings.Contains(text, "Nothing was typed: ") || !strings.Contains(text, "hardshell answer") || strings.Contains(text, "hunter2") {
			t.Errorf("%s", text)
		}
	})
}

// What an end says beside its code is told.
func TestLimitsAndLossesAreTold(t *testing.T) {
	var r ExecResult
	r.endedBy(process.Exit{Limit: "processes", OutOfMemory: true, StdoutLost: 3, StderrLost: 4, Error: "no such program"})
	text := strings.Join(r.Notices, "\n")
	for _, want := range []string{"processes", "memory ran out", "7 more bytes", "no such program"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}

// R39, in the three forms: what is mostly no text is type, size and digest, in one count; bytes that were replaced are counted.
func TestBinaryOutputInEachForm(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig, b *fakeBackend) {
		for _, tool := range both {
			answer := r.soon(tool, `{"command":"cat image.png"}`)
			synctest.Wait()
			j := b.made()[0].last()
			j.says(process.Stdout, "\x89PNG\r\n\x1a\n"+strings.Repeat("\x00\xff", 50_000))
			j.exits(0)
			got := <-answer
			line := got.Data.String()
			if got.Data.Type != "image/png" || got.Data.Bytes != 100_008 || !strings.Contains(line, "image/png, 100008 bytes, sha256:") || got.Stdout != 100_008 {
				t.Fatalf("%s: %+v", tool, got)
			}
			if text := got.Format(Labelled); !strings.HasSuffix(text, "Output:\n"+line) || strings.Contains(text, "\ufffd") || strings.Contains(text, "truncated") {
				t.Errorf("%s: %q", tool, text)
			}
			if text := got.Format(Bare); !strings.Contains(text, strings.TrimSuffix(line, "\n")) {
				t.Errorf("%s: %q", tool, text)
			}
			var back struct {
				Output string `json:"output"`
				Tokens int64  `json:"original_token_count"`
				Binary struct {
					Type   string `json:"type"`
					Digest string `json:"digest"`
				} `json:"binary"`
			}
			if err := json.Unmarshal([]byte(got.Format(Structured)), &back); err != nil || back.Output != line || back.Binary.Type != "image/png" || back.Binary.Digest != got.Data.Digest || back.Tokens != got.TokenCount() {
				t.Errorf("%s: %v %+v", tool, err, back)
			}

			answer = r.soon(tool, `{"command":"echo"}`)
			synctest.Wait()
			j = b.made()[0].last()
			j.says(process.Stdout, "M\xfcnchen, \xff\xfe")
			time.Sleep(time.Millisecond)
			j.says(process.Stderr, "\xc3")
			j.exits(0)
			got = <-answer
			if got.Replaced != 4 || !strings.Contains(got.Format(Labelled), "Note: 4 bytes of the output are no UTF-8") || !strings.Contains(got.Format(Structured), `"replaced_bytes":4`) {
				t.Errorf("%s: %s", tool, got.Format(Labelled))
			}
		}
	})
}

// What ran and then met with something else keeps its output, and the model is told both.
func TestOutputIsNotLostToAFailure(t *testing.T) {
	for name, r := range map[string]ExecResult{
		"the end is not known":    {Tool: "shell", Head: "begun\n", MaxTokens: 100, Failure: "io", Stage: "output", Message: "infrastructure: output: it does not answer"},
		"a session's, likewise":   {Tool: "write_stdin", Head: "begun\n", MaxTokens: 100, SessionID: 1, ProcessID: "1", Failure: "io", Stage: "probe", Message: "infrastructure: probe: it does not answer"},
		"the retry was rejected":  {Tool: "shell", Head: "begun\n", MaxTokens: 100, ExitCode: new(1), Failure: "rejected", Message: "The person ended the turn."},
		"of a session's, as well": {Tool: "exec_command", Head: "begun\n", MaxTokens: 100, ExitCode: new(1), SessionID: 1, ProcessID: "1", Failure: "rejected", Message: "The person ended the turn."},
	} {
		for _, form := range []Form{Labelled, Bare, Structured} {
			if text := r.Format(form); !strings.Contains(text, "begun") || !strings.Contains(text, r.Message) {
				t.Errorf("%s, form %d: %q", name, form, text)
			}
		}
	}
}
