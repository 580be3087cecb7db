package resident

import "golang.org/x/sys/unix"

// maxDoors bounds the listeners of a box.
const maxDoors = 8

// backlog is how many connections may wait for an owner to accept them.
const backlog = 128

// AppendListen encodes a request for a listener on the box's own loopback interface, to which the port belongs from
// then on. One descriptor travels beside it: a socket that is answered on with an empty sentence and the listener, or
// with what is wrong.
func AppendListen(b []byte, port uint16) []byte {
	return appendWords(b, KindListen, uint32(port))
}

// listen answers an AppendListen. A listener is kept for later owners, so that what commands connect to while nobody
// owns the box waits for the next one and is not refused.
func (s *server) listen(body []byte, rights []int) bool {
	r := reader{b: body}
	port := r.u32()
	if r.err != nil || port == 0 || port > 0xffff || len(rights) == 0 {
		return false
	}
	fd, err := s.door(int(port))
	answer := conn{fd: rights[0]}
	if err != nil {
		answer.try([]byte("!" + err.Error()))
		return true
	}
	answer.try([]byte("="), fd)
	return true
}

// door returns the listener of a port.
func (s *server) door(port int) (int, error) {
	if fd, ok := s.doors[port]; ok {
		return fd, nil
	}
	if !s.plan.Network {
		return -1, failed("listen: the loopback interface is the host's", unix.EPERM)
	}
	if len(s.doors) >= maxDoors {
		return -1, failed("listen", unix.EMFILE)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, failed("listen", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		unix.Close(fd)
		return -1, failed("listen: bind", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		unix.Close(fd)
		return -1, failed("listen", err)
	}
	if s.doors == nil {
		s.doors = map[int]int{}
	}
	s.doors[port] = fd
	return fd, nil
}
