package cli

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
	tools "github.com/hardshell-dev/hardshell/terminal"
)

// export tells a collector what is counted, and what terminals do if they are observed, until it is stopped; then it
// tells it once more, and waits two seconds for that at most. Without an endpoint it does nothing.
func export(o config.OTLP, counts *telemetry.Metrics, logger *slog.Logger) (observer tools.Observer, stop func(), err error) {
	if o.Endpoint == "" {
		return nil, func() {}, nil
	}
	headers := map[string]string{}
	for name, value := range o.Headers {
		headers[name] = value.Reveal()
	}
	x, err := telemetry.NewOTLP(counts, telemetry.OTLPOptions{Endpoint: o.Endpoint, Headers: headers, Service: o.Service,
		Version: readBuild().Version, Interval: seconds(o.IntervalSecs), Log: logger})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		x.Run(ctx)
		close(done)
	}()
	return x, func() {
		cancel()
		<-done
	}, nil
}

// metricsOf is what GET /metrics answers, or nil where the operator wants none.
func metricsOf(t config.Telemetry, counts *telemetry.Metrics) http.Handler {
	if !t.Metrics {
		return nil
	}
	return counts
}
