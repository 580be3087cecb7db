package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// Where a hosted box's own folders are seen, and who its commands are.
const (
	hostedWorkspace = "/mnt/data"
	hostedTmp       = "/tmp"
	hostedHome      = "/home/user"
	hostedUID       = 1000
	hostedUser      = "user"
)

// layout is a plan in the making.
type layout struct {
	resident.Plan
	id    identity
	trees []int // descriptors that travel to the resident, with the plan
	spawn spawner
	owned func() (int, error) // makes, once, a user namespace that maps root to the box's uid; nil: none was needed

	uncovered []string // closed folders that were covered already
	readonly  []string // parts of writable folders that stay read-only
	hidden    []string // what the box does not see of the host
	shown     []string // what it sees all the same
	missing   []string // what this rung cannot hold to
	tmp       string   // the folder for TMPDIR, where /tmp is not the box's own
	guards    []guard
}

func (l *layout) add(m resident.Mount) { l.Mounts = append(l.Mounts, m) }

func (l *layout) close() {
	for _, fd := range l.trees {
		unix.Close(fd)
	}
	for _, g := range l.guards {
		g.close()
	}
	if l.owned == nil {
		return
	}
	if fd, err := l.owned(); err == nil {
		unix.Close(fd)
	}
}

// mapped returns the user namespace by which root's folders are shown as the box's own.
func (l *layout) mapped() (int, error) {
	if l.owned == nil {
		l.expectRoots()
	}
	return l.owned()
}

// expectRoots readies that namespace for its first use.
func (l *layout) expectRoots() {
	l.owned = sync.OnceValues(func() (int, error) { return l.spawn.userNamespace(0, l.id.host) })
}

// systemPaths are shown to hosted boxes, read-only, where the host has them. A link is copied as a link.
var systemPaths = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// systemFiles are the parts of the host's /etc that programs need and that say nothing about the host's users.
var systemFiles = []string{
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", // how programs are found and linked
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ca-certificates", "/etc/pki/tls", "/etc/pki/ca-trust", // whom to trust
	"/etc/crypto-policies",
	"/etc/localtime", "/etc/timezone", "/etc/locale.conf", "/etc/default/locale", "/etc/locale.alias",
	"/etc/protocols", "/etc/services", "/etc/mime.types", "/etc/magic", "/etc/ethertypes", "/etc/rpc", // tables
	"/etc/os-release", "/etc/debian_version", "/etc/lsb-release", "/etc/alpine-release",
	"/etc/bash.bashrc", "/etc/profile", "/etc/profile.d", "/etc/inputrc", "/etc/terminfo", "/etc/vim", "/etc/nanorc",
	"/etc/fonts", "/etc/perl", "/etc/python3", "/etc/python3.11", "/etc/python3.12", "/etc/python3.13",
	"/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/R", "/etc/ImageMagick-6", "/etc/texmf",
}

// hostedPlan furnishes an empty root: the system's programs read-only, a generated /etc, and three folders of its own.
func (l *layout) hosted(spec *Spec) error {
	h := spec.Hosted
	l.Root, l.Home, l.Hostname = resident.RootSkeleton, hostedWorkspace, "hardshell"
	l.add(resident.Mount{Step: resident.StepBind, Source: "/usr", Target: "/usr"})
	for _, p := range systemPaths {
		l.add(resident.Mount{Step: resident.StepBind, Source: p, Target: p, Optional: true})
	}
	for _, f := range generatedFiles(spec.Policy.Network) {
		l.add(resident.Mount{Step: resident.StepFile, Target: f.path, Data: f.text})
	}
	for _, f := range h.Files {
		if !clean(f.Path) || !strings.HasPrefix(f.Path, "/etc/") {
			return fault.New(fault.Invalid, "the file %q is not a plain path below /etc", f.Path)
		}
		l.add(resident.Mount{Step: resident.StepFile, Target: f.Path, Data: f.Text})
	}
	for _, p := range systemFiles {
		l.add(resident.Mount{Step: resident.StepBind, Source: p, Target: p, Optional: true})
	}
	if spec.Policy.Network == NetworkFull {
		l.resolver()
	}
	for _, p := range []string{"/var/tmp", "/run", "/opt", "/srv", "/root", "/var/lib", "/var/log"} {
		l.add(resident.Mount{Step: resident.StepDir, Target: p})
	}
	for _, p := range h.ReadOnlyBinds {
		if !clean(p) {
			return fault.New(fault.Invalid, "read-only bind %q is not a plain absolute path", p)
		}
		l.add(resident.Mount{Step: resident.StepBind, Source: p, Target: p})
		for _, s := range socketPaths() { // a mount that can only be read does not stop a connect
			if strings.HasPrefix(s, p+"/") || s == p {
				l.add(resident.Mount{Step: resident.StepMask, Target: s})
			}
		}
	}
	l.add(resident.Mount{Step: resident.StepProc, Target: "/proc"})
	l.add(resident.Mount{Step: resident.StepDev, Target: "/dev"})
	l.add(resident.Mount{Step: resident.StepTmpfs, Target: "/var/tmp", Data: "mode=1777,size=64m"})
	l.Writable = []string{"/dev", "/proc", "/var/tmp"}
	if h.Output != "" {
		if !clean(h.Output) {
			return fault.New(fault.Invalid, "the output folder %q is not a plain absolute path", h.Output)
		}
		if err := l.bind(filepath.Join(spec.Dir, jobsName), h.Output, false); err != nil {
			return err
		}
	}
	for _, b := range h.Shown {
		if !clean(b.Target) {
			return fault.New(fault.Invalid, "the name %q for a shown folder is not a plain absolute path", b.Target)
		}
		if err := l.bind(b.Source, b.Target, false); err != nil {
			return err
		}
	}
	for _, b := range [][2]string{{h.Workspace, hostedWorkspace}, {h.Tmp, hostedTmp}, {h.Home, hostedHome}} {
		if err := l.writable(b[0], b[1]); err != nil {
			return err
		}
	}
	return nil
}

type generated struct{ path, text string }

func generatedFiles(network Network) []generated {
	files := []generated{
		{"/etc/passwd", fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\n%s:x:%d:%d:user:%s:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", hostedUser, hostedUID, hostedUID, hostedHome)},
		{"/etc/group", fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", hostedUser, hostedUID)},
		{"/etc/hosts", "127.0.0.1 localhost hardshell\n::1 localhost\n"},
		{"/etc/hostname", "hardshell\n"},
		{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"},
	}
	if network != NetworkFull {
		files = append(files, generated{"/etc/resolv.conf", ""})
	}
	return files
}

// resolver shows the host's list of name servers under its usual name, wherever the host's link leads.
func (l *layout) resolver() {
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		l.add(resident.Mount{Step: resident.StepBind, Source: real, Target: "/etc/resolv.conf"})
	}
}

// writable binds a host folder at target, for the box's uid to write.
func (l *layout) writable(source, target string) error {
	l.Writable = append(l.Writable, target)
	return l.bind(source, target, true)
}

func (l *layout) bind(source, target string, writable bool) error {
	if !clean(source) {
		return fault.New(fault.Invalid, "the folder %q is not a plain absolute path", source)
	}
	m := resident.Mount{Step: resident.StepBind, Source: source, Target: target, Writable: writable}
	if l.id.root {
		fd, err := l.tree(source, writable)
		if err != nil {
			return err
		}
		m.Source, m.Tree = "", len(l.trees)
		l.trees = append(l.trees, fd)
	}
	l.add(m)
	return nil
}

// tree clones the mount of a folder for a box whose uid may not be able to reach its path. A folder of root's is
// shown as the box's own; one of the box's uid as it is; any other would need to be run as its owner.
func (l *layout) tree(source string, writable bool) (int, error) {
	at, err := resident.OpenChecked(source, l.Root)
	if err == unix.ELOOP {
		return -1, fault.Wrap(fault.Isolation, err, "the folder %s is a link, or is reached by one", source).WithTry("name the folder that it leads to")
	}
	if err != nil {
		return -1, fault.Wrap(fault.Isolation, err, "the folder %s cannot be shown to a sandbox", source)
	}
	defer unix.Close(at)
	fd, err := unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == unix.EPERM || err == unix.EACCES {
		return -1, refusal(err) // it minds us, not the folder
	}
	if err != nil {
		return -1, fault.Wrap(fault.Isolation, err, "the folder %s cannot be shown to a sandbox", source)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, fault.Wrap(fault.Isolation, err, "the folder %s cannot be shown to a sandbox", source)
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	switch int(st.Uid) {
	case l.id.host:
	case 0:
		ns, err := l.mapped()
		if err != nil {
			unix.Close(fd)
			return -1, fault.Wrap(fault.Isolation, err, "no user namespace to map the owner of %s", source).
				WithTry("%s", refusal(err).Try)
		}
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(ns)
	default:
		if !writable {
			break // it reads what others may
		}
		unix.Close(fd)
		return -1, fault.New(fault.Isolation, "the folder %s belongs to uid %d, the sandbox runs as uid %d", source, st.Uid, l.id.host).
			WithTry("chown it to uid %d, or run hardshell as uid %d", l.id.host, st.Uid)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr); err != nil {
		unix.Close(fd)
		return -1, fault.Wrap(fault.Isolation, err, "the file system of %s refuses to map owners", source).
			WithTry("use a folder on ext4, xfs, btrfs or tmpfs, or chown it to uid %d", l.id.host)
	}
	return fd, nil
}

// clean says whether a path is absolute and has no surprises.
func clean(p string) bool { return filepath.IsAbs(p) && filepath.Clean(p) == p && p != "/" }

func isPlainFolder(p string) bool {
	st, err := os.Lstat(p)
	return err == nil && st.IsDir()
}
