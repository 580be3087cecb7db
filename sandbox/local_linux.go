package sandbox

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/sandbox/resident"
	"golang.org/x/sys/unix"
)

// tmpFolders are what a local box has of its own unless its policy shares them.
var tmpFolders = []string{"/tmp", "/var/tmp"}

// place is a path at which a local box differs from the host's tree. Places are furnished parents first, so that what
// is named most exactly counts: a masked folder in a writable one is masked, a writable one in a masked one is seen.
type place struct {
	path string
	kind placeKind
}

type placeKind int

const (
	maskPlace placeKind = iota
	seenPlace           // read-only, where it would be covered
	writePlace
	freshPlace // a tmpfs
	coverPlace // masked, with places in it that are seen: a tmpfs in which only the way to them is made
)

// local shows the host's root read-only, with its sockets and secrets covered.
func (l *layout) local(spec *Spec) error {
	l.Root, l.Home = resident.RootHost, spec.Cwd
	l.add(resident.Mount{Step: resident.StepProc, Target: "/proc"})
	l.add(resident.Mount{Step: resident.StepDev, Target: "/dev"})
	places, repos, err := l.places(spec)
	if err != nil {
		return err
	}
	l.Writable = append(l.Writable, "/dev", "/proc")
	for _, p := range places {
		if err := l.furnishPlace(p); err != nil {
			return err
		}
	}
	l.protect(repos)
	return nil
}

func (l *layout) furnishPlace(p place) error {
	switch p.kind {
	case freshPlace:
		l.add(resident.Mount{Step: resident.StepTmpfs, Target: p.path, Data: "mode=1777,size=" + l.freshSize()})
		l.Writable = append(l.Writable, p.path)
	case coverPlace:
		l.hidden = append(l.hidden, p.path)
		l.add(resident.Mount{Step: resident.StepTmpfs, Target: p.path, Data: "mode=755,size=64k"})
	case maskPlace:
		l.hidden = append(l.hidden, p.path)
		l.add(resident.Mount{Step: resident.StepMask, Target: p.path})
	case writePlace:
		l.uncover(p.path)
		return l.writable(p.path, p.path)
	case seenPlace:
		l.shown = append(l.shown, p.path)
		l.uncover(p.path)
		return l.bind(p.path, p.path, false)
	}
	return nil
}

// freshSize is the size of a tmpfs of the box's. With a limit on the disk it has room above, so that the watchdog names
// the limit before the kernel says that the disk is full.
func (l *layout) freshSize() string {
	var machine unix.Sysinfo_t
	if limit := l.WatchDisk; limit > 0 && unix.Sysinfo(&machine) == nil {
		return strconv.FormatInt(min(limit+limit/8+64<<20, int64(machine.Totalram)*int64(machine.Unit)/2), 10)
	}
	return "50%"
}

// places lists where the box differs, in order, and the repositories in it. It sets the folder that the box stands in.
func (l *layout) places(spec *Spec) ([]place, []repository, error) {
	at := map[string]placeKind{}
	policy := spec.Policy
	if dir, err := filepath.EvalSymlinks(spec.Dir); err == nil && dir != "/" {
		at[dir] = maskPlace // our own account of the box
	}
	if !policy.SharedTmp {
		for _, p := range tmpFolders {
			if isPlainFolder(p) {
				at[p] = freshPlace
			}
		}
	}
	roots, err := writableRoots(spec)
	if err != nil {
		return nil, nil, err
	}
	var repos []repository
	for _, r := range roots {
		at[r] = writePlace
		repos = append(append(repos, repositories(r)...), holdOwnPlaces(r, policy.Hidden))
	}
	for _, m := range maskedPaths(policy) {
		if _, ok := at[m]; !ok {
			at[m] = maskPlace
		}
	}
	for _, repo := range repos {
		for _, w := range repo.writable {
			at[w] = writePlace
		}
	}
	if policy.SharedTmp && policy.Mode == WorkspaceWrite {
		for _, p := range tmpFolders {
			if _, ok := at[p]; !ok && isPlainFolder(p) {
				at[p] = writePlace
			}
		}
	}
	if real, err := filepath.EvalSymlinks(spec.Cwd); err == nil {
		l.Home = real
		kind, ok := at[real]
		if ok && (kind == maskPlace || kind == coverPlace) || !ok && l.hides(real, at) {
			at[real] = seenPlace
		}
	}
	wanted := shownPaths(policy)
	for _, repo := range repos {
		wanted = append(wanted, repo.seen...)
	}
	for _, p := range wanted {
		if _, ok := at[p]; !ok && l.hides(p, at) {
			at[p] = seenPlace
		}
	}
	var out []place
	for path, kind := range at {
		out = append(out, place{path, kind})
	}
	for i := range out {
		holds := func(q place) bool {
			return (q.kind == writePlace || q.kind == seenPlace) && within(q.path, []string{out[i].path})
		}
		if out[i].kind == maskPlace && slices.ContainsFunc(out, holds) {
			out[i].kind = coverPlace
		}
	}
	slices.SortFunc(out, func(a, b place) int { return strings.Compare(a.path, b.path) })
	return out, repos, nil
}

// writableRoots are the workspace and the named roots, as the kernel sees them.
func writableRoots(spec *Spec) ([]string, error) {
	if spec.Policy.Mode != WorkspaceWrite {
		return nil, nil
	}
	var out []string
	for _, r := range append([]string{spec.Cwd}, spec.Policy.WritableRoots...) {
		real, err := filepath.EvalSymlinks(r)
		if err != nil {
			return nil, fault.Wrap(fault.Invalid, err, "the writable folder %s is not to be had", r)
		}
		switch top, _, _ := strings.Cut(strings.TrimPrefix(real, "/"), "/"); {
		case real == "/":
			return nil, fault.New(fault.Invalid, "the whole file system cannot be a writable root")
		case top == "proc" || top == "dev" || top == "sys":
			return nil, fault.New(fault.Invalid, "%s belongs to the kernel and cannot be a writable root", real)
		}
		if !slices.Contains(out, real) {
			out = append(out, real)
		}
	}
	return out, nil
}

// hides says whether a box would not see the folder that it stands in: below a folder that is covered, or that its uid
// may not enter. Below a writable one it is seen.
func (l *layout) hides(path string, at map[string]placeKind) bool {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] != '/' {
			continue
		}
		if kind, ok := at[path[:i]]; ok {
			return kind != writePlace && kind != seenPlace
		}
	}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && !l.id.mayEnter(path[:i]) {
			return true
		}
	}
	return false
}

// uncover makes a way to a folder of ours below one that the box's uid may not enter, such as root's home: the closed
// folder is covered by an empty one, in which only the way is made.
func (l *layout) uncover(path string) {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' && !l.id.mayEnter(path[:i]) {
			if closed := path[:i]; !slices.Contains(l.uncovered, closed) {
				l.uncovered = append(l.uncovered, closed)
				l.add(resident.Mount{Step: resident.StepTmpfs, Target: closed, Data: "mode=755,size=64k"})
			}
			return
		}
	}
}

// protect keeps the dangerous parts of the repositories and the settings in them read-only, and what holds them in its
// place: a folder that could be renamed would take its protection along.
func (l *layout) protect(repos []repository) {
	for _, r := range repos {
		for _, p := range r.pinned {
			l.add(resident.Mount{Step: resident.StepPin, Target: p, Writable: true})
		}
		for _, p := range r.readonly {
			l.readonly = append(l.readonly, p)
			l.add(resident.Mount{Step: resident.StepPin, Target: p})
		}
		l.guards = append(l.guards, r.guards...)
	}
}
