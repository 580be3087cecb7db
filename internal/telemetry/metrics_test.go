package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/terminal"
)

// play tells an observer of a few commands.
func play(o terminal.Observer) {
	o.Observe(terminal.ExecCommandBegin{CallID: "c1", Tool: "shell", Sandbox: "LinuxSeccomp", Report: sandbox.Report{Got: "jail"}})
	o.Observe(terminal.ExecCommandOutputDelta{CallID: "c1", Chunk: []byte("hsk_abcdefghijkl")})
	o.Observe(terminal.ExecCommandEnd{CallID: "c1", Tool: "shell", Duration: 127 * time.Millisecond, Stdout: 300, Stderr: 5, Preview: "the key hsk_abcdefghijkl\n"})
	o.Observe(terminal.ExecCommandEnd{CallID: "c2", Tool: "shell", Duration: 2 * time.Hour, ExitCode: 1, Denial: &sandbox.Denial{}})
	o.Observe(terminal.ExecCommandEnd{CallID: "c3", Tool: "shell", Error: "rejected"})
	o.Observe(terminal.ApprovalRequested{CallID: "c3", Tool: "shell", Approved: "denied", Waited: 3 * time.Second})
	o.Observe(terminal.ApprovalRequested{CallID: "c4", Tool: "exec_command", Approved: "approved_for_session"})
	o.Observe(terminal.SessionPruned{Session: 1000, Alive: true})
}

func TestPrometheusText(t *testing.T) {
	m := NewMetrics()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || strings.Contains(w.Body.String(), "_total") || !strings.Contains(w.Body.String(), "\nhardshell_http_in_flight 0\n") {
		t.Errorf("%d, %q", w.Code, w.Body)
	}
	play(m)
	w = httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Error(got)
	}
	got := w.Body.String()
	for _, want := range []string{
		"# HELP codex_approval_requested_total Questions that were answered, or could not be asked.\n# TYPE codex_approval_requested_total counter\n" +
			"codex_approval_requested_total{tool=\"exec_command\",approved=\"approved_for_session\"} 1\n" +
			"codex_approval_requested_total{tool=\"shell\",approved=\"denied\"} 1\n",
		"hardshell_exec_started_total{tool=\"shell\",sandbox=\"LinuxSeccomp\",rung=\"jail\"} 1\n",
		"# TYPE hardshell_exec_duration_seconds histogram\n",
		"hardshell_exec_duration_seconds_bucket{tool=\"shell\",outcome=\"ok\",le=\"0.1\"} 0\n",
		"hardshell_exec_duration_seconds_bucket{tool=\"shell\",outcome=\"ok\",le=\"0.25\"} 1\n",
		"hardshell_exec_duration_seconds_bucket{tool=\"shell\",outcome=\"nonzero\",le=\"3600\"} 0\n",
		"hardshell_exec_duration_seconds_bucket{tool=\"shell\",outcome=\"nonzero\",le=\"+Inf\"} 1\n",
		"hardshell_exec_duration_seconds_sum{tool=\"shell\",outcome=\"ok\"} 0.127\n",
		"hardshell_exec_duration_seconds_count{tool=\"shell\",outcome=\"ok\"} 1\n",
		"hardshell_exec_output_bytes_bucket{tool=\"shell\",le=\"256\"} 1\n", "hardshell_exec_output_bytes_sum{tool=\"shell\"} 305\n",
		"hardshell_sandbox_denied_total{tool=\"shell\"} 1\n", "hardshell_session_pruned_total{alive=\"true\"} 1\n",
		"hardshell_approval_wait_seconds_count{tool=\"shell\"} 1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "rejected") || strings.Contains(got, "hsk_") || strings.Contains(got, "dropped") {
		t.Error(got)
	}
	w = httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("POST", "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Error(w.Code)
	}
}

func TestLabelsAreEscapedAndBounded(t *testing.T) {
	m := NewMetrics()
	m.Observe(terminal.ApprovalRequested{Tool: "a\"b\\c\nd\xff", Approved: "x"})
	for i := range 1000 {
		m.Observe(terminal.ApprovalRequested{Tool: fmt.Sprint(i), Approved: "x"})
	}
	got := string(m.approvals.appendText(nil))
	if !strings.Contains(got, `{tool="a\"b\\c\nd`+"\uFFFD"+`",approved="x"} 1`) || strings.Count(got, "\n") != mostSeries+1+2 ||
		!strings.Contains(got, fmt.Sprintf(`{tool="other",approved="other"} %d`, 1001-mostSeries)) {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

func TestTeeTellsAll(t *testing.T) {
	a, b := NewMetrics(), NewMetrics()
	play(Tee(a, nil, b))
	if x, y := string(a.duration.appendText(nil)), string(b.duration.appendText(nil)); x != y || x == "" {
		t.Errorf("%q, %q", x, y)
	}
}
