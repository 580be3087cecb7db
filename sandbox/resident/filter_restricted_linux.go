package resident

import "golang.org/x/sys/unix"

// The calls that the kernel has since 6.13 and 6.17, the same on every architecture.
const (
	sysSetxattrat    = 463
	sysRemovexattrat = 466
	sysFileSetattr   = 469
)

// Requests that change a file's attributes through a descriptor that need not be writable.
const (
	setFlags   = 0x40086602 // FS_IOC_SETFLAGS
	setXFlags  = 0x401c5820 // FS_IOC_FSSETXATTR
	socketKind = 0xf        // the bits of a socket's type that are not flags
)

// unjailed are denied to every command that has no jail around it, beside what all are denied. Landlock knows files and
// what is below a path; it knows no owners, no sockets with a path, no System V memory, and not who we are.
var unjailed = append([]rule{
	{call: unix.SYS_FCHOWN, why: "Landlock does not know owners"},
	{call: unix.SYS_FCHOWNAT, why: "Landlock does not know owners"},
	{call: unix.SYS_SETXATTR, why: "Landlock does not know attributes", with: unix.EOPNOTSUPP},
	{call: unix.SYS_LSETXATTR, why: "Landlock does not know attributes", with: unix.EOPNOTSUPP},
	{call: unix.SYS_FSETXATTR, why: "Landlock does not know attributes", with: unix.EOPNOTSUPP},
	{call: sysSetxattrat, why: "Landlock does not know attributes", with: unix.ENOSYS},
	{call: unix.SYS_REMOVEXATTR, why: "Landlock does not know attributes", with: unix.EOPNOTSUPP},
	{call: unix.SYS_LREMOVEXATTR, why: "Landlock does not know attributes", with: unix.EOPNOTSUPP},
	{call: unix.SYS_FREMOVEXATTR, why: "Landlock does not know attributes", with: unix.EOPNOTSUPP},
	{call: sysRemovexattrat, why: "Landlock does not know attributes", with: unix.ENOSYS},
	{call: sysFileSetattr, why: "Landlock does not know attributes", with: unix.ENOSYS},
	{call: unix.SYS_IOCTL, why: "changes a file's attributes", when: []condition{is(1, setFlags, setXFlags)}, with: unix.EOPNOTSUPP},

	{call: unix.SYS_SOCKET, why: "a socket with a path would reach the host's services", when: []condition{is(0, unix.AF_UNIX)}, with: unix.EAFNOSUPPORT},
	{call: unix.SYS_SOCKETPAIR, why: "one half of such a pair can send to any socket with a path", when: []condition{field(1, socketKind, unix.SOCK_DGRAM)}},

	{call: unix.SYS_SHMGET, why: "the user's shared memory"},
	{call: unix.SYS_SHMAT, why: "the user's shared memory"},
	{call: unix.SYS_SHMCTL, why: "the user's shared memory"},
	{call: unix.SYS_MSGGET, why: "the user's message queues"},
	{call: unix.SYS_MSGSND, why: "the user's message queues"},
	{call: unix.SYS_MSGRCV, why: "the user's message queues"},
	{call: unix.SYS_MSGCTL, why: "the user's message queues"},
	{call: unix.SYS_SEMGET, why: "the user's semaphores"},
	{call: unix.SYS_SEMOP, why: "the user's semaphores"},
	{call: unix.SYS_SEMTIMEDOP, why: "the user's semaphores"},
	{call: unix.SYS_SEMCTL, why: "the user's semaphores"},
	{call: unix.SYS_MQ_OPEN, why: "the user's message queues"},
	{call: unix.SYS_MQ_UNLINK, why: "the user's message queues"},

	{call: unix.SYS_KILL, why: "ends every process of the user", when: []condition{is(0, everybody)}},
	{call: unix.SYS_PIDFD_SEND_SIGNAL, why: "names its target by a descriptor, which may be ours", with: unix.ENOSYS},
	{call: unix.SYS_FCNTL, why: "makes the kernel signal whom it names", when: []condition{is(1, unix.F_SETOWN, unix.F_SETOWN_EX)}},
	{call: unix.SYS_IOCTL, why: "makes the kernel signal whom it names", when: []condition{is(1, fioSetOwn, siocSetOwn)}},
	{call: unix.SYS_SETPRIORITY, why: "slows other processes of the user down", when: []condition{none(1, 0)}},
	{call: unix.SYS_IOPRIO_SET, why: "slows other processes of the user down", when: []condition{none(1, 0)}},
}, unjailedHere...)

const (
	everybody  = 0xffffffff // -1
	fioSetOwn  = 0x8901
	siocSetOwn = 0x8902
)

// nested are denied where this box is in another of ours, and so has another tag.
var nested = []rule{
	{call: unix.SYS_PRLIMIT64, why: "takes the tag off", when: []condition{given(2), is(1, unix.RLIMIT_LOCKS), {kind: notSecret}}},
	{call: unix.SYS_SETRLIMIT, why: "takes the tag off", when: []condition{is(0, unix.RLIMIT_LOCKS)}},
}

// frozen are denied where nothing at all may be written: modes and times are not Landlock's either.
var frozen = append([]rule{
	{call: unix.SYS_FCHMOD, why: "Landlock does not know modes"},
	{call: unix.SYS_FCHMODAT, why: "Landlock does not know modes"},
	{call: unix.SYS_UTIMENSAT, why: "Landlock does not know times"},
}, frozenHere...)

// offline are denied where there is no network.
var offline = []rule{
	{call: unix.SYS_SOCKET, why: "the network is off"},
	{call: unix.SYS_CONNECT, why: "the network is off"},
	{call: unix.SYS_SENDTO, why: "the network is off", when: []condition{given(4)}},
}

// oldLandlock are denied on kernels whose Landlock does not know how files are cut short without being opened to write.
var oldLandlock = append([]rule{
	{call: unix.SYS_TRUNCATE, why: "Landlock does not know it before ABI 3"},
	{call: unix.SYS_OPENAT, why: "Landlock does not know it before ABI 3", when: []condition{field(2, cuts, unix.O_TRUNC)}},
}, oldLandlockHere...)

// cuts are the bits by which a file is cut short though it is opened to be read.
const cuts = unix.O_TRUNC | unix.O_ACCMODE

// restrictedRules are the rules for commands without a jail. own are the numbers of our process and of our thread that
// forks: whoever could signal them could outlive us.
func restrictedRules(p *Plan, own []uint32, abi int) []rule {
	rules := append([]rule{
		{call: unix.SYS_KILL, why: "ends the resident", when: []condition{is(0, append([]uint32{-own[0]}, own...)...)}},
		{call: unix.SYS_TKILL, why: "ends the resident", when: []condition{is(0, own...)}},
		{call: unix.SYS_TGKILL, why: "ends the resident", when: []condition{is(0, own...)}},
		{call: unix.SYS_RT_SIGQUEUEINFO, why: "ends the resident", when: []condition{is(0, own...)}},
		{call: unix.SYS_RT_TGSIGQUEUEINFO, why: "ends the resident", when: []condition{is(0, own...)}},
		{call: unix.SYS_PIDFD_OPEN, why: "ends the resident", when: []condition{is(0, own...)}},
	}, unjailed...)
	if p.Frozen {
		rules = append(rules, frozen...)
	}
	if p.Offline {
		rules = append(rules, offline...)
	}
	if tagLimit == unix.RLIMIT_LOCKS {
		rules = append(rules, nested...)
	}
	if abi < 3 {
		rules = append(rules, oldLandlock...)
	}
	return rules
}
