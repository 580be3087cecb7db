package resident

import (
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A spare is a resident that its spawner has cloned ahead of the box that it will serve. Its process has started, in
// namespaces of its own, and has nothing of anybody's: no uid inside, no plan, no descriptor but the socket on which it
// waits. It serves one box or none, and dies with its spawner, whose end of that socket is the only one.
type spare struct {
	namespaces uint32
	pid, pidfd int
	hand       int // our end of its socket
}

const (
	// spareSlots is where a spare's socket is; the descriptors below it are kept for what comes through it.
	spareSlots = 24
	// spareDelay is how long after a box's start the next spare is made, so that it does not slow that box down.
	spareDelay = 5 * time.Millisecond
	spareWord  = "spare"
)

// newSpare makes one, as Clone.Start would without a uid or a descriptor to give.
func newSpare(namespaces uint32, privileged bool) (*spare, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, failed("make a socket", err)
	}
	defer unix.Close(pair[1])
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, failed("open /dev/null", err)
	}
	defer unix.Close(null)
	files := make([]uintptr, spareSlots+1)
	for i := range files {
		files[i] = uintptr(null)
	}
	files[spareSlots] = uintptr(pair[1])
	s := &spare{namespaces: namespaces, hand: pair[0]}
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &s.pidfd, Cloneflags: uintptr(namespaces), AmbientCaps: needed}
	if privileged { // it will become its box's uid by itself
		sys.AmbientCaps = append([]uintptr{unix.CAP_SETUID, unix.CAP_SETGID}, needed...)
	}
	s.pid, err = syscall.ForkExec("/proc/self/exe", []string{Name, decimal(spareSlots + 1), spareWord},
		&syscall.ProcAttr{Dir: "/", Env: residentEnv, Files: files, Sys: sys})
	if err != nil {
		unix.Close(pair[0])
		return nil, failed("start a resident", err)
	}
	return s, nil
}

// become makes the spare the resident that c asks for: its uid comes into being, then it is given its descriptors.
func (s *spare) become(c Clone, files []int) error {
	if err := s.mapIDs(c); err != nil {
		return failed("map the uid of a resident", err)
	}
	w := writer{spawnResident}
	w.flag(c.Privileged)
	w.int(c.Inside)
	return failed("wake a resident", unix.Sendmsg(s.hand, w, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL))
}

func (s *spare) mapIDs(c Clone) error {
	proc, err := unix.Open("/proc/"+decimal(int64(s.pid)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	// Alive now, it was the one whose folder we opened: its number was nobody else's.
	if err := unix.PidfdSendSignal(s.pidfd, 0, nil, 0); err != nil {
		return err
	}
	if !c.Privileged {
		if err := writeAt(proc, "setgroups", "deny"); err != nil {
			return err
		}
	}
	inside := decimal(int64(c.Inside)) + " "
	if err := writeAt(proc, "gid_map", inside+decimal(int64(c.HostGID))+" 1"); err != nil {
		return err
	}
	return writeAt(proc, "uid_map", inside+decimal(int64(c.HostUID))+" 1")
}

func writeAt(dir int, name, text string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// discard ends a spare that nobody will have.
func (s *spare) discard() {
	unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
	unix.Close(s.pidfd)
	unix.Close(s.hand)
}

// isSpare says whether this process was started as one.
func isSpare() bool { return len(os.Args) > 2 && os.Args[2] == spareWord }

// standBy waits in a spare until it is wanted, and takes what it is given: its descriptors and its uid.
func standBy() error {
	c := conn{fd: spareSlots}
	buf := make([]byte, 64)
	poll := []unix.PollFd{{Fd: spareSlots, Events: unix.POLLIN}}
	for {
		message, more, err := c.receive(buf)
		if err != nil {
			unix.Exit(0) // the spawner is gone
		}
		if more {
			r := reader{b: message[1:]}
			privileged, inside := r.flag(), r.int()
			if r.err != nil || len(c.rights) < FirstFree-2 || len(c.rights) > spareSlots-2 {
				unix.Exit(1)
			}
			for i, fd := range c.rights {
				if err := unix.Dup3(fd, i+2, unix.O_CLOEXEC); err != nil {
					unix.Exit(1)
				}
			}
			for i := len(c.rights) + 2; i < spareSlots; i++ {
				unix.Close(i)
			}
			c.close()
			return assume(privileged, inside)
		}
		unix.Poll(poll, -1)
	}
}

// assume makes every thread of ours the one uid that exists inside, with no other group.
func assume(privileged bool, id int) error {
	if !privileged {
		if unix.Getuid() != id || unix.Getgid() != id {
			return failed("become the box's uid", unix.EPERM)
		}
		return nil // we have been it all along
	}
	uid := uintptr(id)
	err := everyThread(unix.SYS_SETGROUPS, 0, 0, 0)
	if err == nil {
		err = everyThread(unix.SYS_SETRESGID, uid, uid, uid)
	}
	if err == nil {
		err = everyThread(unix.SYS_SETRESUID, uid, uid, uid)
	}
	return failed("become the box's uid", err)
}

// nursery keeps one spare, of the kind that was last asked for. It keeps none where it cannot see the host's mounts
// change: a spare has a copy of them as they were.
type nursery struct {
	mounts     int // the kernel tells of changes here; -1 is none
	kind       uint32
	privileged bool
	spare      *spare
	due        time.Duration // when the next is to be made; 0 is never
}

func newNursery() *nursery {
	fd, err := unix.Open("/proc/self/mounts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &nursery{mounts: fd}
}

// take returns the spare if it will do for c.
func (n *nursery) take(c Clone, files int) *spare {
	if n.mounts < 0 || c.Namespaces == 0 || c.Group { // nothing to make ahead, or born elsewhere
		return nil
	}
	if n.spare != nil && (n.changed() || n.kind != c.Namespaces) {
		n.spare.discard()
		n.spare = nil
	}
	n.kind, n.privileged = c.Namespaces, c.Privileged
	n.due = monotonic() + spareDelay
	s := n.spare
	if files > spareSlots-2 {
		return nil
	}
	n.spare = nil
	return s
}

// changed says whether the host's mounts have changed since the last time.
func (n *nursery) changed() bool {
	poll := []unix.PollFd{{Fd: int32(n.mounts), Events: unix.POLLPRI}}
	k, err := unix.Poll(poll, 0)
	return k != 0 || err != nil
}

// wait returns when there is something to read from the owner, and keeps the nursery meanwhile.
func (n *nursery) wait(owner int) {
	timeout := -1
	if n.due > 0 && n.spare == nil {
		timeout = int(max(0, n.due-monotonic()+time.Millisecond-1) / time.Millisecond)
	}
	poll := []unix.PollFd{{Fd: int32(owner), Events: unix.POLLIN}, {Fd: int32(n.mounts), Events: unix.POLLPRI}}
	k, err := unix.Poll(poll, timeout)
	if err != nil || poll[0].Revents != 0 {
		return
	}
	if poll[1].Revents != 0 && n.spare != nil {
		n.spare.discard()
		n.spare, n.due = nil, monotonic()+spareDelay
	}
	if k == 0 && n.due > 0 && n.spare == nil {
		n.due = 0 // once: where it fails, boxes are made as they are asked for
		n.changed()
		n.spare, _ = newSpare(n.kind, n.privileged)
	}
}

// dropInherited closes what our owner had inherited itself and did not mean for us: a pipe that stays open here keeps
// somebody waiting. The runtime's own descriptors stay. Nothing passes to commands.
func dropInherited() {
	unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	first := FirstFree
	if len(os.Args) > 1 {
		first = number([]byte(os.Args[1]))
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd := number([]byte(e.Name()))
		if fd < first {
			continue
		}
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(name, "anon_inode:") && !strings.HasPrefix(name, "/sys/fs/cgroup/") {
			unix.Close(fd)
		}
	}
}
