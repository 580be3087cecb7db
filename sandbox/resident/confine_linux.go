package resident

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setUp builds what a plan says and gives up the rights that it took. It runs on the main thread, locked, before any
// command. An error means that the box must not be.
func setUp(p *Plan) error {
	unix.Umask(0o022)
	// 1 is "no dump, and none to a pipe either": a host's crash handler is not for what happens in here.
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1})
	if p.MaxPids > 0 {
		limit := uint64(p.MaxPids)
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return failed("limit processes", err)
		}
	}
	if p.Jail {
		if err := enterJail(p); err != nil {
			return err
		}
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return failed("become subreaper", err)
	}
	if p.Home != "" {
		if err := unix.Chdir(p.Home); err != nil {
			return failed("enter "+p.Home, err)
		}
	}
	if !p.Confine {
		return nil
	}
	if err := dropAll(p.Jail); err != nil {
		return err
	}
	// Not dumpable: processes of the same uid can then open none of our files in /proc, nor trace us.
	return failed("become undumpable", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// confine puts Landlock and the filter on the thread that forks the commands, and returns it if it is not the main one.
// Its notes name what the kernel has not. Groups are the box's, which the main thread has entered.
func confine(p *Plan, program <-chan assembled, secret *Secret, groups []int) (forks *forkThread, notes []string, err error) {
	if !p.Confine {
		return nil, nil, nil
	}
	if !p.Jail {
		return confineThread(p, secret, groups)
	}
	walls := domain{writable: p.Writable, dirs: []int{fdJobs}}
	if notes, err = walls.enter(); err != nil {
		return nil, nil, err
	}
	return nil, notes, restrict(<-program)
}

func enterJail(p *Plan) error {
	if err := buildRoot(p); err != nil {
		return err
	}
	if p.Hostname != "" {
		if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
			return failed("set the host name", err)
		}
	}
	if p.Network {
		return failed("bring up loopback", loopback())
	}
	return nil
}

func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr)
}

// dropAll gives up every capability on every thread of ours, and what the main thread's children could ever regain.
func dropAll(jail bool) error {
	for c := uintptr(0); ; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break // past the kernel's last capability
		} else if err == unix.EPERM && !jail {
			break // an ordinary user may not; no_new_privs makes the set useless all the same
		} else if err != nil {
			return failed("drop the bounding set", err)
		}
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData // ambient capabilities go with the permitted ones
	if err := everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&none[0]))); err != nil {
		return failed("drop capabilities", err)
	}
	runtime.KeepAlive(&hdr)
	runtime.KeepAlive(&none)
	return failed("set no_new_privs", everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1))
}

// dropHere gives up every capability of the calling thread.
func dropHere() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&hdr, &none[0]); err != nil {
		return failed("drop capabilities", err)
	}
	return failed("set no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

// everyThread makes a system call on all threads of ours. Where C code is linked in the runtime cannot; then it is made
// on this thread, the only one that runs commands.
func everyThread(call, a, b uintptr) error {
	_, _, e := syscall.AllThreadsSyscall(call, a, b, 0)
	if e == syscall.ENOTSUP {
		_, _, e = syscall.RawSyscall(call, a, b, 0)
	}
	if e != 0 {
		return e
	}
	return nil
}
