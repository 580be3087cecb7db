package telemetry

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

var (
	_ gateway.Observer   = (*Metrics)(nil)
	_ response.Observer  = (*Metrics)(nil)
	_ container.Observer = (*Metrics)(nil)
)

// serve plays a little of what a server does.
func serve(m *Metrics) {
	m.Containers(func() int { return 3 })
	m.RequestBegan()
	m.RequestBegan()
	m.RequestEnded("GET /v1/models", 200, 2*time.Millisecond)
	m.ResponseBegan(false)
	m.ResponseBegan(true)
	m.FirstDelta(false, 30*time.Millisecond)
	m.ResponseEnded("completed", 2*time.Second, 17)
	m.LogFlushed(12, time.Millisecond, nil)
	m.LogFlushed(12, time.Millisecond, errors.New("full"))
	m.Booted(3*time.Millisecond, nil)
	m.Booted(3*time.Millisecond, fault.New(fault.Isolation, "no"))
	m.CommandBegan()
	m.CommandBegan()
	m.CommandEnded(&container.Result{Stdout: process.View{Bytes: 10}, Stderr: process.View{Bytes: 5}, Duration: time.Second}, nil)
}

func TestWhatAServerCounts(t *testing.T) {
	m := NewMetrics()
	serve(m)
	var b strings.Builder
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"hardshell_http_requests_total{route=\"GET /v1/models\",status=\"200\"} 1\n",
		"hardshell_http_request_duration_seconds_bucket{route=\"GET /v1/models\",le=\"0.0025\"} 1\n",
		"# TYPE hardshell_http_in_flight gauge\nhardshell_http_in_flight 1\n", "hardshell_response_in_progress 1\n",
		"hardshell_response_started_total{mode=\"background\"} 1\n", "hardshell_response_first_delta_seconds_count{mode=\"foreground\"} 1\n",
		"hardshell_response_duration_seconds_sum{status=\"completed\"} 2\n", "hardshell_response_events_total 17\n",
		"hardshell_log_events_total 12\n", "hardshell_log_failures_total 1\n", "hardshell_container_boot_duration_seconds_count 1\n",
		"hardshell_container_boot_failures_total{kind=\"" + fault.Isolation.String() + "\"} 1\n", "hardshell_container_running 3\n",
		"hardshell_container_command_duration_seconds_count{outcome=\"ok\"} 1\n", "hardshell_container_command_output_bytes_sum 15\n",
		"hardshell_container_commands 1\n", "# TYPE process_start_time_seconds gauge\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestHowCommandsInContainersEnd(t *testing.T) {
	for want, c := range map[string]struct {
		r   container.Result
		err error
	}{
		"ok": {}, "nonzero": {r: container.Result{ExitCode: 1}}, "signal": {r: container.Result{ExitCode: 137, Signal: "SIGKILL"}},
		"timeout": {r: container.Result{ExitCode: 124, TimedOut: true}}, "cancelled": {r: container.Result{Cancelled: true, Signal: "SIGKILL"}},
		"memory": {r: container.Result{OutOfMemory: true, ExitCode: 137}}, "breach": {r: container.Result{Breach: "disk_limit", Cancelled: true}},
		"not_started": {r: container.Result{Error: "no such file", ExitCode: 127}}, "lost": {err: errors.New("gone")},
		"handed_over": {err: fault.New(fault.Conflict, "elsewhere").WithCode(container.CodeHandedOver)},
	} {
		if got := ended(&c.r, c.err); got != want {
			t.Errorf("%+v, %v is %s, want %s", c.r, c.err, got, want)
		}
	}
}

// A request, a response and a command are counted on their path: once a combination of labels is known, counting costs
// no memory.
func TestCountingAllocatesNothing(t *testing.T) {
	m := NewMetrics()
	result := container.Result{ExitCode: 1}
	once := func() {
		m.RequestBegan()
		m.RequestEnded("GET /v1/models", 404, time.Millisecond)
		m.ResponseBegan(true)
		m.FirstDelta(true, time.Millisecond)
		m.ResponseEnded("failed", time.Second, 3)
		m.LogFlushed(7, time.Millisecond, nil)
		m.CommandBegan()
		m.CommandEnded(&result, nil)
	}
	once()
	if n := testing.AllocsPerRun(100, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever a status or a route may be, the combinations are bounded.
func TestStatusesOutsideHTTP(t *testing.T) {
	m := NewMetrics()
	for _, status := range []int{-1, 0, 99, 600, 1 << 40} {
		m.RequestEnded("-", status, 0)
	}
	if got := string(m.requests.appendText(nil)); strings.Count(got, "\n") != 3 || !strings.Contains(got, `status="other"} 5`) {
		t.Error(got)
	}
}

// The guide has every metric, with its kind, its labels and its sentence, and no other.
func TestTheGuideListsEveryMetric(t *testing.T) {
	raw, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	want.WriteString("| Prometheus | OpenTelemetry | kind | labels | what |\n| --- | --- | --- | --- | --- |\n")
	for _, one := range NewMetrics().all {
		labels := make([]string, len(one.labels))
		for i, l := range one.labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&want, "| `%s` | `%s` | %s | %s | %s |\n", one.prom, one.name, one.kind(), strings.Join(labels, ", "), one.help)
	}
	if !strings.Contains(string(raw), want.String()) {
		t.Errorf("docs/metrics.md should contain\n%s", want.String())
	}
}

func BenchmarkRequestEnded(b *testing.B) {
	m := NewMetrics()
	for b.Loop() {
		m.RequestBegan()
		m.RequestEnded("GET /v1/models", 200, time.Millisecond)
	}
}
