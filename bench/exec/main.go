// Command exec measures what one sandboxed command costs when its box is warm: the spool, the job folder, the tag and the
// control groups counted, against a bare fork and exec of the same command in the same run.
//
//	go run ./bench/exec [-n 200] [-json]
//
// It is not a test: it asserts no time. A command that did not do its work ends it with an error.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hardshell-dev/hardshell/bench/peers"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// figures are the medians of one command, in microseconds.
type figures struct {
	Command   string  `json:"command"`
	Bare      float64 `json:"bare_p50_us"`
	Box       float64 `json:"box_p50_us"`
	BoxP99    float64 `json:"box_p99_us"`
	Ratio     float64 `json:"ratio"`
	Hold      float64 `json:"hold"`
	BareRate  float64 `json:"bare_per_s_8"`
	BoxRate   float64 `json:"box_per_s_8"`
	RateRatio float64 `json:"rate_ratio"`
	Folder    float64 `json:"folder_p50_us"` // of it, what the file system takes for the job folder
	// Of others, which have no warm box but runc: medians to the bare command's. 0 is not measured.
	Bubblewrap float64 `json:"bubblewrap_ratio,omitempty"`
	Runc       float64 `json:"runc_exec_ratio,omitempty"`
}

var commands = []struct {
	argv []string
	hold float64
}{
	{[]string{"/bin/bash", "-c", "true"}, 1.35},
	{[]string{"/bin/true"}, 1.6},
}

func main() {
	samples := flag.Int("n", 400, "samples of each variant")
	asJSON := flag.Bool("json", false, "print an object")
	flag.Parse()
	out, report, skipped, err := run(*samples)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/exec:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(map[string]any{"bench": "exec", "samples": *samples, "isolation": report, "commands": out, "skipped": skipped})
		return
	}
	fmt.Printf("%-18s %9s %9s %9s %7s %7s   %8s %8s %7s %10s   %6s %9s\n", "one command, warm", "bare µs", "box µs", "p99 µs", "ratio", "hold",
		"bare/s", "box/s", "ratio", "folder µs", "bwrap×", "runc exec×")
	for _, f := range out {
		fmt.Printf("%-18s %9.0f %9.0f %9.0f %7.2f %7.2f   %8.0f %8.0f %7.2f %10.0f   %6.1f %9.1f\n", f.Command, f.Bare, f.Box, f.BoxP99, f.Ratio, f.Hold,
			f.BareRate, f.BoxRate, f.RateRatio, f.Folder, f.Bubblewrap, f.Runc)
	}
	fmt.Printf("%d samples, interleaved; the rates at 8 clients, hold ≥ 0.65; isolation %s, limits %s %v\n", *samples, report.Got, report.Limits, report.Missing)
	for _, s := range skipped {
		fmt.Println("not measured:", s)
	}
}

func run(samples int) (out []figures, report sandbox.Report, skipped []string, err error) {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "bench-exec-")
	if err != nil {
		return nil, report, nil, err
	}
	defer os.RemoveAll(base)
	stop, err := sandbox.StartSpawner(ctx)
	if err != nil {
		return nil, report, nil, err
	}
	defer stop()
	box, err := open(ctx, base)
	if err != nil {
		return nil, report, nil, err
	}
	defer box.Close()
	runc, err := peers.NewRunc(filepath.Join(base, "runc"))
	if err != nil {
		skipped = append(skipped, "runc: "+err.Error())
	} else {
		defer runc.Close()
	}
	if _, err := peers.Bubblewrap([]string{"/bin/true"}); err != nil {
		skipped = append(skipped, "bubblewrap: "+err.Error())
	}
	for _, c := range commands {
		f := figures{Command: c.argv[0], Hold: c.hold}
		if len(c.argv) > 1 {
			f.Command = "bash -c true"
		}
		if err := f.measure(ctx, box, c.argv, samples); err != nil {
			return nil, report, nil, err
		}
		if err := f.measurePeers(runc, c.argv, samples); err != nil {
			return nil, report, nil, err
		}
		out = append(out, f)
	}
	return out, box.Report(), skipped, nil
}

func open(ctx context.Context, base string) (*sandbox.Box, error) {
	h := &sandbox.Hosted{Workspace: filepath.Join(base, "data"), Tmp: filepath.Join(base, "tmp"), Home: filepath.Join(base, "home")}
	if os.Geteuid() == 0 {
		h.UID = 1_999_999_999
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
	return sandbox.Open(ctx, sandbox.Spec{Dir: filepath.Join(base, "box"), Hosted: h,
		Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}, Limits: sandbox.Limits{MemoryBytes: 512 << 20, Pids: 256}})
}

func (f *figures) measure(ctx context.Context, box *sandbox.Box, argv []string, samples int) error {
	var bare, boxed, folder []float64
	timed := func(to *[]float64, do func() error) error {
		began := time.Now()
		err := do()
		*to = append(*to, float64(time.Since(began).Nanoseconds())/1e3)
		return err
	}
	scratch, err := os.MkdirTemp("", "bench-exec-folders-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	for i := range samples + samples/10 {
		if err := timed(&folder, func() error { return makeFolder(scratch, i) }); err != nil {
			return err
		}
		first, second := func() error { return timed(&bare, func() error { return runBare(argv) }) },
			func() error { return timed(&boxed, func() error { return runBoxed(ctx, box, argv) }) }
		if i%2 == 1 {
			first, second = second, first
		}
		if err := first(); err != nil {
			return err
		}
		if err := second(); err != nil {
			return err
		}
		if i == samples/10-1 { // what came before was warm-up
			bare, boxed = nil, nil
		}
	}
	f.Bare, f.Box, f.BoxP99 = quantile(bare, .5), quantile(boxed, .5), quantile(boxed, .99)
	f.Ratio, f.Folder = f.Box/f.Bare, quantile(folder, .5)
	var bareRates, boxRates []float64
	for range 3 {
		r, err := rate(samples, func() error { return runBare(argv) })
		if err != nil {
			return err
		}
		bareRates = append(bareRates, r)
		if r, err = rate(samples, func() error { return runBoxed(ctx, box, argv) }); err != nil {
			return err
		}
		boxRates = append(boxRates, r)
	}
	f.BareRate, f.BoxRate = quantile(bareRates, .5), quantile(boxRates, .5)
	f.RateRatio = f.BoxRate / f.BareRate
	return nil
}

// measurePeers runs the command in others' sandboxes, with the bare command in between.
func (f *figures) measurePeers(runc *peers.Runc, argv []string, samples int) error {
	var bare, bubblewrap, inRunc []float64
	timed := func(to *[]float64, do func() error) error {
		began := time.Now()
		err := do()
		*to = append(*to, time.Since(began).Seconds())
		return err
	}
	wrapped, absent := peers.Bubblewrap(argv)
	for range max(samples/10, 5) { // each takes long
		if err := timed(&bare, func() error { return runBare(argv) }); err != nil {
			return err
		}
		if absent == nil {
			if err := timed(&bubblewrap, func() error { return runBare(wrapped) }); err != nil {
				return err
			}
		}
		if runc != nil {
			if err := timed(&inRunc, func() error { return runc.Exec(argv) }); err != nil {
				return err
			}
		}
	}
	if absent == nil {
		f.Bubblewrap = quantile(bubblewrap, .5) / quantile(bare, .5)
	}
	if runc != nil {
		f.Runc = quantile(inRunc, .5) / quantile(bare, .5)
	}
	return nil
}

// makeFolder makes what every job makes before its fork: two folders. ext4 takes ten times as long for an inode where
// many were deleted in the last minutes, and a benchmark deletes many.
func makeFolder(dir string, i int) error {
	key := filepath.Join(dir, strconv.Itoa(i))
	if err := os.Mkdir(key, 0o700); err != nil {
		return err
	}
	return os.Mkdir(filepath.Join(key, "0"), 0o700)
}

var environment = []string{"PATH=/usr/bin:/bin"}

func runBare(argv []string) error {
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: environment, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
		return fmt.Errorf("bare %v: status %v, %w", argv, status, err)
	}
	return nil
}

var serial atomic.Int64

func runBoxed(ctx context.Context, box *sandbox.Box, argv []string) error {
	job, err := box.Start(ctx, process.Command{Key: "b" + strconv.FormatInt(serial.Add(1), 10), Argv: argv, Env: environment, Timeout: time.Minute})
	if err != nil {
		return err
	}
	exit, err := job.Wait(ctx)
	if err != nil || exit.Code != 0 {
		return fmt.Errorf("boxed %v: %+v, %w", argv, exit, err)
	}
	return nil
}

// rate runs n commands by eight clients and says how many end in a second.
func rate(n int, do func() error) (float64, error) {
	var wg sync.WaitGroup
	var left atomic.Int64
	var failed atomic.Pointer[error]
	left.Store(int64(n))
	began := time.Now()
	for range 8 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

func quantile(v []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[int(float64(len(s)-1)*p)]
}
