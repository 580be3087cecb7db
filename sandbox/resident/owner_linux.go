package resident

import (
	"time"

	"golang.org/x/sys/unix"
)

// accept takes guests: whoever reaches the socket's folder and says hello with a fence that is not lower than the
// highest one becomes the owner.
func (s *server) accept() {
	for {
		fd, _, err := unix.Accept4(fdListen, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		if len(s.guests) >= maxGuests || s.watch(fd, unix.EPOLLIN) != nil {
			unix.Close(fd)
			continue
		}
		s.guests[fd] = &conn{fd: fd}
	}
}

// hear acts on what an owner or a guest has sent.
func (s *server) hear(c *conn) {
	for range 16 { // then the others have their turn
		message, more, err := c.receive(s.buf)
		if err != nil {
			s.leave(c)
			return
		}
		if !more {
			return
		}
		ok := s.obey(c, message)
		c.dropRights()
		if !ok {
			s.leave(c)
			return
		}
	}
}

// obey carries out one message; false is a peer that we don't listen to any longer.
func (s *server) obey(c *conn, message []byte) bool {
	kind, body := Kind(message[0]), message[1:]
	if c != s.owner {
		switch kind {
		case KindHello:
			return s.adopt(c, body)
		case KindEnd:
			s.endFor(c, body)
		}
		return false
	}
	switch kind {
	case KindStart:
		m, err := parseStart(body, s.version)
		if err != nil {
			return false
		}
		s.start(&m, c.rights)
	case KindFind:
		m, err := parseFind(body)
		if err != nil {
			return false
		}
		s.find(&m)
	case KindKeep:
		s.kept = true
	case KindKill:
		r := reader{b: body}
		if j := s.jobs[r.u32()]; j != nil && !j.ended && !j.killing {
			j.cancelled = true
			s.kill(j, monotonic())
		}
	case KindInput:
		m, err := parseInput(body)
		if err != nil {
			return false
		}
		s.say(s.give(&m).append(nil))
	case KindCloseInput:
		m, err := parseCloseInput(body)
		if err != nil {
			return false
		}
		s.say(s.endInput(&m).append(nil))
	case KindResize:
		m, err := parseResize(body)
		if err != nil {
			return false
		}
		s.say(s.resize(&m).append(nil))
	case KindSignal:
		m, err := parseSignal(body)
		if err != nil {
			return false
		}
		s.say(s.signal(&m).append(nil))
	case KindLook:
		m, err := parseLook(body)
		if err != nil {
			return false
		}
		s.say(s.see(&m).append(nil))
	case KindListen:
		return s.listen(body, c.rights)
	case KindRest:
		s.rest()
	case KindShutdown:
		s.shutDown()
	default:
		return false
	}
	return true
}

// adopt makes a guest the owner, if its fence allows it.
func (s *server) adopt(c *conn, body []byte) bool {
	h, err := parseHello(body)
	switch {
	case err != nil:
		return false
	case h.Version != s.version:
		c.try(append([]byte{byte(KindRefused)}, "the resident speaks version "+decimal(int64(s.version))+" of the protocol"...))
		return false
	case h.Fence < s.fence:
		c.try(append([]byte{byte(KindRefused)}, newerOwner...))
		return false
	case !s.kept:
		c.try(append([]byte{byte(KindRefused)}, "the box is not whole yet, or ends with its owner"...))
		return false
	}
	delete(s.guests, c.fd)
	if old := s.owner; old != nil {
		s.owner = nil
		old.try(append([]byte{byte(KindRefused)}, "a newer owner has come"...))
		s.unwatch(old.fd)
		old.close()
	}
	s.owner, s.fence, s.graceEnd = c, h.Fence, 0
	s.greet(c)
	return true
}

const newerOwner = "a newer owner has been here"

// endFor ends everything for a guest that need not speak our language.
func (s *server) endFor(c *conn, body []byte) {
	e, err := parseEnd(body)
	switch {
	case err != nil:
	case e.Fence < s.fence:
		c.try(append([]byte{byte(KindRefused)}, newerOwner...))
	default:
		s.shutDown()
	}
}

// greet tells a new owner who we are and which calls go on.
func (s *server) greet(c *conn) {
	s.sayWith(Welcome{Version: s.version, Notes: s.notes, LastEnd: s.lastEnd}.append(nil), s.self)
	for _, j := range s.jobs {
		if !j.ended {
			s.say(Live{Job: j.id, Key: j.key, Index: j.index, Order: j.order}.append(nil))
		}
	}
	s.say([]byte{byte(KindReady)})
}

// leave closes a connection. Without an owner the grace time begins.
func (s *server) leave(c *conn) {
	s.unwatch(c.fd)
	delete(s.guests, c.fd)
	c.close()
	if c != s.owner {
		return
	}
	s.owner = nil
	if s.plan.Grace <= 0 || !s.kept {
		s.shutDown()
	}
	s.graceEnd = monotonic() + s.plan.Grace
}

// say sends the owner a message that must arrive.
func (s *server) say(message []byte) { s.sayWith(message) }

func (s *server) sayWith(message []byte, rights ...int) {
	if s.owner != nil && !s.owner.send(message, rights...) {
		s.wantWrite(true)
	}
}

// tell sends the owner the newest length of each job that grew. A slow owner gets the latest only.
func (s *server) tell() {
	s.tellAt = 0 // also while nobody can be told: the loop would look for one all the time
	if s.owner == nil || len(s.owner.queue) > 0 {
		return
	}
	var now time.Duration
	for _, j := range s.jobs {
		if !j.dirty {
			continue
		}
		if now == 0 {
			now = monotonic()
		}
		if next := j.told + tellTime; j.told > 0 && now < next {
			if s.tellAt == 0 || next < s.tellAt {
				s.tellAt = next
			}
			continue
		}
		if j.told = now; !s.tellOne(j) {
			return
		}
	}
}

func (s *server) tellOne(j *job) bool {
	if !j.dirty || s.owner == nil {
		return true
	}
	if len(s.owner.queue) > 0 || !s.owner.try(appendGrew(nil, j.id, j.order)) {
		s.wantWrite(true)
		return false
	}
	j.dirty = false
	return true
}

// wantWrite asks to be woken when the owner's socket has room again.
func (s *server) wantWrite(on bool) {
	events := uint32(unix.EPOLLIN)
	if on {
		events |= unix.EPOLLOUT
	}
	unix.EpollCtl(s.epoll, unix.EPOLL_CTL_MOD, s.owner.fd, &unix.EpollEvent{Events: events, Fd: int32(s.owner.fd)})
}
