package egress

import (
	"net"
	"syscall"
)

// deferAccept has the kernel hand a connection over when the client has said something, as every client of a proxy does
// at once: that is one change of goroutine less for each connection. One that stays silent comes a second later.
func deferAccept(l net.Listener) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_DEFER_ACCEPT, 1) })
}
