package resident

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// server is the resident's one loop. It runs on the main thread, which is also the one that forks and the one that
// orphans come to. Nothing in it waits but the epoll at its top.
type server struct {
	plan  *Plan
	notes []string
	tags  *tagger
	forks *forkThread // nil: the main thread forks

	epoll   int
	wake    int // an eventfd: a child may be waiting to be reaped
	null    int // stdin of commands without one
	discard int // where bytes go that the disk did not take
	self    int // a pidfd of ours, for owners
	oom     int // counts kills for memory; -1 is none

	owner    *conn
	guests   map[int]*conn
	version  uint32 // of the protocol, as the plan says
	fence    uint64
	leases   leases
	kept     bool          // the owner has said that we are to outlive it
	graceEnd time.Duration // 0: an owner is there
	trimAt   time.Duration // see trim; 0 is never
	ended    int           // calls since the last
	lastEnd  int64         // of a call, in Unix nanoseconds
	over     bool          // the call has ended that we were there for

	lastJob uint32
	jobs    map[uint32]*job // until ended and silent
	keys    map[string]*job // calls that have not ended, by path
	pids    map[int]*job
	pipes   map[int]pipeEnd
	buf     []byte
	ttyBuf  []byte // made with the first terminal
	dog     watchdog
	disk    diskWatch
	remains remains
	resting map[int]pipeEnd // pipes that are left alone for a moment, see pace
	tellAt  time.Duration   // when a job's growth is to be told; 0: at once
	doors   map[int]int     // listeners by port, see listen_linux.go
}

type pipeEnd struct {
	job    *job
	stream int // index, or streamInput
}

// maxGuests bounds connections that have not said hello.
const maxGuests = 8

// serve is the resident's life. It does not return.
func serve() {
	dropInherited()
	s := &server{owner: &conn{fd: fdOwner}, guests: map[int]*conn{}, jobs: map[uint32]*job{}, keys: map[string]*job{},
		pids: map[int]*job{}, pipes: map[int]pipeEnd{}, resting: map[int]pipeEnd{}, buf: make([]byte, MaxPacket), oom: -1}
	if err := s.begin(); err != nil {
		s.owner.send(append([]byte{byte(KindRefused)}, err.Error()...))
		unix.Exit(1)
	}
	for {
		s.turn()
	}
}

// dropInherited closes what our owner had inherited itself and did not mean for us: a pipe that stays open here keeps
// somebody waiting. The runtime's own descriptors stay. Nothing passes to commands.
func dropInherited() {
	unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd := number([]byte(e.Name()))
		if fd < fdFree {
			continue
		}
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(name, "anon_inode:") && !strings.HasPrefix(name, "/sys/fs/cgroup/") {
			unix.Close(fd)
		}
	}
}

// begin readies the process, reads the plan, carries it out and welcomes the first owner. What needs no plan comes
// first: the owner is still making it.
func (s *server) begin() error {
	program, err := s.equip()
	if err != nil {
		return err
	}
	plan, err := s.awaitPlan()
	if err != nil {
		return err
	}
	s.plan, s.version, s.fence = plan, plan.Version, plan.Fence
	s.kept = s.version < 3 // which has no word for it
	groups, err := s.takeFiles()
	if err != nil {
		return err
	}
	if err := setUp(plan); err != nil {
		return err
	}
	threads := warmThreads() // not earlier: what all threads do takes longer the more there are
	if s.forks, s.notes, err = confine(plan, program, &s.tags.sec, groups); err != nil {
		return err
	}
	closeAll(groups)
	threads.Wait()
	if plan.WatchDisk > 0 {
		s.disk.begin(plan)
	}
	if err := s.openFiles(); err != nil {
		return err
	}
	s.greet(s.owner)
	return nil
}

// equip makes what every box needs alike: a secret and the filter that knows it, and tags.
func (s *server) equip() (program <-chan assembled, err error) {
	var secret Secret
	if _, err := unix.Getrandom((*[16]byte)(unsafe.Pointer(&secret))[:], 0); err != nil {
		return nil, failed("choose a secret", err)
	}
	if s.tags, err = newTagger(secret); err != nil {
		return nil, err
	}
	if s.self, err = unix.PidfdOpen(os.Getpid(), 0); err != nil {
		return nil, failed("open ourselves", err)
	}
	s.listenSignals()
	chances.open()
	done := make(chan assembled, 1)
	go func() { done <- assemble(denied, &secret) }()
	return done, nil
}

func (s *server) awaitPlan() (*Plan, error) {
	poll := []unix.PollFd{{Fd: fdOwner, Events: unix.POLLIN}}
	for {
		message, more, err := s.owner.receive(s.buf)
		if err != nil {
			unix.Exit(0) // the owner is gone before it began
		}
		if more && Kind(message[0]) == kindBecome {
			if err := s.become(message[1:]); err != nil {
				return nil, err
			}
			continue
		}
		if more {
			if Kind(message[0]) != KindSetup {
				return nil, failed("read the plan", unix.EPROTO)
			}
			plan, err := parsePlan(message[1:])
			if err == nil && (plan.Version < Oldest || plan.Version > Version) {
				err = unix.EPROTONOSUPPORT
			}
			return &plan, failed("read the plan", err)
		}
		unix.Poll(poll, -1)
	}
}

// takeFiles puts what came with the plan to its use. It enters the control groups with the main thread, and returns them
// for the one that forks where that is another: the kernel does that at once, and our other threads do not count towards
// the box's limits.
func (s *server) takeFiles() (groups []int, err error) {
	fds := s.owner.rights
	s.owner.rights = nil
	next := func() (fd int, err error) {
		if len(fds) == 0 {
			return -1, failed("take what comes with the plan", unix.EBADF)
		}
		fd, fds = fds[0], fds[1:]
		return fd, nil
	}
	for _, at := range []int{fdLog, fdListen, fdJobs} {
		fd, err := next()
		if err != nil {
			return nil, err
		}
		if err := unix.Dup3(fd, at, unix.O_CLOEXEC); err != nil {
			return nil, failed("take what comes with the plan", err)
		}
		unix.Close(fd)
	}
	for range s.plan.Groups {
		fd, err := next()
		if err != nil {
			return nil, err
		}
		groups = append(groups, fd)
	}
	if err := enterGroups(groups); err != nil {
		return nil, err
	}
	if s.plan.OOM {
		fd, err := next()
		if err != nil {
			return nil, err
		}
		s.oom = fd
	}
	for i := range s.plan.Mounts {
		m := &s.plan.Mounts[i]
		if m.Step != StepBind || m.Source != "" {
			continue
		}
		if m.Tree < 0 || m.Tree >= len(fds) {
			return nil, failed("take what comes with the plan", unix.EBADF)
		}
		m.Tree = fds[m.Tree] // from here on its descriptor, which is closed when it has its place
	}
	return groups, nil
}

// enterGroups moves the calling thread, and what it forks from now on, into control groups.
func enterGroups(groups []int) error {
	for _, fd := range groups {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return failed("enter the control groups", err)
		}
	}
	return nil
}

func (s *server) openFiles() (err error) {
	if s.null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return failed("open /dev/null", err)
	}
	if s.discard, err = unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
		return failed("open /dev/null", err)
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return failed("make an epoll", err)
	}
	for _, fd := range []int{fdOwner, fdListen, s.wake} {
		if err := s.watch(fd, unix.EPOLLIN); err != nil {
			return failed("watch", err)
		}
	}
	return nil
}

// warmThreads makes all threads that the runtime will ever need here. Later, at the box's limit of processes, it could
// make none, and would end us.
func warmThreads() (done *sync.WaitGroup) {
	const spare = 3
	done = new(sync.WaitGroup)
	var all sync.WaitGroup
	all.Add(spare)
	for range spare {
		done.Go(func() {
			runtime.LockOSThread()
			all.Done()
			all.Wait() // every one holds a thread of its own
			runtime.UnlockOSThread()
		})
	}
	return done
}

// relay is the guarantee behind the fast path: SIGCHLD usually interrupts the loop's own epoll, but it may arrive
// just before it. Then the child is still there to be seen, and the loop is woken.
func (s *server) relay(children <-chan os.Signal) {
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for range children {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil && info.Signo != 0 {
			unix.Write(s.wake, one)
		}
	}
}

func (s *server) watch(fd int, events uint32) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (s *server) rewatch(fd int, events uint32) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (s *server) unwatch(fd int) { unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// turn is one round: wait, act on what is ready, reap, act on what is due, tell the owner.
func (s *server) turn() {
	var events [32]unix.EpollEvent
	n, err := unix.EpollWait(s.epoll, events[:], s.patience())
	if err != nil {
		n = 0 // interrupted: most likely by a child's end
	}
	for _, e := range events[:n] {
		s.ready(int(e.Fd), e.Events)
	}
	s.reap()
	s.due(monotonic())
	s.tell()
	if s.over && (s.owner == nil || len(s.owner.queue) == 0) {
		s.shutDown()
	}
}

func (s *server) ready(fd int, events uint32) {
	if end, ok := s.pipes[fd]; ok {
		if end.stream == streamInput || end.job.tty && events&unix.EPOLLOUT != 0 {
			s.feed(end.job)
		}
		if end.stream != streamInput && events&^unix.EPOLLOUT != 0 {
			s.inOrder(end)
			s.drain(end, drainShare)
		}
		return
	}
	if guest, ok := s.guests[fd]; ok {
		s.hear(guest)
		return
	}
	switch {
	case fd == s.wake:
		var b [8]byte
		unix.Read(s.wake, b[:])
	case fd == fdListen:
		s.accept()
	case s.owner != nil && fd == s.owner.fd:
		if events&unix.EPOLLOUT != 0 && s.owner.flush() {
			s.wantWrite(false)
		}
		if events&^unix.EPOLLOUT != 0 {
			s.hear(s.owner)
		}
	}
}

// patience is how long the loop may wait, in milliseconds; -1 is for ever.
func (s *server) patience() int {
	var first time.Duration
	consider := func(t time.Duration) {
		if t > 0 && (first == 0 || t < first) {
			first = t
		}
	}
	if !s.busy() {
		consider(s.graceEnd)
		consider(s.trimAt)
	}
	consider(s.dog.next)
	consider(s.tellAt)
	consider(s.remains.next)
	for _, end := range s.resting {
		consider(end.job.streams[end.stream].rest)
	}
	for _, j := range s.keys {
		consider(j.input.retry)
		if j.killing {
			consider(j.nextKill)
		} else {
			consider(j.deadline)
		}
	}
	if first == 0 {
		return -1
	}
	if wait := first - monotonic(); wait > 0 {
		return int((wait + time.Millisecond - 1) / time.Millisecond)
	}
	return 0
}

// due acts on deadlines that have passed.
func (s *server) due(now time.Duration) {
	if s.trimAt > 0 && now >= s.trimAt {
		s.trim()
	}
	if s.graceEnd > 0 && now >= s.graceEnd && !s.busy() {
		s.shutDown()
	}
	for _, j := range s.keys {
		if j.input.retry > 0 && now >= j.input.retry {
			s.feed(j)
		}
		switch {
		case j.killing && now >= j.nextKill:
			s.kill(j, now)
		case !j.killing && j.deadline > 0 && now >= j.deadline:
			j.timedOut = true
			s.kill(j, now)
		}
	}
	s.rested(now)
	s.remains.hunt(now)
	if s.dog.next > 0 && now >= s.dog.next {
		s.look(now)
	}
}

// busy says whether a call goes on that ends by its own time limit. Grace is time without such a call.
func (s *server) busy() bool {
	for _, j := range s.keys {
		if j.deadline > 0 {
			return true
		}
	}
	return false
}

// shutDown ends everything. In a jail our own end is the end of the whole process namespace, by the kernel's hand.
func (s *server) shutDown() {
	for _, j := range s.jobs {
		for i := range j.streams {
			if j.streams[i].pipe >= 0 {
				s.drain(pipeEnd{j, i}, s.share(j, i))
			}
		}
		j.record()
	}
	if !s.plan.Jail {
		s.killAll()
	}
	unix.Exit(0)
}

// killAll kills what bears any tag of ours. It is for a resident without a process namespace.
func (s *server) killAll() {
	for end := monotonic() + giveUpAfter; monotonic() < end; {
		if killTagged(s.tags.ours, os.Getpid()) == 0 {
			return
		}
		s.reap()
		time.Sleep(time.Millisecond)
	}
}

// oomCount reads how many processes of the box were killed for memory so far.
func (s *server) oomCount() int64 {
	if s.oom < 0 {
		return 0
	}
	var b [512]byte
	n, err := unix.Pread(s.oom, b[:], 0)
	if err != nil {
		return 0
	}
	const name = "oom_kill "
	for i := 0; i+len(name) < n; i++ {
		if string(b[i:i+len(name)]) == name && (i == 0 || b[i-1] == '\n') {
			count := int64(0)
			for _, c := range b[i+len(name) : n] {
				if c < '0' || c > '9' {
					break
				}
				count = count*10 + int64(c-'0')
			}
			return count
		}
	}
	return 0
}
