package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// groups are the control groups of one box. They bound it; they are not how its processes are found.
type groups struct {
	dirs    []string
	join    []string // v1: files by which the resident's main thread, and so what it forks, enters
	unified string   // v2: the group that the resident is born into
	oom     string   // a file that counts kills for memory
	shared  bool     // one of them is for a share of the processors
}

// hierarchy is a place where groups can be made.
type hierarchy struct {
	dir     string
	unified bool // cgroup v2
}

// ownThreads is what the resident itself needs of a limit on processes.
const ownThreads = resident.PidsReserve

// makeGroups makes what the limits need, and says in words which of them no group holds.
func makeGroups(name string, l Limits) (*groups, []string) {
	g := &groups{}
	var missing []string
	if l.MemoryBytes > 0 {
		if err := g.limit(name, "memory", l.MemoryBytes); err != nil {
			missing = append(missing, "memory limit: no cgroup, watched from time to time ("+err.Error()+")")
		}
	}
	if l.Pids > 0 {
		if err := g.limit(name, "pids", int64(l.Pids+ownThreads)); err != nil {
			missing = append(missing, "process limit: no cgroup, held by RLIMIT_NPROC ("+err.Error()+")")
		}
	}
	switch {
	case l.CPUs > 0:
		if err := g.limit(name, "cpu", max(int64(l.CPUs*cpuPeriod), leastQuota)); err != nil {
			missing = append(missing, "cpu limit: no cgroup ("+err.Error()+")")
		} else {
			g.shared = true
		}
	case l != (Limits{}):
		g.share(name)
	}
	return g, missing
}

// share gives the box as a whole one share of the processors, however many processes it has. In the older hierarchy
// only, and only where it can be had: nobody asked for it.
func (g *groups) share(name string) {
	for _, h := range hierarchies("cpu") {
		dir := filepath.Join(h.dir, name)
		if h.unified || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		g.dirs, g.join = append(g.dirs, dir), append(g.join, filepath.Join(dir, "tasks"))
		g.shared = true
		return
	}
}

// prefer lets the resident run before its commands, with which it shares the processors: it must be able to end them
// all. What it forks has the usual priority again.
func (g *groups) prefer(pid int) {
	if g.shared {
		unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Nice: -15}, 0)
	}
}

// A processor's worth of time is a quota of this many microseconds in each period of as many; the kernel takes no
// quota below a millisecond.
const (
	cpuPeriod  = 100_000
	leastQuota = 1_000
)

func (g *groups) limit(name, controller string, value int64) error {
	places := hierarchies(controller)
	err := errors.New("no " + controller + " controller")
	for _, h := range places {
		dir := filepath.Join(h.dir, name)
		if e := os.Mkdir(dir, 0o755); e != nil && !os.IsExist(e) {
			err = errno(e)
			continue
		}
		if e := writeLimit(dir, controller, h.unified, value); e != nil {
			os.Remove(dir)
			err = errno(e)
			continue
		}
		if !slices.Contains(g.dirs, dir) {
			g.dirs = append(g.dirs, dir)
		}
		if h.unified {
			g.unified = dir
		} else {
			g.join = append(g.join, filepath.Join(dir, "tasks"))
		}
		if controller == "memory" {
			g.oom = filepath.Join(dir, map[bool]string{true: "memory.events", false: "memory.oom_control"}[h.unified])
		}
		return nil
	}
	return err
}

func writeLimit(dir, controller string, unified bool, value int64) error {
	text := []byte(strconv.FormatInt(value, 10))
	switch {
	case controller == "cpu" && unified:
		return os.WriteFile(filepath.Join(dir, "cpu.max"), append(text, " "+strconv.Itoa(cpuPeriod)...), 0)
	case controller == "cpu":
		if err := os.WriteFile(filepath.Join(dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(cpuPeriod)), 0); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), text, 0)
	case controller == "pids":
		return os.WriteFile(filepath.Join(dir, "pids.max"), text, 0)
	case unified:
		os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0) // absent without swap
		return os.WriteFile(filepath.Join(dir, "memory.max"), text, 0)
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), text, 0); err != nil {
		return err
	}
	os.WriteFile(filepath.Join(dir, "memory.memsw.limit_in_bytes"), text, 0) // absent without swap accounting
	return nil
}

// rights opens what the resident needs to enter the groups, and to see their kills. Entering is its own act, of its
// main thread alone: for another's whole process the kernel would take milliseconds.
func (g *groups) rights() (fds []int, err error) {
	for _, name := range g.join {
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	if g.oom != "" {
		fd, err := unix.Open(g.oom, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// remove deletes the groups. The kernel takes a moment to let go of dead processes' groups.
func (g *groups) remove() {
	for _, d := range g.dirs {
		for end := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
			if err := unix.Rmdir(d); err != unix.EBUSY || time.Now().After(end) {
				break
			}
		}
	}
}

// hierarchies lists where groups of a controller may be made: below our own group, or beside it where that is ours.
func hierarchies(controller string) []hierarchy {
	own, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	var out []hierarchy
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		unified := f[0] == "0" && f[1] == ""
		if !unified && !contains(f[1], controller) {
			continue
		}
		at, root := mountOf(string(mounts), controller, unified)
		if at == "" {
			continue
		}
		dir := filepath.Join(at, strings.TrimPrefix(f[2], root))
		if _, err := os.Stat(dir); err != nil {
			dir = at
		}
		places := []string{dir}
		if unified && dir != at {
			places = append(places, filepath.Dir(dir))
		}
		for _, p := range places {
			if !unified || hands(p, controller) {
				out = append(out, hierarchy{p, unified})
			}
		}
	}
	return out
}

// unifiedGroups says whether limits are held by v2 groups, into which a process must be born. A machine does not change
// that while it runs.
var unifiedGroups = sync.OnceValue(func() bool {
	is := func(h hierarchy) bool { return h.unified }
	return slices.ContainsFunc(hierarchies("memory"), is) || slices.ContainsFunc(hierarchies("pids"), is)
})

// hands says whether a v2 group hands a controller down to the groups below it.
func hands(dir, controller string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return err == nil && contains(strings.ReplaceAll(strings.TrimSpace(string(b)), " ", ","), controller)
}

func contains(list, name string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if item == name {
			return true
		}
	}
	return false
}

// mountOf finds where a hierarchy is mounted, and which of its groups is the root of that mount.
func mountOf(mountinfo, controller string, unified bool) (at, root string) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		if unified && g[0] == "cgroup2" || !unified && g[0] == "cgroup" && contains(g[2], controller) {
			return f[4], strings.TrimSuffix(f[3], "/")
		}
	}
	return "", ""
}

// sweepGroups removes empty groups whose owner is gone: it was killed before it could.
func sweepGroups() {
	seen := map[string]bool{}
	for _, controller := range []string{"memory", "pids", "cpu"} {
		for _, h := range hierarchies(controller) {
			if seen[h.dir] {
				continue
			}
			seen[h.dir] = true
			entries, _ := os.ReadDir(h.dir)
			for _, e := range entries {
				rest, ok := strings.CutPrefix(e.Name(), groupPrefix)
				pid, _, _ := strings.Cut(rest, "-")
				if n, err := strconv.Atoi(pid); ok && err == nil && unix.Kill(n, 0) == unix.ESRCH {
					unix.Rmdir(filepath.Join(h.dir, e.Name())) // busy: a resident lives on
				}
			}
		}
	}
}

const groupPrefix = "hardshell-"

func errno(err error) error {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}
