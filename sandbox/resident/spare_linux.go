package resident

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A spare is a resident that its spawner has cloned ahead of the box that it will serve. It has namespaces of its own
// and nothing of anybody's: no uid inside, no plan, no descriptor but the connection on which it waits, whose other end
// is the spawner's alone. It serves one box or none, and dies with its spawner. A box is made in half the time with it.
type spare struct {
	pid, pidfd int
	hand       int // our end of its connection
}

const (
	// spareDelay is how long after a box's start the next spare is made, so that it does not slow that box down.
	spareDelay = 5 * time.Millisecond
	// spareLife is how long one waits. Where no box is made there is none.
	spareLife = time.Minute
)

// shared has a clone use its parent's memory until it is executed, while its parent waits, as every fork of Go's does but
// those into a user namespace: there it wants to map uids first.
const shared = unix.CLONE_VM | unix.CLONE_VFORK

// newSpare makes one, in a v2 control group if group is one.
func newSpare(namespaces uint32, privileged bool, group int) (*spare, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, failed("make a socket", err)
	}
	defer unix.Close(pair[1])
	s := &spare{hand: pair[0]}
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &s.pidfd, Cloneflags: uintptr(namespaces) | shared, AmbientCaps: needed}
	if privileged { // it will become its box's uid by itself
		sys.AmbientCaps = append([]uintptr{unix.CAP_SETUID, unix.CAP_SETGID}, needed...)
	}
	if group >= 0 {
		sys.UseCgroupFD, sys.CgroupFD = true, group
	}
	if s.pid, err = execResident(pair[1], sys); err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	return s, nil
}

// become makes the spare the resident that c asks for: its uid comes into being, then it is given its owner.
func (s *spare) become(c Clone, owner int) error {
	if err := s.mapIDs(c); err != nil {
		return failed("map the uid of a resident", err)
	}
	w := writer{byte(kindBecome)}
	w.flag(c.Privileged)
	w.int(c.Inside)
	return failed("wake a resident", unix.Sendmsg(s.hand, w, unix.UnixRights(owner), nil, unix.MSG_NOSIGNAL))
}

func (s *spare) mapIDs(c Clone) error {
	proc, err := openProcess(s.pid)
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	// Alive now, it was the one whose folder we opened: its number was nobody else's.
	if err := unix.PidfdSendSignal(s.pidfd, 0, nil, 0); err != nil {
		return err
	}
	return mapID(proc, c.Inside, c.HostUID, c.HostGID, c.Privileged)
}

// openProcess opens a process's folder.
func openProcess(pid int) (int, error) {
	return unix.Open("/proc/"+decimal(int64(pid)), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// mapID makes inside the one uid and gid of a process's new user namespace. Only who is privileged may let it change its
// groups there.
func mapID(proc, inside, uid, gid int, groups bool) error {
	if !groups {
		if err := writeAt(proc, "setgroups", "deny"); err != nil {
			return err
		}
	}
	name := decimal(int64(inside)) + " "
	if err := writeAt(proc, "gid_map", name+decimal(int64(gid))+" 1"); err != nil {
		return err
	}
	return writeAt(proc, "uid_map", name+decimal(int64(uid))+" 1")
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

// become takes in a spare what it was kept for: an owner's connection in the place of the spawner's, and the one uid
// that exists inside, on every thread, with no other group.
func (s *server) become(body []byte) error {
	r := reader{b: body}
	privileged, inside := r.flag(), r.int()
	if r.err != nil || len(s.owner.rights) != 1 {
		return failed("become a resident", unix.EPROTO)
	}
	if err := unix.Dup3(s.owner.rights[0], fdOwner, unix.O_CLOEXEC); err != nil {
		return failed("become a resident", err)
	}
	s.owner.dropRights()
	if !privileged {
		if unix.Getuid() != inside || unix.Getgid() != inside {
			return failed("become the box's uid", unix.EPERM)
		}
		return nil // we have been it all along
	}
	id := uintptr(inside)
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	if e == 0 {
		_, _, e = syscall.AllThreadsSyscall(unix.SYS_SETRESGID, id, id, id)
	}
	if e == 0 {
		_, _, e = syscall.AllThreadsSyscall(unix.SYS_SETRESUID, id, id, id)
	}
	if e != 0 {
		return failed("become the box's uid", e)
	}
	return nil
}

// changesUID says whether all threads of a resident can become another uid. Where C code is linked in they cannot.
var changesUID = sync.OnceValue(func() bool {
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0)
	return e == 0
})

// nursery keeps one spare, of the kind that was last asked for. It keeps none where it cannot see the host's mounts
// change: a spare has a copy of them as they were.
type nursery struct {
	mounts     int // the kernel tells of changes here; -1 is none
	kind       uint32
	privileged bool
	spare      *spare
	due        time.Duration // when the next is to be made, or the one that waits is let go; 0 is never
}

func newNursery() *nursery {
	fd, err := unix.Open("/proc/self/mounts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &nursery{mounts: fd}
}

// start is Clone.Start with the spare, if it will do.
func (n *nursery) start(c Clone, files []int) (pid, pidfd int, err error) {
	s := n.take(c)
	if s == nil {
		return c.Start(files)
	}
	if err := s.become(c, files[0]); err != nil {
		s.discard() // its owner's end is still ours to give
		return c.Start(files)
	}
	unix.Close(s.hand)
	return s.pid, s.pidfd, nil
}

// take returns the spare if it will do for c, and has the next one made.
func (n *nursery) take(c Clone) *spare {
	if n.mounts < 0 || c.Namespaces == 0 || c.Group || c.Privileged && !changesUID() { // nothing to make ahead, or not so
		return nil
	}
	if n.spare != nil && (n.changed() || n.kind != c.Namespaces || n.privileged != c.Privileged) {
		n.letGo()
	}
	s := n.spare
	n.spare, n.kind, n.privileged, n.due = nil, c.Namespaces, c.Privileged, monotonic()+spareDelay
	return s
}

func (n *nursery) letGo() {
	n.spare.discard()
	n.spare = nil
}

// changed says whether the host's mounts have changed since the last time.
func (n *nursery) changed() bool {
	poll := []unix.PollFd{{Fd: int32(n.mounts), Events: unix.POLLPRI}}
	k, err := unix.Poll(poll, 0)
	return k != 0 || err != nil
}

// wait returns when there may be something to read from the owner, and looks after the spare meanwhile.
func (n *nursery) wait(owner int) {
	timeout := -1
	if n.due > 0 {
		timeout = int(max(0, n.due-monotonic()+time.Millisecond-1) / time.Millisecond)
	}
	poll := []unix.PollFd{{Fd: int32(owner), Events: unix.POLLIN}, {Fd: int32(n.mounts), Events: unix.POLLPRI}}
	k, err := unix.Poll(poll, timeout)
	if poll[1].Revents != 0 && n.spare != nil { // the kernel tells it once; the next spare sees what is there now
		n.letGo()
		n.due = monotonic() + spareDelay
	}
	switch {
	case err != nil || k != 0:
	case k == 0 && n.spare != nil:
		n.letGo()
		n.due = 0
	case k == 0:
		n.changed() // what was before does not count
		n.due = 0   // where it fails, boxes are made as they are asked for
		if n.spare, _ = newSpare(n.kind, n.privileged, -1); n.spare != nil {
			n.due = monotonic() + spareLife
		}
	}
}
