package resident

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// JailNamespaces are those of every jail; one that has not the host's network has CLONE_NEWNET too.
const JailNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// ahead is the spare of a program that makes one box and ends: what a spawner is for one that makes many.
var ahead struct {
	sync.Mutex
	*spare
	namespaces uint32
	privileged bool
}

// Ahead clones a spare for this process's first jail. A program that is about to make one calls it as early as it can:
// the resident comes up beside the rest of its start. A failure shows when the box is made, without it.
func Ahead(namespaces uint32) {
	privileged := syscall.Geteuid() == 0
	if s, err := newSpare(namespaces, privileged, -1); err == nil {
		ahead.spare, ahead.namespaces, ahead.privileged = s, namespaces, privileged
	}
}

// takeAhead returns that spare if it will do for c; nil is none.
func takeAhead(c Clone) *spare {
	ahead.Lock()
	defer ahead.Unlock()
	s := ahead.spare
	if s == nil {
		return nil
	}
	ahead.spare = nil
	if c.Group || c.Namespaces != ahead.namespaces || c.Privileged != ahead.privileged {
		s.discard()
		go unix.Wait4(s.pid, nil, 0, nil)
		return nil
	}
	return s
}
