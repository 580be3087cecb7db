//go:build unix

package mcp

import (
	"os"

	"golang.org/x/sys/unix"
)

// try takes a lock file, or says that somebody else has it.
func try(path string) (unlock func(), busy bool, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err == unix.EWOULDBLOCK, err
	}
	return func() { f.Close() }, false, nil
}
