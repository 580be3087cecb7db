package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/hardshell-dev/hardshell/internal/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A stage is a machine for one test: this binary started again in a mount namespace of its own, with an empty disk where
// the host has a folder that boxes see, and with what some hosts forbid forbidden. Nothing done there reaches the host.
type stage struct {
	name string
	// flags are the namespaces beside the mounts' own that the stage needs.
	flags uintptr
	// enter makes the stage, in its first process, with every capability over its namespaces.
	enter func() error
}

// The stages.
var (
	plainStage = stage{name: "plain", enter: func() error { return nil }}
	// maskedProc is a container of Docker's or Kubernetes': parts of /proc are covered, so the kernel mounts no new one.
	maskedProc = stage{name: "masked-proc", enter: maskProc}
	// noMoreNamespaces is a host whose administrator allows none.
	noMoreNamespaces = stage{name: "no-more-namespaces", flags: unix.CLONE_NEWUSER, enter: func() error {
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}}
	// filteredClone is a container under the usual seccomp profile.
	filteredClone = stage{name: "filtered-clone", enter: func() error {
		return refuseCalls(unix.EPERM, map[uint32]uint32{unix.SYS_CLONE: unix.CLONE_NEWUSER, unix.SYS_UNSHARE: unix.CLONE_NEWUSER})
	}}
	// powerlessNamespaces is a host whose security module gives user namespaces that may do nothing, as Ubuntu's does.
	powerlessNamespaces = stage{name: "powerless-namespaces", enter: func() error {
		return refuseCalls(unix.EACCES, map[uint32]uint32{unix.SYS_MOUNT: 0, unix.SYS_OPEN_TREE: 0, unix.SYS_MOUNT_SETATTR: 0})
	}}
	// engineContainer is what an engine gives by default: /proc masked, few capabilities, namespaces and mounts filtered.
	engineContainer = stage{name: "engine-container", enter: func() error {
		if err := maskProc(); err != nil {
			return err
		}
		if err := dropTo(engineCapabilities); err != nil {
			return err
		}
		return refuseCalls(unix.EPERM, map[uint32]uint32{unix.SYS_CLONE: newNamespaces, unix.SYS_UNSHARE: newNamespaces,
			unix.SYS_SETNS: 0, unix.SYS_MOUNT: 0, unix.SYS_UMOUNT2: 0, unix.SYS_OPEN_TREE: 0, unix.SYS_MOVE_MOUNT: 0, unix.SYS_FSOPEN: 0,
			unix.SYS_MOUNT_SETATTR: 0, unix.SYS_PIVOT_ROOT: 0, unix.SYS_BPF: 0, unix.SYS_KEYCTL: 0, unix.SYS_PERF_EVENT_OPEN: 0})
	}}
	stages = []stage{plainStage, maskedProc, noMoreNamespaces, filteredClone, powerlessNamespaces, engineContainer}
)

const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// engineCapabilities are those that Docker leaves to root in a container.
var engineCapabilities = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD,
	unix.CAP_NET_RAW, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE,
	unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE}

// maskProc covers what the engines cover.
func maskProc() error {
	masked := 0
	for _, name := range []string{"kcore", "keys", "timer_list", "latency_stats", "sched_debug"} {
		if err := unix.Mount("/dev/null", "/proc/"+name, "", unix.MS_BIND, ""); err == nil {
			masked++
		} else if err != unix.ENOENT {
			return err
		}
	}
	if masked == 0 {
		return errors.New("this /proc has nothing to mask")
	}
	return nil
}

// dropTo takes the other capabilities out of the bounding set: the program that follows has none of them.
func dropTo(left []uintptr) error {
	for c := uintptr(0); ; c++ {
		if slices.Contains(left, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const (
	stageArg    = "take-the-stage"       // argv[1] of a stage's first process
	stageVar    = "HARDSHELL_TEST_STAGE" // its name, in the environment of the test that runs there
	stageGround = "HARDSHELL_TEST_GROUND"
)

// onStage runs a whole test there. What the test's parts say is said again here, part by part.
func onStage(t *testing.T, s stage, test func(t *testing.T)) {
	t.Helper()
	if os.Getenv(stageVar) == s.name {
		test(t)
		return
	}
	ground := stageFolder()
	cmd := exec.Command("/proc/self/exe", stageArg, s.name, "-test.run="+exactly(t.Name()), "-test.v", "-test.timeout=8m")
	cmd.Env = append(os.Environ(), stageVar+"="+s.name, stageGround+"="+ground)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | s.flags, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE, unix.CAP_SETPCAP}
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	} else if s.flags&unix.CLONE_NEWUSER != 0 {
		everyone := []syscall.SysProcIDMap{{Size: 1<<32 - 1}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings, cmd.SysProcAttr.GidMappingsEnableSetgroups = everyone, everyone, true
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || strings.HasPrefix(string(out), stageArg) {
		require.Feature(t, "stage", fmt.Errorf("%w: %s", err, out))
	}
	retell(t, string(out), err)
}

// exactly is the pattern of one test and its parts.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// ending is a line with which the testing package says how a part ended.
var ending = regexp.MustCompile(`(?m)^ +--- (PASS|FAIL|SKIP): (\S+) `)

// uneventful lines need not be told.
var uneventful = regexp.MustCompile(`(?m)^(=== (RUN|NAME|PAUSE|CONT).*| *--- PASS: .*)\n`)

// retell makes the parts of a test that ran elsewhere parts of this one.
func retell(t *testing.T, out string, err error) {
	t.Helper()
	found := ending.FindAllStringSubmatch(out, -1)
	out = uneventful.ReplaceAllString(out, "")
	for _, m := range found {
		part, ok := strings.CutPrefix(m[2], t.Name()+"/")
		if !ok {
			continue
		}
		t.Run(part, func(t *testing.T) {
			switch m[1] {
			case "FAIL":
				t.Error("failed, see below")
			case "SKIP":
				t.Skip("skipped, see below")
			}
		})
	}
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case len(found) == 0 && strings.Contains(out, "--- SKIP: "+t.Name()):
		t.Skip(out)
	case strings.Contains(out, "--- SKIP"):
		t.Log(out)
	}
}

// stageFolder is a folder of the host that boxes see and that is not much needed for a while.
func stageFolder() string {
	for _, dir := range []string{"/srv", "/opt", "/mnt", "/media", "/home"} {
		if st, err := os.Lstat(dir); err == nil && st.IsDir() {
			return dir
		}
	}
	return "/boot"
}

// takeTheStage makes the stage and becomes the test there. It returns only with an error.
func takeTheStage(args []string) int {
	runtime.LockOSThread() // what the program that follows may do is a matter of this thread
	i := slices.IndexFunc(stages, func(s stage) bool { return s.name == args[0] })
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("tmpfs", os.Getenv(stageGround), "tmpfs", 0, "mode=755,size=512m")
	}
	if err == nil {
		err = stages[i].enter()
	}
	if err == nil {
		// An ordinary user keeps nothing of what made the stage.
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err == nil {
		err = unix.Exec("/proc/self/exe", append([]string{os.Args[0]}, args[1:]...), os.Environ())
	}
	fmt.Println(stageArg, args[0], err)
	return 1
}

// refuseCalls makes the kernel answer errno to calls whose first argument has a bit of the mask; 0 is any.
func refuseCalls(errno unix.Errno, calls map[uint32]uint32) error {
	var in []bpf.Instruction
	refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	for call, mask := range calls {
		in = append(in, bpf.LoadAbsolute{Off: 0, Size: 4})
		if mask == 0 {
			in = append(in, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, refuse)
			continue
		}
		in = append(in, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 3},
			bpf.LoadAbsolute{Off: 16, Size: 4}, bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: mask, SkipTrue: 1}, refuse)
	}
	in = append(in, bpf.LoadAbsolute{Off: 0, Size: 4}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	raw, err := bpf.Assemble(in)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	// On all threads: the one that becomes the test is not known.
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	return nil
}

// a world is what a test on a stage has of the host: folders that every box sees, since no box has a disk of its own
// over them.
type world struct {
	root string
	uid  int // whose the box's folders are
}

// newWorld makes an empty one.
func newWorld(t testing.TB) world {
	t.Helper()
	root, err := os.MkdirTemp(os.Getenv(stageGround), "w")
	must(t, err)
	must(t, os.Chmod(root, 0o755))
	w := world{root: root, uid: os.Geteuid()}
	if w.uid == 0 {
		w.uid = hostUID
	}
	return w
}

// at is a path in it.
func (w world) at(name string) string { return filepath.Join(w.root, name) }

// folder makes a folder that belongs to the box's uid.
func (w world) folder(t testing.TB, name string) string {
	t.Helper()
	must(t, os.MkdirAll(w.at(name), 0o755))
	must(t, os.Chown(w.at(name), w.uid, w.uid))
	return w.at(name)
}

// file makes a file that belongs to the box's uid, and the folders above it.
func (w world) file(t testing.TB, name, text string, mode os.FileMode) string {
	t.Helper()
	if dir := filepath.Dir(name); dir != "." {
		w.folder(t, dir)
	}
	must(t, os.WriteFile(w.at(name), []byte(text), mode))
	must(t, os.Chmod(w.at(name), mode))
	must(t, os.Chown(w.at(name), w.uid, w.uid))
	return w.at(name)
}
