package telemetry

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/terminal"
)

// Metrics counts what a terminal's tools do. It is a [terminal.Observer], and shows itself in Prometheus's text form. No
// label's value comes from a model or a command.
type Metrics struct {
	started   time.Time
	approvals *metric
	waited    *metric
	begun     *metric
	duration  *metric
	output    *metric
	denied    *metric
	pruned    *metric
	dropped   *metric
}

// secondsBounds are for commands: from what a cached build takes to what a nightly one does.
var secondsBounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// bytesBounds are for what commands print.
var bytesBounds = []float64{0, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 28}

// NewMetrics returns counters that stand at nothing.
func NewMetrics() *Metrics {
	return &Metrics{started: time.Now(),
		approvals: &metric{name: "codex.approval.requested", prom: "codex_approval_requested_total", unit: "1",
			help: "Questions that were answered, or could not be asked.", labels: []string{"tool", "approved"}},
		waited: &metric{name: "hardshell.approval.wait", prom: "hardshell_approval_wait_seconds", unit: "s",
			help: "How long a person took to answer.", labels: []string{"tool"}, bounds: secondsBounds},
		begun: &metric{name: "hardshell.exec.started", prom: "hardshell_exec_started_total", unit: "1",
			help: "Commands that were started, each attempt for itself.", labels: []string{"tool", "sandbox", "rung"}},
		duration: &metric{name: "hardshell.exec.duration", prom: "hardshell_exec_duration_seconds", unit: "s",
			help: "How long commands ran, by how they ended.", labels: []string{"tool", "outcome"}, bounds: secondsBounds},
		output: &metric{name: "hardshell.exec.output", prom: "hardshell_exec_output_bytes", unit: "By",
			help: "What commands printed, both streams.", labels: []string{"tool"}, bounds: bytesBounds},
		denied: &metric{name: "hardshell.sandbox.denied", prom: "hardshell_sandbox_denied_total", unit: "1",
			help: "Commands of which a sandbox refused something.", labels: []string{"tool"}},
		pruned: &metric{name: "hardshell.session.pruned", prom: "hardshell_session_pruned_total", unit: "1",
			help: "Sessions that were ended or forgotten to make room.", labels: []string{"alive"}},
		dropped: &metric{name: "hardshell.telemetry.dropped", prom: "hardshell_telemetry_dropped_total", unit: "1",
			help: "Events that were not exported, because nobody took them in time.", labels: []string{"signal"}},
	}
}

func (m *Metrics) list() []*metric {
	return []*metric{m.approvals, m.waited, m.begun, m.duration, m.output, m.denied, m.pruned, m.dropped}
}

// Observe counts an event.
func (m *Metrics) Observe(event terminal.Event) {
	switch e := event.(type) {
	case terminal.ExecCommandBegin:
		m.begun.add(1, e.Tool, e.Sandbox, string(e.Report.Got))
	case terminal.ExecCommandEnd:
		outcome := outcomeOf(e)
		if outcome != "rejected" { // it never ran
			m.duration.add(e.Duration.Seconds(), e.Tool, outcome)
			m.output.add(float64(e.Stdout+e.Stderr), e.Tool)
		}
		if e.Denial != nil {
			m.denied.add(1, e.Tool)
		}
	case terminal.ApprovalRequested:
		m.approvals.add(1, e.Tool, e.Approved)
		if e.Waited > 0 {
			m.waited.add(e.Waited.Seconds(), e.Tool)
		}
	case terminal.SessionPruned:
		m.pruned.add(1, strconv.FormatBool(e.Alive))
	}
}

// outcomeOf is one of a few words for how a command ended.
func outcomeOf(e terminal.ExecCommandEnd) string {
	switch {
	case e.Error != "":
		return e.Error
	case e.TimedOut:
		return "timeout"
	case e.Signal != "":
		return "signal"
	case e.ExitCode != 0:
		return "nonzero"
	}
	return "ok"
}

// WriteTo writes all metrics in Prometheus's text form, version 0.0.4.
func (m *Metrics) WriteTo(w io.Writer) (int64, error) {
	var b []byte
	for _, one := range m.list() {
		b = one.appendText(b)
	}
	n, err := w.Write(b)
	return int64(n), err
}

// ServeHTTP answers a scrape. Who may ask is for the door that it hangs in.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	m.WriteTo(w)
}

// Tee is an observer that tells several, in order; nil ones are left out.
func Tee(all ...terminal.Observer) terminal.Observer {
	var out tee
	for _, o := range all {
		if o != nil {
			out = append(out, o)
		}
	}
	return out
}

type tee []terminal.Observer

// Observe tells all of them.
func (t tee) Observe(event terminal.Event) {
	for _, o := range t {
		o.Observe(event)
	}
}

// sentence joins words for a log line, without empty ones.
func sentence(words ...string) string {
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}
