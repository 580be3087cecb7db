package sandbox_test

import (
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var loopback4 = [4]byte{127, 0, 0, 1}

var networkAttempts = []attempt{
	{item: 26, what: "TCP to the host's loopback", online: true, try: func(v *victims) error {
		return connects(&unix.SockaddrInet4{Port: v.Port, Addr: loopback4}, unix.AF_INET, unix.SOCK_STREAM)
	}},
	{item: 26, what: "TCP to the host's loopback of IPv6", online: true, harmless: "the host may have no IPv6", try: func(v *victims) error {
		return connects(&unix.SockaddrInet6{Port: v.Port6, Addr: [16]byte{15: 1}}, unix.AF_INET6, unix.SOCK_STREAM)
	}},
	{item: 26, what: "TCP to the host's loopback in the form of IPv6", online: true, try: func(v *victims) error {
		return connects(&unix.SockaddrInet6{Port: v.Port, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}, unix.AF_INET6, unix.SOCK_STREAM)
	}},
	{item: 26, what: "TCP with the first data", online: true, harmless: "the host may not allow it", try: func(v *victims) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: v.Port, Addr: loopback4})
	}},
	{item: 26, what: "an interface of the host's", online: true, harmless: "the host may have no other", try: func(*victims) error {
		all, err := net.Interfaces()
		if err != nil {
			return err
		}
		for _, i := range all {
			if i.Flags&net.FlagLoopback == 0 {
				return nil
			}
		}
		return errNothing
	}},
	{item: 27, what: "a datagram to the host's loopback", online: true, try: func(v *victims) error {
		return answered(&unix.SockaddrInet4{Port: v.UDP, Addr: loopback4})
	}},
	{item: 27, what: "a datagram out", online: true, harmless: "the host may have no way out", try: func(*victims) error {
		return sends(&unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}}, unix.AF_INET)
	}},
	{item: 27, what: "a datagram to a resolver", online: true, harmless: "the host may have none", try: func(*victims) error {
		return answered(&unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 53}})
	}},
	{item: 28, what: "netlink, audit", try: func(*victims) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) }, harmless: notOnHosts},
	{item: 28, what: "netlink, device events", try: func(*victims) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT) }},
	{item: 28, what: "netlink, filter tables", try: func(*victims) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER) }, harmless: notOnHosts},
	{item: 28, what: "netlink, connections", try: func(*victims) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG) }, harmless: notOnHosts},
	{item: 28, what: "netlink, generic", try: func(*victims) error { return socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_GENERIC) }},
	{item: 29, what: "the hypervisor", try: func(*victims) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }, harmless: "not every machine has one"},
	{item: 30, what: "raw packets", try: func(*victims) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }, harmless: hostsRoot},
	{item: 30, what: "raw IP", try: func(*victims) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }, harmless: hostsRoot},
	{item: 30, what: "the kernel's cryptography", try: func(*victims) error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }, harmless: notOnHosts},
	{item: 30, what: "an express data path", try: func(*victims) error { return socket(unix.AF_XDP, unix.SOCK_RAW, 0) }, harmless: hostsRoot},
	{item: 30, what: "a tunnel device", try: func(*victims) error { return opens("/dev/net/tun", unix.O_RDWR) }, harmless: "not every host lets everybody"},
	{item: 31, what: "the host's abstract socket", try: func(v *victims) error {
		return connects(&unix.SockaddrUnix{Name: v.Abstract}, unix.AF_UNIX, unix.SOCK_STREAM)
	}},
	{item: 32, what: "the host's socket by path", try: func(v *victims) error {
		return connects(&unix.SockaddrUnix{Name: v.Socket}, unix.AF_UNIX, unix.SOCK_STREAM)
	}},
	{item: 32, what: "the host's socket by a link", try: func(v *victims) error {
		return undone("socket", func(at string) error {
			if err := os.Symlink(v.Socket, at); err != nil {
				at = "/proc/self/root" + v.Socket // in a workspace that may only be read
			}
			return connects(&unix.SockaddrUnix{Name: at}, unix.AF_UNIX, unix.SOCK_STREAM)
		})
	}},
	{item: 32, what: "a datagram to the host's socket", try: func(v *victims) error {
		return sends(&unix.SockaddrUnix{Name: v.Datagram}, unix.AF_UNIX)
	}},
	{item: 32, what: "a socket that came later", limit: "decision 0007", try: func(v *victims) error {
		return connects(&unix.SockaddrUnix{Name: v.Late}, unix.AF_UNIX, unix.SOCK_STREAM)
	}},
	{item: 32, what: "the box's own control socket", try: func(v *victims) error {
		return connects(&unix.SockaddrUnix{Name: v.Control}, unix.AF_UNIX, unix.SOCK_SEQPACKET)
	}, harmless: "its folder is the owner's alone, who may be root"},
	{item: 32, what: "an engine's socket", try: func(*victims) error { return anySocket("/run", "/var/run") }, harmless: "the host may run none"},
}

// answered sends a datagram, and again: the kernel tells of a port that nobody holds with the second.
func answered(a unix.Sockaddr) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, a); err != nil {
		return err
	}
	for range 20 {
		if _, err := unix.Write(fd, []byte("x")); err != nil {
			return err
		}
	}
	return nil
}

// anySocket connects to the sockets that services usually have below some folders.
func anySocket(folders ...string) error {
	err := error(unix.ENOENT)
	for _, dir := range folders {
		for _, name := range []string{"docker.sock", "containerd/containerd.sock", "podman/podman.sock", "dbus/system_bus_socket", "systemd/private", "crio/crio.sock", "nscd/socket"} {
			e := connects(&unix.SockaddrUnix{Name: dir + "/" + name}, unix.AF_UNIX, unix.SOCK_STREAM)
			if e == nil {
				return nil
			}
			if !strings.Contains(e.Error(), "no such") {
				err = e
			}
		}
	}
	return err
}
