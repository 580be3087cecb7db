// Command start measures what it costs to begin: a hosted box made and its first command run, and a cold
// `hardshell run`, against a bare fork and exec and, where it is installed, bubblewrap with every namespace.
//
//	go run ./bench/start [-n 100] [-binary PATH] [-json]
//
// The binary is built if none is given. It is not a test: it asserts no time. A command that did not do its work ends
// it with an error; what cannot be measured here is named.
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
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// variant is one way to begin.
type variant struct {
	Name  string  `json:"name"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Ratio float64 `json:"ratio"` // to the bare command
	do    func() error
	times []float64
}

type report struct {
	Bench    string     `json:"bench"`
	Samples  int        `json:"samples"`
	Variants []*variant `json:"variants"`
	Skipped  []string   `json:"skipped,omitempty"`
}

func main() {
	samples := flag.Int("n", 100, "samples of each variant")
	binary := flag.String("binary", "", "a built hardshell")
	asJSON := flag.Bool("json", false, "print an object")
	flag.Parse()
	r, err := run(*samples, *binary)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/start:", err)
		os.Exit(1)
	}
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(r)
		return
	}
	fmt.Printf("%-44s %9s %9s %7s\n", "cold", "p50 ms", "p99 ms", "ratio")
	for _, v := range r.Variants {
		fmt.Printf("%-44s %9.2f %9.2f %7.2f\n", v.Name, v.P50, v.P99, v.Ratio)
	}
	fmt.Printf("%d samples, interleaved; hold: box and first command p50 ≤ 5 ms, hardshell run ≤ 1.8× bubblewrap\n", r.Samples)
	for _, s := range r.Skipped {
		fmt.Println("not measured:", s)
	}
}

func run(samples int, binary string) (*report, error) {
	ctx := context.Background()
	base, err := os.MkdirTemp("", "bench-start-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	stop, err := sandbox.StartSpawner(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	r := &report{Bench: "start", Samples: samples}
	command := []string{"/bin/bash", "-c", "true"}
	r.add("bare bash -c true", func() error { return runBare(command) })
	first := &boxes{base: base}
	r.add("box made, and its first command", func() error { return first.begin(ctx, command) })
	defer first.end()
	if binary, err = build(base, binary); err != nil {
		r.Skipped = append(r.Skipped, "hardshell run: "+err.Error())
	} else {
		r.add("hardshell run", func() error {
			return runBare(append([]string{binary, "run", "--sandbox", "read-only", "--"}, command...))
		})
	}
	if bwrap, err := exec.LookPath("bwrap"); err != nil {
		r.Skipped = append(r.Skipped, "bubblewrap: not installed")
	} else {
		r.add("bubblewrap, every namespace", func() error {
			return runBare(append([]string{bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}, command...))
		})
	}
	return r, r.measure()
}

func (r *report) add(name string, do func() error) {
	r.Variants = append(r.Variants, &variant{Name: name, do: do})
}

func (r *report) measure() error {
	const warm = 5
	for i := range r.Samples + warm {
		for k := range r.Variants {
			v := r.Variants[(i+k)%len(r.Variants)]
			began := time.Now()
			if err := v.do(); err != nil {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			if i >= warm {
				v.times = append(v.times, time.Since(began).Seconds()*1e3)
			}
		}
	}
	for _, v := range r.Variants {
		slices.Sort(v.times)
		v.P50, v.P99 = v.times[len(v.times)/2], v.times[len(v.times)*99/100]
		v.Ratio = v.P50 / r.Variants[0].P50
	}
	return nil
}

func runBare(argv []string) error {
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "LC_ALL=C")
	return c.Run()
}

// build returns the path of a hardshell.
func build(base, binary string) (string, error) {
	if binary != "" {
		return filepath.Abs(binary)
	}
	binary = filepath.Join(base, "hardshell")
	c := exec.Command("go", "build", "-o", binary, "github.com/hardshell-dev/hardshell/cmd/hardshell")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
}

// boxes are what was begun; their end is not timed.
type boxes struct {
	base string
	n    int
	open []*sandbox.Box
}

func (b *boxes) begin(ctx context.Context, argv []string) error {
	b.n++
	dir := filepath.Join(b.base, strconv.Itoa(b.n))
	h := &sandbox.Hosted{Workspace: filepath.Join(dir, "data"), Tmp: filepath.Join(dir, "tmp"), Home: filepath.Join(dir, "home")}
	if os.Geteuid() == 0 {
		h.UID = 1_999_000_000 + b.n
	}
	for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
		if h.UID > 0 {
			if err := os.Chown(d, h.UID, h.UID); err != nil {
				return err
			}
		}
	}
	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: filepath.Join(dir, "box"), Hosted: h,
		Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}, Limits: sandbox.Limits{MemoryBytes: 256 << 20, Pids: 128}})
	if err != nil {
		return err
	}
	b.open = append(b.open, box)
	job, err := box.Start(ctx, process.Command{Key: "first", Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		return err
	}
	exit, err := job.Wait(ctx)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("exit %+v", exit)
	}
	return err
}

func (b *boxes) end() {
	for _, box := range b.open {
		box.Close()
	}
}
