//go:build unix

package shellcall

import (
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps the opening of a pipe from waiting for somebody at its other end.
const nonblock = syscall.O_NONBLOCK

// give makes a new file belong to whom another one belongs, where we are root: what an agent writes is the workspace's
// owner's, as with its commands.
func give(f *os.File, as fs.FileInfo) error {
	st, ok := as.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}
