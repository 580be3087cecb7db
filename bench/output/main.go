// Command output measures how fast a command's output comes to its reader: through a pipe into the head/tail buffer, out
// of a box whose spool lies on disk, and out of a terminal; and how often memory is allocated for it. The pipe between
// two programs that do nothing else is measured in the same run.
//
//	go run ./bench/output [-n 5] [-mb 1024] [-dir folder of the spools] [-json]
//
// It is not a test: it asserts no time. Bytes that are missing or counted wrongly end it with an error.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// figures are the medians of one way.
type figures struct {
	Way         string  `json:"way"`
	MB          int64   `json:"mb"`
	Rate        float64 `json:"gb_per_s"`
	Hold        float64 `json:"hold_gb_per_s,omitempty"`
	Ratio       float64 `json:"ratio"` // to the pipe between two programs
	Allocations float64 `json:"allocations_per_mb"`
	HoldAllocs  float64 `json:"hold_allocations_per_mb,omitempty"`
}

// way is one of the things that are compared. It moves n bytes, and calls begun when they begin to flow: what a start
// allocates is no part of what a megabyte does.
type way struct {
	name  string
	share int64 // of the bytes, 1/share: a terminal is slow
	hold  float64
	run   func(ctx context.Context, n int64, begun func()) error
}

const mega = 1_000_000

func main() {
	rounds := flag.Int("n", 5, "rounds of each way")
	mb := flag.Int64("mb", 1024, "megabytes that each moves")
	dir := flag.String("dir", "", "where the spools lie; the default is the folder for temporary files")
	asJSON := flag.Bool("json", false, "print an object")
	flag.Parse()
	out, system, err := measure(*dir, *rounds, *mb*mega)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/output:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "output", "rounds": *rounds, "spool": system, "ways": out})
		return
	}
	fmt.Printf("%-40s %8s %8s %7s %7s %10s %6s\n", "output", "MB", "GB/s", "hold", "ratio", "allocs/MB", "hold")
	for _, f := range out {
		fmt.Printf("%-40s %8d %8.2f %7.2f %7.2f %10.3f %6.2f\n", f.Way, f.MB, f.Rate, f.Hold, f.Ratio, f.Allocations, f.HoldAllocs)
	}
	fmt.Printf("%d rounds, interleaved; the spools lie on %s\n", *rounds, system)
}

func measure(dir string, rounds int, bytes int64) (out []figures, system string, err error) {
	ctx := context.Background()
	base, err := os.MkdirTemp(dir, "bench-output-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(base)
	box, err := open(ctx, base)
	if err != nil {
		return nil, "", err
	}
	defer box.Close()
	ways := []way{
		{"a pipe between two programs", 1, 0, pipeLimit},
		{"a pipe into the head/tail buffer", 1, 1, intoBuffer},
		{"a box, its spool, the head/tail buffer", 1, 0.5, func(ctx context.Context, n int64, begun func()) error {
			return outOfBox(ctx, box, n, nil, begun)
		}},
		{"a box's terminal, its spool, the buffer", 4, 0.1, func(ctx context.Context, n int64, begun func()) error {
			return outOfBox(ctx, box, n, &process.Size{}, begun)
		}},
	}
	rates, allocs := make([][]float64, len(ways)), make([][]float64, len(ways))
	for round := range rounds + 1 {
		for k := range ways {
			i := (k + round) % len(ways)
			n := bytes / ways[i].share
			if round == 0 {
				n = min(n, 16*mega) // warm-up
			}
			var before, after runtime.MemStats
			began := time.Now()
			if err := ways[i].run(ctx, n, func() { runtime.ReadMemStats(&before) }); err != nil {
				return nil, "", fmt.Errorf("%s: %w", ways[i].name, err)
			}
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if round > 0 {
				rates[i] = append(rates[i], float64(n)/1e9/took.Seconds())
				allocs[i] = append(allocs[i], float64(after.Mallocs-before.Mallocs)/(float64(n)/mega))
			}
		}
	}
	for i, w := range ways {
		f := figures{Way: w.name, MB: bytes / w.share / mega, Rate: median(rates[i]), Hold: w.hold, Allocations: median(allocs[i])}
		if f.Ratio = f.Rate / median(rates[0]); w.hold > 0 {
			f.HoldAllocs = 0.1
		} else {
			f.Allocations = 0 // they are the other programs'
		}
		out = append(out, f)
	}
	return out, fileSystem(base), nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[(len(s)-1)/2]
}

// pipeLimit is what the machine gives: head writes, cat reads, nobody looks.
func pipeLimit(ctx context.Context, n int64, begun func()) error {
	begun()
	return exec.CommandContext(ctx, "/bin/sh", "-c", "head -c "+strconv.FormatInt(n, 10)+" /dev/zero | cat >/dev/null").Run()
}

// intoBuffer reads a bare command's pipe into the buffer that a result is made of.
func intoBuffer(ctx context.Context, n int64, begun func()) error {
	cmd := exec.CommandContext(ctx, "head", "-c", strconv.FormatInt(n, 10), "/dev/zero")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	b := process.NewHeadTailBuffer(0)
	block := make([]byte, 64<<10)
	begun()
	for {
		k, err := pipe.Read(block)
		b.Write(block[:k])
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	return counted(b.Total(), b.Omitted(), n)
}

func counted(total, omitted, want int64) error {
	if total != want || omitted != max(want-process.HeadTailMax, 0) {
		return fmt.Errorf("%d bytes came of %d, and %d are said to be left out", total, want, omitted)
	}
	return nil
}

var serial int

// outOfBox runs the command in the box and reads all of its output as it comes, out of the spool.
func outOfBox(ctx context.Context, box *sandbox.Box, n int64, tty *process.Size, begun func()) error {
	serial++
	script := "head -c " + strconv.FormatInt(n, 10) + " /dev/zero"
	if tty != nil {
		script = "stty raw -echo && " + script
	}
	job, err := box.Start(ctx, process.Command{Key: "b" + strconv.Itoa(serial), Argv: []string{"/bin/sh", "-c", script},
		Env: []string{"PATH=/usr/bin:/bin"}, Timeout: 5 * time.Minute, TTY: tty})
	if err != nil {
		return err
	}
	b := process.NewHeadTailBuffer(0)
	first := true
	for chunk, err := range job.Follow(ctx) {
		if err != nil {
			return err
		}
		b.Skip(chunk.Offset - b.Total()) // no longer kept: the reader was too slow
		b.Write(chunk.Data)
		if first {
			first = false
			begun()
		}
	}
	exit, err := job.Wait(ctx)
	if err != nil || exit.Code != 0 || exit.Stdout != n {
		return fmt.Errorf("it ended with %+v, %w", exit, err)
	}
	if b.Total() != n {
		return fmt.Errorf("%d bytes came of %d", b.Total(), n)
	}
	return nil
}

func open(ctx context.Context, base string) (*sandbox.Box, error) {
	h := &sandbox.Hosted{Workspace: filepath.Join(base, "data"), Tmp: filepath.Join(base, "tmp"), Home: filepath.Join(base, "home")}
	if os.Geteuid() == 0 {
		h.UID = 1_999_999_998
	}
	for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
		if h.UID > 0 {
			if err := os.Chown(d, h.UID, h.UID); err != nil {
				return nil, err
			}
		}
	}
	return sandbox.Open(ctx, sandbox.Spec{Dir: filepath.Join(base, "box"), Hosted: h, Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite},
		Limits: sandbox.Limits{MemoryBytes: 512 << 20, Pids: 256}})
}
