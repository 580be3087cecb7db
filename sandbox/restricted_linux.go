package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"golang.org/x/sys/unix"
)

// harmlessDevices are what a command without a jail finds of the host's /dev. Terminals and the disk are not among it.
var harmlessDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// restricted is the plan of a box without a jail: nothing is mounted, so what is hidden and what can be written is a
// list for Landlock. Landlock only grants: whatever must stay closed in a folder that is granted is refused here, or
// named as missing.
func (l *layout) restricted(spec *Spec) error {
	policy := spec.Policy
	if policy.Network == NetworkProxied {
		return fault.New(fault.Isolation, "a proxy can be the only way out of a jail, and here none can be made").
			WithTry("a network that is off, or a machine on which a jail can be made: hardshell doctor")
	}
	l.Home, l.Offline, l.Frozen = spec.Cwd, policy.Network == NetworkOff, policy.Mode == ReadOnly
	if real, err := filepath.EvalSymlinks(spec.Cwd); err == nil {
		l.Home = real
	}
	roots, err := writableRoots(spec)
	if err != nil {
		return err
	}
	l.hidden = append(maskedPaths(policy), "/dev")
	if !policy.SharedTmp {
		for _, p := range tmpFolders {
			if isPlainFolder(p) {
				l.hidden = append(l.hidden, p)
			}
		}
	}
	if dir, err := filepath.EvalSymlinks(spec.Dir); err == nil {
		l.hidden = append(l.hidden, dir)
	} else {
		l.hidden = append(l.hidden, spec.Dir) // not made yet
	}
	for _, h := range slices.Concat(l.hidden, ownPlaces()) {
		if within(h, roots) && !slices.Contains(roots, h) {
			return fault.New(fault.Isolation, "%s is to be hidden and lies in a writable folder, which takes a jail", h).
				WithTry("work in a folder below, or take %s off the list of hidden paths", h)
		}
	}
	l.Writable = append(l.Writable, harmlessDevices...)
	l.Writable = append(l.Writable, roots...)
	protected := 0
	for _, r := range roots {
		for _, repo := range repositories(r) {
			l.Writable = append(l.Writable, repo.writable...)
			l.guards = append(l.guards, repo.guards...)
			protected += len(repo.readonly)
		}
	}
	if policy.SharedTmp && policy.Mode == WorkspaceWrite {
		l.Writable = append(l.Writable, tmpFolders...)
	}
	l.shown = append(shownPaths(policy), l.Home)
	l.Readable = append(readableBut(l.hidden), l.shown...)
	if policy.Network == NetworkFull {
		if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
			l.Readable = append(l.Readable, real)
		}
	}
	l.missing = unjailed(policy, protected > 0)
	return nil
}

// unjailed says what Landlock and seccomp alone cannot hold to.
func unjailed(policy Policy, protected bool) []string {
	out := []string{
		"/proc: the machine's, so its processes can be seen and be bound to processors, its disks and the names of its user's keys be read",
		"hidden files: their names can be listed, and what is made beside one later cannot be read",
		"unix sockets: none can be opened, not even within the box",
	}
	if policy.Network == NetworkOff {
		out = append(out, "loopback: none, since the network is off by refusing every socket")
	}
	if policy.Mode == WorkspaceWrite {
		out = append(out, "modes and times: a command can change those of its user's files outside of the workspace")
	}
	if !policy.SharedTmp {
		out = append(out, "/tmp: not the box's own, which is where TMPDIR points")
	}
	if protected {
		out = append(out, "hooks, git configuration and settings in the workspace: can be written")
	}
	return out
}

// readableBut lists everything of the root but what is hidden: whole folders where nothing in them is, else what they
// hold now. Links are left out: what they lead to has a place of its own.
func readableBut(hidden []string) []string {
	var out []string
	var walk func(dir string)
	walk = func(dir string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			p := filepath.Join(dir, e.Name())
			switch {
			case slices.Contains(hidden, p), e.Type()&os.ModeSymlink != 0:
			case slices.ContainsFunc(hidden, func(h string) bool { return strings.HasPrefix(h, p+"/") }):
				walk(p)
			default:
				out = append(out, p)
			}
		}
	}
	walk("/")
	return out
}

// scratch makes the folder for TMPDIR of a box without a /tmp of its own. It lies in the box's folder, where the box's
// uid can reach that.
func (l *layout) scratch(spec *Spec, undo *cleanup.Stack) error {
	if !l.Confine || l.Jail || spec.Policy.SharedTmp && spec.Policy.Mode == WorkspaceWrite {
		return nil
	}
	dir := filepath.Join(spec.Dir, "tmp")
	err := os.MkdirAll(dir, 0o700)
	if l.id.root {
		if dir, err = os.MkdirTemp("", "hardshell-tmp-"); err == nil {
			err = unix.Lchown(dir, l.id.host, l.id.group)
		}
	}
	if err != nil {
		return fault.Wrap(fault.Internal, err, "no folder for the box's temporary files")
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	undo.Add(func() { os.RemoveAll(dir) })
	l.tmp = dir
	l.Writable = append(l.Writable, dir)
	return nil
}

// clearScratch removes what the box's commands left in their TMPDIR.
func (b *Box) clearScratch() {
	if b.tmp != "" {
		os.RemoveAll(b.tmp)
	}
}

// environment is what a command gets: what it was given, and the truth about where it runs.
func (b *Box) environment(env []string) []string {
	out := b.report.informed(env)
	if b.tmp == "" {
		return out
	}
	out = slices.DeleteFunc(out, func(e string) bool { return strings.HasPrefix(e, "TMPDIR=") })
	return append(out, "TMPDIR="+b.tmp)
}
