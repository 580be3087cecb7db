package resident

import (
	"golang.org/x/sys/unix"
)

// ttyShare bounds what is read from a terminal in one go. It is more than the kernel keeps of one, so at a call's end
// it is all that the call has written, however much a survivor goes on writing.
const ttyShare = 64 << 10

// openTTY opens a pair in the devpts that this process sees, which in a jail is the jail's own: only there does the
// slave have a name, and so can be a controlling terminal that tty(1) and sudo find.
func openTTY(rows, cols uint32) (master, slave int, err error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err = unix.Openat(unix.AT_FDCWD, "/dev/ptmx", flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, -1, failed("open a terminal", err)
	}
	if err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err == nil {
		slave, err = peer(master, flags)
	}
	if err != nil {
		unix.Close(master)
		return -1, -1, failed("open a terminal's other side", err)
	}
	err = resizeTTY(master, rows, cols)
	if t, e := unix.IoctlGetTermios(slave, unix.TCGETS); e == nil {
		t.Iflag |= unix.IUTF8 // the line editor erases characters, not bytes
		unix.IoctlSetTermios(slave, unix.TCSETS, t)
	}
	if err != nil {
		unix.Close(master)
		unix.Close(slave)
		return -1, -1, failed("set a terminal's size", err)
	}
	return master, slave, nil
}

// resizeTTY sets a size, and the kernel tells the foreground process group.
func resizeTTY(master int, rows, cols uint32) error {
	return unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(cols)})
}

// resize answers a Resize.
func (s *server) resize(m *Resize) Took {
	took := Took{Request: m.Request}
	j := s.jobs[m.Job]
	switch {
	case j == nil || j.ended:
		took.Refusal = RefusedEnded
	case !j.tty:
		took.Refusal = RefusedPipe
	case j.streams[0].pipe < 0 || resizeTTY(j.streams[0].pipe, m.Rows, m.Cols) != nil:
		took.Refusal = RefusedClosed
	}
	return took
}

// drainTTY reads up to limit bytes from a master into the spool. It says how many are new in the spool, and whether
// the terminal was hung up: nobody has it open any more. Splice does not serve a terminal in every kernel.
func (s *stream) drainTTY(dir int, name string, limit int64, buf []byte) (n int64, over bool) {
	for taken := int64(0); taken < limit; {
		k, over := readTTY(s.pipe, buf[:min(int64(len(buf)), limit-taken)])
		if k > 0 {
			taken += int64(k)
			kept := s.keep(dir, name, buf[:k])
			n += kept
			s.lost += int64(k) - kept
			if kept > 0 {
				s.punch()
			}
		}
		if k == 0 || over {
			return n, over
		}
	}
	return n, false
}

// readTTY fills buf: a read gives at most a page of what is there.
func readTTY(fd int, buf []byte) (n int, over bool) {
	for n < len(buf) {
		k, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return n, false
		case err != nil || k == 0: // EIO is the hang-up
			return n, true
		}
		n += k
	}
	return n, false
}

// keep appends to the spool what the disk takes.
func (s *stream) keep(dir int, name string, p []byte) (n int64) {
	if s.file < 0 && !s.full {
		fd, err := create(dir, name)
		if err != nil {
			s.full = true
		}
		s.file = fd
	}
	for len(p) > 0 && !s.full {
		k, err := unix.Pwrite(s.file, p, s.size)
		if err == unix.EINTR {
			continue
		}
		if err != nil || k == 0 {
			s.full = true
			break
		}
		n += int64(k)
		s.size += int64(k)
		p = p[k:]
	}
	return n
}

// peer opens a terminal's slave without a path, so whatever lies at /dev/pts does not matter.
func peer(master, flags int) (int, error) {
	fd, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, uintptr(flags))
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}
