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
	var s unix.Statfs_t
	return unix.Statfs(folder, &s) == nil && uint64(s.Bavail)*uint64(s.Bsize) < leastSpace
}

// noSpace says whether a file could not be written for lack of room.
func noSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
