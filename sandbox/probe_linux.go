package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// Supported is nil when a jail can be made here; else a [fault.Isolation] with a line to try. It makes one, once; a
// failure is not remembered, since somebody may act on that line.
func Supported(ctx context.Context) error { return supported.ask(ctx) }

var supported = success{try: func() error {
	_, err := trial(Limits{})
	return err
}}

// success remembers that something succeeded.
type success struct {
	try func() error

	mu   sync.Mutex
	done bool
}

func (s *success) ask(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil
	}
	err := s.try()
	s.done = err == nil
	return err
}

// SupportedRung is the strongest rung that a local box can have here. The error says why it is not a jail, and comes
// with RungRestricted too; with "" no box can be made at all.
func SupportedRung(ctx context.Context) (Rung, error) {
	if around, ok := Inside(); ok {
		return RungExternal, fault.New(fault.Isolation, "this runs in a sandbox (%s) already, in which no jail can be made", around).
			WithTry("run it outside of the sandbox")
	}
	err := Supported(ctx)
	switch {
	case err == nil:
		return RungJail, nil
	case fault.KindOf(err) == fault.Isolation && restrictedTrial() == nil:
		return RungRestricted, err
	}
	return "", err
}

// restrictedTrial makes a box without a jail, and takes it down again.
func restrictedTrial() error {
	base, err := os.MkdirTemp("", "hardshell-probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b, err := open(ctx, &Spec{Dir: filepath.Join(base, "box"), Cwd: "/"}, RungRestricted)
	if err != nil {
		return err
	}
	return b.Close()
}

// trial makes an empty hosted box and takes it down again.
func trial(l Limits) (Report, error) {
	base, err := os.MkdirTemp("", "hardshell-probe-")
	if err != nil {
		return Report{}, fault.Wrap(fault.Isolation, err, "a sandbox needs a temporary folder").WithTry("set TMPDIR to a folder that can be written")
	}
	defer os.RemoveAll(base)
	h := &Hosted{Workspace: filepath.Join(base, "data"), Tmp: filepath.Join(base, "tmp"), Home: filepath.Join(base, "home")}
	for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return Report{}, fault.Wrap(fault.Isolation, err, "a sandbox needs a temporary folder").WithTry("set TMPDIR to a folder that can be written")
		}
	}
	if os.Geteuid() == 0 {
		h.UID = chooseUID(base)
		for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
			if err := os.Chown(d, h.UID, h.UID); err != nil {
				return Report{}, fault.Wrap(fault.Isolation, err, "folders cannot be given to another uid").WithTry("run as an ordinary user")
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	b, err := Open(ctx, Spec{Dir: filepath.Join(base, "box"), Hosted: h, Limits: l})
	if err != nil {
		return Report{}, err
	}
	err = b.proveClosed(ctx)
	return b.Report(), errors.Join(err, b.Close())
}

// Probe tries each part of the isolation on this machine, for hardshell doctor.
func Probe(ctx context.Context) []Layer {
	layers := []Layer{
		timed("user namespaces", probeUserNamespace),
		timed("jail", probeJail),
		timed("restricted", probeRestricted),
		timed("seccomp", probeSeccomp),
		timed("landlock", probeLandlock),
		timed("process tag", probeTag),
		timed("memory limit", func() Layer { return probeGroup("memory", Limits{MemoryBytes: 64 << 20}) }),
		timed("process limit", func() Layer { return probeGroup("pids", Limits{Pids: 64}) }),
	}
	if os.Geteuid() == 0 {
		layers = append(layers, timed("idmapped mounts", probeIDMap))
	}
	return layers
}

func timed(name string, probe func() Layer) Layer {
	began := time.Now()
	l := probe()
	l.Name, l.Cost = name, time.Since(began)
	if l.State != Working && l.Remedy == "" {
		l.Remedy = permit
	}
	return l
}

func probeUserNamespace() Layer {
	fd, err := resident.UserNamespace(0, max(os.Geteuid(), 0))
	if err != nil {
		return Layer{State: Missing, Detail: err.Error(), Remedy: remedyOf(refusal(err))}
	}
	unix.Close(fd)
	return Layer{State: Working, Detail: "an unprivileged process can be given a system of its own"}
}

// jailRemedy is for what a jail can lack without being refused: what the kernel has not, which is a layer of its own
// here, and groups that only root can drop.
func jailRemedy(missing []string) string {
	if !slices.ContainsFunc(missing, func(m string) bool { return strings.HasPrefix(m, keptGroups) }) {
		return "see the remedy of landlock, below"
	}
	return "run as root, or without other groups: sudo setpriv --reuid USER --regid GROUP --clear-groups hardshell serve"
}

// probeJail makes a whole jail: mounts, a fresh /proc, process, network, ipc and uts namespaces, filter and Landlock.
func probeJail() Layer {
	report, err := trial(Limits{})
	if err != nil {
		f, _ := fault.As(err)
		return Layer{State: Missing, Detail: err.Error(), Remedy: remedyOf(f)}
	}
	detail := "mount, pid, net, ipc and uts namespaces, own /proc and /dev"
	if len(report.Missing) > 0 {
		return Layer{State: Degraded, Detail: detail + "; " + strings.Join(report.Missing, "; "), Remedy: jailRemedy(report.Missing)}
	}
	return Layer{State: Working, Detail: detail}
}

// probeRestricted makes a box without a jail, which is what local boxes can fall back to, and names what it cannot hold.
func probeRestricted() Layer {
	if err := restrictedTrial(); err != nil {
		f, _ := fault.As(err)
		return Layer{State: Missing, Detail: err.Error(), Remedy: remedyOf(f)}
	}
	return Layer{State: Working, Detail: "for local boxes where no jail can be made; it does not hold: " +
		strings.Join(unjailed(Policy{Mode: WorkspaceWrite}, true), "; ")}
}

func probeSeccomp() Layer {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if e != 0 {
		return Layer{State: Missing, Detail: e.Error(), Remedy: "a kernel with CONFIG_SECCOMP_FILTER"}
	}
	return Layer{State: Working, Detail: "system calls are filtered"}
}

func probeLandlock() Layer {
	switch abi := resident.LandlockABI(); {
	case abi == 0:
		return Layer{State: Missing, Detail: "mounts stand alone", Remedy: "boot with lsm=landlock,… on a kernel of version 5.13 or later"}
	case abi < 6:
		return Layer{State: Degraded, Detail: "ABI " + strconv.Itoa(abi) + " has no scopes for signals and abstract sockets", Remedy: "a kernel of version 6.12 or later"}
	default:
		return Layer{State: Working, Detail: "ABI " + strconv.Itoa(abi)}
	}
}

func probeTag() Layer {
	var l unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTTIME, nil, &l); err != nil {
		return Layer{State: Missing, Detail: err.Error(), Remedy: "allow prlimit64 to this process (a container's seccomp profile may forbid it)"}
	}
	if l.Max != unix.RLIM_INFINITY {
		return Layer{State: Degraded, Detail: "a hard RLIMIT_RTTIME leaves " + strconv.FormatUint(l.Max/2, 10) + " tags", Remedy: "ulimit -HR unlimited"}
	}
	return Layer{State: Working, Detail: "every process is known to belong to one call"}
}

func probeGroup(controller string, l Limits) Layer {
	g, missing := makeGroups(groupPrefix+strconv.Itoa(os.Getpid())+"-probe-"+controller, l)
	defer g.remove()
	if len(missing) == 0 {
		return Layer{State: Working, Detail: "by control group"}
	}
	state := Missing
	if controller == "pids" {
		state = Degraded
	}
	return Layer{State: state, Detail: strings.Join(missing, "; "), Remedy: groupRemedy}
}

func probeIDMap() Layer {
	dir, err := os.MkdirTemp("", "hardshell-probe-")
	if err != nil {
		return Layer{State: Missing, Detail: err.Error(), Remedy: "set TMPDIR to a folder that can be written"}
	}
	defer os.RemoveAll(dir)
	l := layout{id: identity{root: true, host: uidBase, group: uidBase}, spawn: currentSpawner()}
	fd, err := l.tree(dir, true)
	if err != nil {
		f, _ := fault.As(err)
		return Layer{State: Missing, Detail: err.Error(), Remedy: remedyOf(f)}
	}
	unix.Close(fd)
	return Layer{State: Working, Detail: "a folder of root's can be a workspace, on the file system of " + os.TempDir()}
}

func remedyOf(f *fault.Error) string {
	if f == nil {
		return ""
	}
	return f.Try
}
