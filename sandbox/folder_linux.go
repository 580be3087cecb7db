package sandbox

import (
	"os"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"golang.org/x/sys/unix"
)

// makeFolders makes the box's state folder and what is in it before there is a resident. A folder that is there already
// must be ours alone: whoever else could make names in it would lead what we write there elsewhere.
func makeFolders(dir string, l *layout, undo *cleanup.Stack) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Internal, err, "the box's state folder cannot be made")
	}
	if err := ours(dir); err != nil {
		return err
	}
	jobs := l.jobs(dir)
	if !l.Once {
		if err := os.Mkdir(jobs, 0o700); err != nil && !os.IsExist(err) {
			return fault.Wrap(fault.Internal, err, "the box's jobs folder cannot be made")
		}
		if !isPlainFolder(jobs) {
			return fault.New(fault.Invalid, "%s is no folder", jobs)
		}
	}
	if l.id.root && l.Confine {
		if l.Once { // a second try finds it as this one did
			undo.Add(func() { os.Lchown(dir, os.Geteuid(), os.Getegid()) })
		}
		if err := os.Lchown(jobs, l.id.host, l.id.group); err != nil {
			return fault.Wrap(fault.Internal, err, "the box's jobs folder cannot be given to uid %d", l.id.host)
		}
	}
	return nil
}

// jobs is where the resident makes the jobs' folders, or keeps the only job.
func (l *layout) jobs(dir string) string {
	if l.Once {
		return dir
	}
	return filepath.Join(dir, jobsName)
}

// ours refuses a folder that others own or write, or that is a link. One that others can only read is closed.
func ours(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fault.Wrap(fault.Internal, err, "the box's state folder cannot be examined")
	}
	const another = "name a folder that nobody else can write, or one that does not exist yet"
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fault.New(fault.Invalid, "the box's state folder %s is a link or no folder", dir).WithTry(another)
	case int(st.Uid) != os.Geteuid():
		return fault.New(fault.Invalid, "the box's state folder %s belongs to uid %d", dir, st.Uid).WithTry(another)
	case st.Mode&0o022 != 0:
		return fault.New(fault.Invalid, "the box's state folder %s can be written by others", dir).WithTry(another)
	case st.Mode&0o077 != 0:
		if err := os.Chmod(dir, 0o700); err != nil {
			return fault.Wrap(fault.Internal, err, "the box's state folder cannot be closed")
		}
	}
	return nil
}

// writeOwn writes a file of the state folder, whatever a link of its name would lead to.
func writeOwn(path string, text []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if _, err = f.Write(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
