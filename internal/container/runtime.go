package container

import (
	"context"
	"iter"
	"time"

	"github.com/hardshell-dev/hardshell/sandbox/egress"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Where a container's folders are, as its commands see them, and who they are.
const (
	Workdir = "/mnt/data"
	Tmpdir  = "/tmp"
	HomeDir = "/home/user"
	Output  = "/mnt/output" // where runtimes that can show the streams of earlier commands do so, read-only
	User    = "user"
)

// A Runtime makes boxes: places where a container's commands run. The container's folders belong to the runtime, its
// rows and its life to [Service].
//
// The law: Prepare and Remove are idempotent. Open is called for one container by one goroutine at a time, and only
// while no box of it lives. A box that cannot be as strong as it must be is fault.Isolation, a machine that cannot
// now is fault.Unavailable. Every runtime passes package runtimetest.
type Runtime interface {
	// Name is the name of configuration and results, such as "jail".
	Name() string
	// Supported says whether boxes can be had here; otherwise it is fault.Isolation with a remedy. It is quick.
	Supported(ctx context.Context) error
	// Prepare makes the container's folders and starts nothing.
	Prepare(ctx context.Context, spec Spec) (Workspace, error)
	// Open boots the container's box over its folders.
	Open(ctx context.Context, spec Spec) (Box, error)
	// Remove ends what still lives of the container and removes its folders, the workspace too.
	Remove(ctx context.Context, spec Spec) error
}

// A Reclaimer is a runtime that can end what an earlier gateway on this data folder left alive, keeping the folders. One
// that can take it over is an Adopter.
type Reclaimer interface {
	Reclaim(ctx context.Context, spec Spec) error
}

// A Bounded runtime cannot keep more than so many containers at once; their slots are below that number.
type Bounded interface {
	MaxContainers() int
}

// A Box runs the commands of one container. What a command leaves behind lives on until the box ends.
type Box interface {
	// Start runs a command, at most once per key and index: a second start under the same pair never runs it again.
	// The context covers the start, not the command.
	Start(ctx context.Context, command process.Command) (Job, error)
	Isolation() Isolation
	// Done is closed when the box is gone, for whatever reason.
	Done() <-chan struct{}
	// Close ends every process of the box and waits for that.
	Close(ctx context.Context) error
}

// Job is a started command; *process.Job is one.
type Job interface {
	Key() string
	Follow(ctx context.Context) iter.Seq2[process.Chunk, error]
	Wait(ctx context.Context) (process.Exit, error)
	View(stream, maxChars int) (process.View, error)
	Kill()
	Done() <-chan struct{}
}

// Spec is what a runtime needs to know of a container.
type Spec struct {
	ID          string
	Dir         string        // the container's own folder, absolute
	Slot        int           // a small number that no other living container of this data folder has
	MemoryBytes int64         // 0 is no limit
	Pids        int           // 0 is no limit
	CPUs        float64       // processors' worth of time; 0 is no limit
	Lease       time.Duration // how long a box outlives its owner, if the runtime is an Adopter; 0 is not at all
	Fence       uint64        // the owner's: a box refuses a lower one than it has seen
	// Egress is what commands may reach, by way of a proxy that a Proxied runtime serves inside; nil is no proxy, and
	// nothing to reach. A runtime that is not Proxied gets only what lets nothing through.
	Egress *egress.Options
	// Narrowed is what an adopted box may reach from the first moment on, which is less than Egress.Policy; nil is that.
	Narrowed *egress.Policy
	refused  error // why no box may be made of this
}

// Workspace is a container's folders on this host.
type Workspace struct {
	Dir  string // seen as /mnt/data
	Tmp  string // seen as /tmp
	Home string // seen as /home/user
	UID  int    // the uid and gid that own them; 0 when they are ours
	// Output is where a command finds the whole streams of those before it, in KEY/INDEX/stdout and stderr. Empty: nowhere.
	Output string
	Skills string // seen as /skills, read-only; only we write into it. Empty: nowhere
	Shell  string // the shell's path inside: bash where there is one, else sh
}

// Isolation is how strong a box was asked to be and is.
type Isolation struct {
	Asked   string   `json:"asked"`
	Got     string   `json:"got"`
	Missing []string `json:"missing,omitempty"`
}
