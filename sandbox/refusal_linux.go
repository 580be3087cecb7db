package sandbox

import (
	"errors"
	"os"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"golang.org/x/sys/unix"
)

// The remedies of a machine on which no jail can be made, by what the kernel minded.
const (
	// permit is for what it did not say. Doctor prints it too, so it does not point there.
	permit        = "allow user namespaces, mounts and seccomp filters to this process (a container's profile may forbid them); the system's log may name what refused"
	allowUsers    = "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 (in a container: allow user namespaces in its seccomp profile)"
	allowMore     = "sysctl -w user.max_user_namespaces=65536"
	allowPower    = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0 (or a profile of the security module that lets this program use user namespaces)"
	newerKernel   = "a kernel of version 5.12 or later with user namespaces"
	wholeProc     = "give the container a whole /proc: docker run --security-opt systempaths=unconfined, in Kubernetes procMount: Unmasked"
	openContainer = "in a container, run as an ordinary user with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or as root with --cap-add SYS_ADMIN --security-opt apparmor=unconfined besides"
)

// refusal is the error of a machine on which a jail cannot be made. What a resident says of itself comes as text.
func refusal(err error) *fault.Error {
	f := fault.Wrap(fault.Isolation, err, "a sandbox cannot be made on this machine")
	text := err.Error()
	denied := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
	says := func(errno unix.Errno) bool { return strings.HasSuffix(text, ": "+errno.Error()) }
	switch {
	case strings.HasPrefix(text, "/proc: ") && says(unix.EPERM):
		return f.WithTry("%s", wholeProc) // a masked one: the kernel mounts no other beside it
	case denied && os.Geteuid() == 0 && !mayMount():
		return f.WithTry("%s", openContainer)
	case denied:
		return f.WithTry("%s", allowUsers)
	case strings.HasPrefix(text, "make mounts private: ") && (says(unix.EPERM) || says(unix.EACCES)):
		return f.WithTry("%s", allowPower) // the namespaces are there, and give no right
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		return f.WithTry("%s", allowMore)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return f.WithTry("%s", newerKernel)
	}
	return f.WithTry("%s", permit)
}

// mayMount says whether we have the right that root in a container usually has not.
func mayMount() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
