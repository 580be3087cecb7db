package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// report is what -json prints. Times are in microseconds unless a name says otherwise.
type report struct {
	Bench    string `json:"bench"`
	CPUs     int    `json:"cpus"`
	Rounds   int    `json:"rounds"`
	Dialects []*run `json:"dialects"`
}

// run is what was seen of one dialect.
type run struct {
	Dialect string              `json:"dialect"`
	Targets map[string]*figures `json:"targets"`
	Ratios  map[string]ratios   `json:"ratios"` // to the floor, by target
	names   []string
}

// figures are a target's medians. The median of the rounds' medians is given, as one slow round must not count.
type figures struct {
	WholeP50       float64 `json:"whole_p50"`       // one request at a time, no stream
	StreamP50      float64 `json:"stream_p50"`      // one stream at a time, to its last byte
	FirstP50       float64 `json:"first_event_p50"` // one stream at a time, to its first text delta
	StreamsPerSec  float64 `json:"streams_per_s"`   // 32 at a time
	EventsPerSec   float64 `json:"events_per_s"`    // 32 at a time
	RequestsPerSec float64 `json:"requests_per_s"`  // 32 at a time, no stream
	StreamCPU      float64 `json:"stream_cpu"`      // processor time of the one between, a stream, 32 at a time
	WholeCPU       float64 `json:"whole_cpu"`       // the same without stream
	Streams        int64   `json:"streams_read"`    // in all parts
	Cut            int64   `json:"streams_cut"`     // in all parts
	Fault          string  `json:"fault,omitempty"` // why the first was cut
	Paced          *paced  `json:"paced,omitempty"`

	whole, stream, first, events, requests, streamCPU, wholeCPU []float64
}

// paced is many slow streams at once.
type paced struct {
	Events    int     `json:"events"`
	PerSecond float64 `json:"events_per_s"`
	LagP50    float64 `json:"lag_p50_ms"`
	LagP99    float64 `json:"lag_p99_ms"`
	Cut       int64   `json:"streams_cut"`
}

// ratios compare a target with the floor.
type ratios struct {
	AddedWhole  float64 `json:"added_whole"`  // what it adds to a direct call, over what the floor adds
	AddedStream float64 `json:"added_stream"` // the same for a whole stream
	First       float64 `json:"first_event"`
	Events      float64 `json:"events_per_s"`
	Requests    float64 `json:"requests_per_s"`
}

func (f *figures) add(l load, s sample) {
	switch {
	case l.stream && l.workers == 1:
		f.stream = append(f.stream, micros(percentile(s.whole, .5)))
		f.first = append(f.first, micros(percentile(s.first, .5)))
	case l.stream:
		f.events = append(f.events, float64(s.events)/s.busy.Seconds())
		f.streamCPU = append(f.streamCPU, over(micros(s.cpu), float64(s.done)))
	case l.workers == 1:
		f.whole = append(f.whole, micros(percentile(s.whole, .5)))
	default:
		f.requests = append(f.requests, float64(s.done)/s.busy.Seconds())
		f.wholeCPU = append(f.wholeCPU, over(micros(s.cpu), float64(s.done)))
	}
	if l.stream {
		f.Streams += s.done + s.cut
		f.Cut += s.cut
	}
	if s.fault != nil && f.Fault == "" {
		f.Fault = s.fault.Error()
	}
}

func (r *run) finish() {
	for _, f := range r.Targets {
		f.WholeP50, f.StreamP50, f.FirstP50 = median(f.whole), median(f.stream), median(f.first)
		f.EventsPerSec, f.RequestsPerSec = median(f.events), median(f.requests)
		f.StreamCPU, f.WholeCPU = median(f.streamCPU), median(f.wholeCPU)
		f.StreamsPerSec = f.EventsPerSec / chunks
	}
	r.Ratios = map[string]ratios{}
	direct, floor := r.Targets["direct"], r.Targets["floor"]
	if direct == nil || floor == nil {
		return
	}
	for _, name := range r.names[2:] {
		f := r.Targets[name]
		r.Ratios[name] = ratios{
			AddedWhole:  over(f.WholeP50-direct.WholeP50, floor.WholeP50-direct.WholeP50),
			AddedStream: over(f.StreamP50-direct.StreamP50, floor.StreamP50-direct.StreamP50),
			First:       over(f.FirstP50, floor.FirstP50),
			Events:      over(f.EventsPerSec, floor.EventsPerSec),
			Requests:    over(f.RequestsPerSec, floor.RequestsPerSec),
		}
	}
}

func (r *report) print(w io.Writer) {
	for i, one := range r.Dialects {
		if i > 0 {
			fmt.Fprintln(w)
		}
		one.print(w)
	}
	if len(r.Dialects) < 2 {
		return
	}
	fmt.Fprintf(w, "\nstore:false against the floor, by dialect\n%-12s %12s %12s %10s %10s %10s %5s\n", "", "added whole", "added stream", "first", "events/s", "req/s", "cut")
	for _, one := range r.Dialects {
		if x, ok := one.Ratios["store:false"]; ok {
			fmt.Fprintf(w, "%-12s %11.2fx %11.2fx %9.2fx %9.2fx %9.2fx %5d\n", one.Dialect, x.AddedWhole, x.AddedStream, x.First, x.Events, x.Requests,
				one.Targets["store:false"].Cut)
		}
	}
	fmt.Fprintln(w, "hold: added ≤ 1.5x, first ≤ 1.5x, events/s ≥ 0.8x, nothing cut")
}

func (r *run) print(w io.Writer) {
	fmt.Fprintf(w, "the upstream speaks %s\n", r.Dialect)
	fmt.Fprintf(w, "%-12s %10s %10s %10s %10s %10s %11s %11s %8s %5s\n", "", "whole µs", "stream µs", "first µs", "events/s", "req/s",
		"cpu/str µs", "cpu/req µs", "streams", "cut")
	for _, name := range r.names {
		f := r.Targets[name]
		fmt.Fprintf(w, "%-12s %10.0f %10.0f %10.0f %10.0f %10.0f %11.0f %11.0f %8d %5d\n", name, f.WholeP50, f.StreamP50, f.FirstP50,
			f.EventsPerSec, f.RequestsPerSec, f.StreamCPU, f.WholeCPU, f.Streams, f.Cut)
		if f.Fault != "" {
			fmt.Fprintf(w, "%-12s %s\n", "", f.Fault)
		}
	}
	if len(r.Ratios) > 0 {
		fmt.Fprintln(w, "\nagainst the floor (added = over a direct call)")
		fmt.Fprintf(w, "%-12s %12s %12s %10s %10s %10s\n", "", "added whole", "added stream", "first", "events/s", "req/s")
	}
	for _, name := range r.names {
		x, ok := r.Ratios[name]
		if !ok {
			continue
		}
		fmt.Fprintf(w, "%-12s %11.2fx %11.2fx %9.2fx %9.2fx %9.2fx\n", name, x.AddedWhole, x.AddedStream, x.First, x.Events, x.Requests)
	}
	for i, name := range r.names {
		p := r.Targets[name].Paced
		if p == nil {
			return
		}
		if i == 0 {
			fmt.Fprintf(w, "\npaced streams, through SSE and JSON\n%-12s %10s %10s %12s %12s %5s\n", "", "events", "events/s", "lag p50 ms", "lag p99 ms", "cut")
		}
		fmt.Fprintf(w, "%-12s %10d %10.0f %12.2f %12.2f %5d\n", name, p.Events, p.PerSecond, p.LagP50, p.LagP99, p.Cut)
	}
}

func over(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

func percentile(d []time.Duration, p float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Clone(d)
	slices.Sort(d)
	return d[int(float64(len(d)-1)*p)]
}

func median(f []float64) float64 {
	if len(f) == 0 {
		return 0
	}
	f = slices.Clone(f)
	slices.Sort(f)
	return f[len(f)/2]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
