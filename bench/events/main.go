// Command events measures the event log alone: how many events a second become durable, and how long one takes.
//
// It drives the real API of the response room on a real database: Begin, Emit, Sync, Subscribe, Finish. "closed" means
// that each response waits until its event is durable before it emits the next, "open" that each emits as fast as it
// is let, "paced" a fixed rate that waits for nothing. The claims it is held to are those of closed and paced. Right
// before and after each measurement, bare SQLite commits rows of one event for each response in a loop: the disk of a shared
// machine drifts by a factor of five, and the ratio to that loop tells the log's own cost from the disk's mood.
package main

import (
	"cmp"
	"context"
	"database/sql"
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
	Seal      float64 `json:"seal_s"` // to end all responses afterwards
	Bare      float64 `json:"bare_commits_per_second"`
	OfBare    float64 `json:"of_bare"` // events a second, against a bare commit of one row that holds one event of each response
	Hold      string  `json:"hold,omitempty"`
	Held      *bool   `json:"held,omitempty"`
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	dir := flag.String("dir", "", "folder on the disk to measure (default: the temporary folder)")
	span := flag.Duration("d", 3*time.Second, "time for each measurement")
	only := flag.String("only", "", "measure only the lines whose name contains this")
	flag.Parse()
	if err := run(*dir, *span, *only, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "events:", err)
		os.Exit(1)
	}
}

// text makes an event of about 220 bytes with what stands around it.
const text = "and so the answer goes on for a few more words, then "

func run(dir string, span time.Duration, only string, asJSON bool) error {
	type measure struct {
		name  string
		runs  int
		hold  string
		do    func(*bench) error
		check func(Result) bool
	}
	measures := []measure{
		{"closed", 64, "≥ 150 k/s", (*bench).closed, func(r Result) bool { return r.PerSecond >= 150e3 }},
		{"closed", 1000, "≥ 400 k/s", (*bench).closed, func(r Result) bool { return r.PerSecond >= 400e3 }},
		{"paced 50 k/s", 1000, "lag p99 ≤ 20 ms", (*bench).paced, func(r Result) bool { return r.LagP99 <= 20 && r.PerSecond >= 49e3 }},
		{"open", 64, "", (*bench).open, nil},
		{"open", 1000, "", (*bench).open, nil},
	}
	var results []Result
	for _, m := range measures {
		if !strings.Contains(fmt.Sprint(m.name, " ", m.runs), only) {
			continue
		}
		before, err := bare(dir, m.runs)
		if err != nil {
			return fmt.Errorf("bare commits: %w", err)
		}
		r, err := take(dir, span, m.runs, m.do)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", m.name, m.runs, err)
		}
		after, err := bare(dir, m.runs)
		if err != nil {
			return fmt.Errorf("bare commits: %w", err)
		}
		r.Bare = (before + after) / 2
		r.OfBare = r.PerSecond / (r.Bare * float64(m.runs))
		r.Name, r.Hold = m.name, m.hold
		if m.check != nil {
			held := m.check(r)
			r.Held = &held
		}
		results = append(results, r)
	}
	return show(results, asJSON)
}

func show(results []Result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "events", "event_bytes": eventBytes(), "cpus": runtime.NumCPU(), "results": results})
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "durable events, %d bytes each\tresponses\tevents/s\tlag p50 ms\tlag p99 ms\tseal all s\tbare commits/s\tof bare\thold\t\n", eventBytes())
	for _, r := range results {
		verdict := ""
		if r.Held != nil {
			verdict = map[bool]string{true: "yes", false: "NO"}[*r.Held]
		}
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.0f\t%.2f\t%s\t%s\n", r.Name, r.Responses, r.PerSecond, r.LagP50, r.LagP99, r.Seal, r.Bare, r.OfBare, r.Hold, verdict)
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

// bare commits rows of n events, one after the other, with the store's settings and nothing of ours around them.
func bare(dir string, n int) (perSecond float64, err error) {
	const span = 300 * time.Millisecond
	tmp, err := os.MkdirTemp(dir, "hardshell-events-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(tmp, "bare.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE segment (id INTEGER PRIMARY KEY, data BLOB)`); err != nil {
		return 0, err
	}
	row, commits, start := make([]byte, n*eventBytes()), 0, time.Now()
	for ; time.Since(start) < span; commits++ {
		tx, err := db.Begin()
		if err != nil {
			return 0, err
		}
		if _, err := tx.Exec(`INSERT INTO segment (data) VALUES ($1)`, row); err != nil {
			return 0, errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return 0, err
		}
	}
	return float64(commits) / time.Since(start).Seconds(), nil
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
	start := time.Now()
	if err := do(b); err != nil {
		return r, err
	}
	r = Result{Responses: n, Events: b.count.Load(), PerSecond: float64(b.count.Load()) / time.Since(start).Seconds()}
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
