package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// inits is what the binary's packages take to initialise, each at its fastest of the runs: what else the machine does adds
// to a run, and never takes from it.
type inits struct {
	Packages  int      `json:"packages"`
	All       float64  `json:"all_ms"`
	Resident  float64  `json:"to_resident_ms"` // until a resident has been dispatched, which needs no more of them
	Providers float64  `json:"providers_ms"`   // internal/llm and the rooms below it
	Heaviest  []initOf `json:"heaviest"`
}

type initOf struct {
	Package string  `json:"package"`
	Ms      float64 `json:"ms"`
}

const initRuns = 20

func measureInits(binary string) (*inits, error) {
	fastest := map[string]float64{}
	var order []string
	for range initRuns {
		c := exec.Command(binary, "--help")
		c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
		var told bytes.Buffer
		c.Stderr = &told
		if err := c.Run(); err != nil {
			return nil, err
		}
		for line := range strings.Lines(told.String()) { // init PACKAGE @N ms, N ms clock, N bytes, N allocs
			f := strings.Fields(line)
			if len(f) < 6 || f[0] != "init" {
				continue
			}
			ms, err := strconv.ParseFloat(f[4], 64)
			if err != nil {
				return nil, err
			}
			if was, ok := fastest[f[1]]; !ok {
				order = append(order, f[1])
				fastest[f[1]] = ms
			} else {
				fastest[f[1]] = min(was, ms)
			}
		}
	}
	out := &inits{Packages: len(order)}
	for _, name := range order {
		ms := fastest[name]
		out.All += ms
		if strings.Contains(name, "/internal/llm") {
			out.Providers += ms
		}
		if strings.HasSuffix(name, "/sandbox/resident") {
			out.Resident = out.All
		}
		out.Heaviest = append(out.Heaviest, initOf{name, ms})
	}
	slices.SortFunc(out.Heaviest, func(a, b initOf) int { return cmp.Compare(b.Ms, a.Ms) })
	out.Heaviest = out.Heaviest[:min(5, len(out.Heaviest))]
	return out, nil
}
