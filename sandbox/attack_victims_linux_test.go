package sandbox_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hardshell-dev/hardshell/sandbox"
	"golang.org/x/sys/unix"
)

// victims are the things of the host that an escape would reach. All belong to the uid that the box's commands run
// as, so that no owner's right protects them, but only the box.
type victims struct {
	Pid      int    // a process
	Port     int    // a TCP listener on the loopback of IPv4
	Port6    int    // and of IPv6
	UDP      int    // a UDP socket there
	Socket   string // a unix socket with a path
	Datagram string // another, for datagrams
	Late     string // one that was made after the box was opened
	Abstract string // one without a path
	Shown    string // a file that the box sees and may only read
	Memory   int    // a System V shared memory segment
	Control  string // the box's own control socket
	Report   string // and its report
	Jobs     string // and the folder of its jobs

	Resident int // the process that started the probe
	Sibling  int // a child of the probe's
}

// sleepArg makes this test binary a process that waits to be killed.
const sleepArg = "sleep"

const untouched = "untouched"

// hostVictims starts them.
func hostVictims(t *testing.T, w world) victims {
	t.Helper()
	v := victims{Abstract: "@hardshell-test-" + strconv.Itoa(os.Getpid()) + "-" + filepath.Base(w.root)}
	sleeper := exec.Command("/proc/self/exe", sleepArg)
	sleeper.Env = append(os.Environ(), "VICTIM=1")
	sleeper.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		sleeper.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}
	}
	must(t, sleeper.Start())
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	v.Pid = sleeper.Process.Pid
	listen := func(network, at string) net.Addr {
		l, err := net.Listen(network, at)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		return l.Addr()
	}
	v.Port = listen("tcp4", "127.0.0.1:0").(*net.TCPAddr).Port
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		t.Cleanup(func() { l.Close() })
		v.Port6 = l.Addr().(*net.TCPAddr).Port
	}
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { udp.Close() })
	v.UDP = udp.LocalAddr().(*net.UDPAddr).Port
	listen("unix", v.Abstract)
	v.Shown = w.file(t, "shown/file", untouched, 0o666)
	v.Socket = w.socket(t, "shown/stream", unix.SOCK_STREAM)
	v.Datagram = w.socket(t, "shown/datagram", unix.SOCK_DGRAM)
	id, _, e := unix.Syscall(unix.SYS_SHMGET, unix.IPC_PRIVATE, 4096, 0o666|unix.IPC_CREAT)
	if e != 0 {
		t.Fatal(e)
	}
	t.Cleanup(func() { unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0) })
	v.Memory = int(id)
	return v
}

// socket makes a unix socket that everybody may connect to.
func (w world) socket(t *testing.T, name string, kind int) string {
	t.Helper()
	w.folder(t, filepath.Dir(name))
	network := map[int]string{unix.SOCK_STREAM: "unix", unix.SOCK_DGRAM: "unixgram", unix.SOCK_SEQPACKET: "unixpacket"}[kind]
	at := &net.UnixAddr{Net: network, Name: w.at(name)}
	if kind == unix.SOCK_DGRAM {
		c, err := net.ListenUnixgram(network, at)
		must(t, err)
		t.Cleanup(func() { c.Close() })
	} else {
		l, err := net.ListenUnix(network, at)
		must(t, err)
		t.Cleanup(func() { l.Close() })
	}
	must(t, os.Chmod(at.Name, 0o777))
	must(t, os.Chown(at.Name, w.uid, w.uid))
	return at.Name
}

// afterOpen adds what there is only once the box is open.
func (v *victims) afterOpen(t *testing.T, w world, spec sandbox.Spec) {
	t.Helper()
	v.Late = w.socket(t, "shown/late", unix.SOCK_STREAM)
	v.Control, v.Report, v.Jobs = filepath.Join(spec.Dir, "control"), filepath.Join(spec.Dir, "report.json"), filepath.Join(spec.Dir, "jobs")
}

// withoutBox makes what a box has of its own, for attempts that are made without one.
func (v *victims) withoutBox(t *testing.T, w world) {
	t.Helper()
	must(t, os.MkdirAll(v.Jobs, 0o777))
	w.socket(t, "state/box/control", unix.SOCK_SEQPACKET)
	w.file(t, "state/box/report.json", "{}", 0o600)
	w.folder(t, "state/box/jobs")
}

// unharmed judges from the host.
func (v *victims) unharmed(t *testing.T) {
	t.Helper()
	if b, err := os.ReadFile(v.Shown); err != nil || string(b) != untouched {
		t.Errorf("the file that may only be read is now %q, %v", b, err)
	}
	if st, err := os.Stat(v.Shown); err == nil && st.Mode().Perm() != 0o666 {
		t.Errorf("its mode is now %v", st.Mode())
	}
	if err := unix.Kill(v.Pid, 0); err != nil {
		t.Errorf("the process: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(v.Shown))
	if err != nil || len(entries) != 4 {
		t.Errorf("the folder that may only be read now holds %v, %v", entries, err)
	}
}

// What attempts are made of.

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

// text is a C string.
func text(s string) uintptr {
	b, _ := unix.BytePtrFromString(s)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(b))
}

// room is zeroed memory to point at.
func room(size int) uintptr {
	b := make([]byte, size)
	kept = append(kept, &b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}

// kept keeps what system calls point at.
var kept []*byte

func opens(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func reads(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, make([]byte, 4096))
	if err == nil && n == 0 {
		return unix.ENODATA // a mask
	}
	return err
}

// lists reads a folder.
func lists(path string) error {
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) == 0 {
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
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
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

// sends sends a datagram without connecting.
func sends(a unix.Sockaddr, family int) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("x"), 0, a)
}

func proc(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// holdsText says whether a file's content can be had.
func holdsText(path string, want []byte) error {
	b, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(b, want) {
		return unix.ENODATA
	}
	return err
}
