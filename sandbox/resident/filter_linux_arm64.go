package resident

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_AARCH64
	firstForeign = 0xffffffff // no second set of numbers
)

// deniedHere are calls that this architecture has and not all others.
var deniedHere = []rule{
	{call: unix.SYS_SETRLIMIT, why: "takes the tag off", when: []condition{is(0, unix.RLIMIT_RTTIME)}},
	{call: unix.SYS_KEXEC_FILE_LOAD, why: "replaces the kernel"},
}

// This architecture has the calls relative to a folder only.
var unjailedHere, frozenHere, oldLandlockHere []rule
