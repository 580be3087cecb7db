package config

import (
	"net/url"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// Telemetry is what the program tells machines: counts, and what its terminals did.
type Telemetry struct {
	// Metrics has the server answer GET /metrics, to keys with the scope metrics or admin.
	Metrics bool `toml:"metrics"`
	OTLP    OTLP `toml:"otlp"`
}

// OTLP is a collector that is told over OTLP/HTTP, in JSON. Without an endpoint nobody is.
type OTLP struct {
	// Endpoint is the collector's root; v1/metrics and v1/logs are below it: "http://127.0.0.1:4318".
	Endpoint string `toml:"endpoint"`
	// Headers are sent with every delivery. Values may be env:NAME or file:PATH.
	Headers map[string]Secret `toml:"headers"`
	// Service is the name under which the collector sees this program.
	Service string `toml:"service"`
	// IntervalSecs is the time between two deliveries.
	IntervalSecs int `toml:"interval_secs"`
}

func (l *Loaded) checkTelemetry() (string, *fault.Error) {
	o := l.Config.Telemetry.OTLP
	const section = "telemetry.otlp."
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
			return section + "endpoint", invalid("this is not the http or https address of a collector").WithTry(`"http://127.0.0.1:4318"`)
		case u.User != nil:
			return section + "endpoint", invalid("an address must not carry a password").WithTry("telemetry.otlp.headers")
		}
	}
	for name, value := range o.Headers {
		if !headerName().MatchString(name) || strings.ContainsAny(value.Reveal(), "\r\n\x00") {
			return section + "headers." + name, invalid("this is no header that can be sent")
		}
	}
	if o.IntervalSecs < 1 || o.IntervalSecs > 3600 {
		return section + "interval_secs", invalid("%d is out of bounds", o.IntervalSecs).WithTry("a number from 1 to 3600")
	}
	return "", nil
}
