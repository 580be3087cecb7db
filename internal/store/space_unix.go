//go:build linux || darwin || freebsd

package store

import (
	"errors"

	"golang.org/x/sys/unix"
)

// leastSpace is what opening a database takes: a region of shared memory and the head of a log.
const leastSpace = 64 << 10

// full says whether the disk that holds a folder has no room for a database to be opened.
func full(folder string) bool {
	_, free, ok := space(folder)
	return ok && free < leastSpace
}

// space is the size of the disk that holds a folder, and what of it we may still take.
func space(folder string) (total, free int64, ok bool) {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return 0, 0, false
	}
	return int64(uint64(s.Blocks) * uint64(s.Bsize)), int64(uint64(s.Bavail) * uint64(s.Bsize)), true
}

// noSpace says whether a file could not be written for lack of room.
func noSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
