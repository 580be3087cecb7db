package resident

import "golang.org/x/sys/unix"

// waits are the calls in which a process waits for input.
var waits = map[uintptr]waitKind{
	unix.SYS_READ: waitsForBytes, unix.SYS_READV: waitsForBytes,
	unix.SYS_PPOLL: waitsForEvents, unix.SYS_PSELECT6: waitsForEvents,
	unix.SYS_EPOLL_PWAIT: waitsForEvents, unix.SYS_EPOLL_PWAIT2: waitsForEvents,
}
