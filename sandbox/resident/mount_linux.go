package resident

import (
	"golang.org/x/sys/unix"
)

// The stage is a tmpfs over a folder that every host has. Below it lie the new root and the two empty things that
// masks show; after the pivot only the root can be reached.
const (
	stage     = "/tmp"
	stageRoot = stage + "/root"
	emptyDir  = stage + "/dir"
	emptyFile = stage + "/file"
)

// setupError is a failed step, in words for the operator.
type setupError struct {
	step string
	err  error
}

func (e *setupError) Error() string { return e.step + ": " + e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

func failed(step string, err error) error {
	if err == nil {
		return nil
	}
	return &setupError{step, err}
}

// builder furnishes a new root.
type builder struct{ root int }

// bound flags of mounts that were bound: commands find no set-id program and no device through them.
const bound = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// buildRoot makes the box's root from a plan and moves into it. It runs with full capabilities in a user and a mount
// namespace of its own.
func buildRoot(p *Plan) error {
	var b builder
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return failed("make mounts private", err)
	}
	host := -1
	if p.Root == RootHost {
		// Cloned before the stage covers a part of it.
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return failed("clone the host's mounts", err)
		}
		defer unix.Close(fd)
		if err := setAttr(fd, bound|unix.MOUNT_ATTR_RDONLY, true); err != nil {
			return failed("make the host's mounts read-only", err)
		}
		host = fd
	}
	trees, err := openTrees(p)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=4m"); err != nil {
		return failed("mount the stage", err)
	}
	if err := b.furnishStage(host); err != nil {
		return err
	}
	defer unix.Close(b.root)
	for i := range p.Mounts {
		if err := b.place(&p.Mounts[i], trees[i]); err != nil {
			return failed(p.Mounts[i].Target, err)
		}
	}
	if p.Root == RootSkeleton {
		if err := setAttrPath(stageRoot, bound|unix.MOUNT_ATTR_RDONLY); err != nil {
			return failed("make the root read-only", err)
		}
	}
	return pivot()
}

func (b *builder) furnishStage(host int) (err error) {
	if err := unix.Mkdir(stageRoot, 0o755); err != nil {
		return failed("make the root", err)
	}
	if err := unix.Mkdir(emptyDir, 0o555); err != nil {
		return failed("make the empty folder", err)
	}
	if err := writeFile(emptyFile, nil, 0o444); err != nil {
		return failed("make the empty file", err)
	}
	// Read-only mounts of their own, so that a mask is one bind, which inherits that.
	for _, empty := range []string{emptyDir, emptyFile} {
		if err := unix.Mount(empty, empty, "", unix.MS_BIND, ""); err != nil {
			return failed("bind the masks", err)
		}
		if err := setAttrPath(empty, bound|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY); err != nil {
			return failed("bind the masks", err)
		}
	}
	if host >= 0 {
		err = unix.MoveMount(host, "", unix.AT_FDCWD, stageRoot, unix.MOVE_MOUNT_F_EMPTY_PATH)
	} else {
		err = unix.Mount(stageRoot, stageRoot, "", unix.MS_BIND, "")
	}
	if err == nil {
		b.root, err = unix.Open(stageRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	return failed("mount the root", err)
}

// pivot makes the new root the only one.
func pivot() error {
	if err := unix.Chdir(stageRoot); err != nil {
		return failed("enter the root", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return failed("pivot", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return failed("drop the old root", err)
	}
	return failed("enter the root", unix.Chdir("/"))
}

// openTrees clones what the plan's binds show, while the host's paths can still be reached: the stage and the
// box's own mounts will cover some.
func openTrees(p *Plan) ([]int, error) {
	trees := make([]int, len(p.Mounts))
	for i := range p.Mounts {
		m := &p.Mounts[i]
		trees[i] = -1
		if m.Step != StepBind {
			continue
		}
		if m.Source == "" {
			trees[i] = m.Tree
			continue
		}
		if m.Optional && isLink(m.Source) {
			continue
		}
		var fd int
		var err error
		if m.Writable {
			fd, err = cloneChecked(m.Source, p.Root)
		} else {
			fd, err = cloneTree(m.Source, false)
		}
		if err == unix.ENOENT && m.Optional {
			continue
		}
		if err != nil {
			return nil, failed("bind "+m.Source, err)
		}
		trees[i] = fd
	}
	return trees, nil
}

// place carries out one step below the stage.
func (b *builder) place(m *Mount, tree int) error {
	target := stageRoot + m.Target
	switch m.Step {
	case StepDir:
		return mkdirAll(target)
	case StepFile:
		mkdirAll(parent(target))
		return writeFile(target, []byte(m.Data), 0o444)
	case StepBind:
		return b.placeBind(m, tree, target)
	case StepTmpfs:
		if err := folder(target); err != nil {
			return err
		}
		return unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, m.Data)
	case StepProc:
		if err := folder(target); err != nil {
			return err
		}
		return b.mountProc(target)
	case StepDev:
		if err := folder(target); err != nil {
			return err
		}
		return b.mountDev(target)
	case StepMask:
		return b.mask(target)
	case StepPin:
		return b.pin(m)
	}
	return unix.EINVAL
}

func (b *builder) placeBind(m *Mount, tree int, target string) error {
	mkdirAll(parent(target))
	if tree < 0 {
		if !isLink(m.Source) {
			return nil // optional, and absent
		}
		var name [unix.PathMax]byte
		n, err := unix.Readlink(m.Source, name[:])
		if err != nil {
			return err
		}
		return unix.Symlink(string(name[:n]), target)
	}
	defer unix.Close(tree)
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mkdirAll(target)
	} else if !exists(target) {
		if err := writeFile(target, nil, 0o444); err != nil {
			return err
		}
	}
	return b.moveTo(tree, target)
}

// mask covers a path of the host's tree with something empty, if the path is there.
func (b *builder) mask(target string) error {
	var st unix.Stat_t
	if err := unix.Lstat(target, &st); err != nil {
		return nil
	}
	source := emptyFile
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		source = emptyDir
	case unix.S_IFLNK:
		return nil // what it names is masked under its own name
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return b.moveTo(fd, target)
}

// pin shows something of the new root over itself. No link on the way is followed, and a link at its end is pinned as
// what it is: that of a path which the owner has seen must not lead elsewhere now.
func (b *builder) pin(m *Mount) error {
	at, err := unix.Openat2(b.root, m.Target[1:], &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS})
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !m.Writable {
		if err := setAttr(fd, unix.MOUNT_ATTR_RDONLY, true); err != nil {
			return err
		}
	}
	return unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// closeOff covers something in a /proc of our own, where no name is a link.
func closeOff(target string) error {
	err := unix.Mount(emptyFile, target, "", unix.MS_BIND, "")
	if err == unix.ENOTDIR {
		err = unix.Mount(emptyDir, target, "", unix.MS_BIND, "")
	}
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// The dangerous parts of /proc. A kernel that has not one of them has nothing to close.
var (
	procReadOnly = []string{"sys", "irq", "bus", "fs", "tty/driver"}
	procMasked   = []string{"kcore", "keys", "key-users", "kmsg", "kallsyms", "kpagecount", "kpageflags", "kpagecgroup",
		"latency_stats", "timer_list", "timer_stats", "sched_debug", "sysrq-trigger", "acpi", "scsi", "asound", "mtrr",
		"vmallocinfo", "slabinfo", "pagetypeinfo", "swaps", "diskstats", "partitions"}
)

func (b *builder) mountProc(target string) error {
	if err := unix.Mount("proc", target, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	for _, name := range procReadOnly {
		fd, err := cloneTree(target+"/"+name, false)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return failed(name, err)
		}
		err = b.moveTo(fd, target+"/"+name)
		unix.Close(fd)
		if err != nil {
			return failed(name, err)
		}
	}
	for _, name := range procMasked {
		if err := closeOff(target + "/" + name); err != nil {
			return failed(name, err)
		}
	}
	return nil
}

var (
	devNodes = []string{"null", "zero", "full", "random", "urandom", "tty"}
	devLinks = [][2]string{{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
		{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}}
)

func (b *builder) mountDev(target string) error {
	// The host's nodes are cloned first: on a clone of the host's root the target covers nothing of the old one.
	nodes := make([]int, len(devNodes))
	for i, name := range devNodes {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return failed(name, err)
		}
		defer unix.Close(fd)
		if err := setAttr(fd, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, false); err != nil {
			return failed(name, err)
		}
		nodes[i] = fd
	}
	if err := unix.Mount("tmpfs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=755,size=64k"); err != nil {
		return err
	}
	for i, name := range devNodes {
		if err := writeFile(target+"/"+name, nil, 0o444); err != nil {
			return failed(name, err)
		}
		if err := b.moveTo(nodes[i], target+"/"+name); err != nil {
			return failed(name, err)
		}
	}
	for _, l := range devLinks {
		if err := unix.Symlink(l[1], target+"/"+l[0]); err != nil {
			return failed(l[0], err)
		}
	}
	mkdirAll(target + "/pts")
	if err := unix.Mount("devpts", target+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,max=256"); err != nil {
		return failed("pts", err)
	}
	mkdirAll(target + "/shm")
	if err := unix.Mount("tmpfs", target+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"); err != nil {
		return failed("shm", err)
	}
	return setAttrPath(target, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY)
}

func setAttr(fd int, attr uint64, recursive bool) error {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	return unix.MountSetattr(fd, "", flags, &unix.MountAttr{Attr_set: attr})
}

// setAttrPath changes the mount at path alone, not those below it.
func setAttrPath(path string, attr uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: attr})
}

// moveTo attaches a tree at a path below the stage's root. The path is resolved inside that root, links included: a
// link in the clone of the host's tree must not lead the mount, or a mask, to the host's own tree.
func (b *builder) moveTo(tree int, target string) error {
	at, err := unix.Openat2(b.root, target[len(stageRoot)+1:], &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// folder makes target a folder that is no link, so that a mount on its path lands in the new root.
func folder(target string) error {
	if isLink(target) {
		return unix.ELOOP
	}
	if !exists(target) {
		return mkdirAll(target)
	}
	return nil
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

func isLink(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// mkdirAll makes a folder and its parents; what is in the way shows at the next step.
func mkdirAll(path string) error {
	err := unix.Mkdir(path, 0o755)
	if err != unix.ENOENT {
		if err == unix.EEXIST {
			return nil
		}
		return err
	}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			unix.Mkdir(path[:i], 0o755)
		}
	}
	if err := unix.Mkdir(path, 0o755); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

func parent(path string) string {
	i := len(path) - 1
	for i > 0 && path[i] != '/' {
		i--
	}
	return path[:i]
}

func writeFile(path string, data []byte, mode uint32) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil {
			unix.Close(fd)
			return err
		}
		data = data[n:]
	}
	return unix.Close(fd)
}
