package resident

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawn is the spawner's life: one request at a time, until its owner is gone. It does not return.
func spawn() {
	unix.CloseRange(4, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	unix.CloseOnExec(fdOwner)
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go func() {
		for range children {
			for {
				if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
					break
				}
			}
		}
	}()
	c, spares := &conn{fd: fdOwner}, newNursery()
	buf := make([]byte, MaxPacket)
	for {
		message, more, err := c.receive(buf)
		if err != nil {
			os.Exit(0)
		}
		if !more {
			spares.wait(fdOwner)
			continue
		}
		pid, fd, err := spares.answer(message, c.rights)
		c.dropRights()
		w := writer{message[0]}
		w.int(pid)
		if err != nil {
			w.text(err.Error())
			unix.Sendmsg(fdOwner, w, nil, nil, unix.MSG_NOSIGNAL)
			continue
		}
		w.text("")
		unix.Sendmsg(fdOwner, w, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
		unix.Close(fd)
	}
}

func (n *nursery) answer(message []byte, rights []int) (pid, fd int, err error) {
	r := reader{b: message[1:]}
	if message[0] == spawnUserNS {
		fd, err = UserNamespace(r.int(), r.int())
		return 0, fd, err
	}
	c := Clone{Namespaces: r.u32(), Inside: r.int(), HostUID: r.int(), HostGID: r.int(), Group: r.flag(), Privileged: r.flag()}
	if want := map[bool]int{false: 1, true: 2}[c.Group]; r.err != nil || len(rights) != want {
		return 0, -1, failed("start a resident", unix.EPROTO)
	}
	return n.start(c, rights)
}
