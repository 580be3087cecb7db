package resident

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// diskWatch holds what the box's commands put on the disks of its writable folders. One file cannot be larger than the
// limit, by the kernel's hand. The rest is looked at: what the disks have lost since the box began is the most that it
// can have taken, and costs one call to know. On a disk that others write too the files which were changed since are
// counted before anything is ended for them, beside the loop, which goes on serving.
type diskWatch struct {
	began int64 // Unix nanoseconds
	disks []disk
	bar   int64 // what may be taken until the next call is ended; never below the limit
	clear int64 // growth up to which a count has shown that it is others'

	ending   bool // a call is being ended, and goes on writing until it is gone
	counting bool
	counted  atomic.Pointer[count]
	rest     time.Duration // no count before
}

// disk is a file system that the box can write.
type disk struct {
	device uint64
	roots  []string
	own    bool  // a tmpfs of the box's: all in it is
	used   int64 // when the box began
}

// count is what one walk has found.
type count struct {
	bytes int64
	took  time.Duration
}

const (
	// diskStep is what is let pass above the limit before another call is ended: what cleans up writes a little too.
	diskStep = 8 << 20
	// countTime is how long a walk may take. What could not be counted is taken for the box's own.
	countTime  = 2 * time.Second
	countDepth = 200
	uncounted  = int64(1) << 62
)

// begin finds the disks. It is called when the root is furnished and before the first command.
func (w *diskWatch) begin(p *Plan) {
	w.began, w.bar = time.Now().UnixNano(), p.WatchDisk
	for _, path := range p.Writable {
		var st unix.Stat_t
		if path == "/dev" || path == "/proc" || unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		w.add(uint64(st.Dev), path, p.ownTmpfs(path))
	}
	for i := range w.disks {
		w.disks[i].used = usedBytes(w.disks[i].roots[0])
	}
}

func (w *diskWatch) add(device uint64, path string, own bool) {
	for i := range w.disks {
		if d := &w.disks[i]; d.device == device {
			d.roots = append(d.roots, path)
			return
		}
	}
	w.disks = append(w.disks, disk{device: device, roots: []string{path}, own: own})
}

func (p *Plan) ownTmpfs(path string) bool {
	own := false
	for _, m := range p.Mounts {
		if m.Target == path {
			own = m.Step == StepTmpfs
		}
	}
	return own
}

// usedBytes is what is taken of a file system; 0 where it does not say.
func usedBytes(path string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}

// grown is what the disks have lost since the box began: those of its own, and those that others write too.
func (w *diskWatch) grown() (own, shared int64) {
	for _, d := range w.disks {
		switch n := max(usedBytes(d.roots[0])-d.used, 0); {
		case d.own:
			own += n
		default:
			shared += n
		}
	}
	return own, shared
}

// overDisk says whether the box has taken more than it may and a call is to be ended for it; again, whether to look
// again soon.
func (s *server) overDisk(now time.Duration) (over, again bool) {
	w, limit := &s.disk, s.plan.WatchDisk
	own, shared := w.grown()
	if w.ending {
		if s.killing() {
			return false, true
		}
		w.ending, w.bar, w.clear = false, own+shared+diskStep, 0
	}
	c := w.counted.Swap(nil)
	if c != nil {
		w.counting, w.rest = false, now+20*c.took
	}
	switch {
	case own+shared <= limit:
		w.bar, w.clear = limit, 0
		return false, false
	case own > w.bar: // there is nothing to count
	case own+shared <= max(w.bar, w.clear):
		return false, false
	case c == nil:
		if !w.counting && now >= w.rest {
			w.counting = true
			var pids []int
			s.census(func(pid int, _ uint64) { pids = append(pids, pid) })
			go w.countFiles(pids)
		}
		return false, true
	default:
		if taken := own + min(shared, c.bytes); taken <= w.bar {
			w.clear = own + shared + w.bar - taken
			w.bar = max(limit, min(w.bar, taken+diskStep)) // what was cleaned up is not filled again
			return false, false
		}
	}
	w.ending = true
	return true, true
}

// killing says whether a call is being ended.
func (s *server) killing() bool {
	for _, j := range s.keys {
		if j.killing {
			return true
		}
	}
	return false
}

// untilPassed is the time in which the limit cannot be passed.
func (w *diskWatch) untilPassed() time.Duration {
	own, shared := w.grown()
	return untilFull(max(w.bar, w.clear) - own - shared)
}

// heaviest is the call whose living processes have written most.
func (s *server) heaviest() uint64 {
	calls := map[uint64]usage{}
	s.census(func(pid int, tag uint64) {
		var b [1024]byte
		text := append([]byte{'\n'}, readProc(pid, "io", b[:])...)
		calls[tag] = usage{memory: calls[tag].memory + max(amount(text, "\nwchar:"), amount(text, "\nwrite_bytes:"))}
	})
	return mostOf(calls, func(u usage) int64 { return u.memory })
}

// countFiles counts what was changed since the box began, and what is open and has no name any more.
func (d *diskWatch) countFiles(pids []int) {
	began := monotonic()
	w := walk{since: d.began, until: began + countTime, seen: map[[2]uint64]bool{}}
	for _, d := range d.disks {
		if d.own {
			continue
		}
		for _, root := range d.roots {
			if fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				w.folder(fd, d.device, 0)
			} else {
				w.bytes = uncounted
			}
		}
		for _, pid := range pids {
			w.nameless(pid, d.device)
		}
	}
	d.counted.Store(&count{min(w.bytes, uncounted), monotonic() - began})
}

// walk is one count. It goes by descriptors: names may be changed under it.
type walk struct {
	since int64
	until time.Duration
	bytes int64
	seen  map[[2]uint64]bool // files with several names, and those without one
}

// folder counts what is in a folder, which it closes.
func (w *walk) folder(fd int, device uint64, depth int) {
	defer unix.Close(fd)
	eachName(fd, func(b []byte) bool {
		if depth > countDepth || monotonic() > w.until { // one folder may hold millions
			w.bytes = uncounted
		}
		if name := unix.ByteSliceToString(b); w.bytes < uncounted && name != "." && name != ".." {
			w.entry(fd, name, device, depth)
		}
		return w.bytes < uncounted
	})
}

func (w *walk) entry(fd int, name string, device uint64, depth int) {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || uint64(st.Dev) != device {
		return // it is gone, or another disk
	}
	w.add(&st, st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return
	}
	switch in, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); {
	case err == nil:
		w.folder(in, device, depth+1)
	case err != unix.ENOENT && st.Ctim.Nano() >= w.since: // closed since; an old one that is closed to us was so to the commands
		w.bytes = uncounted
	}
}

func (w *walk) add(st *unix.Stat_t, several bool) {
	if st.Ctim.Nano() < w.since {
		return
	}
	if several {
		key := [2]uint64{uint64(st.Dev), st.Ino}
		if w.seen[key] {
			return
		}
		w.seen[key] = true
	}
	w.bytes = min(w.bytes+st.Blocks*512, uncounted)
}

// nameless counts the open files of a process that were removed.
func (w *walk) nameless(pid int, device uint64) {
	folder := "/proc/" + decimal(int64(pid)) + "/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range entries {
		var st unix.Stat_t
		if unix.Stat(folder+"/"+e.Name(), &st) == nil && st.Nlink == 0 && uint64(st.Dev) == device {
			w.add(&st, true)
		}
	}
}
