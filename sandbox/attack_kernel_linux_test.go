package sandbox_test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	hostsRoot  = "only the host's root may"
	notOnHosts = "this kernel, or its settings, has not got it"
)

var kernelAttempts = []attempt{
	{item: 7, what: "open the disk", try: func(*victims) error { return opens("/dev/vda", unix.O_RDONLY) }, harmless: "it belongs to root"},
	{item: 7, what: "open memory", try: func(*victims) error { return opens("/dev/mem", unix.O_RDONLY) }, harmless: "it belongs to root"},
	{item: 7, what: "a node that nobody needs in /dev", below: belowNames, try: func(*victims) error {
		entries, err := os.ReadDir("/dev")
		if err != nil {
			return err
		}
		known := []string{"null", "zero", "full", "random", "urandom", "tty", "fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm"}
		for _, e := range entries {
			if !slices.Contains(known, e.Name()) {
				return nil
			}
		}
		return errNothing
	}},

	{item: 8, what: "mount a tmpfs", try: func(*victims) error { return unix.Mount("t", "/mnt", "tmpfs", 0, "") }},
	{item: 8, what: "bind a folder", try: func(*victims) error { return unix.Mount(".", "/mnt", "", unix.MS_BIND, "") }},
	{item: 8, what: "a file system of its own", try: func(*victims) error { return call(unix.SYS_FSOPEN, text("tmpfs"), 0) }},
	{item: 8, what: "clone a mount", try: func(*victims) error {
		return call(unix.SYS_OPEN_TREE, at(unix.AT_FDCWD), text("/"), 1|unix.AT_RECURSIVE)
	}},
	{item: 8, what: "pick a file system", try: func(*victims) error { return call(unix.SYS_FSPICK, at(unix.AT_FDCWD), text("/"), 0) }},
	{item: 8, what: "move a mount", try: func(*victims) error {
		return call(unix.SYS_MOVE_MOUNT, at(unix.AT_FDCWD), text("/mnt"), at(unix.AT_FDCWD), text("/home"), 0)
	}},
	{item: 8, what: "pivot", try: func(*victims) error { return unix.PivotRoot(".", ".") }, harmless: "it needs a mount of its own"},
	{item: 9, what: "remount the root writable", try: func(*victims) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
	{item: 9, what: "make the root writable by the newer call", try: func(*victims) error {
		return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	}},
	{item: 10, what: "unmount /proc/sys", try: func(*victims) error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) }, harmless: "the host has nothing there"},
	{item: 10, what: "unmount a mask", try: func(*victims) error { return unix.Unmount("/proc/keys", unix.MNT_DETACH) }, harmless: "the host has nothing there"},
	{item: 10, what: "unmount /proc", try: func(*victims) error { return unix.Unmount("/proc", unix.MNT_DETACH) }, harmless: "it is locked in a namespace made with less rights"},
	{item: 11, what: "join the resident's mounts", try: func(v *victims) error { return joins(proc(v.Resident, "ns/mnt"), 0) }},
	{item: 11, what: "join its own user namespace's parent", try: func(*victims) error { return joins("/proc/self/ns/user", unix.CLONE_NEWUSER) }, harmless: "nobody may join it again"},
	{item: 11, what: "join a host process's mounts", try: func(v *victims) error { return joins(proc(v.Pid, "ns/mnt"), 0) }, harmless: hostsRoot},
	{item: 11, what: "join the resident by its descriptor", try: func(v *victims) error {
		fd, err := unix.PidfdOpen(v.Resident, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWUTS)
	}},
	{item: 11, what: "the resident's root", try: func(v *victims) error { return opens(proc(v.Resident, "root/proc"), unix.O_RDONLY) }},
	{item: 11, what: "the resident's folder", try: func(v *victims) error { return opens(proc(v.Resident, "cwd/."), unix.O_RDONLY) }},
	{item: 11, what: "a host process's root", try: func(v *victims) error { return opens(proc(v.Pid, "root/proc"), unix.O_RDONLY) }},
	{item: 12, what: "chroot", try: func(*victims) error { return unix.Chroot("/") }},

	{item: 19, what: "core_pattern", try: func(*victims) error { return opens("/proc/sys/kernel/core_pattern", unix.O_WRONLY|unix.O_APPEND) }, harmless: hostsRoot},
	{item: 20, what: "drop_caches", try: func(*victims) error { return opens("/proc/sys/vm/drop_caches", unix.O_WRONLY|unix.O_APPEND) }, harmless: hostsRoot},
	{item: 20, what: "the host name by file", try: func(*victims) error { return opens("/proc/sys/kernel/hostname", unix.O_WRONLY) }, harmless: hostsRoot},
	{item: 20, what: "the host name", try: func(*victims) error { return unix.Sethostname([]byte("taken")) }},
	{item: 20, what: "a limit of its user namespace", try: func(*victims) error { return opens("/proc/sys/user/max_user_namespaces", unix.O_WRONLY) }},
	{item: 21, what: "sysrq", try: func(*victims) error { return opens("/proc/sysrq-trigger", unix.O_WRONLY|unix.O_APPEND) }, harmless: hostsRoot},
	{item: 21, what: "kcore", try: func(*victims) error { return reads("/proc/kcore") }, harmless: hostsRoot},
	{item: 21, what: "keys", below: belowProc, try: func(*victims) error { return reads("/proc/keys") }, harmless: "it may hold no key"},
	{item: 21, what: "timer_list", try: func(*victims) error { return reads("/proc/timer_list") }, harmless: hostsRoot},
	{item: 21, what: "the host's partitions", below: belowProc, try: func(*victims) error { return reads("/proc/partitions") }},
	{item: 22, what: "uevent_helper", try: func(*victims) error { return opens("/sys/kernel/uevent_helper", unix.O_WRONLY|unix.O_APPEND) }, harmless: hostsRoot},
	{item: 23, what: "leave the process group of the old kind", try: func(*victims) error { return opens("/sys/fs/cgroup/pids/cgroup.procs", unix.O_WRONLY|unix.O_APPEND) }, harmless: hostsRoot},
	{item: 23, what: "leave the process group", try: func(*victims) error { return opens("/sys/fs/cgroup/cgroup.procs", unix.O_WRONLY|unix.O_APPEND) }, harmless: hostsRoot},
	{item: 23, what: "make a process group", try: func(*victims) error { return unix.Mkdir("/sys/fs/cgroup/memory/taken", 0o755) }, harmless: hostsRoot},
	{item: 25, what: "kernel log", try: func(*victims) error { return opens("/dev/kmsg", unix.O_RDONLY) }, harmless: hostsRoot},
	{item: 25, what: "write to the kernel log", try: func(*victims) error { return opens("/dev/kmsg", unix.O_WRONLY) }, harmless: hostsRoot},
	{item: 25, what: "kernel log by call", try: func(*victims) error { return call(unix.SYS_SYSLOG, 10, 0, 0) }, harmless: "most hosts keep it for root"},

	{item: 33, what: "io_uring", try: func(*victims) error { return call(unix.SYS_IO_URING_SETUP, 1, room(256)) }},
	{item: 34, what: "eBPF", try: func(*victims) error {
		return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&[32]uint32{1, 4, 4, 1})), 128)
	}, harmless: "this host keeps it for root"},
	{item: 34, what: "eBPF, a socket filter", try: func(*victims) error { return call(unix.SYS_BPF, 5, room(128), 128) }, harmless: "this host keeps it for root"},
	{item: 35, what: "userfaultfd", try: func(*victims) error { return call(unix.SYS_USERFAULTFD, 1|unix.O_CLOEXEC) }},
	{item: 36, what: "keyring", try: func(*victims) error { return call(unix.SYS_KEYCTL, 0, ^uintptr(2), 1) }},
	{item: 36, what: "a key in a keyring", try: func(*victims) error {
		return call(unix.SYS_ADD_KEY, text("user"), text("hardshell-test"), text("x"), 1, ^uintptr(1))
	}},
	{item: 36, what: "ask the host for a key", try: func(*victims) error {
		return call(unix.SYS_REQUEST_KEY, text("user"), text("hardshell-test"), 0, ^uintptr(1))
	}},
	{item: 37, what: "new network namespace", try: func(*victims) error { return unix.Unshare(unix.CLONE_NEWNET) }},
	{item: 37, what: "new mount namespace", try: func(*victims) error { return unix.Unshare(unix.CLONE_NEWNS) }},
	{item: 38, what: "new user namespace", try: func(*victims) error { return clones(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) }},
	{item: 38, what: "new user namespace by the newest call", try: func(*victims) error {
		args := [11]uint64{unix.CLONE_NEWUSER, 0, 0, 0, uint64(unix.SIGCHLD)}
		return clones(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	}},
	{item: 38, what: "new time namespace", try: func(*victims) error { return unix.Unshare(unix.CLONE_NEWTIME) }},
	{item: 39, what: "open by file handle", try: func(*victims) error {
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0)
		if err != nil {
			return err
		}
		return byDescriptor(".", unix.O_RDONLY, func(fd int) error {
			fd, err := unix.OpenByHandleAt(fd, handle, unix.O_RDONLY|unix.O_CLOEXEC)
			if err == nil {
				unix.Close(fd)
			}
			return err
		})
	}, harmless: hostsRoot},
	{item: 40, what: "type into the terminal", try: func(*victims) error { return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, text("x")) }, harmless: "the probe has no terminal here"},
	{item: 40, what: "paste into the console", try: func(*victims) error { return call(unix.SYS_IOCTL, 0, unix.TIOCLINUX, text("\x03")) }, harmless: "the probe has no console"},
	{item: 40, what: "another line discipline", try: func(*victims) error {
		return call(unix.SYS_IOCTL, 0, unix.TIOCSETD, uintptr(unsafe.Pointer(new(int32))))
	}, harmless: "the probe has no terminal here"},
	{item: 40, what: "somebody else's terminal", try: func(*victims) error {
		var own unix.Stat_t
		unix.Fstat(0, &own)
		entries, err := os.ReadDir("/dev/pts")
		for _, e := range entries {
			var st unix.Stat_t
			if unix.Stat("/dev/pts/"+e.Name(), &st) == nil && st.Rdev != own.Rdev && e.Name() != "ptmx" && opens("/dev/pts/"+e.Name(), unix.O_RDWR) == nil {
				return nil
			}
		}
		return errors.Join(err, errNothing)
	}, harmless: "there may be none"},
	{item: 41, what: "x32 numbers", try: func(*victims) error { return call(unix.SYS_GETPID | 0x40000000) }, harmless: "most kernels are built without them"},

	{what: "watch the host's file systems", try: func(*victims) error { return call(unix.SYS_FANOTIFY_INIT, 0x200, 0) }},
	{what: "measure the kernel", try: func(*victims) error {
		attr := [16]uint64{1 | 128<<32, 0} // a software event, of ourselves
		attr[5] = 1 << 5                   // not of the kernel
		return call(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr)), 0, ^uintptr(0), ^uintptr(0), 8)
	}, harmless: notOnHosts},
	{what: "compare kernel pointers", try: func(*victims) error {
		pid := uintptr(os.Getpid())
		return call(unix.SYS_KCMP, pid, pid, 1, 0, 0)
	}},
	{what: "a local descriptor table", try: func(*victims) error { return call(unix.SYS_MODIFY_LDT, 0, room(64), 64) }},
	{what: "hardware ports", try: func(*victims) error { return call(unix.SYS_IOPL, 3) }, harmless: hostsRoot},
	{what: "load a module", try: func(*victims) error { return call(unix.SYS_FINIT_MODULE, 0, text(""), 0) }, harmless: hostsRoot},
	{what: "set the clock", try: func(*victims) error {
		var now unix.Timespec
		unix.ClockGettime(unix.CLOCK_REALTIME, &now)
		return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	}, harmless: hostsRoot},
	{what: "slew the clock", try: func(*victims) error {
		_, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_TICK, Tick: 10000})
		return err
	}, harmless: hostsRoot},
}

func joins(path string, kind int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Unshare(unix.CLONE_FS) // the kernel wants that of whoever changes mounts
	return unix.Setns(fd, kind)
}

// clones forks by a system call of ours. The child ends at once, in the same call.
func clones(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	pid, _, e := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if e != 0 {
		return e
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	unix.Wait4(int(pid), nil, 0, nil)
	return nil
}
