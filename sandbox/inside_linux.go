package sandbox

import (
	"context"
	"os"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"golang.org/x/sys/unix"
)

// Inside says whether this process runs in a box of hardshell's, and on which rung. It asks the kernel, never a
// variable: anybody can set one. What it proves is a filter that only we make, without a way back, and a root that
// cannot be written; whoever could feign that confines us as well.
func Inside() (Rung, bool) { return inside() }

func inside() (Rung, bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") || !strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return "", false
	}
	if !tagged() || unix.Access("/", unix.W_OK) == nil {
		return "", false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == unix.EAFNOSUPPORT {
		return RungRestricted, true
	}
	if err != nil {
		return "", false
	}
	unix.Close(fd)
	var st unix.Statfs_t
	if unix.Statfs("/", &st) != nil || st.Flags&unix.ST_RDONLY == 0 {
		return "", false
	}
	return RungJail, true
}

// tagged says whether this process bears a call's tag, and the filter guards it: a limit that is set to what it is
// already is refused by nothing else.
func tagged() bool {
	var l unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &l) != nil || l.Cur == unix.RLIM_INFINITY || l.Cur == 0 {
		return false
	}
	if unix.Prlimit(0, unix.RLIMIT_RTTIME, &l, nil) != unix.EPERM {
		return false
	}
	_, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	return err == unix.ENOSYS // libraries fall back: only our filter says that a kernel with Landlock has it not
}

// openInside makes a box in a box. Its jail cannot be made again, so we add nothing where the box around us is as
// tight as what was asked; where it is not, Landlock and seccomp can still be, if the policy accepts that.
func openInside(ctx context.Context, spec *Spec, around Rung) (*Box, error) {
	if spec.Hosted != nil {
		return nil, fault.New(fault.Isolation, "this runs in a sandbox (%s) already, in which no jail can be made", around).
			WithTry("run it outside of the sandbox")
	}
	looser := looserThan(spec)
	if spec.Policy.Network == NetworkProxied {
		looser = "use no network but that of its own"
	}
	if looser == "" {
		return open(ctx, spec, RungExternal)
	}
	if spec.Policy.Least == RungRestricted {
		return open(ctx, spec, RungRestricted)
	}
	return nil, fault.New(fault.Isolation, "this runs in a sandbox (%s) already, in which no other can be made, and that one lets commands %s", around, looser).
		WithTry("--sandbox external-sandbox accepts the one around; or run it outside")
}

// looserThan says in which point the box around us lets more be done than was asked; "" is in none.
func looserThan(spec *Spec) string {
	if spec.Policy.Network != NetworkFull && reachesOut() {
		return "use the network"
	}
	if spec.Policy.Mode == ReadOnly && canWrite(spec.Cwd) {
		return "write " + spec.Cwd
	}
	return ""
}

// canWrite says whether a file can be made in a folder. It makes one without a name.
func canWrite(dir string) bool {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
		return true
	}
	var st unix.Statfs_t
	return err == unix.EOPNOTSUPP && (unix.Statfs(dir, &st) != nil || st.Flags&unix.ST_RDONLY == 0)
}

// reachesOut says whether there is an interface beside the loopback, and sockets to use it.
func reachesOut() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name != "lo" {
			return true
		}
	}
	return false
}
