//go:build unix

package audit

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow refuses a link as the last part of a path.
const noFollow = syscall.O_NOFOLLOW

// flock locks a file for as long as it is open.
func flock(f *os.File, wait bool) error {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// somebodyElses says whether a file belongs to another user.
func somebodyElses(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) != os.Geteuid()
}
