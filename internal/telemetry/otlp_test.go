package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hardshell-dev/hardshell/terminal"
)

// collector is an OTLP collector without a network.
type collector struct {
	mu     sync.Mutex
	status int
	got    []delivery
}

type delivery struct {
	path, key string
	body      []byte
}

func (c *collector) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status := c.status
	if status == 0 {
		status = 200
	}
	if status == 200 {
		c.got = append(c.got, delivery{r.URL.Path, r.Header.Get("x-key"), body})
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{}}, nil
}

func (c *collector) answers(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

func (c *collector) all() []delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got
}

// exporting runs a test beside an exporter.
func exporting(t *testing.T, o OTLPOptions, test func(x *OTLP, c *collector, stop func())) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		o.Endpoint, o.Client, o.Headers = "http://collector:4318/", &http.Client{Transport: c}, map[string]string{"x-key": "secret"}
		x, err := NewOTLP(NewMetrics(), o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { x.Run(ctx); close(done) }()
		stop := func() { cancel(); <-done }
		defer stop()
		test(x, c, stop)
	})
}

func TestEventsAndMetricsAreDelivered(t *testing.T) {
	exporting(t, OTLPOptions{}, func(x *OTLP, c *collector, stop func()) {
		play(Tee(x.metrics, x))
		if len(c.all()) != 0 {
			t.Error("it did not wait")
		}
		time.Sleep(otlpInterval + time.Second)
		got := c.all()
		if len(got) != 2 || got[0].path != "/v1/logs" || got[1].path != "/v1/metrics" || got[0].key != "secret" {
			t.Fatalf("%+v", got)
		}
		var logs logsPayload
		if err := json.Unmarshal(got[0].body, &logs); err != nil {
			t.Fatal(err)
		}
		records := logs.Logs[0].Scopes[0].Records
		if len(records) != 7 || records[1].Name != "hardshell.exec.end" || *records[1].Body.String != "end shell ok" || records[3].Severity != severityWarn {
			t.Errorf("%s", got[0].body)
		}
		if bytes.Contains(got[0].body, []byte("hsk_")) || !bytes.Contains(got[0].body, []byte("the key •••")) {
			t.Errorf("%s", got[0].body)
		}
		var metrics metricsPayload
		if err := json.Unmarshal(got[1].body, &metrics); err != nil {
			t.Fatal(err)
		}
		byName := map[string]metricJSON{}
		for _, m := range metrics.Metrics[0].Scopes[0].Metrics {
			byName[m.Name] = m
		}
		asked := byName["codex.approval.requested"].Sum
		if asked == nil || !asked.Monotonic || asked.Temporality != cumulative || len(asked.Points) != 2 || *asked.Points[0].Int != "1" {
			t.Errorf("%s", got[1].body)
		}
		took := byName["hardshell.exec.duration"].Histogram
		if took == nil || len(took.Points) != 2 || len(took.Points[0].Buckets) != len(took.Points[0].Bounds)+1 || *took.Points[0].Count != "1" {
			t.Errorf("%s", got[1].body)
		}
		x.Observe(terminal.SessionPruned{Session: 7})
		stop()
		if got = c.all(); len(got) != 4 || !bytes.Contains(got[2].body, []byte(`"intValue":"7"`)) {
			t.Errorf("what was left at the end: %+v", got)
		}
	})
}

func TestACollectorThatIsAwayCostsNoMemory(t *testing.T) {
	exporting(t, OTLPOptions{Queue: 10}, func(x *OTLP, c *collector, stop func()) {
		c.answers(503)
		for i := range 100 {
			x.Observe(terminal.SessionPruned{Session: i})
			synctest.Wait()
		}
		x.mu.Lock()
		if len(x.queue) > 10 {
			t.Errorf("%d wait", len(x.queue))
		}
		x.mu.Unlock()
		c.answers(200)
		time.Sleep(otlpInterval)
		synctest.Wait()
		var sessions int
		for _, d := range c.all() {
			sessions += bytes.Count(d.body, []byte("hardshell.session.pruned\",\"body\""))
		}
		var text strings.Builder
		x.metrics.WriteTo(&text)
		if sessions != 10 || !strings.Contains(text.String(), `hardshell_telemetry_dropped_total{signal="logs"} 90`) {
			t.Errorf("%d came, %s", sessions, text.String())
		}
		c.answers(400) // refused for good
		x.Observe(terminal.SessionPruned{})
		stop()
		text.Reset()
		x.metrics.WriteTo(&text)
		if !strings.Contains(text.String(), "} 91\n") {
			t.Error(text.String())
		}
	})
}

func TestWhichEndpointsAreTaken(t *testing.T) {
	for endpoint, ok := range map[string]bool{"http://127.0.0.1:4318": true, "https://o.example/x": true, "": false, "127.0.0.1:4318": false,
		"ftp://x": false, "http://user:pass@x": false, "http://x?k=v": false} {
		if _, err := NewOTLP(NewMetrics(), OTLPOptions{Endpoint: endpoint}); (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		} else if err != nil && strings.Contains(err.Error(), "pass") {
			t.Errorf("%v", err)
		}
	}
}
