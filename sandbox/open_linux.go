package sandbox

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// The files of a box's state folder.
const (
	controlName = "control"     // the resident's socket
	jobsName    = "jobs"        // a folder per job
	reportName  = "report.json" // the Report, and what Attach must know
	draftName   = "report.new"  // it before the resident has said that it is there
	logName     = "log"         // what a resident that crashed has to say
)

// open makes a box of a rung, and its resident.
func open(ctx context.Context, spec *Spec, rung Rung) (*Box, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var undo cleanup.Stack
	defer undo.Run()
	id, err := identify(spec, rung)
	if err != nil {
		return nil, err
	}
	l, report := begin(spec, id, rung)
	defer l.close()
	b, err := l.launch(spec, report, &undo)
	if err != nil {
		return nil, err
	}
	b.report, b.tmp = *report, l.tmp
	if err := b.draft(l, &undo); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, startLimit, fault.New(fault.Unavailable, "the sandbox did not come up within %v", startLimit))
	defer cancel()
	if err := b.greeted(limited); err != nil {
		return nil, err
	}
	b.guards, l.guards = l.guards, nil
	if err := b.save(l); err != nil {
		return nil, err
	}
	if err := b.keep(); err != nil {
		return nil, err
	}
	undo.Release()
	go b.listen()
	return b, nil
}

// startLimit is how long a box may take to come up, which takes it milliseconds: past it something is stuck, and the
// caller must hear that.
const startLimit = 10 * time.Second

func groupName(dir string) string {
	h := fnv.New64a()
	h.Write([]byte(dir))
	return groupPrefix + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatUint(h.Sum64(), 36)
}

// launch starts the resident and hands it the plan. Its process comes to be beside us while we make what it will be
// told: each takes milliseconds.
func (l *layout) launch(spec *Spec, report *Report, undo *cleanup.Stack) (*Box, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "no socket for a sandbox")
	}
	conn, err := asConn(pair[0])
	if err != nil {
		unix.Close(pair[1])
		return nil, fault.Wrap(fault.Unavailable, err, "no socket for a sandbox")
	}
	undo.Add(func() { conn.Close() })
	b := newBox(spec.Dir, conn, l.Jail, l.id.host)
	b.fresh, b.version, b.lasting, b.once = true, l.Version, spec.Grace > 0, spec.Once
	var missing []string
	grouped := make(chan struct{})
	go func() {
		defer close(grouped)
		b.groups, missing = makeGroups(groupName(spec.Dir), spec.Limits.grouped())
	}()
	undo.Add(func() { <-grouped; b.groups.remove() })
	group := ""
	if spec.Limits.grouped() != (Limits{}) && unifiedGroups() { // it is born into one
		<-grouped
		group = b.groups.unified
	}
	born := make(chan birth, 1)
	go func() { born <- l.bear(pair[1], group) }()
	if l.id.roots && l.Jail {
		l.expectRoots()
		go l.owned()
	}
	err = l.handOver(spec, b, grouped, undo)
	<-grouped
	report.note(spec.Limits, missing)
	report.furnished(l)
	child := <-born
	if child.err != nil {
		return nil, child.err
	}
	b.groups.prefer(child.pid)
	b.pidfd, b.pid = child.pidfd, child.pid
	if child.mine {
		b.child = child.pid
	}
	undo.Add(b.abort) // also where there is no plan for it
	return b, err
}

// birth is a resident that was cloned, or could not be.
type birth struct {
	pid, pidfd int
	mine       bool // it is our own child, which we must reap
	err        error
}

// bear clones the resident, into a v2 group if one is named. It closes the resident's end of the socket.
func (l *layout) bear(theirs int, group string) birth {
	defer unix.Close(theirs)
	clone, files := l.clone(), []int{theirs}
	if group != "" {
		fd, err := unix.Open(group, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return birth{err: fault.Wrap(fault.Isolation, err, "the sandbox's control group is not to be used")}
		}
		defer unix.Close(fd)
		clone.Group, files = true, append(files, fd)
	}
	pid, pidfd, mine, err := l.spawn.start(clone, files)
	if err != nil {
		return birth{err: refusal(err)}
	}
	return birth{pid: pid, pidfd: pidfd, mine: mine}
}

// handOver makes what the resident needs and sends it, with the plan. It waits in the socket until it is read.
func (l *layout) handOver(spec *Spec, b *Box, grouped <-chan struct{}, undo *cleanup.Stack) error {
	if err := makeFolders(spec.Dir, l, undo); err != nil {
		return err
	}
	base, err := l.basics(spec)
	defer closeAll(base)
	if err != nil {
		return err
	}
	if err := l.furnish(spec); err != nil {
		return err
	}
	if err := l.scratch(spec, undo); err != nil {
		return err
	}
	<-grouped
	rights, err := b.groups.rights()
	defer closeAll(rights)
	if err != nil {
		return fault.Wrap(fault.Isolation, err, "the sandbox's control group is not to be used")
	}
	l.Groups, l.OOM = len(b.groups.join), b.groups.oom != ""
	if l.WatchPids = spec.Limits.Pids; !l.OOM {
		l.WatchMemory = spec.Limits.MemoryBytes
	}
	files := slices.Concat(base, rights, l.trees)
	if len(files) > resident.MostFiles {
		return fault.New(fault.Invalid, "a sandbox can be given %d folders of its own, not %d", resident.MostFiles-len(files)+len(l.trees), len(l.trees))
	}
	b.send(l.Plan.Append(nil), unix.UnixRights(files...)) // a resident that is gone has left its reason, or none: greeted hears it
	return nil
}

// basics opens what every resident is given: its log, the socket of later owners, and the jobs folder.
func (l *layout) basics(spec *Spec) (fds []int, err error) {
	log, err := openLog(spec)
	if err != nil {
		return nil, err
	}
	listener, err := bindControl(spec)
	if err != nil {
		unix.Close(log)
		return nil, err
	}
	fds = []int{log, listener}
	jobs, err := unix.Open(l.jobs(spec.Dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fds, fault.Wrap(fault.Internal, err, "the box's jobs folder cannot be opened")
	}
	return append(fds, jobs), nil
}

// openLog opens the log and takes its lock. The resident keeps that for as long as it lives, since its standard error
// becomes this very description. A folder that is made for one box needs no lock, and is gone before a log could be read.
func openLog(spec *Spec) (int, error) {
	if spec.Once {
		fd, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, fault.Wrap(fault.Internal, err, "/dev/null cannot be opened")
		}
		return fd, nil
	}
	log, err := unix.Open(filepath.Join(spec.Dir, logName), unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return -1, fault.Wrap(fault.Internal, err, "the box's log cannot be opened")
	}
	if err := unix.Flock(log, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		unix.Close(log)
		return -1, inhabited(spec.Dir)
	}
	return log, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// clone says which namespaces the resident is born into.
func (l *layout) clone() resident.Clone {
	if !l.Jail {
		return resident.Clone{HostUID: l.id.host, HostGID: l.id.group, Privileged: l.id.root && l.Confine}
	}
	c := resident.Clone{Inside: l.id.inside, HostUID: l.id.host, HostGID: l.id.group, Privileged: l.id.root,
		Namespaces: resident.JailNamespaces}
	if l.Network {
		c.Namespaces |= unix.CLONE_NEWNET
	}
	return c
}

func inhabited(dir string) error {
	return fault.New(fault.Conflict, "another sandbox lives in %s", dir).WithTry("attach to it")
}

// bindControl makes the socket on which later owners find the resident. A living resident's is left alone.
// A box that ends with its owner has no later one, and so no such socket, but something on which nobody ever comes. A
// box of the same user's that sees the folder could connect to it otherwise, since no mount forbids that, and would have
// this box's rights.
func bindControl(spec *Spec) (int, error) {
	dir := spec.Dir
	at := filepath.Join(dir, controlName)
	if !spec.Once {
		if fd, err := dialControl(dir); err == nil {
			unix.Close(fd)
			return -1, inhabited(dir)
		}
		if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
			return -1, fault.Wrap(fault.Internal, err, "the old control socket cannot be removed")
		}
	}
	if spec.Grace == 0 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			return -1, fault.Wrap(fault.Unavailable, err, "no descriptor for a sandbox")
		}
		return fd, nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fault.Wrap(fault.Unavailable, err, "no socket for a sandbox")
	}
	err = atFolder(dir, func(short string) error { return unix.Bind(fd, &unix.SockaddrUnix{Name: short + "/" + controlName}) })
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fault.Wrap(fault.Internal, err, "the control socket cannot be made")
	}
	return fd, nil
}

func dialControl(dir string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = atFolder(dir, func(short string) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: short + "/" + controlName}) })
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// atFolder gives a short path of a folder: a socket's address holds a hundred bytes only.
func atFolder(dir string, do func(short string) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do("/proc/self/fd/" + strconv.Itoa(fd))
}

func asConn(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "control")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("a %T is no unix socket", c)
	}
	return u, nil
}
