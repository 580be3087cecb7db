package resident

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listenSignals makes SIGCHLD wake the loop and every other signal harmless: a command may send them to us, and the
// runtime's own handlers would end us or print.
func (s *server) listenSignals() {
	s.wake, _ = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go s.relay(children)
	for sig := syscall.Signal(1); sig <= lastSignal; sig++ {
		if sig != syscall.SIGCHLD && sig != syscall.SIGKILL && sig != syscall.SIGSTOP {
			harden(sig)
		}
	}
}

const (
	lastSignal        = 64
	deflt, ignore     = 0, 1   // SIG_DFL, SIG_IGN
	firstOwn, lastOwn = 32, 34 // libc's and the runtime's own, which its calls on all threads need
)

// action is the kernel's struct sigaction.
type action struct{ handler, flags, restorer, mask uintptr }

// harden makes a signal harmless to us without making it harmless to commands. What is ignored stays ignored in
// children, but for what the runtime handles: it gives them the default back. So we ignore what it handles, and no
// other: such a signal, ignored by whoever started us, goes back to its default, from which the kernel keeps the first
// process of a jail.
func harden(sig syscall.Signal) {
	var now action
	act(sig, nil, &now)
	switch {
	case now.handler == ignore:
		act(sig, &action{handler: deflt}, nil)
	case now.handler != deflt && (sig < firstOwn || sig > lastOwn):
		act(sig, &action{handler: ignore}, nil)
	}
}

func act(sig syscall.Signal, set, old *action) {
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}
