// Command containers measures what a container costs in the engine: made and its first command run, commands after that,
// its end, what it takes while it does nothing, and how long a new server takes to adopt it. Commands are compared with a
// bare fork and exec in the same run.
//
//	go run ./bench/containers [-n 100] [-idle 200] [-execs 1000] [-json]
//
// It is not a test: it asserts no time. A command that did not do its work ends it with an error. What the API adds is
// bench/gateway's; boxes alone are bench/start's and bench/exec's.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/container/jail"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// report is what is printed. Times are milliseconds.
type report struct {
	Bench    string  `json:"bench"`
	Samples  int     `json:"samples"`
	Bare     figures `json:"bare"`     // fork and exec of bash -c true
	Create   figures `json:"create"`   // a row
	First    figures `json:"first"`    // create and the first command's end
	Warm     figures `json:"warm"`     // a further command
	Teardown figures `json:"teardown"` // delete, of a container with a live process
	Rates    []rate  `json:"rates"`
	Idle     idle    `json:"idle"`
}

type figures struct {
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Ratio float64 `json:"ratio"` // to the bare command
	times []float64
}

// rate is commands per second of 8 clients.
type rate struct {
	Command string  `json:"command"`
	Bare    float64 `json:"bare_per_s"`
	Ours    float64 `json:"ours_per_s"`
	Ratio   float64 `json:"ratio"`
}

const org = "org_bench"

// world is a service on a data folder of its own.
type world struct {
	*container.Service
	data string
	db   *store.DB
}

func main() {
	samples := flag.Int("n", 100, "samples of each time")
	count := flag.Int("idle", 200, "idle containers with a live process")
	execs := flag.Int("execs", 1000, "commands before a container is looked at again")
	asJSON := flag.Bool("json", false, "print an object")
	flag.Parse()
	r, err := run(*samples, *count, *execs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/containers:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	r.print()
}

func (r *report) print() {
	fmt.Printf("%-34s %9s %9s %7s\n", "", "p50 ms", "p99 ms", "x bare")
	for _, row := range []struct {
		name string
		f    figures
	}{{"bare bash -c true", r.Bare}, {"container made", r.Create}, {"made, and its first command", r.First},
		{"a further command", r.Warm}, {"ended, with a live process", r.Teardown}} {
		fmt.Printf("%-34s %9.2f %9.2f %7.2f\n", row.name, row.f.P50, row.f.P99, row.f.Ratio)
	}
	for _, x := range r.Rates {
		fmt.Printf("%-34s %9.0f /s   bare %7.0f /s   %.2fx\n", x.Command+", 8 clients", x.Ours, x.Bare, x.Ratio)
	}
	i := r.Idle
	fmt.Printf("%d idle containers with a live process: %.2f MiB each (PSS %.2f, slab %.2f), %.2f ms CPU in %.0f s for all\n",
		i.Count, i.PSS+i.Slab, i.PSS, i.Slab, i.CPU, i.Watched)
	fmt.Printf("after %d commands: PSS %.2f MiB; adopted by a new server in %.0f ms for all; processes of ours without a live one: %d\n",
		i.Execs, i.PSSAfter, i.Adopt, i.Resting)
	fmt.Println("hold: made and first command p50 ≤ 5 ms, p99 ≤ 20 ms; rates ≥ 0.65x; ≤ 1.8 MiB fresh, ≤ 3 MiB after 1,000; no CPU; 0 processes")
}

func run(samples, count, execs int) (*report, error) {
	ctx := context.Background()
	if err := sandbox.Supported(ctx); err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp("", "bench-containers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(data)
	stop, err := sandbox.StartSpawner(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	w, err := open(ctx, data)
	if err != nil {
		return nil, err
	}
	defer func() { w.close(ctx) }()
	r := &report{Bench: "containers", Samples: samples}
	if err := r.times(ctx, w, samples); err != nil {
		return nil, err
	}
	for _, argv := range [][]string{{"/bin/true"}, {"/bin/bash", "-c", "true"}} {
		if err := r.rate(ctx, w, argv); err != nil {
			return nil, err
		}
	}
	r.Idle, err = measureIdle(ctx, w, count, execs)
	return r, err
}

func open(ctx context.Context, data string) (*world, error) {
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(data, "hardshell.db")})
	if err != nil {
		return nil, err
	}
	s, err := container.New(ctx, container.Options{DB: db, Runtime: jail.New(jail.Options{}), Dir: filepath.Join(data, "containers")})
	if err != nil {
		db.Close()
		return nil, err
	}
	return &world{Service: s, data: data, db: db}, nil
}

func (w *world) close(ctx context.Context) {
	w.Close(ctx)
	w.db.Close()
}

// command runs a script to its end and looks at what it printed.
func (w *world) command(ctx context.Context, id, script, want string) error {
	e, err := w.Exec(ctx, org, id, container.Command{Script: script})
	if err != nil {
		return err
	}
	r, err := e.Wait(ctx)
	if err == nil && (r.ExitCode != 0 || r.Stdout.Text != want) {
		err = fmt.Errorf("%q ended with %d and printed %q", script, r.ExitCode, r.Stdout.Text)
	}
	return err
}

func bare(argv []string) error { return exec.Command(argv[0], argv[1:]...).Run() }

// times takes each time once a round.
func (r *report) times(ctx context.Context, w *world, samples int) error {
	const warm = 5
	for i := range samples + warm {
		var err error
		took := func(f *figures, do func() error) {
			if err != nil {
				return
			}
			began := time.Now()
			err = do()
			if i >= warm {
				f.times = append(f.times, time.Since(began).Seconds()*1e3)
			}
		}
		var id string
		create := func() error {
			c, err := w.Create(ctx, org, container.CreateSpec{})
			id = c.ID
			return err
		}
		took(&r.Bare, func() error { return bare([]string{"/bin/bash", "-c", "true"}) })
		took(&r.Create, create)
		took(&r.First, func() error {
			if err := create(); err != nil {
				return err
			}
			return w.command(ctx, id, "true", "")
		})
		took(&r.Warm, func() error { return w.command(ctx, id, "true", "") })
		if err == nil {
			err = w.command(ctx, id, "sleep 1000 >/dev/null 2>&1 &", "")
		}
		took(&r.Teardown, func() error { return w.Delete(ctx, org, id) })
		if err != nil {
			return err
		}
	}
	for _, f := range []*figures{&r.Bare, &r.Create, &r.First, &r.Warm, &r.Teardown} {
		slices.Sort(f.times)
		f.P50, f.P99 = f.times[len(f.times)/2], f.times[len(f.times)*99/100]
		f.Ratio = f.P50 / r.Bare.P50
	}
	return nil
}

// rate has eight clients, each with a container of its own, run a command as often as they can; and bare, in turns.
func (r *report) rate(ctx context.Context, w *world, argv []string) error {
	const clients, rounds, slice = 8, 4, 700 * time.Millisecond
	script := argv[0]
	if len(argv) > 1 {
		script = "bash -c true"
	}
	ids := make([]string, clients)
	for i := range ids {
		c, err := w.Create(ctx, org, container.CreateSpec{})
		if err == nil {
			err = w.command(ctx, c.ID, "true", "")
		}
		if err != nil {
			return err
		}
		ids[i] = c.ID
	}
	var failed atomic.Pointer[error]
	count := func(do func(i int) error) (n int64) {
		var wg sync.WaitGroup
		var all atomic.Int64
		end := time.Now().Add(slice)
		for i := range clients {
			wg.Go(func() {
				for time.Now().Before(end) {
					if err := do(i); err != nil {
						failed.Store(&err)
						return
					}
					all.Add(1)
				}
			})
		}
		wg.Wait()
		return all.Load()
	}
	// A container's commands go through its shell, so that bare goes through one too.
	alike := []string{"/bin/bash", "-c", script}
	var plain, ours int64
	for range rounds {
		plain += count(func(int) error { return bare(alike) })
		ours += count(func(i int) error { return w.command(ctx, ids[i], script, "") })
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	seconds := rounds * slice.Seconds()
	r.Rates = append(r.Rates, rate{Command: script, Bare: float64(plain) / seconds, Ours: float64(ours) / seconds, Ratio: float64(ours) / float64(plain)})
	for _, id := range ids {
		if err := w.Delete(ctx, org, id); err != nil {
			return err
		}
	}
	return nil
}
