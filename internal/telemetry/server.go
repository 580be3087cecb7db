package telemetry

import (
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
)

// server is what a server counts beside its terminals. Its methods are called on the path of every request, response
// and command: none waits, and none allocates.
type server struct {
	requests, answered               *metric
	begun, firstDelta, ended, events *metric
	logged, flushed, unflushed       *metric
	boots, unbooted                  *metric
	commands, printed                *metric
	inFlight, inProgress, running    atomic.Int64
	boxes                            atomic.Pointer[func() int]
}

// quickBounds are for what a server does itself, and for models.
var quickBounds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

func (s *server) open(m *Metrics) {
	count := func(n *atomic.Int64) func() float64 { return func() float64 { return float64(n.Load()) } }
	s.requests = m.counter("hardshell.http.requests", "HTTP requests that were answered, by route; the route - is no route of ours. Status 499 is a client that went away.", "route", "status")
	s.answered = m.histogram("hardshell.http.request.duration", "s", quickBounds, "How long requests took, streams to their last byte.", "route")
	m.gauge("hardshell.http.in_flight", "1", "HTTP requests that are being answered.", count(&s.inFlight))
	s.begun = m.counter("hardshell.response.started", "Responses that began here, and those that went on here: after an approval, or a server's death.", "mode")
	m.gauge("hardshell.response.in_progress", "1", "Responses that have not ended, those that wait for their turn too, and not those that wait for an approval.", count(&s.inProgress))
	s.firstDelta = m.histogram("hardshell.response.first_delta", "s", quickBounds, "From the beginning of a response to its first delta: a model's first word, or a command's.", "mode")
	s.ended = m.histogram("hardshell.response.duration", "s", quickBounds, "From the beginning of a response to its end. The status taken is one that goes on later: it waits for an approval, or for another server.", "status")
	s.events = m.counter("hardshell.response.events", "Events of responses that have ended.")
	s.logged = m.counter("hardshell.log.events", "Events that were made durable before their response ended.")
	s.flushed = m.histogram("hardshell.log.flush.duration", "s", quickBounds, "How long it took to make events durable, many at once.")
	s.unflushed = m.counter("hardshell.log.failures", "Times that events could not be made durable.")
	s.boots = m.histogram("hardshell.container.boot.duration", "s", quickBounds, "How long the boxes of containers took to start.")
	s.unbooted = m.counter("hardshell.container.boot.failures", "Boxes that could not be started, by kind of error.", "kind")
	m.gauge("hardshell.container.running", "1", "Containers whose box lives.", func() float64 {
		if alive := s.boxes.Load(); alive != nil {
			return float64((*alive)())
		}
		return 0
	})
	s.commands = m.histogram("hardshell.container.command.duration", "s", secondsBounds, "How long commands in containers ran, by how they ended.", "outcome")
	s.printed = m.histogram("hardshell.container.command.output", "By", bytesBounds, "What commands in containers printed, both streams.")
	m.gauge("hardshell.container.commands", "1", "Commands in containers that run.", count(&s.running))
	m.gauge("process.start_time", "s", "When this process began to count, in seconds since 1970.", func() float64 { return float64(m.started.UnixMilli()) / 1000 })
	m.gauge("process.goroutines", "1", "Goroutines that exist.", func() float64 { return sample("/sched/goroutines:goroutines") })
	m.gauge("process.memory", "By", "Memory that the Go runtime holds of the system's.", func() float64 {
		return sample("/memory/classes/total:bytes") - sample("/memory/classes/heap/released:bytes")
	})
}

func sample(name string) float64 {
	one := []metrics.Sample{{Name: name}}
	metrics.Read(one)
	if one[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return float64(one[0].Value.Uint64())
}

// statuses are HTTP's, as labels.
var statuses = sync.OnceValue(func() *[600]string {
	var out [600]string
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return &out
})

// RequestBegan counts a request in.
func (s *server) RequestBegan() { s.inFlight.Add(1) }

// RequestEnded counts a request out.
func (s *server) RequestEnded(route string, status int, took time.Duration) {
	s.inFlight.Add(-1)
	code := "other"
	if words := statuses(); status >= 100 && status < len(words) {
		code = words[status]
	}
	s.requests.add(1, values{route, code})
	s.answered.add(took.Seconds(), values{route})
}

// mode is what a response's client does meanwhile.
func mode(background bool) string {
	if background {
		return "background"
	}
	return "foreground"
}

// ResponseBegan counts a response in.
func (s *server) ResponseBegan(background bool) {
	s.inProgress.Add(1)
	s.begun.add(1, values{mode(background)})
}

// FirstDelta notes how long a response's first word took.
func (s *server) FirstDelta(background bool, took time.Duration) {
	s.firstDelta.add(took.Seconds(), values{mode(background)})
}

// ResponseEnded counts a response out. Without a status it goes on later.
func (s *server) ResponseEnded(status string, took time.Duration, events int64) {
	s.inProgress.Add(-1)
	if status == "" {
		status = "taken"
	} else {
		s.events.add(float64(events), values{})
	}
	s.ended.add(took.Seconds(), values{status})
}

// LogFlushed notes a write of events.
func (s *server) LogFlushed(events int, took time.Duration, err error) {
	if err != nil {
		s.unflushed.add(1, values{})
		return
	}
	s.logged.add(float64(events), values{})
	s.flushed.add(took.Seconds(), values{})
}

// Containers says how to count the boxes that live.
func (s *server) Containers(alive func() int) { s.boxes.Store(&alive) }

// Booted notes a box's start.
func (s *server) Booted(took time.Duration, err error) {
	if err != nil {
		s.unbooted.add(1, values{fault.KindOf(err).String()})
		return
	}
	s.boots.add(took.Seconds(), values{})
}

// CommandBegan counts a command in.
func (s *server) CommandBegan() { s.running.Add(1) }

// CommandEnded counts a command out.
func (s *server) CommandEnded(r *container.Result, err error) {
	s.running.Add(-1)
	s.commands.add(r.Duration.Seconds(), values{ended(r, err)})
	s.printed.add(float64(r.Stdout.Bytes+r.Stderr.Bytes), values{})
}

// ended is one of a few words for how a command in a container ended.
func ended(r *container.Result, err error) string {
	if err != nil {
		if e, ok := fault.As(err); ok && e.Code == container.CodeHandedOver {
			return "handed_over"
		}
		return "lost"
	}
	switch {
	case r.Breach != "":
		return "breach"
	case r.OutOfMemory:
		return "memory"
	case r.TimedOut:
		return "timeout"
	case r.Cancelled:
		return "cancelled"
	case r.Error != "":
		return "not_started"
	case r.Signal != "":
		return "signal"
	case r.ExitCode != 0:
		return "nonzero"
	}
	return "ok"
}
