package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	tools "github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

func askFor(t *testing.T, script string) tools.ApprovalRequest {
	t.Helper()
	s, err := command.Parse(script, command.Bash)
	if err != nil {
		t.Fatal(err)
	}
	return tools.ApprovalRequest{Lines: s.Display(), Cwd: "/w", Reasons: []string{"it is not known"}, Effect: "It runs once.",
		Scopes: []approval.Scope{approval.Once, approval.Session}, Justification: "because"}
}

// answerOn asks on a screen of a size and returns the answer and what was shown.
func answerOn(t *testing.T, r tools.ApprovalRequest, rows, cols int, typed string) (tools.Review, string) {
	t.Helper()
	var out bytes.Buffer
	a := asker{strings.NewReader(typed), &out, func() (int, int) { return rows, cols }, func() {}}
	review, err := a.Approve(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return review, out.String()
}

func TestTheAnswersOfATerminal(t *testing.T) {
	r := askFor(t, "make all")
	for typed, want := range map[string]tools.ReviewDecision{"y\n": tools.Approved, "s\n": tools.ApprovedForSession, "n\n": tools.Denied, "q\n": tools.Abort, "": tools.Denied, "y": tools.Denied,
		"a\nn\n": tools.Denied, "x\n\nY\n": tools.Approved, "yes please\nn\n": tools.Denied} {
		if got, _ := answerOn(t, r, 24, 80, typed); got.Decision != want {
			t.Errorf("%q: %v, want %v", typed, got.Decision, want)
		}
	}
	if got, _ := answerOn(t, r, 24, 80, "n not now, please\n"); got.Reason != "not now, please" || got.By == "" {
		t.Errorf("%+v", got)
	}
	r.Scopes, r.Proposed = append(r.Scopes, approval.Always), []approval.Rule{{Prefix: [][]string{{"make"}, {"all"}}, Exact: true}}
	if got, shown := answerOn(t, r, 24, 80, "a\n"); got.Decision != tools.ApprovedAlways || !strings.Contains(shown, `always would save: allow exactly "make" "all"`) {
		t.Errorf("%+v %s", got, shown)
	}
}

// TestNothingIsPushedOffTheScreen: every part is shown whole, on lines that fit, and the question comes after the last
// page (S14: a chain after 300 spaces, and parts by the hundred).
func TestNothingIsPushedOffTheScreen(t *testing.T) {
	var script strings.Builder
	for n := range 120 {
		fmt.Fprintf(&script, "echo part%d-%s;%s", n, strings.Repeat("x", n%90), strings.Repeat(" ", 300*(n%2)))
	}
	script.WriteString("\ntouch evil")
	r := askFor(t, script.String())
	const rows, cols = 20, 60
	// A person who answers at once has seen one page only: what they typed shows the next pages and approves nothing.
	review, shown := answerOn(t, r, rows, cols, strings.Repeat("\n", 200)+"y\n")
	for page := range strings.SplitSeq(shown, " more lines: ") {
		if n := strings.Count(page, "\n"); n > rows {
			t.Errorf("a page of %d lines on a screen of %d", n, rows)
		}
	}
	if review.Decision != tools.Denied && review.Decision != tools.Approved {
		t.Error(review)
	}
	var pages []string
	for line := range strings.SplitSeq(shown, "\n") {
		if !strings.HasPrefix(line, "-- ") { // between two pages
			pages = append(pages, line)
		}
	}
	joined := strings.ReplaceAll(strings.Join(pages, "\n"), "\n    ", "")
	for _, line := range r.Lines {
		if !strings.Contains(joined, line) {
			t.Errorf("not shown whole: %s", line)
		}
	}
	for line := range strings.SplitSeq(shown, "\n") {
		if len([]rune(line)) > cols && !strings.Contains(line, "]es, once") {
			t.Errorf("%d wide: %s", len([]rune(line)), line)
		}
	}
	if review, shown := answerOn(t, r, rows, cols, "y\nn\n"); review.Decision != tools.Denied || strings.Contains(shown, "evil") {
		t.Errorf("%v before the last page", review.Decision)
	}
}

func TestAWithdrawnQuestionIsNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, hold := io.Pipe()
	defer hold.Close()
	var out bytes.Buffer
	a := asker{in, &out, func() (int, int) { return 24, 80 }, func() { cancel() }}
	if review, err := a.Approve(ctx, askFor(t, "make")); err == nil || review.Decision != tools.Denied {
		t.Errorf("%+v %v", review, err)
	}
}
