package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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
	PSS    float64 `json:"pss_mib"`    // of its resident
	Kernel float64 `json:"kernel_mib"` // what the machine's slab, stacks and page tables grew by, so that noise is in it
	Sum    float64 `json:"sum_mib"`
}

const (
	idleBoxes    = 16
	idleCommands = 1000
	restAfter    = 3 * time.Second // an idle resident gives back after one
)

func measureIdle(base string) (*idle, error) {
	before, err := kernel()
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
	time.Sleep(restAfter)
	if out.Fresh, err = weigh(before); err != nil {
		return nil, err
	}
	for i := range idleCommands {
		for _, box := range all.open {
			if err := runIn(box, "used"+strconv.Itoa(i), []string{"/bin/true"}); err != nil {
				return nil, err
			}
		}
	}
	time.Sleep(restAfter)
	out.Used, err = weigh(before)
	return out, err
}

// weigh looks at all residents of ours. The spare one waits for a box and is none's.
func weigh(before int64) (m memory, err error) {
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
	now, err := kernel()
	if err != nil {
		return m, err
	}
	m.PSS /= idleBoxes
	m.Kernel = float64(now-before) / 1024 / idleBoxes
	m.Sum = m.PSS + m.Kernel
	return m, nil
}

// kernel is what the machine's kernel holds and cannot give back, in KiB. Its caches of files it can.
func kernel() (kib int64, err error) {
	for _, name := range []string{"SUnreclaim:", "KernelStack:", "PageTables:"} {
		n, err := field("/proc/meminfo", name)
		if err != nil {
			return 0, err
		}
		kib += n
	}
	return kib, nil
}

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
