package resident

import "golang.org/x/sys/unix"

// OpenChecked opens a folder that a box may write, by the path that was checked: what has become a link since then is
// refused. A path of the host's has had its links resolved; of a folder of the owner's own only the last name could
// have been swapped.
func OpenChecked(path string, root Root) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW}
	if root == RootHost {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func cloneChecked(path string, root Root) (int, error) {
	at, err := OpenChecked(path, root)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	return cloneAt(at, "", unix.AT_EMPTY_PATH, true)
}

func cloneTree(path string, writable bool) (int, error) {
	return cloneAt(unix.AT_FDCWD, path, 0, writable)
}

func cloneAt(at int, path string, flags uint, writable bool) (int, error) {
	fd, err := unix.OpenTree(at, path, flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, err
	}
	attr := uint64(bound)
	if !writable {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	if err := setAttr(fd, attr, true); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
