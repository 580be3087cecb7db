package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/hardshell-dev/hardshell/internal/require"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
	"golang.org/x/sys/unix"
)

// probeArg makes this test binary, started again inside a box, attempt to get out of it.
const probeArg = "try-to-escape"

// victims are things of the host that an escape would reach.
type victims struct {
	Pid      int    // a process of the caller's
	Port     int    // a TCP listener on the host's loopback
	Socket   string // a unix socket with a path, open to all
	Abstract string // one without
	Outside  string // a file of the caller's outside the box's folders
	Local    bool   // the host's root is seen
}

type attempt struct {
	name string
	do   func() error // nil is an escape
}

// tryEscapes makes each attempt by direct system call and says which succeeded.
func tryEscapes(args []string) int {
	var v victims
	if err := json.Unmarshal([]byte(args[0]), &v); err != nil {
		fmt.Println(err)
		return 99
	}
	holes := 0
	all := attempts(v)
	for _, a := range all {
		if err := a.do(); err == nil {
			holes++
			fmt.Println("HOLE:", a.name)
		}
	}
	fmt.Printf("%d attempts\n", len(all))
	return min(holes, 90)
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

func opens(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func reads(path string) error {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == 0 {
		return unix.ENODATA // a mask
	}
	return err
}

func socket(family, kind, proto int) error {
	fd, err := unix.Socket(family, kind, proto)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func connects(a unix.Sockaddr, family, kind int) error {
	fd, err := unix.Socket(family, kind, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, a); err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("x"))
	return err
}

func attempts(v victims) []attempt {
	at := func(name string) string { return "/proc/" + strconv.Itoa(v.Pid) + "/" + name }
	ro := "/usr/bin/env"
	local := [4]byte{127, 0, 0, 1}
	return []attempt{
		{"1 append outside", func() error { return opens(v.Outside, unix.O_WRONLY|unix.O_APPEND) }},
		{"1 append to a program", func() error { return opens(ro, unix.O_WRONLY|unix.O_APPEND) }},
		{"1 write under /etc", func() error { return opens("/etc/x", unix.O_WRONLY|unix.O_CREAT) }},
		{"1 write in the root", func() error { return opens("/x", unix.O_WRONLY|unix.O_CREAT) }},
		{"2 chmod outside", func() error { return unix.Chmod(v.Outside, 0o666) }},
		{"2 chmod a program", func() error { return unix.Chmod(ro, 0o755) }},
		{"2 chmod the root", func() error { return unix.Chmod("/", 0o777) }},
		{"3 chown outside", func() error { return unix.Chown(v.Outside, os.Getuid(), os.Getgid()) }},
		{"4 times outside", func() error { return unix.Utimes(v.Outside, make([]unix.Timeval, 2)) }},
		{"4 times of the root", func() error { return unix.Utimes("/etc", make([]unix.Timeval, 2)) }},
		{"5 attribute outside", func() error { return unix.Setxattr(v.Outside, "user.x", []byte("y"), 0) }},
		{"6 block device in the workspace", func() error { return unix.Mknod("vda", unix.S_IFBLK|0o600, 254<<8) }},
		{"6 character device in the workspace", func() error { return unix.Mknod("mem", unix.S_IFCHR|0o600, 1<<8|1) }},
		{"7 open the disk", func() error { return opens("/dev/vda", unix.O_RDONLY) }},
		{"8 mount", func() error { return unix.Mount("t", "/mnt", "tmpfs", 0, "") }},
		{"9 remount writable", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"9 mount_setattr writable", func() error {
			return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}},
		{"10 unmount a mask", func() error { return unix.Unmount("/proc/kcore", unix.MNT_DETACH) }},
		{"10 unmount /proc", func() error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		{"11 join process 1's mounts", func() error {
			fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, 0)
		}},
		{"11 the resident's root", func() error { return opens("/proc/1/root/proc", unix.O_RDONLY) }},
		{"11 the resident's folder", func() error { return opens("/proc/1/cwd/.", unix.O_RDONLY) }},
		{"12 chroot", func() error { return unix.Chroot(".") }},
		{"13 signal a host process", func() error { return unix.Kill(v.Pid, 0) }},
		{"14 its environment", func() error { return reads(at("environ")) }},
		{"14 the resident's environment", func() error { return reads("/proc/1/environ") }},
		{"15 its memory", func() error { return opens(at("mem"), unix.O_RDWR) }},
		{"15 the resident's memory", func() error { return opens("/proc/1/mem", unix.O_RDWR) }},
		{"15 the resident's map", func() error { return reads("/proc/1/maps") }},
		{"15 the resident's descriptors", func() error { return opens("/proc/1/fd", unix.O_RDONLY|unix.O_DIRECTORY) }},
		{"15 one of the resident's descriptors", func() error { return opens("/proc/1/fd/5", unix.O_RDONLY) }},
		{"16 trace", func() error { return call(unix.SYS_PTRACE, 16, 1) }},
		{"16 trace a child", func() error { return call(unix.SYS_PTRACE, 0x4206, uintptr(os.Getppid())) }},
		{"17 read memory", func() error { return call(unix.SYS_PROCESS_VM_READV, 1) }},
		{"18 take a descriptor", func() error {
			p, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(p, 5, 0)
			return err
		}},
		{"19 core_pattern", func() error { return opens("/proc/sys/kernel/core_pattern", unix.O_WRONLY|unix.O_APPEND) }},
		{"20 drop_caches", func() error { return opens("/proc/sys/vm/drop_caches", unix.O_WRONLY|unix.O_APPEND) }},
		{"20 the box's own host name", func() error { return opens("/proc/sys/kernel/hostname", unix.O_WRONLY) }},
		{"21 sysrq", func() error { return opens("/proc/sysrq-trigger", unix.O_WRONLY|unix.O_APPEND) }},
		{"21 kcore", func() error { return reads("/proc/kcore") }},
		{"21 keys", func() error { return reads("/proc/keys") }},
		{"21 timer_list", func() error { return reads("/proc/timer_list") }},
		{"22 uevent_helper", func() error { return opens("/sys/kernel/uevent_helper", unix.O_WRONLY|unix.O_APPEND) }},
		{"23 leave the control group", func() error { return opens("/sys/fs/cgroup/pids/cgroup.procs", unix.O_WRONLY|unix.O_APPEND) }},
		{"24 password hashes", func() error { return reads("/etc/shadow") }},
		{"25 kernel log", func() error { return opens("/dev/kmsg", unix.O_RDONLY) }},
		{"25 kernel log by call", func() error { return call(unix.SYS_SYSLOG, 3, uintptr(unsafe.Pointer(new([16]byte))), 16) }},
		{"26 host's loopback", func() error {
			return connects(&unix.SockaddrInet4{Port: v.Port, Addr: local}, unix.AF_INET, unix.SOCK_STREAM)
		}},
		{"27 a datagram out", func() error {
			return connects(&unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}}, unix.AF_INET, unix.SOCK_DGRAM)
		}},
		{"28 netlink", func() error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT) }},
		{"29 hypervisor", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
		{"30 raw packets", func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
		{"30 raw IP", func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
		{"31 host's abstract socket", func() error { return connects(&unix.SockaddrUnix{Name: v.Abstract}, unix.AF_UNIX, unix.SOCK_STREAM) }},
		{"32 host's socket by path", func() error { return connects(&unix.SockaddrUnix{Name: v.Socket}, unix.AF_UNIX, unix.SOCK_STREAM) }},
		{"33 io_uring", func() error { return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(new([256]byte)))) }},
		{"34 bpf", func() error { return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&[32]uint32{1, 4, 4, 1})), 128) }},
		{"35 userfaultfd", func() error { return call(unix.SYS_USERFAULTFD, 1) }},
		{"36 keyring", func() error { return call(unix.SYS_KEYCTL, 0, ^uintptr(2), 1) }},
		{"37 new network namespace", func() error { return unix.Unshare(unix.CLONE_NEWNET) }},
		{"38 new user namespace", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"39 open by handle", func() error { return call(unix.SYS_OPEN_BY_HANDLE_AT, 3, uintptr(unsafe.Pointer(new([64]byte))), 0) }},
		{"40 type into the terminal", func() error { return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(new(byte)))) }},
		{"41 x32 numbers", func() error { return call(unix.SYS_GETPID | 0x40000000) }},
		{"47 out by a link", func() error {
			os.Remove("link")
			if err := os.Symlink(v.Outside, "link"); err != nil {
				return err
			}
			return opens("link", unix.O_WRONLY|unix.O_APPEND)
		}},
		{"47 hard link of the host's", func() error { return os.Link(ro, "hard") }},
		{"47 rename of the host's", func() error { return os.Rename(ro, "taken") }},
		{"48 an inherited descriptor", func() error { return inherited() }},
		{"the limits of the resident", func() error {
			return call(unix.SYS_PRLIMIT64, 1, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 1, Max: 1})), 0)
		}},
		{"take the tag off", func() error {
			return call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 5, Max: 5})), 0)
		}},
		{"a file system of its own", func() error { return call(unix.SYS_FSOPEN, uintptr(unsafe.Pointer(unsafe.StringData("tmpfs\x00"))), 0) }},
	}
}

// inherited looks for a descriptor beyond the three that leads out.
func inherited() error {
	for fd := 3; fd < 256; fd++ {
		name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err == nil && !strings.HasPrefix(name, "anon_inode:") && !strings.HasPrefix(name, "/proc/") {
			return nil
		}
	}
	return unix.EBADF
}

// hostVictims starts what an escape would reach. Its file belongs to the uid that commands run as.
func hostVictims(t testing.TB, outside string, uid int) victims {
	t.Helper()
	v := victims{Outside: outside, Abstract: "@hardshell-test-" + strconv.Itoa(os.Getpid()) + t.Name()}
	sleeper := exec.Command("sleep", "300")
	must(t, sleeper.Start())
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	v.Pid = sleeper.Process.Pid
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { tcp.Close() })
	v.Port = tcp.Addr().(*net.TCPAddr).Port
	dir, err := os.MkdirTemp("/var/tmp", "hs")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	v.Socket = filepath.Join(dir, "s")
	for _, name := range []string{v.Socket, v.Abstract} {
		l, err := net.Listen("unix", name)
		must(t, err)
		t.Cleanup(func() { l.Close() })
	}
	must(t, os.Chmod(v.Socket, 0o777))
	must(t, os.WriteFile(outside, []byte("untouched"), 0o666))
	if uid > 0 {
		must(t, os.Chown(outside, uid, uid))
	}
	return v
}

// attack runs the attempts in a box, with this binary put into a folder that the box sees.
func attack(t *testing.T, box *sandbox.Box, probe, seen string, v victims) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(probe, self, 0o755))
	text, err := json.Marshal(v)
	must(t, err)
	got := run(t, box, process.Command{Key: newKey(), Argv: []string{seen, probeArg, string(text)}, Env: environment, Timeout: time.Minute})
	if got.Code != 0 || !strings.Contains(got.out, " attempts\n") {
		t.Errorf("exit %+v\n%s%s", got.Exit, got.out, got.err)
	}
	if b, _ := os.ReadFile(v.Outside); string(b) != "untouched" {
		t.Errorf("the file outside is now %q", b)
	}
}

func TestNoWayOutOfAHostedBox(t *testing.T) {
	p := newPlace(t)
	box := p.open(t)
	v := hostVictims(t, filepath.Join(p.base, "outside"), p.spec.Hosted.UID)
	attack(t, box, filepath.Join(p.spec.Hosted.Home, "probe"), "/home/user/probe", v)
}

func TestNoWayOutOfALocalBox(t *testing.T) {
	require.Feature(t, "jail", sandbox.Supported(t.Context()))
	for _, mode := range []sandbox.Mode{sandbox.ReadOnly, sandbox.WorkspaceWrite} {
		t.Run(mode.String(), func(t *testing.T) {
			base := t.TempDir()
			work := filepath.Join(base, "work")
			must(t, os.Mkdir(work, 0o755))
			box, err := sandbox.Open(t.Context(), sandbox.Spec{Dir: filepath.Join(base, "box"), Cwd: work, Policy: sandbox.Policy{Mode: mode}})
			must(t, err)
			defer box.Close()
			uid := 0
			if os.Geteuid() == 0 {
				uid = hostUID
			}
			v := hostVictims(t, filepath.Join(base, "outside"), uid)
			v.Local = true
			attack(t, box, filepath.Join(work, "probe"), filepath.Join(work, "probe"), v)
			got := run(t, box, bash("echo x >inside && cat inside; echo y >/tmp/private && cat /tmp/private"))
			if wrote := strings.HasPrefix(got.out, "x\n"); wrote != (mode == sandbox.WorkspaceWrite) || !strings.HasSuffix(got.out, "y\n") {
				t.Errorf("%s: %+v", mode, got)
			}
			if _, err := os.Stat("/tmp/private"); err == nil {
				t.Error("/tmp is the host's")
			}
		})
	}
}

// foreign is a 32-bit program of 4 instructions: exit(0) by int 0x80.
var foreign = []byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00\x01\x00\x00\x00\x54\x80\x04\x08\x34\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
	"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08\x60\x00\x00\x00\x60\x00\x00\x00\x05\x00\x00\x00\x00\x10\x00\x00" +
	"\x31\xc0\x40\x31\xdb\xcd\x80\x00\x00\x00\x00\x00")

func TestForeignArchitectureIsKilled(t *testing.T) {
	p := newPlace(t)
	must(t, os.WriteFile(p.data("foreign"), foreign, 0o755))
	if out, err := exec.Command(p.data("foreign")).CombinedOutput(); err != nil {
		t.Skipf("this kernel runs no 32-bit programs: %v %s", err, out)
	}
	got := run(t, p.open(t), process.Command{Key: newKey(), Argv: []string{"/mnt/data/foreign"}})
	if got.Signal != "SIGSYS" {
		t.Errorf("got %+v", got)
	}
}

// setIDs tries every way to leave a set-id file behind.
const setIDs = `
cp /bin/true a; chmod 4755 a; chmod 2755 a; chmod u+s a; chmod 6777 a
mkdir d; chmod 2777 d; mkdir -m 2777 e; install -m 4755 /bin/true b; cp --preserve=mode /usr/bin/passwd c
python3 - <<'E'
import os
for n, f in enumerate([lambda p: os.open(p, os.O_CREAT|os.O_WRONLY, 0o6755), lambda p: os.mkdir(p, 0o6755), lambda p: os.mknod(p, 0o106755),
	lambda p: os.fchmod(os.open(p, os.O_CREAT|os.O_WRONLY, 0o755), 0o4755), lambda p: os.chmod(p, 0o4755),
	lambda p: os.link("/proc/self/fd/%d" % os.open(".", os.O_TMPFILE|os.O_RDWR, 0o6755), p)]):
	try: f("p%d" % n)
	except OSError: pass
E
true
`

func TestNoSetIDFileIsLeftBehind(t *testing.T) {
	p := newPlace(t)
	if os.Geteuid() == 0 { // a root-owned workspace, mapped: the case where such a file would be root's
		must(t, os.Chown(p.spec.Hosted.Workspace, 0, 0))
	}
	box := p.open(t)
	if got := run(t, box, bash(setIDs)); got.Code != 0 {
		t.Errorf("got %+v", got)
	}
	found := 0
	err := filepath.Walk(p.spec.Hosted.Workspace, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		found++
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("left behind: %s %v", path, info.Mode())
		}
		return nil
	})
	must(t, err)
	if found < 4 {
		t.Errorf("only %d files were made", found)
	}
	if st, err := os.Stat(p.data("a")); err == nil && os.Geteuid() == 0 && owner(st) != 0 {
		t.Errorf("the mapped workspace's file belongs to %d", owner(st))
	}
}

func TestWorkspaceOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can have such a folder")
	}
	p := newPlace(t)
	must(t, os.Chown(p.spec.Hosted.Workspace, 4242, 4242))
	if box, err := sandbox.Open(t.Context(), p.spec); err == nil {
		box.Close()
		t.Error("opened")
	} else if !strings.Contains(err.Error(), "4242") {
		t.Errorf("got %v", err)
	}
}
