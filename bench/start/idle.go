package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// idle is what a box holds that runs nothing but a process that sleeps.
type idle struct {
	Boxes    int    `json:"boxes"`
	Commands int    `json:"commands"`
	Fresh    memory `json:"fresh"`
	Used     memory `json:"used"` // after the commands
}

// memory is of one box, in MiB.
type memory struct {
	PSS  float64 `json:"pss_mib"`  // of its resident
	Slab float64 `json:"slab_mib"` // of the kernel: what the machine's grew by, so that noise is in it
	Sum  float64 `json:"sum_mib"`
}

const (
	idleBoxes    = 16
	idleCommands = 1000
)

func measureIdle(base string) (*idle, error) {
	slabBefore, err := slab()
	if err != nil {
		return nil, err
	}
	all := &boxes{base: base}
	defer all.end()
	for range idleBoxes {
		box, err := all.add()
		if err != nil {
			return nil, err
		}
		if _, err := box.Start(background, process.Command{Key: "live", Argv: []string{"/bin/sleep", "3600"}}); err != nil {
			return nil, err
		}
	}
	out := &idle{Boxes: idleBoxes, Commands: idleCommands}
	if out.Fresh, err = weigh(slabBefore); err != nil {
		return nil, err
	}
	for i := range idleCommands {
		for _, box := range all.open {
			if err := runIn(box, "used"+strconv.Itoa(i), []string{"/bin/true"}); err != nil {
				return nil, err
			}
		}
	}
	// Their job folders are the disk's and go before the second look, as far as the kernel keeps them in memory.
	for i := range all.n {
		if err := os.RemoveAll(filepath.Join(base, "boxes", strconv.Itoa(i+1), "box", "jobs")); err != nil {
			return nil, err
		}
	}
	out.Used, err = weigh(slabBefore)
	return out, err
}

// weigh looks at all residents of ours. The spare one waits for a box and is none's.
func weigh(slabBefore int64) (m memory, err error) {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return m, err
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return m, err
	}
	found := 0
	for _, name := range lines {
		dir := filepath.Dir(name)
		line, err := os.ReadFile(name)
		exe, err2 := os.Readlink(filepath.Join(dir, "exe"))
		maps, err3 := os.ReadFile(filepath.Join(dir, "uid_map"))
		if err != nil || err2 != nil || err3 != nil || exe != self || !bytes.HasPrefix(line, []byte("hardshell-resident")) || len(maps) == 0 {
			continue
		}
		pss, err := field(filepath.Join(dir, "smaps_rollup"), "Pss:")
		if err != nil {
			return m, err
		}
		m.PSS += float64(pss) / 1024
		found++
	}
	if found != idleBoxes {
		return m, fmt.Errorf("%d residents of %d can be seen; try it as root", found, idleBoxes)
	}
	now, err := slab()
	if err != nil {
		return m, err
	}
	m.PSS /= idleBoxes
	m.Slab = float64(now-slabBefore) / 1024 / idleBoxes
	m.Sum = m.PSS + m.Slab
	return m, nil
}

func slab() (kib int64, err error) { return field("/proc/meminfo", "Slab:") }

// field reads a number of KiB.
func field(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, errors.New("no " + name + " in " + file)
}
