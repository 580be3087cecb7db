// Command events measures the event log alone: how many events a second become durable, and how long one takes.
//
// It drives the real API of the response room on a real database: Begin, Emit, Sync, Subscribe, Finish. "closed" means
// that each response waits until its event is durable before it emits the next, "open" that each emits as fast as it
// is let, "paced" a fixed rate that waits for nothing. The claims it is held to are those of closed and paced.
//
// The disk of a shared machine drifts by a factor of five, so closed is taken in turns with the least log that can be (see
// floor.go), and its claim is the ratio to that: what numbers, fences, pins and readers cost on top of a group commit.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Result is one line of the table. Lags are milliseconds from just before Emit until the event is durable.
type Result struct {
	Name      string  `json:"name"`
	Responses int     `json:"responses"`
	Events    int64   `json:"events"`
	PerSecond float64 `json:"events_per_second"`
	LagP50    float64 `json:"lag_p50_ms"`
	LagP99    float64 `json:"lag_p99_ms"`
	Seal      float64 `json:"seal_s"`           // to end all responses afterwards
	CPU       float64 `json:"cpu_us_per_event"` // processor time, also of moving events into blocks
	Floor     float64 `json:"floor_events_per_second,omitempty"`
	FloorCPU  float64 `json:"floor_cpu_us_per_event,omitempty"`
	OfFloor   float64 `json:"of_floor,omitempty"`
	Hold      string  `json:"hold,omitempty"`
	Held      *bool   `json:"held,omitempty"`
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	dir := flag.String("dir", "", "folder on the disk to measure (default: the temporary folder)")
	span := flag.Duration("d", 3*time.Second, "time for each measurement")
	rounds := flag.Int("rounds", 5, "turns of the log and the floor, where it has one")
	only := flag.String("only", "", "measure only the lines whose name contains this")
	flag.Parse()
	if err := run(*dir, *span, *rounds, *only, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

// text makes an event of about 220 bytes with what stands around it.
const text = "and so the answer goes on for a few more words, then "

func run(dir string, span time.Duration, rounds int, only string, asJSON bool) error {
	type measure struct {
		name  string
		runs  int
		hold  string
		do    func(*bench) error
		check func(Result) bool
	}
	measures := []measure{
		{"closed", 64, "≥ 0.87× the floor", (*bench).closed, func(r Result) bool { return r.OfFloor >= 0.87 }},
		{"closed", 1000, "≥ 0.67× the floor", (*bench).closed, func(r Result) bool { return r.OfFloor >= 0.67 }},
		{"paced 50 k/s", 1000, "lag p99 ≤ 20 ms", (*bench).paced, func(r Result) bool { return r.LagP99 <= 20 && r.PerSecond >= 49e3 }},
		{"open", 64, "", (*bench).open, nil},
		{"open", 1000, "", (*bench).open, nil},
	}
	var results []Result
	for _, m := range measures {
		if !strings.Contains(fmt.Sprint(m.name, " ", m.runs), only) {
			continue
		}
		turns := 1
		if m.name == "closed" {
			turns = rounds
		}
		var taken []Result
		var floors []Result
		for range turns {
			r, err := take(dir, span, m.runs, m.do)
			if err != nil {
				return fmt.Errorf("%s at %d: %w", m.name, m.runs, err)
			}
			taken = append(taken, r)
			if turns == 1 {
				continue
			}
			f, err := floor(dir, span, m.runs)
			if err != nil {
				return fmt.Errorf("the floor at %d: %w", m.runs, err)
			}
			floors = append(floors, f)
		}
		r := median(taken)
		if len(floors) > 0 {
			f := median(floors)
			r.Floor, r.FloorCPU = f.PerSecond, f.CPU
			r.OfFloor = r.PerSecond / r.Floor
		}
		r.Name, r.Hold = m.name, m.hold
		if m.check != nil {
			held := m.check(r)
			r.Held = &held
		}
		results = append(results, r)
	}
	return show(results, asJSON)
}

// median is the turn in the middle.
func median(turns []Result) Result {
	slices.SortFunc(turns, func(a, b Result) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
	return turns[len(turns)/2]
}

// spent is the processor time that this process has taken, in microseconds.
func spent() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

func show(results []Result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "events", "event_bytes": eventBytes(), "cpus": runtime.NumCPU(), "results": results})
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "durable events, %d bytes each\tresponses\tevents/s\tlag p50 ms\tlag p99 ms\tseal all s\tcpu µs\tfloor events/s\tcpu µs\tof floor\thold\t\n", eventBytes())
	for _, r := range results {
		verdict := ""
		if r.Held != nil {
			verdict = map[bool]string{true: "yes", false: "NO"}[*r.Held]
		}
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.2f\t%.2f\t%s\t%s\n", r.Name, r.Responses, r.PerSecond, r.LagP50, r.LagP99, r.Seal, r.CPU, r.Floor, r.FloorCPU, r.OfFloor, r.Hold, verdict)
	}
	return w.Flush()
}

func delta() *openai.DeltaEvent {
	return openai.NewDelta(openai.EventTextDelta, "msg_06d8n2m4kq3v7t9x1c5b0z8yrw", 0, 0, text)
}

func eventBytes() int {
	b, _ := openai.AppendEvent(nil, delta())
	return len(b)
}

// bench is one measurement: a database of its own, with all responses begun.
type bench struct {
	ctx  context.Context
	end  context.Context // over when the time is
	runs []*response.Run

	count atomic.Int64
	mu    sync.Mutex
	lags  []time.Duration
}

func take(dir string, span time.Duration, n int, do func(*bench) error) (r Result, err error) {
	tmp, err := os.MkdirTemp(dir, "hardshell-events-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(tmp)
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(tmp, "hardshell.db")})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	svc, err := response.New(ctx, response.Options{DB: db})
	if err != nil {
		return r, err
	}
	b := &bench{ctx: ctx}
	begin := func() error {
		run, err := svc.Begin(ctx, response.Begin{Org: "bench", Store: true, Background: true, Object: openai.Response{Model: "bench"}})
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.runs = append(b.runs, run)
		b.mu.Unlock()
		return run.Announce()
	}
	if err := each(n, func(int) error { return begin() }); err != nil {
		return r, err
	}
	var stop context.CancelFunc
	b.end, stop = context.WithTimeout(ctx, span)
	defer stop()
	start, before := time.Now(), spent()
	if err := do(b); err != nil {
		return r, err
	}
	r = Result{CPU: (spent() - before) / float64(max(1, b.count.Load())), Responses: n, Events: b.count.Load(), PerSecond: float64(b.count.Load()) / time.Since(start).Seconds()}
	slices.Sort(b.lags)
	r.LagP50, r.LagP99 = quantile(b.lags, 0.5), quantile(b.lags, 0.99)
	start = time.Now()
	err = each(n, func(i int) error { return b.runs[i].Finish(ctx, response.End{Status: openai.Completed}) })
	r.Seal = time.Since(start).Seconds()
	return r, errors.Join(err, svc.Close(ctx))
}

// each runs f for 0…n-1 at once and returns the first error.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}

func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))].Seconds() * 1e3
}

func (b *bench) record(lags []time.Duration) {
	b.mu.Lock()
	b.lags = append(b.lags, lags...)
	b.mu.Unlock()
}

// closed lets each response wait for each of its events.
func (b *bench) closed() error {
	return each(len(b.runs), func(i int) error {
		var lags []time.Duration
		ev := delta()
		for b.end.Err() == nil {
			t := time.Now()
			if err := b.runs[i].Emit(ev); err != nil {
				return err
			}
			if err := b.runs[i].Sync(b.ctx); err != nil {
				return err
			}
			lags = append(lags, time.Since(t))
		}
		b.count.Add(int64(len(lags)))
		b.record(lags)
		return nil
	})
}

// open lets each response emit as fast as the log takes its events, and counts what has become durable.
func (b *bench) open() error {
	return each(len(b.runs), func(i int) error {
		ev, n := delta(), int64(0)
		for ; b.end.Err() == nil; n++ {
			if err := b.runs[i].Emit(ev); err != nil {
				return err
			}
		}
		b.count.Add(n)
		return b.runs[i].Sync(b.ctx)
	})
}

// paced emits 50,000 events a second, each response at its own moments, and follows each as a background client does:
// it sees only what is durable.
func (b *bench) paced() error {
	const rate, tick = 50_000, time.Millisecond
	start := time.Now()
	sent := make([]sync.Map, len(b.runs)) // number → when
	var followers sync.WaitGroup
	follow, stop := context.WithCancel(b.ctx)
	defer stop()
	for i, run := range b.runs {
		followers.Go(func() {
			sub := run.Subscribe(-1)
			var lags []time.Duration
			for {
				frames, err := sub.Next(follow)
				now := time.Since(start)
				if err != nil {
					b.record(lags)
					return
				}
				for _, f := range frames {
					if at, ok := sent[i].LoadAndDelete(f.Seq); ok {
						lags = append(lags, now-at.(time.Duration))
					}
				}
			}
		})
	}
	seq := make([]int64, len(b.runs))
	ev := delta()
	var n int64
	for b.end.Err() == nil {
		due := int64(time.Since(start).Seconds() * rate)
		for ; n < due; n++ {
			i := int(n) % len(b.runs)
			// Announce of a background response has taken 0, 1 and 2.
			sent[i].Store(seq[i]+3, time.Since(start))
			seq[i]++
			if err := b.runs[i].Emit(ev); err != nil {
				return err
			}
		}
		time.Sleep(tick)
	}
	err := each(len(b.runs), func(i int) error { return b.runs[i].Sync(b.ctx) })
	b.count.Store(n)
	stop()
	followers.Wait()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}
