package telemetry

import (
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/terminal"
)

// The JSON of OTLP, as opentelemetry-proto maps it: numbers of 64 bits are strings.
type (
	anyValue struct {
		String *string  `json:"stringValue,omitempty"`
		Int    *string  `json:"intValue,omitempty"`
		Bool   *bool    `json:"boolValue,omitempty"`
		Double *float64 `json:"doubleValue,omitempty"`
	}
	keyValue struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	resource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scope struct {
		Name string `json:"name"`
	}

	logRecord struct {
		Time       string     `json:"timeUnixNano"`
		Severity   int        `json:"severityNumber"`
		Name       string     `json:"eventName"`
		Body       anyValue   `json:"body"`
		Attributes []keyValue `json:"attributes"`
	}
	scopeLogs struct {
		Scope   scope       `json:"scope"`
		Records []logRecord `json:"logRecords"`
	}
	resourceLogs struct {
		Resource resource    `json:"resource"`
		Scopes   []scopeLogs `json:"scopeLogs"`
	}
	logsPayload struct {
		Logs []resourceLogs `json:"resourceLogs"`
	}

	dataPoint struct {
		Attributes []keyValue `json:"attributes"`
		Start      string     `json:"startTimeUnixNano"`
		Time       string     `json:"timeUnixNano"`
		Int        *string    `json:"asInt,omitempty"`
		Double     *float64   `json:"asDouble,omitempty"`
		Count      *string    `json:"count,omitempty"`
		Sum        *float64   `json:"sum,omitempty"`
		Buckets    []string   `json:"bucketCounts,omitempty"`
		Bounds     []float64  `json:"explicitBounds,omitempty"`
	}
	data struct {
		Points      []dataPoint `json:"dataPoints"`
		Temporality int         `json:"aggregationTemporality,omitempty"` // a gauge has none
		Monotonic   bool        `json:"isMonotonic,omitempty"`
	}
	metricJSON struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Unit        string `json:"unit"`
		Sum         *data  `json:"sum,omitempty"`
		Gauge       *data  `json:"gauge,omitempty"`
		Histogram   *data  `json:"histogram,omitempty"`
	}
	scopeMetrics struct {
		Scope   scope        `json:"scope"`
		Metrics []metricJSON `json:"metrics"`
	}
	resourceMetrics struct {
		Resource resource       `json:"resource"`
		Scopes   []scopeMetrics `json:"scopeMetrics"`
	}
	metricsPayload struct {
		Metrics []resourceMetrics `json:"resourceMetrics"`
	}
)

// cumulative is AGGREGATION_TEMPORALITY_CUMULATIVE: what one delivery misses, the next has.
const cumulative = 2

const scopeName = "github.com/hardshell-dev/hardshell"

func text(key, value string) keyValue { return keyValue{key, anyValue{String: &value}} }

func whole(key string, n int64) keyValue {
	s := strconv.FormatInt(n, 10)
	return keyValue{key, anyValue{Int: &s}}
}

func flag(key string, on bool) keyValue { return keyValue{key, anyValue{Bool: &on}} }

func (x *OTLP) resource() resource {
	attributes := []keyValue{text("service.name", x.o.Service)}
	if x.o.Version != "" {
		attributes = append(attributes, text("service.version", x.o.Version))
	}
	return resource{attributes}
}

func (x *OTLP) logs(records []logRecord) logsPayload {
	return logsPayload{[]resourceLogs{{x.resource(), []scopeLogs{{scope{scopeName}, records}}}}}
}

// payload is all metrics as they stand.
func (x *OTLP) payload(now time.Time) metricsPayload {
	var out []metricJSON
	for _, m := range x.metrics.all {
		all := m.all()
		if len(all) == 0 {
			continue
		}
		d := &data{Temporality: cumulative}
		for _, s := range all {
			p := dataPoint{Start: nanos(x.metrics.started), Time: nanos(now), Attributes: []keyValue{}}
			for i, name := range m.labels {
				p.Attributes = append(p.Attributes, text(name, s.values[i]))
			}
			switch m.kind() {
			case counter:
				n := strconv.FormatInt(int64(s.sum), 10)
				p.Int = &n
			case gauge:
				p.Double = &s.sum
			default:
				n, sum := strconv.FormatUint(s.count, 10), s.sum
				p.Count, p.Sum, p.Bounds = &n, &sum, m.bounds
				for _, b := range s.buckets {
					p.Buckets = append(p.Buckets, strconv.FormatUint(b, 10))
				}
			}
			d.Points = append(d.Points, p)
		}
		one := metricJSON{Name: m.name, Description: m.help, Unit: m.unit}
		switch m.kind() {
		case counter:
			d.Monotonic, one.Sum = true, d
		case gauge:
			d.Temporality, one.Gauge = 0, d
		default:
			one.Histogram = d
		}
		out = append(out, one)
	}
	return metricsPayload{[]resourceMetrics{{x.resource(), []scopeMetrics{{scope{scopeName}, out}}}}}
}

// The severities of log records.
const (
	severityInfo = 9
	severityWarn = 13
)

// record is an event as a log record. Texts of commands are masked; output as it comes is not exported.
func (x *OTLP) record(event terminal.Event) (logRecord, bool) {
	r := logRecord{Severity: severityInfo}
	at := time.Time{}
	switch e := event.(type) {
	case terminal.ExecCommandBegin:
		at, r.Name, r.Body = e.At, "hardshell.exec.begin", said("begin", e.Tool)
		r.Attributes = []keyValue{text("call_id", e.CallID), text("tool", e.Tool), text("source", string(e.Source)), flag("freeform", e.Freeform),
			text("sandbox", e.Sandbox), text("rung", string(e.Report.Got)), whole("attempt", int64(e.Attempt))}
	case terminal.ExecCommandEnd:
		outcome := outcomeOf(e)
		at, r.Name, r.Body = e.At, "hardshell.exec.end", said("end", e.Tool, outcome)
		if outcome != "ok" && outcome != "nonzero" {
			r.Severity = severityWarn
		}
		r.Attributes = []keyValue{text("call_id", e.CallID), text("tool", e.Tool), text("outcome", outcome), whole("exit_code", int64(e.ExitCode)),
			whole("duration_ms", e.Duration.Milliseconds()), whole("stdout_bytes", e.Stdout), whole("stderr_bytes", e.Stderr),
			text("preview", terminal.TelemetryPreview(x.o.Mask(e.Preview)))}
	case terminal.ApprovalRequested:
		at, r.Name, r.Body = e.At, "codex.approval.requested", said("approval", e.Tool, e.Approved)
		r.Attributes = []keyValue{text("call_id", e.CallID), text("tool", e.Tool), text("approved", e.Approved), flag("retry", e.Retry),
			whole("waited_ms", e.Waited.Milliseconds())}
	case terminal.SessionPruned:
		r.Name, r.Body = "hardshell.session.pruned", said("session pruned")
		r.Attributes = []keyValue{whole("session", int64(e.Session)), flag("alive", e.Alive)}
	default:
		return r, false
	}
	if at.IsZero() {
		at = time.Now()
	}
	r.Time = nanos(at)
	return r, true
}

func said(words ...string) anyValue {
	s := sentence(words...)
	return anyValue{String: &s}
}
