package terminal

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/sandbox"
)

func TestLabelledOneShot(t *testing.T) {
	r := ExecResult{Tool: "shell", Head: "a\nb\n", MaxTokens: 100, ExitCode: new(3), WallTime: 1234 * time.Millisecond, CwdBefore: "/w"}
	if got, want := r.Format(Labelled), "Exit code: 3\nWall time: 1.2 seconds\nCwd: /w\nOutput:\na\nb\n"; got != want {
		t.Errorf("%q", got)
	}
	r.ExitCode, r.TimedOut, r.Timeout, r.Failure = new(124), true, 500*time.Millisecond, "timeout"
	if got := r.Format(Labelled); !strings.Contains(got, "Exit code: 124\n") || !strings.Contains(got, "Output:\ncommand timed out after 500 milliseconds\na\n") {
		t.Errorf("%q", got)
	}
	r = ExecResult{Tool: "shell", Head: strings.Repeat("0123456\n", 1000), MaxTokens: 50, ExitCode: new(0)}
	got := r.Format(Labelled)
	if !strings.Contains(got, "Total output lines: 1000\n") || !strings.Contains(got, "…1950 tokens truncated…") {
		t.Errorf("%q", got)
	}
	r = ExecResult{Tool: "shell", MaxTokens: 50, Failure: "rejected", Message: "The person said no."}
	if got := r.Format(Labelled); got != "shell failed: The person said no." {
		t.Errorf("%q", got)
	}
	r = ExecResult{Tool: "shell", Head: "x", MaxTokens: 50, ExitCode: new(1), Failure: "denied", Denial: &sandbox.Denial{Denied: "it was kept from /etc", Allow: "--writable /etc would allow it"}}
	if got := r.Format(Labelled); !strings.Contains(got, "Note: Denied: it was kept from /etc; --writable /etc would allow it.\nOutput:\nx") {
		t.Errorf("%q", got)
	}
}

func TestLabelledSession(t *testing.T) {
	r := ExecResult{Tool: "exec_command", Head: "hello", MaxTokens: 100, SessionID: 4242, ProcessID: "4242", WallTime: 250 * time.Millisecond}
	lines := strings.Split(r.Format(Labelled), "\n")
	for n, want := range []string{"^Chunk ID: [0-9a-f]{6}$", "^Wall time: 0.2500 seconds$", "^Process running with session ID 4242$", "^Original token count: 2$", "^Output:$", "^hello$"} {
		if n >= len(lines) || !regexp.MustCompile(want).MatchString(lines[n]) {
			t.Fatalf("line %d of %q is not %s", n, lines, want)
		}
	}
	r.ExitCode = new(7)
	if got := r.Format(Labelled); !strings.Contains(got, "\nProcess exited with code 7\n") || strings.Contains(got, "running") {
		t.Errorf("%q", got)
	}
	r = ExecResult{Head: strings.Repeat("x", 4000), SessionID: 1, ProcessID: "web", MaxTokens: 100}
	got := r.Format(Labelled)
	if !strings.Contains(got, "Output:\nWarning: truncated output (original token count: 1000)\nTotal output lines: 1\n\nxxx") || !strings.Contains(got, "x…900 tokens truncated…x") ||
		!strings.Contains(got, "Process ID: web\n") {
		t.Errorf("%q", got)
	}
	r.Tail, r.Omitted = r.Head, 1000
	if lost := r.Format(Labelled); !strings.Contains(lost, "\n... 8600 bytes omitted ...\n\n") || strings.Contains(lost, "output lines") {
		t.Errorf("%q", lost)
	}
	if body := got[strings.Index(got, "\n\n")+2:]; strings.Count(body, "x") != 400 {
		t.Errorf("%d bytes are kept of 100 tokens", strings.Count(body, "x"))
	}
}

func TestBareIsTheSeedsForm(t *testing.T) {
	r := ExecResult{Head: "src/main.rs:42:    // TODO\n", MaxTokens: 100, ExitCode: new(0)}
	if got := r.Format(Bare); got != "src/main.rs:42:    // TODO\n" {
		t.Errorf("%q", got)
	}
	r = ExecResult{Head: "bar <\n", MaxTokens: 100, SessionID: 1001, ProcessID: "1001"}
	if got := r.Format(Bare); got != `{"output":"bar <\n","process_id":"1001","exit_code":null}` {
		t.Errorf("%s", got)
	}
	r.ExitCode = new(0)
	if got := r.Format(Bare); got != `{"output":"bar <\n","process_id":null,"exit_code":0}` {
		t.Errorf("%s", got)
	}
}

func TestStructuredHasEverything(t *testing.T) {
	r := ExecResult{Head: "x", MaxTokens: 10, ExitCode: new(124), TimedOut: true, Timeout: time.Second, WallTime: time.Second, CwdBefore: "/w", Failure: "timeout", Message: "m",
		Stdout: 1, Sandbox: sandbox.Report{Got: sandbox.RungJail, Asked: sandbox.RungJail, Mode: "read-only"}}
	var back map[string]any
	if err := json.Unmarshal([]byte(r.Format(Structured)), &back); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"output": "x", "exit_code": 124.0, "timed_out": true, "timeout_ms": 1000.0, "wall_time_seconds": 1.0, "cwd_before": "/w", "failure": "timeout",
		"isolation": "jail, read-only", "original_token_count": 1.0, "metadata": map[string]any{"exit_code": 124.0, "duration_seconds": 1.0}} {
		if fmt.Sprint(back[key]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", key, back[key], want)
		}
	}
}

// TestOneCount holds what is shown and what is said to be missing to one count, for every budget, and every cut to
// whole characters (cases 8 and 10 of the black-box list).
func TestOneCount(t *testing.T) {
	marker := regexp.MustCompile(`^((?s).*)…(\d+) tokens truncated…((?s).*)$`)
	for _, text := range []string{strings.Repeat("é", 100_000), strings.Repeat("😀", 5000) + "x", strings.Repeat("a\n", 3), ""} {
		for _, omitted := range []int64{0, 12345} {
			for _, budget := range []int{0, 1, 2, 3, 30, 1<<31 - 1} {
				r := ExecResult{Head: text, Omitted: omitted, MaxTokens: budget}
				if omitted > 0 {
					r.Tail = text
				}
				body, left := r.body()
				truncated := left > 0
				if !utf8.ValidString(body) {
					t.Fatalf("budget %d: half a character", budget)
				}
				if !truncated {
					if body != text || omitted > 0 {
						t.Errorf("budget %d: not all, and nothing says so", budget)
					}
					continue
				}
				m := marker.FindStringSubmatch(body)
				if m == nil {
					t.Fatalf("budget %d: no marker in %.80q", budget, body)
				}
				var missing int64
				fmt.Sscan(m[2], &missing)
				if kept := int64(len(m[1]) + len(m[3])); kept > int64(budget)*4 || missing+kept/4 != r.TokenCount() || left+kept != int64(len(r.Head)+len(r.Tail))+r.Omitted {
					t.Errorf("budget %d: %d bytes kept and %d tokens missing of %d", budget, kept, missing, r.TokenCount())
				}
			}
		}
	}
}
