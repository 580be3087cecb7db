package sandbox_test

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var processAttempts = []attempt{
	{item: 13, what: "signal a host process", try: func(v *victims) error { return unix.Kill(v.Pid, 0) }},
	{item: 13, what: "signal a host process by its descriptor", try: func(v *victims) error {
		fd, err := unix.PidfdOpen(v.Pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, 0, nil, 0)
	}},
	{item: 13, what: "signal a host process with a value", try: func(v *victims) error {
		info := [32]int32{0, 0, -1} // SI_QUEUE
		return call(unix.SYS_RT_SIGQUEUEINFO, uintptr(v.Pid), 0, uintptr(unsafe.Pointer(&info)))
	}},
	{item: 13, what: "signal a host process by a timer of the terminal", try: func(v *victims) error {
		// The owner of a descriptor is signalled by the kernel itself; to be its owner asks no right.
		var pair [2]int
		if err := unix.Pipe2(pair[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		_, err := unix.FcntlInt(uintptr(pair[0]), unix.F_SETOWN, v.Pid)
		return err
	}},
	{item: 13, what: "the priority of a host process", try: func(v *victims) error { return unix.Setpriority(unix.PRIO_PROCESS, v.Pid, 19) }},
	{item: 13, what: "the processor of a host process", below: belowProc, try: func(v *victims) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(v.Pid, &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(v.Pid, &set)
	}},
	{item: 14, what: "a host process's environment", try: func(v *victims) error { return holdsText(proc(v.Pid, "environ"), []byte("VICTIM=1")) }},
	{item: 14, what: "the resident's environment", try: func(v *victims) error { return reads(proc(v.Resident, "environ")) }},
	{item: 15, what: "a host process's memory", try: func(v *victims) error { return opens(proc(v.Pid, "mem"), unix.O_RDWR) }},
	{item: 15, what: "a host process's map", try: func(v *victims) error { return reads(proc(v.Pid, "maps")) }},
	{item: 15, what: "a host process's descriptors", below: belowProc, try: func(v *victims) error { return lists(proc(v.Pid, "fd")) }},
	{item: 15, what: "the resident's memory", try: func(v *victims) error { return opens(proc(v.Resident, "mem"), unix.O_RDWR) }},
	{item: 15, what: "the resident's map", try: func(v *victims) error { return reads(proc(v.Resident, "maps")) }},
	{item: 15, what: "the resident's descriptors", try: func(v *victims) error { return lists(proc(v.Resident, "fd")) }},
	{item: 15, what: "one of the resident's descriptors", try: func(v *victims) error { return opens(proc(v.Resident, "fd/0"), unix.O_RDONLY) }},
	{item: 15, what: "the resident's program to write", try: func(v *victims) error { return opens(proc(v.Resident, "exe"), unix.O_WRONLY) }, harmless: "it is being executed"},
	{item: 15, what: "the resident's program", try: func(v *victims) error { return opens(proc(v.Resident, "exe"), unix.O_RDONLY) }},
	{item: 15, what: "the resident's chance when memory is short", try: func(v *victims) error {
		return opens(proc(v.Resident, "oom_score_adj"), unix.O_WRONLY)
	}},
	{item: 16, what: "trace a host process", try: func(v *victims) error { return traces(v.Pid) }},
	{item: 16, what: "trace the resident", try: func(v *victims) error { return traces(v.Resident) }},
	{item: 16, what: "trace a sibling", try: func(v *victims) error { return traces(v.Sibling) }},
	{item: 17, what: "read a host process's memory", try: func(v *victims) error { return peeks(unix.SYS_PROCESS_VM_READV, v.Pid) }},
	{item: 17, what: "write a host process's memory", try: func(v *victims) error { return peeks(unix.SYS_PROCESS_VM_WRITEV, v.Pid) }},
	{item: 17, what: "read the resident's memory", try: func(v *victims) error { return peeks(unix.SYS_PROCESS_VM_READV, v.Resident) }},
	{item: 17, what: "read a sibling's memory", try: func(v *victims) error { return peeks(unix.SYS_PROCESS_VM_READV, v.Sibling) }},
	{item: 18, what: "take a host process's descriptor", try: func(v *victims) error { return takes(v.Pid) }},
	{item: 18, what: "take the resident's descriptor", try: func(v *victims) error { return takes(v.Resident) }},
	{item: 18, what: "take a sibling's descriptor", try: func(v *victims) error { return takes(v.Sibling) }},
	{item: 42, what: "gain by a set-id program of the system", try: gainsBySetID, harmless: "no set-id program tells here what it became"},

	{what: "the resident's limits", try: func(v *victims) error {
		return call(unix.SYS_PRLIMIT64, uintptr(v.Resident), unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 0, Max: 0})), 0)
	}},
	{what: "a host process's limits", try: func(v *victims) error {
		return call(unix.SYS_PRLIMIT64, uintptr(v.Pid), unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 0, Max: 0})), 0)
	}},
	{what: "take the tag off", try: func(*victims) error {
		return call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 5, Max: unix.RLIM_INFINITY})), 0)
	}},
	{what: "take the tag off by the older call", try: func(*victims) error {
		return call(unix.SYS_SETRLIMIT, unix.RLIMIT_RTTIME, uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 6, Max: unix.RLIM_INFINITY})))
	}},
	{what: "attach the host's shared memory", try: func(v *victims) error { return call(unix.SYS_SHMAT, uintptr(v.Memory), 0, 0) }},
	{what: "advise on a host process's memory", try: func(v *victims) error {
		fd, err := unix.PidfdOpen(v.Pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return call(unix.SYS_PROCESS_MADVISE, uintptr(fd), 0, 0, unix.MADV_COLD, 0)
	}, harmless: hostsRoot},
}

// traces attaches to a process and lets it go.
func traces(pid int) error {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	if err := call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0); err != nil {
		return err
	}
	// It can be let go only while it stands still.
	call(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, uintptr(pid), 0, 0)
	var status unix.WaitStatus
	unix.Wait4(pid, &status, unix.WALL, nil)
	call(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, 0)
	return nil
}

// peeks moves nothing: the right is asked for before the first byte.
func peeks(number uintptr, pid int) error {
	var b [1]byte
	here := unix.Iovec{Base: &b[0], Len: 0}
	there := unix.RemoteIovec{}
	return call(number, uintptr(pid), uintptr(unsafe.Pointer(&here)), 1, uintptr(unsafe.Pointer(&there)), 1, 0)
}

func takes(pid int) error {
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(p)
	fd, err := unix.PidfdGetfd(p, 0, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// gainsBySetID starts a program of root's that has the set-id bit and says, by what it can read, who it became.
func gainsBySetID(*victims) error {
	for _, p := range []string{"/usr/bin/chage", "/usr/bin/sudo", "/bin/su"} {
		st, err := os.Stat(p)
		if err != nil || st.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
			continue
		}
		args := map[string][]string{"/usr/bin/chage": {"-l", "root"}, "/usr/bin/sudo": {"-n", "true"}, "/bin/su": {"-c", "true", "root"}}[p]
		cmd := exec.Command(p, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if cmd.Run() == nil {
			return nil
		}
	}
	return unix.EPERM
}
