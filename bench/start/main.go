// Command start measures what it costs to begin: a hosted box made and its first command run, by the engine and through
// the API, and a cold `hardshell run`, against a bare fork and exec, and bubblewrap with every namespace and runc where
// they are installed. It also measures what an idle box holds.
//
//	go run ./bench/start [-n 200] [-binary PATH] [-json]
//
// The binary is built if none is given. It is not a test: it asserts no time. A command that did not do its work ends
// it with an error; what cannot be measured here is named.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/hardshell-dev/hardshell/bench/peers"
	"github.com/hardshell-dev/hardshell/sandbox"
)

// variant is one way to begin. after is what must be tidied up, and is not timed.
type variant struct {
	Name  string  `json:"name"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Ratio float64 `json:"ratio"` // to the bare command
	do    func() error
	after func() error
	every int // of the rounds, one in so many
	times []float64
}

type report struct {
	Bench    string     `json:"bench"`
	Samples  int        `json:"samples"`
	Variants []*variant `json:"variants"`
	// RunToBubblewrap is the median of `hardshell run` to that of bubblewrap.
	RunToBubblewrap float64  `json:"run_to_bubblewrap,omitempty"`
	Idle            *idle    `json:"idle,omitempty"`
	Inits           *inits   `json:"inits,omitempty"`
	Skipped         []string `json:"skipped,omitempty"`
	byName          map[string]*variant
}

// The names of the variants that are asked for later.
const (
	nameBare       = "bare bash -c true"
	nameBox        = "box made, and its first command"
	nameRun        = "hardshell run"
	nameBubblewrap = "bubblewrap, every namespace"
)

var command = []string{"/bin/bash", "-c", "true"}

func main() {
	samples := flag.Int("n", 200, "samples of each variant")
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
	r.print()
}

func (r *report) print() {
	fmt.Printf("%-52s %9s %9s %7s\n", "cold", "p50 ms", "p99 ms", "ratio")
	for _, v := range r.Variants {
		fmt.Printf("%-52s %9.2f %9.2f %7.2f\n", v.Name, v.P50, v.P99, v.Ratio)
	}
	fmt.Printf("%d samples, interleaved; hold: box and first command p50 ≤ 5 ms, p99 ≤ 20 ms, through the API p50 ≤ 8 ms\n", r.Samples)
	if r.RunToBubblewrap > 0 {
		fmt.Printf("hardshell run is %.2f× bubblewrap; hold ≤ 1.8×\n", r.RunToBubblewrap)
	}
	if i := r.Idle; i != nil {
		fmt.Printf("an idle box, of %d: fresh %.2f MiB (PSS %.2f, kernel %.2f), after %d commands %.2f MiB (PSS %.2f, kernel %.2f); hold ≤ 1.8 and ≤ 3 MiB\n",
			i.Boxes, i.Fresh.Sum, i.Fresh.PSS, i.Fresh.Kernel, i.Commands, i.Used.Sum, i.Used.PSS, i.Used.Kernel)
	}
	if i := r.Inits; i != nil {
		fmt.Printf("%d packages initialise in %.2f ms, of it %.2f ms until a resident is dispatched and %.2f ms the providers; heaviest:", i.Packages, i.All, i.Resident, i.Providers)
		for _, h := range i.Heaviest {
			fmt.Printf(" %s %.2f", h.Package, h.Ms)
		}
		fmt.Println()
	}
	for _, s := range r.Skipped {
		fmt.Println("not measured:", s)
	}
}

func run(samples int, binary string) (*report, error) {
	base, err := os.MkdirTemp("", "bench-start-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	r := &report{Bench: "start", Samples: samples, byName: map[string]*variant{}}
	stop, err := sandbox.StartSpawner(background)
	if err != nil {
		return nil, err
	}
	defer stop()
	r.add(&variant{Name: nameBare, do: func() error { return runBare(command) }})
	first := &boxes{base: base}
	defer first.end()
	r.add(&variant{Name: nameBox, do: first.begin, after: first.end})
	if binary, err = build(base, binary); err != nil {
		r.skip("hardshell run and the API", err)
	} else {
		if r.Inits, err = measureInits(binary); err != nil {
			r.skip("the packages' initialisation", err)
		}
		r.add(&variant{Name: nameRun, do: func() error {
			return runBare(append([]string{binary, "run", "--sandbox", "read-only", "--"}, command...))
		}})
		if api, err := serve(base, binary); err != nil {
			r.skip("the API", err)
		} else {
			defer api.stop()
			r.add(&variant{Name: "a response with a new container's first command", do: api.respond, after: api.remove})
		}
	}
	if argv, err := peers.Bubblewrap(command); err != nil {
		r.skip("bubblewrap", err)
	} else {
		r.add(&variant{Name: nameBubblewrap, do: func() error { return runBare(argv) }})
	}
	if runc, err := peers.NewRunc(filepath.Join(base, "runc")); err != nil {
		r.skip("runc", err)
	} else { // it takes tens of milliseconds
		r.add(&variant{Name: "runc run, the defaults of its spec", do: func() error { return runc.Run(command) }, every: 4})
	}
	if err := r.measure(); err != nil {
		return nil, err
	}
	if r.Idle, err = measureIdle(base); err != nil {
		r.skip("an idle box", err)
	}
	return r, nil
}

func (r *report) add(v *variant) {
	r.Variants = append(r.Variants, v)
	r.byName[v.Name] = v
}

func (r *report) skip(what string, err error) {
	r.Skipped = append(r.Skipped, what+": "+err.Error())
}

func (r *report) measure() error {
	const warm = 5
	for i := range r.Samples + warm {
		for k := range r.Variants {
			v := r.Variants[(i+k)%len(r.Variants)]
			if v.every > 1 && i%v.every != 0 {
				continue
			}
			began := time.Now()
			err := v.do()
			took := time.Since(began)
			if err == nil && v.after != nil {
				err = v.after()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			if i >= warm {
				v.times = append(v.times, took.Seconds()*1e3)
			}
		}
	}
	for _, v := range r.Variants {
		if len(v.times) == 0 {
			continue
		}
		slices.Sort(v.times)
		v.P50, v.P99 = v.times[len(v.times)/2], v.times[len(v.times)*99/100]
		v.Ratio = v.P50 / r.Variants[0].P50
	}
	ours, theirs := r.byName[nameRun], r.byName[nameBubblewrap]
	if ours != nil && theirs != nil && theirs.P50 > 0 {
		r.RunToBubblewrap = ours.P50 / theirs.P50
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
