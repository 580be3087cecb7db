package container

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// leastEntry is what a file or folder counts at least: an empty one takes an inode, and of those a disk has an end too.
const leastEntry = 4 << 10

// leastInodes is where a disk that counts its inodes is as good as full.
const leastInodes = 256

// diskRoom is the disk that holds a folder: what may still be taken of it, and its size.
func diskRoom(dir string) (free, total int64, ok bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	free, total = int64(uint64(s.Bavail)*uint64(s.Bsize)), int64(uint64(s.Blocks)*uint64(s.Bsize))
	if s.Files > 0 && s.Ffree < leastInodes {
		free = 0
	}
	return free, total, true
}

// diskUsed is what a tree takes of the disk: blocks, not lengths, so that holes count nothing and a file with several
// names counts once. Every step is made from an open folder and follows no link.
func diskUsed(dir string) (int64, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, &os.PathError{Op: "count", Path: dir, Err: err}
	}
	c := counter{linked: map[[2]uint64]struct{}{}}
	c.folder(fd, 0)
	if c.hidden {
		return c.bytes, errHidden
	}
	return c.bytes, nil
}

type counter struct {
	bytes  int64
	linked map[[2]uint64]struct{} // inodes with several names
	hidden bool                   // some of it could not be seen
}

// errHidden says that a count is not of all.
var errHidden = errors.New("some folders could not be counted")

// maxDepth bounds the folders that are open at once.
const maxDepth = 128

// folder counts an open folder and closes it.
func (c *counter) folder(fd, depth int) {
	dir := os.NewFile(uintptr(fd), "folder")
	defer dir.Close()
	var below []string
	for {
		names, err := dir.Readdirnames(512)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // gone meanwhile
			}
			kind := st.Mode & unix.S_IFMT
			if st.Nlink > 1 && kind != unix.S_IFDIR {
				at := [2]uint64{uint64(st.Dev), st.Ino}
				if _, seen := c.linked[at]; seen {
					continue
				}
				c.linked[at] = struct{}{}
			}
			c.bytes += max(st.Blocks*512, leastEntry)
			switch {
			case kind != unix.S_IFDIR:
			case depth == maxDepth:
				c.hidden = true
			default:
				below = append(below, name)
			}
		}
		if err == io.EOF || len(names) == 0 || err != nil {
			break
		}
	}
	for _, name := range below {
		child, shut, err := openFolder(fd, name)
		if err == nil {
			c.folder(child, depth+1)
			shut()
		} else if !errors.Is(err, fs.ErrNotExist) {
			c.hidden = true
		}
	}
}

// openFolder opens a folder below an open one, also one that denies its owner, which is us unless we are root: a
// command must not hide files from the count by a mode. shut gives it its own mode back.
func openFolder(at int, name string) (fd int, shut func(), err error) {
	const flags = unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	fd, err = unix.Openat(at, name, unix.O_RDONLY|flags, 0)
	var st unix.Stat_t
	if err == nil && unix.Fstat(fd, &st) == nil && (os.Geteuid() == 0 || st.Mode&0o500 == 0o500) {
		return fd, func() {}, nil
	}
	if err == nil {
		unix.Close(fd) // it can be read and not searched
	} else if err != unix.EACCES {
		return -1, nil, err
	}
	closed, err := unix.Openat(at, name, unix.O_PATH|flags, 0)
	if err != nil {
		return -1, nil, err
	}
	self := "/proc/self/fd/" + strconv.Itoa(closed)
	if err = unix.Fstat(closed, &st); err == nil {
		err = unix.Chmod(self, st.Mode&0o7777|0o500)
	}
	if err == nil {
		shut = func() {
			unix.Chmod(self, st.Mode&0o7777)
			unix.Close(closed)
		}
		if fd, err = unix.Open(self, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			return fd, shut, nil
		}
		shut()
		return -1, nil, err
	}
	unix.Close(closed)
	return -1, nil, err
}
