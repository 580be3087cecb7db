package resident

import (
	"golang.org/x/sys/unix"
)

// conn is an owner's connection, or a guest's that has not said hello.
type conn struct {
	fd      int
	partial []byte
	rights  []int    // descriptors that came with the message being read
	queue   [][]byte // what the socket did not take; nothing here ever waits for a slow owner
}

// receive reads one whole message. more is false when nothing is there now; err means that the peer is gone.
func (c *conn) receive(buf []byte) (message []byte, more bool, err error) {
	var oob [16 + 4*MostFiles]byte
	for {
		n, oobn, flags, _, err := unix.Recvmsg(c.fd, buf, oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		if oobn > 0 {
			c.takeRights(oob[:oobn])
		}
		if n == 0 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return nil, false, unix.ECONNRESET
		}
		switch Kind(buf[0]) {
		case KindPart, KindLast:
			if len(c.partial)+n > maxMessage {
				return nil, false, unix.EMSGSIZE
			}
			c.partial = append(c.partial, buf[1:n]...)
			if Kind(buf[0]) == KindPart {
				continue
			}
			message, c.partial = c.partial, nil
			return message, true, nil
		}
		return buf[:n], true, nil
	}
}

func (c *conn) takeRights(oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			c.rights = append(c.rights, fds...)
		}
	}
}

// dropRights closes the descriptors that nobody took.
func (c *conn) dropRights() {
	for _, fd := range c.rights {
		unix.Close(fd)
	}
	c.rights = nil
}

// send gives a message to the socket, or keeps it until the socket has room. It says whether it had.
func (c *conn) send(message []byte, rights ...int) bool {
	if len(c.queue) == 0 && c.try(message, rights...) {
		return true
	}
	c.queue = append(c.queue, message)
	return false
}

// try gives a message to the socket if it has room.
func (c *conn) try(message []byte, rights ...int) bool {
	var oob []byte
	if len(rights) > 0 {
		oob = unix.UnixRights(rights...)
	}
	for {
		err := unix.Sendmsg(c.fd, message, oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch err {
		case unix.EINTR:
		case unix.EAGAIN, unix.ENOBUFS, unix.ENOMEM:
			return false
		default: // sent, or to a dead peer, which shows when it is read
			return true
		}
	}
}

// flush sends what was kept and says whether all is gone.
func (c *conn) flush() bool {
	for len(c.queue) > 0 {
		if !c.try(c.queue[0]) {
			return false
		}
		c.queue = c.queue[1:]
	}
	c.queue = nil
	return true
}

func (c *conn) close() {
	c.dropRights()
	unix.Close(c.fd)
}
