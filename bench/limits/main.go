// Command limits measures how soon a command that takes all it can get is ended, whether its limit is named, and what a
// neighbour in a box of its own feels meanwhile: short commands, one after the other, whose slowest counts.
//
//	go run ./bench/limits [-n 3] [-json]
//
// It is not a test: it asserts no time. A command whose limit is not named is printed as such.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// The limits of a box here, and what holds: a command is ended within endHold, a neighbour's echo takes less than echoHold.
var limits = sandbox.Limits{MemoryBytes: 256 << 20, Pids: 128, DiskBytes: 256 << 20}

const (
	endHold  = 10 * time.Second
	echoHold = 200 * time.Millisecond
)

// hogs take all they can get of what their limit bounds.
var hogs = []struct{ name, limit, script string }{
	{"no hog", "", `sleep 2`},
	{"fork bomb", "processes", `while (1) { fork }`},
	{"fork bomb of sessions", "processes", `use POSIX; while (1) { if (!fork) { POSIX::setsid() } }`},
	{"100 GB of memory", "memory", `push @a, "x" x (1 << 20) for 1 .. 100_000`},
	{"100 GB in one file", "disk", `open F, ">", "big"; print F "x" x (1 << 20) for 1 .. 100_000`},
	{"100 GB in many files", "disk", `for (1 .. 100_000) { open F, ">", "f$_"; print F "x" x (1 << 20) }`},
	{"100 GB in files without a name", "disk", `for (1 .. 100_000) { open $f[$_], ">", "f"; unlink "f"; { my $h = $f[$_]; print $h "x" x (1 << 20) } }`},
}

// figures are what one hog did, the worst of several runs.
type figures struct {
	Hog    string  `json:"hog"`
	EndMS  float64 `json:"ended_after_ms"`
	Limit  string  `json:"limit"` // that was named, of the run that named another than it should if there is one
	Asked  string  `json:"limit_asked"`
	EchoMS float64 `json:"neighbour_slowest_ms"`
	P50MS  float64 `json:"neighbour_p50_ms"`
}

func main() {
	runs := flag.Int("n", 3, "runs of each hog; the worst counts")
	asJSON := flag.Bool("json", false, "print an object")
	flag.Parse()
	out, report, err := measure(*runs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/limits:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "limits", "runs": *runs, "isolation": report, "hogs": out})
		return
	}
	fmt.Printf("%-32s %12s %12s %18s %14s\n", "a hog", "ended ms", "limit named", "slowest echo ms", "echo p50 ms")
	for _, f := range out {
		said := f.Limit
		if f.Limit != f.Asked {
			said = strconv.Quote(f.Limit) + "!"
		}
		fmt.Printf("%-32s %12.0f %12s %18.0f %14.1f\n", f.Hog, f.EndMS, said, f.EchoMS, f.P50MS)
	}
	fmt.Printf("the worst of %d runs; hold: ended within %v, echo below %v; isolation %s, limits %s %v\n", *runs, endHold, echoHold,
		report.Got, report.Limits, report.Missing)
}

func measure(runs int) (out []figures, report sandbox.Report, err error) {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "bench-limits-")
	if err != nil {
		return nil, report, err
	}
	defer os.RemoveAll(base)
	for i, hog := range hogs {
		worst := figures{Hog: hog.name, Asked: hog.limit, Limit: hog.limit}
		for run := range runs {
			dir := filepath.Join(base, fmt.Sprint(i, "-", run))
			f, r, err := one(ctx, dir, hog.script)
			if err != nil {
				return nil, report, fmt.Errorf("%s: %w", hog.name, err)
			}
			report = r
			worst.EndMS, worst.EchoMS, worst.P50MS = max(worst.EndMS, f.EndMS), max(worst.EchoMS, f.EchoMS), max(worst.P50MS, f.P50MS)
			if f.Limit != hog.limit {
				worst.Limit = f.Limit
			}
			if err := os.RemoveAll(dir); err != nil {
				return nil, report, err
			}
		}
		out = append(out, worst)
	}
	return out, report, nil
}

// one runs a hog in a box, beside a neighbour in another.
func one(ctx context.Context, dir, script string) (f figures, report sandbox.Report, err error) {
	hog, err := open(ctx, filepath.Join(dir, "hog"))
	if err != nil {
		return f, report, err
	}
	defer hog.Close()
	beside, err := open(ctx, filepath.Join(dir, "neighbour"))
	if err != nil {
		return f, report, err
	}
	defer beside.Close()
	over, echoes, failed := make(chan struct{}), []float64(nil), make(chan error, 1)
	go func() {
		failed <- func() error {
			for n := 0; ; n++ {
				began := time.Now()
				if _, err := end(ctx, beside, process.Command{Key: "echo" + strconv.Itoa(n), Argv: []string{"/bin/sh", "-c", "echo here"}}); err != nil {
					return err
				}
				echoes = append(echoes, ms(time.Since(began)))
				select {
				case <-over:
					return nil
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
	}()
	began := time.Now()
	exit, err := end(ctx, hog, process.Command{Key: "hog", Argv: []string{"perl", "-e", script}, Timeout: time.Minute})
	f.EndMS, f.Limit = ms(time.Since(began)), exit.Limit
	close(over)
	if broken := <-failed; err == nil {
		err = broken
	}
	slices.Sort(echoes)
	if len(echoes) > 0 {
		f.EchoMS, f.P50MS = echoes[len(echoes)-1], echoes[len(echoes)/2]
	}
	return f, hog.Report(), err
}

func end(ctx context.Context, box *sandbox.Box, c process.Command) (process.Exit, error) {
	c.Env = []string{"PATH=/usr/bin:/bin"}
	job, err := box.Start(ctx, c)
	if err != nil {
		return process.Exit{}, err
	}
	return job.Wait(ctx)
}

func open(ctx context.Context, dir string) (*sandbox.Box, error) {
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	return sandbox.Open(ctx, sandbox.Spec{Dir: filepath.Join(dir, "box"), Cwd: work, Limits: limits,
		Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}})
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
