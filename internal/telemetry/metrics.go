package telemetry

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/terminal"
)

// Metrics counts what a terminal's tools do, what a gateway answers, what becomes of responses and what containers run:
// it is the Observer of each. It shows itself in Prometheus's text form. No label's value comes from a model, a client or
// a command.
type Metrics struct {
	started time.Time
	all     []*metric

	approvals, waited, begun, duration, output, denied, pruned *metric // of terminals
	dropped                                                    *metric
	server
}

// secondsBounds are for commands: from what a cached build takes to what a nightly one does.
var secondsBounds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// bytesBounds are for what commands print.
var bytesBounds = []float64{0, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 28}

// NewMetrics returns counters that stand at nothing.
func NewMetrics() *Metrics {
	m := &Metrics{started: time.Now()}
	m.approvals = m.counter("codex.approval.requested", "Questions that were answered, or could not be asked.", "tool", "approved")
	m.waited = m.histogram("hardshell.approval.wait", "s", secondsBounds, "How long a person took to answer.", "tool")
	m.begun = m.counter("hardshell.exec.started", "Commands of a terminal's tools that were started, each attempt for itself.", "tool", "sandbox", "rung")
	m.duration = m.histogram("hardshell.exec.duration", "s", secondsBounds, "How long commands of a terminal's tools ran, by how they ended.", "tool", "outcome")
	m.output = m.histogram("hardshell.exec.output", "By", bytesBounds, "What commands of a terminal's tools printed, both streams.", "tool")
	m.denied = m.counter("hardshell.sandbox.denied", "Commands of which a sandbox refused something.", "tool")
	m.pruned = m.counter("hardshell.session.pruned", "Sessions that were ended or forgotten to make room.", "alive")
	m.dropped = m.counter("hardshell.telemetry.dropped", "Events that were not exported, because nobody took them in time.", "signal")
	m.server.open(m)
	return m
}

func (m *Metrics) counter(name, help string, labels ...string) *metric {
	return m.add(&metric{name: name, unit: "1", help: help, labels: labels})
}

func (m *Metrics) histogram(name, unit string, bounds []float64, help string, labels ...string) *metric {
	return m.add(&metric{name: name, unit: unit, help: help, labels: labels, bounds: bounds})
}

// gauge is read when somebody looks.
func (m *Metrics) gauge(name, unit, help string, read func() float64) {
	m.add(&metric{name: name, unit: unit, help: help, read: read})
}

func (m *Metrics) add(one *metric) *metric {
	one.prom = promName(one)
	m.all = append(m.all, one)
	return one
}

// promName is a metric's name as Prometheus wants it: the unit in it, and _total behind a counter's.
func promName(m *metric) string {
	name := strings.ReplaceAll(m.name, ".", "_")
	switch m.unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if m.kind() == counter {
		name += "_total"
	}
	return name
}

// Observe counts an event.
func (m *Metrics) Observe(event terminal.Event) {
	switch e := event.(type) {
	case terminal.ExecCommandBegin:
		m.begun.add(1, values{e.Tool, e.Sandbox, string(e.Report.Got)})
	case terminal.ExecCommandEnd:
		outcome := outcomeOf(e)
		if outcome != "rejected" { // it never ran
			m.duration.add(e.Duration.Seconds(), values{e.Tool, outcome})
			m.output.add(float64(e.Stdout+e.Stderr), values{e.Tool})
		}
		if e.Denial != nil {
			m.denied.add(1, values{e.Tool})
		}
	case terminal.ApprovalRequested:
		m.approvals.add(1, values{e.Tool, e.Approved})
		if e.Waited > 0 {
			m.waited.add(e.Waited.Seconds(), values{e.Tool})
		}
	case terminal.SessionPruned:
		m.pruned.add(1, values{strconv.FormatBool(e.Alive)})
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
	for _, one := range m.all {
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
