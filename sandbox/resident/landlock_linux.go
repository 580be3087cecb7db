package resident

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock is the second wall: the mounts already say what may be written, and this repeats it in another part of
// the kernel. It also keeps signals and abstract sockets inside. It handles writing only; what can be read is what is
// mounted.
const (
	llWriteFile  = 1 << 1
	llRemoveDir  = 1 << 4
	llRemoveFile = 1 << 5
	llMakeChar   = 1 << 6
	llMakeDir    = 1 << 7
	llMakeReg    = 1 << 8
	llMakeSock   = 1 << 9
	llMakeFifo   = 1 << 10
	llMakeBlock  = 1 << 11
	llMakeSym    = 1 << 12
	llRefer      = 1 << 13 // ABI 2
	llTruncate   = 1 << 14 // ABI 3
	llIoctlDev   = 1 << 15 // ABI 5

	llScopeAbstract = 1 << 0 // ABI 6
	llScopeSignal   = 1 << 1

	llFile = llWriteFile | llTruncate | llIoctlDev // what can be granted on something that is no folder
	// llTree is granted on a writable folder. Device nodes are not: nobody in a box makes one.
	llTree = llFile | llRemoveDir | llRemoveFile | llMakeDir | llMakeReg | llMakeSock | llMakeFifo | llMakeSym | llRefer

	llVersion     = 1 << 0 // flag: ask for the ABI
	llPathBeneath = 1      // type of rule
)

type llRuleset struct{ fs, net, scoped uint64 }

// LandlockABI returns the kernel's Landlock version, 0 for none.
func LandlockABI() int {
	v, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, llVersion)
	if e != 0 {
		return 0
	}
	return int(v)
}

// handled returns the rights that an ABI knows, and the size of its ruleset structure.
func handled(abi int) (rights llRuleset, size uintptr) {
	fs := uint64(llTree | llMakeChar | llMakeBlock)
	if abi < 2 {
		fs &^= llRefer
	}
	if abi < 3 {
		fs &^= llTruncate
	}
	if abi < 5 {
		fs &^= llIoctlDev
	}
	switch {
	case abi >= 6:
		return llRuleset{fs: fs, scoped: llScopeAbstract | llScopeSignal}, unsafe.Sizeof(llRuleset{})
	case abi >= 4:
		return llRuleset{fs: fs}, 16
	}
	return llRuleset{fs: fs}, 8
}

// landlock confines the calling thread and its children: they write below the given paths only. dirs are descriptors
// of folders that have no path in the box. It returns a note for every protection that this kernel has not.
func landlock(paths []string, dirs []int) (notes []string, err error) {
	abi := LandlockABI()
	if abi == 0 {
		return []string{"landlock: not in this kernel; the mounts stand alone"}, nil
	}
	if abi < 6 {
		notes = append(notes, "landlock: no scopes before ABI 6; namespaces stand alone for signals and abstract sockets")
	}
	rights, size := handled(abi)
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rights)), size, 0)
	if e != 0 {
		return nil, failed("landlock: create ruleset", e)
	}
	defer unix.Close(int(fd))
	for _, p := range paths {
		at, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return nil, failed("landlock: "+p, err)
		}
		err = allow(int(fd), at, rights.fs)
		unix.Close(at)
		if err != nil {
			return nil, failed("landlock: "+p, err)
		}
	}
	for _, d := range dirs {
		if err := allow(int(fd), d, rights.fs); err != nil {
			return nil, failed("landlock: folder", err)
		}
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return nil, failed("landlock: restrict", e)
	}
	return notes, nil
}

func allow(ruleset, at int, handled uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	grant := uint64(llTree)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		grant = llFile
	}
	var rule [12]byte // packed: u64 rights, s32 descriptor
	*(*uint64)(unsafe.Pointer(&rule[0])) = grant & handled
	*(*int32)(unsafe.Pointer(&rule[8])) = int32(at)
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), llPathBeneath, uintptr(unsafe.Pointer(&rule[0])), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
