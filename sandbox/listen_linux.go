package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// Listen returns a listener on a port of the box's own loopback interface: 127.0.0.1 as commands see it, and nobody
// else. It is accepted on out here, which makes it the one way out of a box without a network, for whoever serves it. The
// caller closes it. The box keeps the port: a later owner that asks gets the connections that waited meanwhile.
//
// A box without a network of its own refuses: there the loopback interface is the host's. That the network around the
// listener is another one than ours, with nothing up in it but loopback, is proven each time, by asking the kernel.
func (b *Box) Listen(ctx context.Context, port uint16) (net.Listener, error) {
	if port == 0 {
		return nil, fault.New(fault.Invalid, "a box's listener needs a port")
	}
	if !b.jail {
		return nil, fault.New(fault.Isolation, "a box that is not a jail has no network of its own to listen in").
			WithTry("the mode read-only or workspace-write")
	}
	if b.version < 3 {
		return nil, fault.New(fault.Unsupported, "this sandbox was begun by an older hardshell and gives no listener out").
			WithTry("a new container")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "no socket for a listener")
	}
	answer, err := asConn(pair[0])
	if err != nil {
		unix.Close(pair[1])
		return nil, fault.Wrap(fault.Unavailable, err, "no socket for a listener")
	}
	defer answer.Close()
	err = b.send(resident.AppendListen(nil, port), unix.UnixRights(pair[1]))
	unix.Close(pair[1]) // the box has the only other one: its end ends our wait
	if err != nil {
		return nil, err
	}
	return b.listener(ctx, answer)
}

// listener reads the answer to a request for one.
func (b *Box) listener(ctx context.Context, answer *net.UnixConn) (net.Listener, error) {
	defer context.AfterFunc(ctx, func() { answer.SetReadDeadline(time.Unix(1, 0)) })()
	buf, oob := make([]byte, 512), make([]byte, 64)
	n, oobn, _, _, err := answer.ReadMsgUnix(buf, oob)
	var rights []int
	if messages, bad := unix.ParseSocketControlMessage(oob[:oobn]); bad == nil && len(messages) == 1 {
		rights, _ = unix.ParseUnixRights(&messages[0])
	}
	files := make([]*os.File, len(rights))
	for i, fd := range rights {
		files[i] = os.NewFile(uintptr(fd), "listener")
		defer files[i].Close()
	}
	switch {
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case err != nil || n == 0:
		return nil, fault.Wrap(fault.Unavailable, err, "the sandbox ended")
	case len(files) != 1:
		return nil, fault.Wrap(fault.Isolation, errors.New(string(buf[1:n])), "no listener can be opened in the box")
	}
	if err := closed(rights[0]); err != nil {
		return nil, err
	}
	l, err := net.FileListener(files[0])
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the box's listener is not to be used")
	}
	return l, nil
}

// proveClosed is the probe of a box without a network: where it fails none is made.
func (b *Box) proveClosed(ctx context.Context) error {
	const port = 3128 // any that needs no privilege
	l, err := b.Listen(ctx, port)
	if err != nil {
		return err
	}
	return l.Close()
}

// maxInterfaces bounds the numbers of interfaces that are looked at; a new network namespace has one, and a few that
// modules put into every one, which are down.
const maxInterfaces = 64

// closed proves from a socket that its network is not ours and leads nowhere.
func closed(fd int) error {
	open := func(err error, format string, args ...any) error {
		return fault.Wrap(fault.Isolation, err, "the sandbox's network is not closed: "+format, args...)
	}
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return open(err, "it cannot be compared")
	}
	defer unix.Close(own)
	// A kernel before 5.14 has no names for networks. There the interfaces must speak for themselves.
	ours, err := unix.GetsockoptUint64(own, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if theirs, bad := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil && (bad != nil || theirs == ours) {
		return open(bad, "it is the host's")
	}
	for i := range uint32(maxInterfaces) {
		req, err := unix.NewIfreq("")
		if err != nil {
			return open(err, "it cannot be read")
		}
		req.SetUint32(i + 1)
		if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, req) != nil || req.Name() == "lo" {
			continue
		}
		name := req.Name()
		if req, err = unix.NewIfreq(name); err == nil {
			err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req)
		}
		if err != nil || req.Uint16()&unix.IFF_UP != 0 {
			return open(err, "the interface %s is up", name)
		}
	}
	return nil
}
