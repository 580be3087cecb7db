package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// program is a file of the host's that every box sees.
const program = "/usr/bin/env"

// What a restricted box's report says of the attempts that it cannot stop.
const (
	belowMetadata = "modes and times: a command can change those of its user's files outside of the workspace"
	belowNames    = "hidden files: their names can be listed"
	belowProc     = "/proc: the machine's"
)

var fileAttempts = []attempt{
	{item: 1, what: "append outside", try: func(v *victims) error { return opens(v.Shown, unix.O_WRONLY|unix.O_APPEND) }},
	{item: 1, what: "open outside to read and write", try: func(v *victims) error { return opens(v.Shown, unix.O_RDWR) }},
	{item: 1, what: "truncate outside", try: func(v *victims) error { return unix.Truncate(v.Shown, int64(len(untouched))) }},
	{item: 1, what: "create outside", try: func(v *victims) error {
		return undone(filepath.Join(filepath.Dir(v.Shown), "new"), func(at string) error { return opens(at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) })
	}},
	{item: 1, what: "a nameless file outside", try: func(v *victims) error { return opens(filepath.Dir(v.Shown), unix.O_WRONLY|unix.O_TMPFILE) }},
	{item: 1, what: "make a folder outside", try: func(v *victims) error {
		return undone(filepath.Join(filepath.Dir(v.Shown), "new"), func(at string) error { return unix.Mkdir(at, 0o755) })
	}},
	{item: 1, what: "make a link outside", try: func(v *victims) error {
		return undone(filepath.Join(filepath.Dir(v.Shown), "new"), func(at string) error { return unix.Symlink("/", at) })
	}},
	{item: 1, what: "make a socket outside", try: func(v *victims) error {
		return undone(filepath.Join(filepath.Dir(v.Shown), "new"), func(at string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: at})
		})
	}},
	{item: 1, what: "rename outside", try: func(v *victims) error {
		if err := unix.Rename(v.Shown, v.Shown+"-"); err != nil {
			return err
		}
		return unix.Rename(v.Shown+"-", v.Shown)
	}},
	{item: 1, what: "delete outside", try: func(v *victims) error {
		// A link of its own is made first, where that can be, so that a success harms nothing.
		if err := unix.Link(v.Shown, v.Shown+"-"); err != nil {
			return unix.Unlink(v.Datagram)
		}
		return unix.Unlink(v.Shown + "-")
	}},
	{item: 1, what: "append to a program", try: func(*victims) error { return opens(program, unix.O_WRONLY|unix.O_APPEND) }, harmless: "it belongs to root"},
	{item: 1, what: "write under /etc", try: func(*victims) error { return opens("/etc/x", unix.O_WRONLY|unix.O_CREAT) }, harmless: "it belongs to root"},
	{item: 1, what: "write in the root", try: func(*victims) error { return opens("/x", unix.O_WRONLY|unix.O_CREAT) }, harmless: "it belongs to root"},
	{item: 1, what: "write beside the workspace", try: func(*victims) error { return opens("../x", unix.O_WRONLY|unix.O_CREAT) }, harmless: "it belongs to root, or is the test's"},

	{item: 2, what: "change mode outside", below: belowMetadata, try: func(v *victims) error { return unix.Chmod(v.Shown, 0o666) }},
	{item: 2, what: "change mode outside by descriptor", below: belowMetadata, try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error { return unix.Fchmod(fd, 0o666) })
	}},
	{item: 2, what: "change mode outside by /proc", below: belowMetadata, try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_PATH, func(fd int) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o666) })
	}},
	{item: 2, what: "change mode outside by the newest call", try: func(v *victims) error {
		return call(unix.SYS_FCHMODAT2, at(unix.AT_FDCWD), text(v.Shown), 0o666, 0)
	}},
	{item: 2, what: "change mode of a program", try: func(*victims) error { return unix.Chmod(program, 0o755) }, harmless: "it belongs to root"},
	{item: 2, what: "change mode of the root", try: func(*victims) error { return unix.Chmod("/", 0o755) }, harmless: "it belongs to root"},
	{item: 3, what: "change owner outside", try: func(v *victims) error { return unix.Chown(v.Shown, os.Getuid(), os.Getgid()) }},
	{item: 3, what: "change owner outside by descriptor", try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error { return unix.Fchown(fd, os.Getuid(), os.Getgid()) })
	}},
	{item: 4, what: "change times outside", below: belowMetadata, try: func(v *victims) error { return unix.Utimes(v.Shown, make([]unix.Timeval, 2)) }},
	{item: 4, what: "change times outside by descriptor", below: belowMetadata, try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error { return call(unix.SYS_UTIMENSAT, uintptr(fd), 0, 0, 0) })
	}},
	{item: 4, what: "change times of /etc", try: func(*victims) error { return unix.Utimes("/etc", make([]unix.Timeval, 2)) }, harmless: "it belongs to root"},
	{item: 5, what: "set an attribute outside", try: func(v *victims) error {
		return unix.Setxattr(v.Shown, "user.x", []byte("y"), 0)
	}},
	{item: 5, what: "set an attribute outside by descriptor", try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("y"), 0) })
	}},
	{item: 5, what: "set an attribute outside by the newest call", try: func(v *victims) error {
		args := [2]uint64{uint64(text("y")), 1}
		return call(463, at(unix.AT_FDCWD), text(v.Shown), 0, text("user.x"), uintptr(unsafe.Pointer(&args)), 16) // setxattrat
	}},
	{item: 5, what: "an access list outside", try: func(v *victims) error {
		list := "\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x04\x00\x06\x00\xff\xff\xff\xff" + "\x20\x00\x06\x00\xff\xff\xff\xff"
		return unix.Setxattr(v.Shown, "system.posix_acl_access", []byte(list), 0)
	}},
	{item: 5, what: "inode flags outside", try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error {
			flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|0x40)) // nodump
		})
	}},

	{item: 6, what: "block device in the workspace", try: func(*victims) error { return unix.Mknod("vda", unix.S_IFBLK|0o600, 254<<8) }, harmless: "only the host's root makes device nodes"},
	{item: 6, what: "character device in the workspace", try: func(*victims) error { return unix.Mknod("mem", unix.S_IFCHR|0o600, 1<<8|1) }, harmless: "only the host's root makes device nodes"},
	{item: 6, what: "character device in /tmp", try: func(*victims) error { return unix.Mknod("/tmp/mem", unix.S_IFCHR|0o600, 1<<8|1) }, harmless: "only the host's root makes device nodes"},

	{item: 24, what: "password hashes", try: func(*victims) error { return reads("/etc/shadow") }, harmless: "it belongs to root"},

	{item: 47, what: "append by a link", try: func(v *victims) error {
		return undone("link", func(at string) error {
			if err := os.Symlink(v.Shown, at); err != nil {
				return err
			}
			return opens(at, unix.O_WRONLY|unix.O_APPEND)
		})
	}},
	{item: 47, what: "append through a link to a folder", try: func(v *victims) error {
		return undone("link", func(at string) error {
			if err := os.Symlink(filepath.Dir(v.Shown), at); err != nil {
				return err
			}
			return opens(at+"/"+filepath.Base(v.Shown), unix.O_WRONLY|unix.O_APPEND)
		})
	}},
	{item: 47, what: "append by the path of a descriptor", try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error { return opens("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY|unix.O_APPEND) })
	}},
	{item: 47, what: "append through the root of a process", try: func(v *victims) error { return opens("/proc/self/root"+v.Shown, unix.O_WRONLY|unix.O_APPEND) }},
	{item: 47, what: "a hard link to the host's, then append", try: func(v *victims) error {
		return undone("hard", func(at string) error {
			if err := os.Link(v.Shown, at); err != nil {
				return err
			}
			return opens(at, unix.O_WRONLY|unix.O_APPEND)
		})
	}},
	{item: 47, what: "a hard link by descriptor", try: func(v *victims) error {
		return undone("hard", func(name string) error {
			return byDescriptor(v.Shown, unix.O_PATH, func(fd int) error {
				return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
			})
		})
	}},
	{item: 47, what: "take the host's file by rename", try: func(v *victims) error {
		if err := unix.Rename(v.Shown, "taken"); err != nil {
			return err
		}
		return unix.Rename("taken", v.Shown)
	}},
	{item: 47, what: "exchange it with the host's", try: func(v *victims) error {
		return undone("given", func(given string) error {
			must := opens(given, unix.O_WRONLY|unix.O_CREAT)
			if must != nil {
				return must
			}
			if err := unix.Renameat2(unix.AT_FDCWD, given, unix.AT_FDCWD, v.Shown, unix.RENAME_EXCHANGE); err != nil {
				return err
			}
			return unix.Renameat2(unix.AT_FDCWD, given, unix.AT_FDCWD, v.Shown, unix.RENAME_EXCHANGE)
		})
	}},
	{item: 47, what: "write shared memory of the host's file", try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error {
			b, err := unix.Mmap(fd, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err == nil {
				unix.Munmap(b)
			}
			return err
		})
	}, harmless: "the kernel refuses it of a descriptor for reading"},
	{item: 48, what: "an inherited descriptor", try: func(*victims) error { return inherited() }, harmless: "the probe is given none"},

	{item: 51, what: "capabilities of a file of its own", try: func(v *victims) error {
		return undone("able", func(name string) error {
			if err := opens(name, unix.O_WRONLY|unix.O_CREAT); err != nil {
				return err
			}
			all := "\x01\x00\x00\x02" + "\xff\xff\xff\xff\x00\x00\x00\x00" + "\xff\xff\xff\xff\x00\x00\x00\x00"
			return unix.Setxattr(name, "security.capability", []byte(all), 0)
		})
	}},
	{what: "make the host wait at a file", try: func(v *victims) error {
		return byDescriptor(v.Shown, unix.O_RDONLY, func(fd int) error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		})
	}},
	{what: "write in the box's jobs folder", try: func(v *victims) error {
		return undone(v.Jobs+"/forged", func(at string) error { return opens(at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) })
	}},
	{what: "write the box's report", try: func(v *victims) error { return opens(v.Report, unix.O_WRONLY|unix.O_APPEND) }},
}

// at is a descriptor as a system call takes it.
func at(fd int) uintptr { return uintptr(fd) }

// undone makes something at a path, and takes it away again.
func undone(path string, do func(path string) error) error {
	os.Remove(path)
	err := do(path)
	if err == nil {
		os.Remove(path)
	}
	return err
}

func byDescriptor(path string, flags int, do func(fd int) error) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// inherited looks for a descriptor beyond the three that leads out.
func inherited() error {
	for fd := 3; fd < 256; fd++ {
		name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err == nil && !strings.HasPrefix(name, "anon_inode:") && !strings.HasPrefix(name, "/proc/") {
			return nil
		}
	}
	return unix.EBADF
}
