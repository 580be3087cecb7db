package resident

import (
	"errors"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Clone says how a resident's process comes to be. The program is always our own, through /proc/self/exe: that is the
// running file, whatever an upgrade has put in its place on the disk.
type Clone struct {
	Namespaces uint32 // CLONE_NEW* flags; 0 for a resident without a jail
	Inside     int    // the one uid and gid that exist inside
	HostUID    int    // what they are outside
	HostGID    int
	Group      bool // it is born into a v2 control group
	Privileged bool // we may map or take ids that are not ours, and drop the caller's groups
}

// needed is what a new resident needs to build its root; it gives it all up before its first command.
var needed = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}

// residentEnv is all that a resident inherits: a small heap, no signals between its threads, and no search for the
// limits of control groups at the start.
var residentEnv = []string{"GOGC=30", "GOMAXPROCS=2", "GODEBUG=asyncpreemptoff=1,containermaxprocs=0,updatemaxprocs=0"}

// Start makes the process, with files[0] as its owner's connection and, if there is to be one, files[1] as its group.
func (c Clone) Start(files []int) (pid, pidfd int, err error) {
	if c.Namespaces != 0 && (!c.Privileged || changesUID()) {
		return c.startSpare(files)
	}
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if c.Group {
		sys.UseCgroupFD, sys.CgroupFD = true, files[1]
	}
	switch {
	case c.Namespaces != 0:
		c.enter(sys)
	case c.Privileged:
		sys.Credential = &syscall.Credential{Uid: uint32(c.HostUID), Gid: uint32(c.HostGID), Groups: []uint32{}}
	}
	if pid, err = execResident(files[0], sys); err != nil {
		return 0, -1, err
	}
	return pid, pidfd, nil
}

// startSpare makes a spare and has it become c at once. That is faster than to map its uid before it is executed, for
// which its parent must wait, and which takes a copy of the parent's page tables: 43 ms at 1 GiB.
func (c Clone) startSpare(files []int) (pid, pidfd int, err error) {
	s := takeAhead(c)
	if s == nil {
		group := -1
		if c.Group {
			group = files[1]
		}
		if s, err = newSpare(c.Namespaces, c.Privileged, group); err != nil {
			return 0, -1, err
		}
	}
	if err := s.become(c, files[0]); err != nil {
		s.discard()
		unix.Wait4(s.pid, nil, 0, nil)
		return 0, -1, err
	}
	unix.Close(s.hand)
	return s.pid, s.pidfd, nil
}

// execResident forks a process that is a resident, with one connection.
func execResident(owner int, sys *syscall.SysProcAttr) (pid int, err error) {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, failed("open /dev/null", err)
	}
	defer unix.Close(null)
	all := make([]uintptr, fdFree) // what the plan will put in their places must find them taken
	for i := range all {
		all[i] = uintptr(null)
	}
	all[fdOwner] = uintptr(owner)
	pid, err = syscall.ForkExec("/proc/self/exe", []string{Name}, &syscall.ProcAttr{Dir: "/", Env: residentEnv, Files: all, Sys: sys})
	return pid, failed("start a resident", err)
}

// enter is for a program with C code in it, whose threads cannot become another uid later.
func (c Clone) enter(sys *syscall.SysProcAttr) {
	sys.Cloneflags = uintptr(c.Namespaces)
	sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: c.Inside, HostID: c.HostUID, Size: 1}}
	sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: c.Inside, HostID: c.HostGID, Size: 1}}
	sys.GidMappingsEnableSetgroups = c.Privileged
	sys.Credential = &syscall.Credential{Uid: uint32(c.Inside), Gid: uint32(c.Inside), NoSetGroups: !c.Privileged}
	sys.AmbientCaps = needed
}

// UserNamespace returns a descriptor of a user namespace in which id inside is uid and gid outside. It serves to map
// a mount's owners.
func UserNamespace(inside, outside int) (int, error) {
	sys := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | shared, Ptrace: true} // it stops before it has run
	pid, err := syscall.ForkExec("/proc/self/exe", []string{holderName}, &syscall.ProcAttr{Env: []string{}, Sys: sys})
	if err == unix.EPERM || err == unix.EACCES || err == unix.ENOSYS { // that was forbidden, or the namespace
		sys.Ptrace = false
		pid, err = syscall.ForkExec("/proc/self/exe", []string{holderName}, &syscall.ProcAttr{Env: []string{}, Sys: sys})
	}
	if err != nil {
		return -1, failed("make a user namespace", err)
	}
	defer func() {
		unix.Kill(pid, unix.SIGKILL)
		go unix.Wait4(pid, nil, 0, nil) // not ours to wait for
	}()
	proc, err := openProcess(pid)
	if err != nil {
		return -1, failed("open a user namespace", err)
	}
	defer unix.Close(proc)
	if err := mapID(proc, inside, outside, outside, false); err != nil {
		return -1, failed("map the uid of a user namespace", err)
	}
	fd, err := unix.Openat(proc, "ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return fd, failed("open a user namespace", err)
}

// hold waits to be killed: it exists so that its user namespace does. It ends by itself when whoever made it was killed
// before that.
func hold() {
	for left := (unix.Timespec{Sec: int64(spawnLimit / time.Second)}); unix.Nanosleep(&left, &left) == unix.EINTR; {
	}
	unix.Exit(0)
}

// A Spawner is a small process that clones residents for a large one.
type Spawner struct{ fd int }

// The spawner's requests. They travel through conn like an owner's packets, so their numbers lie apart from its kinds:
// a request that looked like a piece of a long message would be kept for ever.
const (
	spawnResident = iota + 32
	spawnUserNS
)

// StartSpawner starts one. Its process ends with Close, or with ours.
func StartSpawner() (*Spawner, int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, failed("make a socket", err)
	}
	defer unix.Close(pair[1])
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(pair[0])
		return nil, 0, failed("open /dev/null", err)
	}
	defer unix.Close(null)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{SpawnerName}, &syscall.ProcAttr{Dir: "/", Env: residentEnv,
		Files: []uintptr{uintptr(null), uintptr(null), 2, uintptr(pair[1])}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		unix.Close(pair[0])
		return nil, 0, failed("start the spawner", err)
	}
	return &Spawner{fd: pair[0]}, pid, nil
}

// Close ends the spawner; residents live on.
func (s *Spawner) Close() { unix.Close(s.fd) }

// Start is Clone.Start in the spawner. Calls must not overlap.
func (s *Spawner) Start(c Clone, files []int) (pid, pidfd int, err error) {
	w := writer{spawnResident}
	w.u32(c.Namespaces)
	w.int(c.Inside)
	w.int(c.HostUID)
	w.int(c.HostGID)
	w.flag(c.Group)
	w.flag(c.Privileged)
	return s.ask(w, files)
}

// UserNamespace is UserNamespace in the spawner. Calls must not overlap.
func (s *Spawner) UserNamespace(inside, outside int) (int, error) {
	w := writer{spawnUserNS}
	w.int(inside)
	w.int(outside)
	_, fd, err := s.ask(w, nil)
	return fd, err
}

func (s *Spawner) ask(message []byte, files []int) (pid, fd int, err error) {
	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}
	if err := unix.Sendmsg(s.fd, message, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return 0, -1, failed("ask the spawner", err)
	}
	c := conn{fd: s.fd}
	defer c.dropRights()
	buf := make([]byte, 4096)
	for {
		reply, more, err := c.receive(buf)
		if err != nil {
			return 0, -1, failed("hear the spawner", err)
		}
		if !more {
			ready, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, int(spawnLimit/time.Millisecond))
			if ready == 0 && err == nil {
				return 0, -1, failed("hear the spawner", unix.ETIMEDOUT)
			}
			continue
		}
		r := reader{b: reply[1:]}
		pid, text := r.int(), r.text()
		if text != "" || len(c.rights) != 1 {
			return 0, -1, &spawnError{text}
		}
		fd = c.rights[0]
		c.rights = nil
		return pid, fd, nil
	}
}

// spawnLimit is how long a spawner may take for one clone, which takes it milliseconds.
const spawnLimit = 10 * time.Second

// Lost says whether an error of Start or UserNamespace means that the spawner itself is gone or stuck; any other is
// its answer. A lost spawner is closed and asked nothing more: a late answer would be taken for that to a new question.
func (s *Spawner) Lost(err error) bool {
	var answered *spawnError
	return err != nil && !errors.As(err, &answered)
}

type spawnError struct{ text string }

func (e *spawnError) Error() string { return e.text }

// Is keeps the reason that matters to callers across the socket.
func (e *spawnError) Is(target error) bool {
	errno, ok := target.(unix.Errno)
	return ok && strings.HasSuffix(e.text, ": "+errno.Error())
}
