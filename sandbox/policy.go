package sandbox

import (
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// Mode is what a box may write.
type Mode int

// The modes. The zero value is the tightest.
const (
	ReadOnly         Mode = iota // reads what the policy shows, writes nothing but scratch
	WorkspaceWrite               // writes the workspace and the named roots
	DangerFullAccess             // no restriction at all
	ExternalSandbox              // no restriction of ours: somebody else confines us
)

var modeNames = [...]string{"read-only", "workspace-write", "danger-full-access", "external-sandbox"}

// String returns the mode's name as it is written in configuration.
func (m Mode) String() string {
	if m < 0 || int(m) >= len(modeNames) {
		return "unknown"
	}
	return modeNames[m]
}

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	for i, n := range modeNames {
		if n == s {
			return Mode(i), nil
		}
	}
	return 0, fault.New(fault.Invalid, "%q is not a sandbox mode", s).
		WithTry("one of read-only, workspace-write, danger-full-access, external-sandbox")
}

// Network is what a box may reach.
type Network int

// The networks. The zero value is the tightest.
const (
	NetworkOff     Network = iota // a loopback interface of its own and nothing else
	NetworkFull                   // the host's network
	NetworkProxied                // as NetworkOff, and a proxy that the owner serves on a listener of the box; jails only
)

// String returns "off", "full" or "proxied".
func (n Network) String() string {
	switch n {
	case NetworkFull:
		return "full"
	case NetworkProxied:
		return "proxied"
	}
	return "off"
}

// Policy is what commands in a box may do.
type Policy struct {
	Mode          Mode
	WritableRoots []string // host folders, beside the workspace; WorkspaceWrite only
	Network       Network
	// Least is the weakest rung that is accepted; "" is RungJail. RungRestricted is for a person's own machine: local
	// boxes use it where no jail can be made, and say so. Hosted boxes refuse everything below a jail.
	Least Rung

	// The rest is for local boxes. A leading ~ stands for every home.
	SharedTmp bool     // the host's /tmp and /var/tmp, which WorkspaceWrite may then write, instead of private ones
	Hidden    []string // host paths that are not seen, beside Masks
	Shown     []string // host paths that are seen all the same: of Masks, or in one, or folders that hold some
}

// confines says whether the mode restricts anything.
func (p Policy) confines() bool { return p.Mode == ReadOnly || p.Mode == WorkspaceWrite }

// network is what the policy really lets a command reach.
func (p Policy) network() Network {
	if p.Mode == DangerFullAccess {
		return NetworkFull
	}
	return p.Network
}

// Limits bound a box as a whole; 0 asks for none.
type Limits struct {
	MemoryBytes int64
	Pids        int
	CPUs        float64 // processors' worth of time
	// DiskBytes is what commands may add to the disks of their writable folders; no single file is larger. It is watched:
	// between two looks more may be written.
	DiskBytes int64
}

// grouped are the limits for which control groups are made.
func (l Limits) grouped() Limits {
	l.DiskBytes = 0
	return l
}

// File is a small file that is made for a hosted box.
type File struct {
	Path string // below /etc
	Text string
}

// Hosted makes a box whose root is not the host's: a skeleton with the system's programs, and three folders of its own.
type Hosted struct {
	Workspace string // host folder, seen as /mnt/data
	Tmp       string // host folder, seen as /tmp
	Home      string // host folder, seen as /home/user
	// UID is the host uid and gid that commands run as when we are root; the three folders belong to it. 0 lets Open
	// choose. An ordinary user's boxes always run as that user.
	UID int
	// Files are written into the box's own /etc, read-only: a bundle of certificates, for one.
	Files []File
	// Output is where commands of the box find what those before them printed, read-only: a folder per key, in it one per
	// index, in it stdout and stderr. Empty is nowhere.
	Output string
	// ReadOnlyBinds are further host paths, seen under their own names, read-only.
	ReadOnlyBinds []string
	// Shown are host folders that are seen under other names, read-only. What is put into one later is seen too.
	Shown []Shown
}

// Shown is a host folder and the name that a box sees it under.
type Shown struct{ Source, Target string }

// Spec asks for a box.
type Spec struct {
	// Dir is the box's own state folder, absolute and 0700: control socket, jobs, report. It is made if absent.
	Dir    string
	Policy Policy
	// Cwd is the host folder that a local box stands in; it is the workspace of WorkspaceWrite.
	Cwd string
	// Hosted is nil for a local box, which sees the host's root.
	Hosted *Hosted
	Limits Limits
	// Grace is how long the resident outlives its owner; 0 is not at all.
	Grace time.Duration
	// Once is for a box of one command, to which no later owner comes: it ends with the command's call, and its folder is
	// the job's too. What only a later owner would read is not written.
	Once bool
	// Fence is the owner's: a resident refuses owners with a lower one than the highest it has seen.
	Fence uint64
	// Protocol is the version of the protocol that the resident is to speak; 0 is the newest. Whoever may have to go back
	// to an older hardshell pins the one that it speaks.
	Protocol uint32
}
