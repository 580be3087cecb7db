package resident

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_X86_64
	firstForeign = 0x40000000 // the x32 numbers begin here
)

// deniedHere are calls that only this architecture has.
var deniedHere = []rule{
	{call: unix.SYS_CHMOD, why: "makes a set-id file", when: []condition{bits(1, setID)}},
	{call: unix.SYS_OPEN, why: "makes a set-id file", when: []condition{bits(1, creates), bits(2, setID)}},
	{call: unix.SYS_CREAT, why: "makes a set-id file", when: []condition{bits(1, setID)}},
	{call: unix.SYS_MKDIR, why: "makes a set-id folder", when: []condition{bits(1, setID)}},
	{call: unix.SYS_MKNOD, why: "makes a set-id file", when: []condition{bits(1, setID)}},
	{call: unix.SYS_SETRLIMIT, why: "takes the tag off", when: []condition{is(0, unix.RLIMIT_RTTIME)}},
	{call: unix.SYS_KEXEC_FILE_LOAD, why: "replaces the kernel"},
	{call: unix.SYS_IOPL, why: "reaches the hardware"},
	{call: unix.SYS_IOPERM, why: "reaches the hardware"},
	{call: unix.SYS_MODIFY_LDT, why: "a repeated source of kernel holes"},
}

var (
	unjailedHere = []rule{
		{call: unix.SYS_CHOWN, why: "Landlock does not know owners"},
		{call: unix.SYS_LCHOWN, why: "Landlock does not know owners"},
	}
	frozenHere = []rule{
		{call: unix.SYS_CHMOD, why: "Landlock does not know modes"},
		{call: unix.SYS_UTIME, why: "Landlock does not know times"},
		{call: unix.SYS_UTIMES, why: "Landlock does not know times"},
		{call: unix.SYS_FUTIMESAT, why: "Landlock does not know times"},
	}
	oldLandlockHere = []rule{
		{call: unix.SYS_OPEN, why: "Landlock does not know it before ABI 3", when: []condition{field(1, cuts, unix.O_TRUNC)}},
	}
)
