//go:build unix

package tenant

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hardshell-dev/hardshell/fault"
)

// openKey opens a key file without following a link and without waiting on a pipe that stands in its place.
func openKey(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// trusted checks the file that is open, not the name that led to it.
func trusted(f *os.File, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("check key file: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fault.New(fault.Forbidden, "The key file %s is not a plain file.", path).WithTry("remove it; the next start writes a new one")
	case int(st.Uid) != os.Geteuid():
		return fault.New(fault.Forbidden, "The key file %s belongs to another user.", path).WithTry("a data folder of your own, or HARDSHELL_API_KEY")
	case st.Mode&0o077 != 0:
		return fault.New(fault.Forbidden, "The key file %s can be read by other users, so its key is no secret.", path).
			WithTry("remove it and start the server again, which writes a new key; revoke the old one")
	}
	return nil
}
