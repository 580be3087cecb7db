package resident

import "time"

// A Plan is everything that a new resident is told before its first command: what to build around itself and for
// whom it works. It is made by package sandbox from a policy; the resident only carries it out, step by step, and
// fails as a whole if a step does.
type Plan struct {
	Version uint32
	Fence   uint64
	Grace   time.Duration
	Once    bool // we end with the first call, whose folder is the jobs folder itself

	Jail     bool // we are pid 1 of new namespaces and build the root below
	Root     Root // what the new root begins as
	Mounts   []Mount
	Network  bool   // the network namespace is ours: bring its loopback interface up
	Hostname string // "" leaves it
	Home     string // where the resident stands, and commands that name no folder

	Confine  bool     // Landlock and seccomp on the forking thread
	Writable []string // where Landlock allows writing, in the box's own paths

	// For Confine without Jail, where Landlock and seccomp are the only walls.
	Readable []string // where Landlock allows reading, beside what is writable; nil is everywhere
	Frozen   bool     // no mode, owner or time of a file can be changed
	Offline  bool     // no socket can be made

	MaxPids int // RLIMIT_NPROC; 0 sets none
	// What comes with the plan, in this order: the log, the listener, the jobs folder; Groups descriptors by which to
	// enter control groups; with OOM one that counts kills for memory; a tree for each Mount that has one.
	Groups int
	OOM    bool

	WatchMemory int64 // bytes that the watchdog holds the box to; 0 leaves that to the kernel, or to nobody
	WatchPids   int   // processes that it holds the box to, beside PidsReserve; 0 is any number
	WatchDisk   int64 // bytes that it may put on the disks of its writable folders; 0 is any number
}

// PidsReserve is what a limit on processes leaves beside what commands may have: for the resident's own threads, and so
// that a command can be started whatever the others do.
const PidsReserve = 16

// Root is what the box's root begins as.
type Root uint8

// The roots.
const (
	RootHost     Root = iota // every mount of the host, cloned and read-only
	RootSkeleton             // an empty tmpfs, read-only once it is furnished
)

// Step is what one Mount does.
type Step uint8

// The steps, in the order of the plan.
const (
	StepDir   Step = iota + 1 // make a folder (skeleton only)
	StepFile                  // write Data to a file (skeleton only)
	StepBind                  // show the host's Source (or a tree handed over) at Target; a link is copied as a link
	StepTmpfs                 // an empty tmpfs, with Data as its options
	StepProc                  // a proc of our own, its dangerous files closed
	StepDev                   // a minimal /dev
	StepMask                  // an empty folder or file over Target, if there is one
	StepPin                   // Target over itself, if it is there: it cannot be moved or removed, nor changed unless Writable
)

// Mount is one step in furnishing the root. Targets are absolute paths inside the box.
type Mount struct {
	Step     Step
	Target   string
	Source   string // StepBind: a host path, or ""
	Tree     int    // StepBind without Source: which of the trees that come with the plan, from 0
	Data     string
	Writable bool
	Optional bool // nothing is done if Source does not exist
}

// Append encodes the message.
func (p Plan) Append(b []byte) []byte {
	w := writer(append(b, byte(KindSetup)))
	w.u32(p.Version)
	w.u64(p.Fence)
	w.i64(int64(p.Grace))
	w.flag(p.Jail)
	w.u8(uint8(p.Root))
	w.u32(uint32(len(p.Mounts)))
	for _, m := range p.Mounts {
		w.u8(uint8(m.Step))
		w.text(m.Target)
		w.text(m.Source)
		w.int(m.Tree)
		w.text(m.Data)
		w.flag(m.Writable)
		w.flag(m.Optional)
	}
	w.flag(p.Network)
	w.text(p.Hostname)
	w.text(p.Home)
	w.flag(p.Confine)
	w.list(p.Writable)
	w.int(p.MaxPids)
	w.int(p.Groups)
	w.flag(p.OOM)
	w.flag(p.Readable != nil)
	w.list(p.Readable)
	w.flag(p.Frozen)
	w.flag(p.Offline)
	w.i64(p.WatchMemory)
	w.int(p.WatchPids)
	w.i64(p.WatchDisk)
	w.flag(p.Once)
	return w
}

func parsePlan(b []byte) (p Plan, err error) {
	r := reader{b: b}
	p.Version, p.Fence, p.Grace = r.u32(), r.u64(), time.Duration(r.i64())
	p.Jail, p.Root = r.flag(), Root(r.u8())
	for range r.u32() {
		if r.err != nil {
			break
		}
		p.Mounts = append(p.Mounts, Mount{Step: Step(r.u8()), Target: r.text(), Source: r.text(), Tree: r.int(),
			Data: r.text(), Writable: r.flag(), Optional: r.flag()})
	}
	p.Network, p.Hostname, p.Home = r.flag(), r.text(), r.text()
	p.Confine, p.Writable = r.flag(), r.list()
	p.MaxPids, p.Groups, p.OOM = r.int(), r.int(), r.flag()
	if restricts, list := r.flag(), r.list(); restricts {
		p.Readable = append([]string{}, list...)
	}
	p.Frozen, p.Offline = r.flag(), r.flag()
	p.WatchMemory, p.WatchPids, p.WatchDisk = r.i64(), r.int(), r.i64()
	p.Once = r.flag()
	return p, r.err
}
