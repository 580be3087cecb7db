package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/internal/container"
)

// idle is what containers take that do nothing. Sizes are MiB.
type idle struct {
	Count    int     `json:"count"`
	PSS      float64 `json:"pss_mib"`  // of the resident, on average; the live process is the user's
	Slab     float64 `json:"slab_mib"` // by which the kernel's grew, for each
	Execs    int     `json:"execs"`
	PSSAfter float64 `json:"pss_after_mib"` // of one resident after so many commands
	CPU      float64 `json:"cpu_ms"`        // of all residents while they were watched
	Watched  float64 `json:"watched_s"`
	Adopt    float64 `json:"adopt_ms"` // a new server's start, with all of them alive
	Resting  int     `json:"resting"`  // residents of containers in which nothing lives, after an end in order
}

func measureIdle(ctx context.Context, w *world, count, execs int) (idle, error) {
	i := idle{Count: count, Execs: execs}
	before := slab()
	ids := make([]string, count)
	for k := range ids {
		c, err := w.Create(ctx, org, container.CreateSpec{})
		if err == nil {
			err = w.command(ctx, c.ID, "sleep 10000 >/dev/null 2>&1 & echo $! >pid", "")
		}
		if err != nil {
			return i, err
		}
		ids[k] = c.ID
	}
	time.Sleep(2 * time.Second) // what is idle is measured, not its beginning
	i.Slab = max(0, slab()-before) / float64(count)
	pids := make([]int, count)
	for k, id := range ids {
		var err error
		if pids[k], err = w.resident(id); err != nil {
			return i, err
		}
		size, err := pss(pids[k])
		if err != nil {
			return i, err
		}
		i.PSS += size / float64(count)
	}
	began, cpu := time.Now(), ticks(pids)
	time.Sleep(5 * time.Second)
	i.Watched, i.CPU = time.Since(began).Seconds(), ticks(pids)-cpu
	for range execs {
		if err := w.command(ctx, ids[0], "true", ""); err != nil {
			return i, err
		}
	}
	time.Sleep(5 * time.Second) // idle again
	var err error
	if i.PSSAfter, err = pss(pids[0]); err != nil {
		return i, err
	}
	if err := w.HandOver(ctx); err != nil {
		return i, err
	}
	w.db.Close()
	began = time.Now()
	next, err := open(ctx, w.data)
	if err != nil {
		return i, err
	}
	i.Adopt = time.Since(began).Seconds() * 1e3
	*w = *next
	return i, w.rest(ctx, ids, &i)
}

// rest ends the live processes and counts what is left of ours after an end in order.
func (w *world) rest(ctx context.Context, ids []string, i *idle) error {
	pids := make([]int, len(ids))
	for k, id := range ids { // while they live: a box in which nothing does may be ended, report and all, behind our back
		var err error
		if pids[k], err = w.resident(id); err != nil {
			return fmt.Errorf("adopted container %d: %w", k, err)
		}
	}
	for k, id := range ids {
		if err := w.command(ctx, id, "kill $(cat pid); while kill -0 $(cat pid) 2>/dev/null; do :; done", ""); err != nil {
			return fmt.Errorf("adopted container %d: %w", k, err)
		}
	}
	if err := w.HandOver(ctx); err != nil {
		return err
	}
	for _, pid := range pids {
		if name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil && bytes.HasPrefix(name, []byte("hardshell-")) {
			i.Resting++
		}
	}
	return nil
}

// resident is the pid of a container's resident.
func (w *world) resident(id string) (int, error) {
	// The report is there before the first command is, and goes when the box is ended with nothing in it.
	text, err := os.ReadFile(filepath.Join(w.data, "containers", id, "box", "report.json"))
	var report struct {
		Process struct{ PID int }
	}
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	return report.Process.PID, err
}

// field reads a number of KiB, in MiB.
func field(path, name string) (float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

func pss(pid int) (float64, error) { return field("/proc/"+strconv.Itoa(pid)+"/smaps_rollup", "Pss:") }

func slab() float64 {
	size, _ := field("/proc/meminfo", "Slab:")
	return size
}

// ticks is the CPU time of processes, in milliseconds.
func ticks(pids []int) (sum float64) {
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		sum += (user + system) * 10 // 100 ticks a second
	}
	return sum
}
