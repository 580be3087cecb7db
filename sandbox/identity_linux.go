package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"golang.org/x/sys/unix"
)

// uidBase begins the range of host uids that we choose from when we are root and nobody else chose: beyond those that
// systems give to people, daemons and the usual subordinate ranges.
const (
	uidBase  = 2_000_000_000
	uidRange = 1 << 16
)

// identity is who a box's commands are.
type identity struct {
	root   bool // we are root, and choose; otherwise they are us
	roots  bool // the workspace is root's, and is mapped to them
	host   int  // the uid and gid on the host; never 0
	group  int
	inside int
}

// identify chooses. A local box of root's works as the owner of its workspace, unless that is root too: then as a uid
// of its own, to which the workspace is mapped. Without a jail nothing can be mapped, and the box is refused.
func identify(spec *Spec, rung Rung) (identity, error) {
	if os.Geteuid() != 0 {
		id := identity{host: os.Geteuid(), group: os.Getegid(), inside: os.Geteuid()}
		if spec.Hosted != nil {
			id.inside = hostedUID
		}
		return id, nil
	}
	id := identity{root: true}
	workspace := spec.Cwd
	if spec.Hosted != nil {
		id.host, id.inside = spec.Hosted.UID, hostedUID
		workspace = spec.Hosted.Workspace
	}
	if id.host == 0 {
		var st unix.Stat_t
		if err := unix.Stat(workspace, &st); err != nil {
			return id, fault.Wrap(fault.Invalid, err, "the folder %s is not to be had", workspace)
		}
		if id.host = int(st.Uid); id.host == 0 {
			if rung == RungRestricted && spec.Policy.Mode == WorkspaceWrite {
				return id, fault.New(fault.Isolation, "the folder %s belongs to root, and commands never run as root", workspace).
					WithTry("run hardshell as an ordinary user who owns the folder, or chown it to one")
			}
			id.host, id.roots = chooseUID(spec.Dir), true
		}
	}
	if id.host < 0 {
		return id, fault.New(fault.Invalid, "%d is not a uid", id.host)
	}
	id.group = id.host
	if spec.Hosted == nil {
		id.inside = id.host
	}
	return id, nil
}

// chooseUID gives each state folder a uid of its own, the same after a restart.
func chooseUID(dir string) int {
	h := uint32(2166136261) // FNV-1a
	for _, c := range []byte(dir) {
		h = (h ^ uint32(c)) * 16777619
	}
	return uidBase + int(h%uidRange)
}

// mayEnter says whether the box's uid may pass through a host folder.
func (id identity) mayEnter(path string) bool {
	if !id.root {
		return true
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return false
	}
	switch {
	case int(st.Uid) == id.host:
		return st.Mode&0o100 != 0
	case int(st.Gid) == id.group:
		return st.Mode&0o010 != 0
	}
	return st.Mode&0o001 != 0
}

// maskedPaths resolves the policy's list on this host, links followed, and adds the sockets that have a path.
func maskedPaths(policy Policy) []string {
	seen := map[string]bool{}
	var out []string
	mounts := mountPoints()
	add := func(p string) {
		if err := unix.Access(p, unix.F_OK); err == unix.ENOENT || err == unix.ENOTDIR {
			return // as most: no need to look at each of its parents
		}
		real, err := filepath.EvalSymlinks(p)
		if err != nil || real == "/" || seen[real] {
			return
		}
		for _, name := range append([]string{real}, otherNames(real, mounts)...) {
			if name != "/" && !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	homes := homeFolders()
	for _, m := range masks {
		for _, p := range everywhere(m.Path, homes) {
			add(p)
		}
	}
	for _, p := range ownPlaces() {
		add(p)
	}
	for _, h := range policy.Hidden {
		for _, p := range everywhere(h, homes) {
			add(p)
		}
	}
	for _, p := range socketPaths() {
		private := !policy.SharedTmp && (strings.HasPrefix(p, "/tmp/") || strings.HasPrefix(p, "/var/tmp/"))
		if !private && !strings.HasPrefix(p, "/run/") {
			add(p)
		}
	}
	shown := shownPaths(policy)
	return slices.DeleteFunc(out, func(p string) bool { return within(p, shown) })
}

// shownPaths resolves what the policy wants to be seen.
func shownPaths(policy Policy) []string {
	var out []string
	for _, s := range policy.Shown {
		for _, p := range everywhere(s, homeFolders()) {
			if real, err := filepath.EvalSymlinks(p); err == nil && real != "/" {
				out = append(out, real)
			}
		}
	}
	return out
}

// everywhere is a path, or one below each home.
func everywhere(p string, homes []string) []string {
	rest, ok := strings.CutPrefix(p, "~")
	if !ok {
		return []string{p}
	}
	var out []string
	for _, h := range homes {
		out = append(out, h+rest)
	}
	return out
}

// ownPlaces are where this user's hardshell keeps its settings and data.
func ownPlaces() (out []string) {
	home, _ := os.UserHomeDir()
	for _, p := range [][3]string{{"XDG_CONFIG_HOME", ".config", "hardshell"}, {"XDG_DATA_HOME", ".local/share", "hardshell"}} {
		base := os.Getenv(p[0])
		if base == "" {
			base = filepath.Join(home, p[1])
		}
		if filepath.IsAbs(base) {
			out = append(out, filepath.Join(base, p[2]))
		}
	}
	if data := os.Getenv("HARDSHELL_DATA"); filepath.IsAbs(data) {
		out = append(out, filepath.Clean(data))
	}
	return out
}

// holdOwnPlaces keeps those that lie in a writable folder in their places, and makes them if they are not there: empty
// they mean nothing, and what is there is hidden. Otherwise a command would make them, with settings for its user's next
// start. What a policy hides is kept in its place too, if it is there.
func holdOwnPlaces(root string, hidden []string) repository {
	held := repository{root: root}
	for _, p := range hidden {
		if real, err := filepath.EvalSymlinks(p); err == nil && within(real, []string{root}) {
			held.hold(real)
		}
	}
	for _, p := range ownPlaces() {
		if !within(p, []string{root}) || p == root {
			continue
		}
		for i := len(root) + 1; i <= len(p); i++ {
			if (i == len(p) || p[i] == '/') && !exists(p[:i]) {
				makeLike(p[:i], filepath.Dir(p[:i]), 0o700)
			}
		}
		if real, err := filepath.EvalSymlinks(p); err == nil {
			held.hold(real)
		}
	}
	return held
}

func homeFolders() []string {
	homes := []string{"/root"}
	if entries, err := os.ReadDir("/home"); err == nil {
		for _, e := range entries {
			homes = append(homes, "/home/"+e.Name())
		}
	}
	if h, err := os.UserHomeDir(); err == nil && h != "/root" && filepath.Dir(h) != "/home" && filepath.IsAbs(h) {
		homes = append(homes, h)
	}
	return homes
}

// socketPaths lists the sockets of the host that have a path. A read-only mount does not stop a connect.
func socketPaths() []string {
	b, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if i := strings.Index(line, " /"); i >= 0 {
			out = append(out, strings.TrimRight(line[i+1:], "\n"))
		}
	}
	return out
}
