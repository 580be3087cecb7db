package resident

import (
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rule refuses a system call, always or under conditions that must all hold. Why is what the call would open.
type rule struct {
	call uint32
	why  string
	when []condition
	with unix.Errno // the answer; 0 is EPERM
}

// denied is the policy for every command in a box. What is not listed is allowed: the box holds no capability, sees
// only its own mounts and has no network, so the list closes what needs no privilege, or what would undo the rest.
// Each row has a test that tries it from inside.
var denied = append([]rule{
	{call: unix.SYS_MOUNT, why: "changes what can be seen and written"},
	{call: unix.SYS_UMOUNT2, why: "uncovers what a mask hides"},
	{call: unix.SYS_PIVOT_ROOT, why: "changes what can be seen"},
	{call: unix.SYS_CHROOT, why: "climbs out of a root with an open folder"},
	{call: unix.SYS_OPEN_TREE, why: "clones mounts without their covers"},
	{call: sysOpenTreeAttr, why: "clones mounts without their covers"},
	{call: unix.SYS_MOVE_MOUNT, why: "changes what can be seen"},
	{call: unix.SYS_FSOPEN, why: "mounts a file system"},
	{call: unix.SYS_FSCONFIG, why: "mounts a file system"},
	{call: unix.SYS_FSMOUNT, why: "mounts a file system"},
	{call: unix.SYS_FSPICK, why: "reconfigures a file system"},
	{call: unix.SYS_MOUNT_SETATTR, why: "makes a read-only mount writable"},
	{call: unix.SYS_SETNS, why: "joins another namespace"},
	{call: unix.SYS_UNSHARE, why: "a new user namespace brings capabilities back"},
	{call: unix.SYS_CLONE, why: "a new user namespace brings capabilities back", when: []condition{bits(0, newNamespaces)}},
	{call: unix.SYS_CLONE3, why: "its flags lie behind a pointer; libc falls back to clone", with: unix.ENOSYS},

	{call: unix.SYS_PTRACE, why: "reads and writes other processes"},
	{call: unix.SYS_PROCESS_VM_READV, why: "reads other processes' memory"},
	{call: unix.SYS_PROCESS_VM_WRITEV, why: "writes other processes' memory"},
	{call: unix.SYS_PROCESS_MADVISE, why: "steers other processes' memory"},
	{call: unix.SYS_PIDFD_GETFD, why: "takes other processes' descriptors"},
	{call: unix.SYS_KCMP, why: "leaks kernel pointers' order"},
	{call: unix.SYS_PERF_EVENT_OPEN, why: "a large part of the kernel's attack surface"},
	{call: unix.SYS_BPF, why: "loads code into the kernel"},
	{call: unix.SYS_USERFAULTFD, why: "holds the kernel still in the middle of a copy: the usual helper of exploits"},
	{call: unix.SYS_IO_URING_SETUP, why: "does system calls that this filter does not see"},
	{call: unix.SYS_IO_URING_ENTER, why: "does system calls that this filter does not see"},
	{call: unix.SYS_IO_URING_REGISTER, why: "does system calls that this filter does not see"},
	{call: unix.SYS_KEYCTL, why: "the keyrings are the host user's"},
	{call: unix.SYS_ADD_KEY, why: "the keyrings are the host user's"},
	{call: unix.SYS_REQUEST_KEY, why: "makes the host run a program"},
	{call: unix.SYS_OPEN_BY_HANDLE_AT, why: "opens files that have no path here"},
	{call: unix.SYS_FANOTIFY_INIT, why: "watches the host's file systems"},
	{call: unix.SYS_QUOTACTL, why: "administers the host's disks"},
	{call: unix.SYS_QUOTACTL_FD, why: "administers the host's disks"},
	{call: unix.SYS_SWAPON, why: "administers the host"},
	{call: unix.SYS_SWAPOFF, why: "administers the host"},
	{call: unix.SYS_REBOOT, why: "administers the host"},
	{call: unix.SYS_ACCT, why: "administers the host"},
	{call: unix.SYS_SYSLOG, why: "reads the host's kernel log"},
	{call: unix.SYS_KEXEC_LOAD, why: "replaces the kernel"},
	{call: unix.SYS_INIT_MODULE, why: "loads code into the kernel"},
	{call: unix.SYS_FINIT_MODULE, why: "loads code into the kernel"},
	{call: unix.SYS_DELETE_MODULE, why: "unloads code from the kernel"},
	{call: unix.SYS_SETTIMEOFDAY, why: "sets the host's clock"},
	{call: unix.SYS_CLOCK_SETTIME, why: "sets the host's clock"},
	{call: unix.SYS_MOVE_PAGES, why: "moves other processes' memory"},
	{call: unix.SYS_MIGRATE_PAGES, why: "moves other processes' memory"},

	{call: unix.SYS_FCNTL, why: "makes the host's programs wait at a file that can only be read", when: []condition{is(1, unix.F_SETLEASE)}},
	{call: unix.SYS_IOCTL, why: "types into the terminal that runs us", when: []condition{is(1, unix.TIOCSTI)}},
	{call: unix.SYS_IOCTL, why: "pastes into the console", when: []condition{is(1, unix.TIOCLINUX)}},
	{call: unix.SYS_IOCTL, why: "loads a line discipline, a repeated source of kernel holes", when: []condition{is(1, unix.TIOCSETD)}},
	{call: unix.SYS_SOCKET, why: "rare families reach the hypervisor, the raw wire or old kernel code",
		when: []condition{none(0, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)}, with: unix.EAFNOSUPPORT},
	{call: unix.SYS_SOCKET, why: "only route netlink answers harmless questions",
		when: []condition{is(0, unix.AF_NETLINK), none(2, unix.NETLINK_ROUTE)}, with: unix.EPROTONOSUPPORT},
	{call: unix.SYS_SOCKETPAIR, why: "only local pairs are needed", when: []condition{none(0, unix.AF_UNIX)}, with: unix.EAFNOSUPPORT},

	// A set-id file in an idmapped workspace would belong to the host's root. Nobody may make one, by any call.
	{call: unix.SYS_FCHMOD, why: "makes a set-id file", when: []condition{bits(1, setID)}},
	{call: unix.SYS_FCHMODAT, why: "makes a set-id file", when: []condition{bits(2, setID)}},
	{call: unix.SYS_OPENAT, why: "makes a set-id file", when: []condition{bits(2, creates), bits(3, setID)}},
	{call: unix.SYS_MKDIRAT, why: "makes a set-id folder", when: []condition{bits(2, setID)}},
	{call: unix.SYS_MKNODAT, why: "makes a set-id file", when: []condition{bits(2, setID)}},
	{call: unix.SYS_FCHMODAT2, why: "makes a set-id file; libc falls back to fchmodat", with: unix.ENOSYS},
	{call: unix.SYS_OPENAT2, why: "its mode lies behind a pointer; programs fall back to openat", with: unix.ENOSYS},

	// The tag says to which call a process belongs; see tag_linux.go.
	{call: unix.SYS_PRLIMIT64, why: "changes the limits of the resident and of other calls", when: []condition{given(2), none(0, 0)}},
	{call: unix.SYS_PRLIMIT64, why: "takes the tag off", when: []condition{given(2), is(1, unix.RLIMIT_RTTIME), {kind: notSecret}}},
}, deniedHere...)

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	setID         = unix.S_ISUID | unix.S_ISGID
	// creates holds O_CREAT and the bit of O_TMPFILE that is not O_DIRECTORY.
	creates         = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	sysOpenTreeAttr = 467
)

// condition is a test of one argument. Arguments are compared by their lower 32 bits, which is all that the kernel
// reads of the arguments used here; given looks at the whole pointer.
type condition struct {
	kind   conditionKind
	arg    uint32
	values []uint32
}

type conditionKind uint8

const (
	anyBit    conditionKind = iota // at least one bit of values[0] is set
	oneOf                          // the argument is one of values
	noneOf                         // the argument is none of values
	isGiven                        // the pointer is not nil
	masked                         // the bits of values[0] are those of values[1]
	notSecret                      // the two spare arguments do not hold the resident's secret
)

func bits(arg, mask uint32) condition        { return condition{anyBit, arg, []uint32{mask}} }
func is(arg uint32, v ...uint32) condition   { return condition{oneOf, arg, v} }
func none(arg uint32, v ...uint32) condition { return condition{noneOf, arg, v} }
func field(arg, mask, v uint32) condition    { return condition{masked, arg, []uint32{mask, v}} }
func given(arg uint32) condition             { return condition{kind: isGiven, arg: arg} }
func argument(n uint32) bpf.Instruction      { return bpf.LoadAbsolute{Off: 16 + 8*n, Size: 4} }
func upper(n uint32) bpf.Instruction         { return bpf.LoadAbsolute{Off: 20 + 8*n, Size: 4} }
func answer(errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// Skips that are set once the length of a rule is known.
const (
	toEnd  = 255 // the rule does not apply
	toDeny = 254
)

func (c condition) instructions(secret *Secret) []bpf.Instruction {
	switch c.kind {
	case anyBit:
		return []bpf.Instruction{argument(c.arg), bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: c.values[0], SkipFalse: toEnd}}
	case oneOf:
		out := []bpf.Instruction{argument(c.arg)}
		for i, v := range c.values[:len(c.values)-1] {
			out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(c.values) - 1 - i)})
		}
		return append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.values[len(c.values)-1], SkipFalse: toEnd})
	case masked:
		return []bpf.Instruction{argument(c.arg), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.values[0]},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.values[1], SkipFalse: toEnd}}
	case noneOf:
		out := []bpf.Instruction{argument(c.arg)}
		for _, v := range c.values {
			out = append(out, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: toEnd})
		}
		return out
	case isGiven:
		return []bpf.Instruction{argument(c.arg), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 2},
			upper(c.arg), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: toEnd}}
	default:
		return []bpf.Instruction{
			argument(4), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(secret[0]), SkipTrue: toDeny},
			upper(4), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(secret[0] >> 32), SkipTrue: toDeny},
			argument(5), bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(secret[1]), SkipTrue: toDeny},
			upper(5), bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(secret[1] >> 32), SkipTrue: toEnd},
		}
	}
}

func (r rule) instructions(secret *Secret) []bpf.Instruction {
	out := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.call, SkipFalse: toEnd}}
	for _, c := range r.when {
		out = append(out, c.instructions(secret)...)
	}
	errno := r.with
	if errno == 0 {
		errno = unix.EPERM
	}
	out = append(out, answer(errno))
	for i, in := range out {
		if j, ok := in.(bpf.JumpIf); ok {
			rest := uint8(len(out) - 1 - i)
			j.SkipTrue, j.SkipFalse = resolve(j.SkipTrue, rest), resolve(j.SkipFalse, rest)
			out[i] = j
		}
	}
	return out
}

func resolve(skip, rest uint8) uint8 {
	switch skip {
	case toEnd:
		return rest
	case toDeny:
		return rest - 1
	}
	return skip
}

// Secret is what the resident alone puts in the spare arguments of prlimit64, so that it can set the tag on a thread
// that is under the filter itself. Its memory cannot be read from inside: it is not dumpable.
type Secret [2]uint64

// filter assembles the rules. A foreign architecture kills: its numbers mean other calls.
func filter(rules []rule, secret *Secret) ([]bpf.RawInstruction, error) {
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: firstForeign, SkipTrue: 1},
		answer(unix.ENOSYS),
	}
	for _, r := range rules {
		out = append(out, r.instructions(secret)...)
	}
	return bpf.Assemble(append(out, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}))
}

// assembled is a filter ready for the kernel.
type assembled struct {
	raw []bpf.RawInstruction
	err error
}

func assemble(rules []rule, secret *Secret) assembled {
	raw, err := filter(rules, secret)
	return assembled{raw, failed("seccomp: assemble", err)}
}

// restrict puts the filter on the calling thread; what it forks inherits it. It needs no_new_privs.
func restrict(p assembled) error {
	if p.err != nil {
		return p.err
	}
	prog := unix.SockFprog{Len: uint16(len(p.raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&p.raw[0]))}
	// No TSYNC: the runtime's other threads run no command.
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return failed("seccomp: set filter", e)
	}
	return nil
}
