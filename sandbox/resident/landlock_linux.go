package resident

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// In a jail Landlock is the second wall: the mounts already say what may be written, and this repeats it in another part
// of the kernel; what can be read is what is mounted. Without a jail it is the only wall, for reading too. It also
// keeps signals and abstract sockets inside.
const (
	llReadFile   = 1 << 2
	llReadDir    = 1 << 3
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

	llNetwork = 1<<0 | 1<<1 // ABI 4: binding and connecting by TCP

	llFile = llReadFile | llWriteFile | llTruncate | llIoctlDev // what can be granted on something that is no folder
	// llTree is granted on a writable folder. Device nodes are not: nobody in a box makes one.
	llTree = llFile | llReadDir | llRemoveDir | llRemoveFile | llMakeDir | llMakeReg | llMakeSock | llMakeFifo | llMakeSym | llRefer

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

// domain is what Landlock lets a thread do.
type domain struct {
	writable []string // below these everything that Landlock knows, but device nodes
	dirs     []int    // the same, by descriptor: folders without a path in the box
	readable []string // nil: reading is not restricted; else only this and what is writable, and names everywhere
	offline  bool     // no TCP
	alone    bool     // there is no other wall: without Landlock the box must not be
}

// handled returns the rights that an ABI knows, and the size of its ruleset structure.
func (d *domain) handled(abi int) (rights llRuleset, size uintptr) {
	fs := uint64(llTree | llMakeChar | llMakeBlock)
	if d.readable == nil {
		fs &^= llReadFile | llReadDir
	}
	if abi < 2 {
		fs &^= llRefer
	}
	if abi < 3 {
		fs &^= llTruncate
	}
	if abi < 5 {
		fs &^= llIoctlDev
	}
	rights.fs = fs
	if d.offline && abi >= 4 {
		rights.net = llNetwork
	}
	switch {
	case abi >= 6:
		rights.scoped = llScopeAbstract | llScopeSignal
		return rights, unsafe.Sizeof(llRuleset{})
	case abi >= 4:
		return rights, 16
	}
	return rights, 8
}

// enter confines the calling thread and its children. It returns a note for every protection that this kernel has not.
func (d *domain) enter() (notes []string, err error) {
	abi := LandlockABI()
	switch {
	case abi == 0 && d.alone:
		return nil, failed("landlock", unix.EOPNOTSUPP)
	case abi == 0:
		return []string{"landlock: not in this kernel; the mounts stand alone"}, nil
	case abi < 6 && d.alone:
		notes = append(notes, "signals: a command can end other processes of its user (landlock before ABI 6)")
	case abi < 6:
		notes = append(notes, "landlock: no scopes before ABI 6; namespaces stand alone for signals and abstract sockets")
	}
	rights, size := d.handled(abi)
	fd, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rights)), size, 0)
	if e != 0 {
		return nil, failed("landlock: create ruleset", e)
	}
	defer unix.Close(int(fd))
	if err := d.grant(int(fd), rights.fs); err != nil {
		return nil, err
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); e != 0 {
		return nil, failed("landlock: restrict", e)
	}
	return notes, nil
}

// grant adds a rule for every path. What is not there, or not to be entered, needs none.
func (d *domain) grant(ruleset int, handled uint64) error {
	for _, p := range d.writable {
		if err := allowPath(ruleset, p, handled); err != nil {
			return failed("landlock: "+p, err)
		}
	}
	for _, fd := range d.dirs {
		if err := allow(ruleset, fd, handled); err != nil {
			return failed("landlock: folder", err)
		}
	}
	if d.readable == nil {
		return nil
	}
	if err := allowPath(ruleset, "/", handled&llReadDir); err != nil {
		return failed("landlock: /", err)
	}
	for _, p := range d.readable {
		if err := allowPath(ruleset, p, handled&(llReadDir|llReadFile)); err != nil {
			return failed("landlock: "+p, err)
		}
	}
	return nil
}

func allowPath(ruleset int, path string, rights uint64) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT || err == unix.EACCES {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return allow(ruleset, at, rights)
}

// allow grants those of the rights that the thing at a descriptor can have.
func allow(ruleset, at int, handled uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	grant := uint64(llTree)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		grant = llFile
	}
	if grant &= handled; grant == 0 {
		return nil
	}
	var rule [12]byte // packed: u64 rights, s32 descriptor
	*(*uint64)(unsafe.Pointer(&rule[0])) = grant
	*(*int32)(unsafe.Pointer(&rule[8])) = int32(at)
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), llPathBeneath, uintptr(unsafe.Pointer(&rule[0])), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
