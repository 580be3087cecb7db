// Command resume measures readers that come back: how long 1,000 of them take to be where they were, and whether the
// server's memory grows with the events that went through it.
//
// The readers are HTTP clients of the real door over the real log. Each resumes one response of 500 durable events
// behind a number of its own; it has resumed when it has every event up to the newest. Responses that are at rest and
// such that go on are measured apart. The floor is a server that answers the same requests with as many bytes out of
// memory, in the same run. For the memory, responses emit as fast as the log lets them while one reader each follows.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/hardshell-dev/hardshell/internal/gateway"
	door "github.com/hardshell-dev/hardshell/internal/gateway/openai"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// Report is what is printed with -json. Times are seconds.
type Report struct {
	Bench   string   `json:"bench"`
	CPUs    int      `json:"cpus"`
	Readers int      `json:"readers"`
	Resumed []Resume `json:"resumed"`
	Memory  *Memory  `json:"memory,omitempty"`
}

// Resume is one measurement of all readers at once.
type Resume struct {
	Name  string  `json:"name"`
	P50   float64 `json:"p50_s"`
	P99   float64 `json:"p99_s"`
	All   float64 `json:"all_s"` // until the last of them is there
	Floor float64 `json:"floor_all_s"`
	Ratio float64 `json:"ratio"`
	Held  bool    `json:"held"` // within 1 s
}

// Memory is the live heap while events go through.
type Memory struct {
	Events    int64     `json:"events"`
	PerSecond float64   `json:"events_per_second"`
	HeapMiB   []float64 `json:"heap_mib"` // at every tenth of the way
	Growth    float64   `json:"growth"`   // the last against the second: the first is on the way up
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	dir := flag.String("dir", "", "folder on the disk to measure (default: the temporary folder)")
	readers := flag.Int("readers", 1000, "clients that resume at once")
	events := flag.Int64("events", 2_000_000, "events for the memory; the claim is about 10,000,000")
	flag.Parse()
	report, err := run(*dir, *readers, *events)
	if err != nil {
		fmt.Fprintln(os.Stderr, "resume:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(report)
		return
	}
	report.print(os.Stdout)
}

func (r *Report) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d readers resume\tp50 ms\tp99 ms\tall ms\tfloor all ms\tratio\twithin 1 s\t\n", r.Readers)
	for _, m := range r.Resumed {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%v\t\n", m.Name, m.P50*1e3, m.P99*1e3, m.All*1e3, m.Floor*1e3, m.Ratio, m.Held)
	}
	w.Flush()
	if m := r.Memory; m != nil {
		fmt.Fprintf(to, "\nmemory: %d events at %.0f/s; live heap in MiB %.1f; growth %.2f\n", m.Events, m.PerSecond, m.HeapMiB, m.Growth)
	}
}

const (
	organisation = "bench"
	stored       = 500 // events of each response
	rounds       = 5
)

// house is the rooms that a reader needs.
type house struct {
	db        *store.DB
	responses *response.Service
	runs      []*response.Run
	url       string
	stop      func()
}

// anyone lets every request in.
type anyone struct{}

func (anyone) Authenticate(context.Context, string) (tenant.Principal, error) {
	return tenant.Principal{Org: organisation, KeyID: "key", Scopes: []tenant.Scope{tenant.ScopeRun}}, nil
}

func open(ctx context.Context, dir string) (*house, error) {
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "hardshell.db")})
	if err != nil {
		return nil, err
	}
	svc, err := response.New(ctx, response.Options{DB: db})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	g := gateway.New(gateway.Options{Tenants: anyone{}, MaxBody: 1 << 20})
	door.Register(g, door.Rooms(nil, svc, nil, nil))
	url, stop, err := serve(g)
	if err != nil {
		return nil, errors.Join(err, svc.Close(ctx), db.Close())
	}
	return &house{db: db, responses: svc, url: url, stop: stop}, nil
}

func serve(h http.Handler) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := gateway.NewServer(h, nil)
	go s.Serve(l)
	return "http://" + l.Addr().String(), func() { s.Close() }, nil
}

func (h *house) close(ctx context.Context) error {
	h.stop()
	return errors.Join(h.responses.Close(ctx), h.db.Close())
}

func (h *house) begin(ctx context.Context, n int) error {
	for range n {
		r, err := h.responses.Begin(ctx, response.Begin{Org: organisation, Store: true, Background: true, Object: openai.Response{Model: "bench"}})
		if err != nil {
			return err
		}
		if err := r.Announce(); err != nil {
			return err
		}
		h.runs = append(h.runs, r)
	}
	return nil
}

func delta() *openai.DeltaEvent {
	return openai.NewDelta(openai.EventTextDelta, "msg_06d8n2m4kq3v7t9x1c5b0z8yrw", 0, 0, "and so the answer goes on for a few more words, then ")
}

func run(dir string, readers int, events int64) (*Report, error) {
	tmp, err := os.MkdirTemp(dir, "hardshell-resume-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	ctx := context.Background()
	r := &Report{Bench: "resume", CPUs: runtime.NumCPU(), Readers: readers}
	if r.Resumed, err = resumes(ctx, filepath.Join(tmp, "a"), readers); err != nil {
		return nil, err
	}
	if events > 0 {
		if r.Memory, err = memory(ctx, filepath.Join(tmp, "b"), events); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func resumes(ctx context.Context, dir string, readers int) (out []Resume, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	h, err := open(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	const responses = 100 // ten readers each
	if err := h.begin(ctx, responses); err != nil {
		return nil, err
	}
	ev := delta()
	for _, r := range h.runs {
		for range stored - 3 { // three were announced
			if err := r.Emit(ev); err != nil {
				return nil, err
			}
		}
		if err := r.Sync(ctx); err != nil {
			return nil, err
		}
	}
	raw, err := openai.AppendEvent(nil, ev)
	if err != nil {
		return nil, err
	}
	frame := []byte("event: " + openai.EventTextDelta + "\ndata: " + string(raw) + "\n\n")
	floor, stop, err := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.Atoi(r.URL.Query().Get("starting_after"))
		w.Header().Set("Content-Type", "text/event-stream")
		w.Write(bytes.Repeat(frame, stored-1-after))
	}))
	if err != nil {
		return nil, err
	}
	defer stop()
	for _, name := range []string{"responses that go on", "responses at rest"} {
		if name == "responses at rest" {
			for _, r := range h.runs {
				if err := r.Finish(ctx, response.End{Status: openai.Completed}); err != nil {
					return nil, err
				}
			}
		}
		var ours, theirs [][]time.Duration
		for range rounds {
			a, err := resume(ctx, readers, h.url, h.runs)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			b, err := resume(ctx, readers, floor, h.runs)
			if err != nil {
				return nil, fmt.Errorf("floor: %w", err)
			}
			ours, theirs = append(ours, a), append(theirs, b)
		}
		mine, other := median(ours), median(theirs)
		m := Resume{Name: name, P50: at(mine, 0.5), P99: at(mine, 0.99), All: at(mine, 1), Floor: at(other, 1)}
		m.Ratio, m.Held = m.All/m.Floor, m.All <= 1
		out = append(out, m)
	}
	return out, nil
}

// median is the round whose last reader is the median of all rounds'.
func median(rounds [][]time.Duration) []time.Duration {
	slices.SortFunc(rounds, func(a, b []time.Duration) int { return int(a[len(a)-1] - b[len(b)-1]) })
	return rounds[len(rounds)/2]
}

func at(sorted []time.Duration, q float64) float64 {
	return sorted[int(q*float64(len(sorted)-1))].Seconds()
}

// resume lets all readers resume at once and returns how long each took, in order.
func resume(ctx context.Context, readers int, url string, runs []*response.Run) ([]time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // who comes back has no connection
	took, errs := make([]time.Duration, readers), make([]error, readers)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			errs[i] = read(ctx, client, fmt.Sprintf("%s/v1/responses/%s?stream=true&starting_after=", url, runs[i%len(runs)].ID()), rand.IntN(stored-1))
			took[i] = time.Since(start)
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took, errors.Join(errs...)
}

// read resumes behind a number and returns when the newest event is there.
func read(ctx context.Context, client *http.Client, url string, after int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+strconv.Itoa(after), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer x")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for next := after + 1; next < stored; {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("at %d of %s: %w", next, url, err)
		}
		if bytes.HasPrefix(line, []byte("data: ")) {
			next++
		}
	}
	return nil
}

// memory lets events through and looks at the live heap on the way.
func memory(ctx context.Context, dir string, total int64) (m *Memory, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	h, err := open(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close(ctx)) }()
	if err := h.begin(ctx, 64); err != nil {
		return nil, err
	}
	m = &Memory{Events: total}
	var read atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, 2*len(h.runs))
	start := time.Now()
	for _, r := range h.runs {
		wg.Go(func() {
			ev := delta()
			for range total / int64(len(h.runs)) {
				if err := r.Emit(ev); err != nil {
					errs <- err
					return
				}
			}
			errs <- r.Finish(ctx, response.End{Status: openai.Completed})
		})
		wg.Go(func() {
			for sub := r.Subscribe(-1); ; {
				frames, err := sub.Next(ctx)
				if err == io.EOF {
					return
				}
				if err != nil {
					errs <- err
					return
				}
				read.Add(int64(len(frames)))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for next, over := total/10, false; !over; {
		select {
		case <-done:
			over = true
		case err := <-errs:
			if err != nil {
				return nil, err
			}
		case <-time.After(5 * time.Millisecond):
		}
		for read.Load() >= next && next <= total {
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			m.HeapMiB = append(m.HeapMiB, float64(s.HeapAlloc)/(1<<20))
			next += total / 10
		}
	}
	m.PerSecond = float64(total) / time.Since(start).Seconds()
	if len(m.HeapMiB) > 2 {
		m.Growth = m.HeapMiB[len(m.HeapMiB)-1] / m.HeapMiB[1]
	}
	return m, nil
}
