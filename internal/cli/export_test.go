package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
)

// exporting is the configuration of a small server that tells a collector every second.
func exporting(t *testing.T, collector string) config.Config {
	t.Helper()
	c := config.Default()
	c.Storage.Data, c.Server.Listen, c.Features.Shell.Type = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", config.ShellNone
	c.Telemetry.OTLP.Endpoint, c.Telemetry.OTLP.IntervalSecs = collector, 1
	c.Telemetry.OTLP.Headers = map[string]config.Secret{"x-collector-key": config.NewSecret("hidden")}
	return c
}

func TestAServerTellsItsCollector(t *testing.T) {
	type delivery struct{ path, key, body string }
	came := make(chan delivery, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case came <- delivery{r.URL.Path, r.Header.Get("X-Collector-Key"), string(body)}:
		default:
		}
	}))
	defer collector.Close()
	s, err := openServer(t.Context(), exporting(t, collector.URL), telemetry.Discard(), false)
	if err != nil {
		t.Fatal(err)
	}
	go s.http.Serve(s.listener)
	get(t, s.url+"/healthz")
	for deadline := time.After(time.Minute); ; {
		var d delivery
		select {
		case d = <-came:
		case <-deadline:
			t.Fatal("the request was not told")
		}
		if d.path != "/v1/metrics" || d.key != "hidden" {
			t.Fatalf("%+v", d)
		}
		if strings.Contains(d.body, `"hardshell.http.requests"`) && strings.Contains(d.body, "GET /healthz") {
			break
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	for len(came) > 0 {
		<-came
	}
	select {
	case d := <-came:
		t.Errorf("after the end it told %+v", d)
	default:
	}
}

// A collector that takes what it is told and never answers holds up neither a request nor the end.
func TestACollectorThatHangs(t *testing.T) {
	reached, over := make(chan struct{}, 1), make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case reached <- struct{}{}:
		default:
		}
		<-over
	}))
	defer collector.Close()
	defer close(over)
	s, err := openServer(t.Context(), exporting(t, collector.URL), telemetry.Discard(), false)
	if err != nil {
		t.Fatal(err)
	}
	go s.http.Serve(s.listener)
	select {
	case <-reached:
	case <-time.After(time.Minute):
		t.Fatal("nothing was delivered")
	}
	for range 20 {
		get(t, s.url+"/healthz")
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server waits for its collector")
	}
}

func get(t *testing.T, url string) {
	t.Helper()
	client := http.Client{Timeout: time.Minute}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		t.Fatal(answer.Status)
	}
}
