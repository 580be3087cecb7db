package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// repository is what a writable folder needs so that commits work in it, and so that nothing in it that git or an agent
// of the user's obeys can be changed.
type repository struct {
	root     string   // the writable folder that it was found in
	writable []string // beyond the folder: where a linked checkout's commits are stored
	seen     []string // must be there to be read
	pinned   []string // can be written in, and not be moved
	readonly []string
	guards   []guard // names that are not there, and must not come to be
}

// What git obeys in its own folder. The hooks, the configuration, the attributes in info, and the names by which all
// of these are looked for elsewhere.
var (
	gitReadonly = []string{"hooks", "config", "config.worktree", "commondir", "info"}
	gitFolders  = []string{"hooks", "info"}                // made where they are not there: empty, they mean nothing
	gitAbsent   = []string{"commondir", "config.worktree"} // cannot be made: what is there counts
	ownSettings = []string{".hardshell", "hardshell.toml", ".codex"}
)

const (
	maxPointer = 4 << 10 // bytes of a file that names a folder
	maxNested  = 256     // folders of a workspace, or modules of a repository, that are looked into
)

// repositories examines a writable folder and those right below it.
func repositories(root string) []repository {
	var out []repository
	own := repository{root: root}
	for _, name := range ownSettings {
		if p := filepath.Join(root, name); exists(p) {
			own.readonly = append(own.readonly, p)
		}
	}
	out = append(out, own)
	if r, ok := checkout(root, root, true); ok {
		out = append(out, r)
	}
	entries, _ := os.ReadDir(root)
	n := 0
	for _, e := range entries {
		if !e.IsDir() || e.Name() == ".git" {
			continue
		}
		if n++; n > maxNested {
			break
		}
		at := filepath.Join(root, e.Name())
		if r, ok := checkout(root, at, false); ok {
			r.pinned = append(r.pinned, at)
			out = append(out, r)
		}
	}
	return out
}

// checkout examines a folder that may be a checkout, or a repository without one. Only one that was named itself, and
// not one found below, is given folders outside of it.
func checkout(top, root string, named bool) (r repository, ok bool) {
	r.root = top
	at := filepath.Join(root, ".git")
	st, err := os.Lstat(at)
	if err != nil {
		if bare(root) {
			r.gitFolder(root, 0)
			return r, true
		}
		return r, false
	}
	if st.Mode().IsRegular() {
		r.readonly = append(r.readonly, at)
		r.linked(root, at, named)
		return r, true
	}
	if st.Mode()&os.ModeSymlink != 0 {
		r.readonly = append(r.readonly, at)
	} else {
		r.pinned = append(r.pinned, at)
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		r.gitFolder(real, 0)
	}
	return r, true
}

// gitFolder protects a repository's own folder, the modules in it and what its other worktrees obey.
func (r *repository) gitFolder(dir string, depth int) {
	if !isPlainFolder(dir) || depth > 4 {
		return
	}
	for _, name := range gitFolders {
		if p := filepath.Join(dir, name); !exists(p) && exists(filepath.Join(dir, "HEAD")) {
			makeLike(p, dir, 0o755)
		}
	}
	r.keep(dir, gitReadonly, gitAbsent)
	for _, w := range folders(filepath.Join(dir, "worktrees")) {
		r.keep(w, []string{"commondir", "gitdir", "config.worktree"}, []string{"config.worktree"})
	}
	r.modules(filepath.Join(dir, "modules"), depth)
}

// modules finds the repositories of submodules, whose names may have slashes, and the files that point to them.
func (r *repository) modules(dir string, depth int) {
	if depth > 4 {
		return
	}
	for _, m := range folders(dir) {
		if !exists(filepath.Join(m, "HEAD")) {
			r.modules(m, depth+1)
			continue
		}
		r.pinned = append(r.pinned, m)
		r.gitFolder(m, depth+1)
		if tree := worktreeOf(m); tree != "" {
			if p := filepath.Join(tree, ".git"); isPlainFile(p) {
				r.readonly = append(r.readonly, p)
				r.hold(p)
			}
		}
	}
}

// keep protects names in a folder, and watches for those that are not there.
func (r *repository) keep(dir string, names, absent []string) {
	for _, name := range names {
		p := filepath.Join(dir, name)
		if exists(p) {
			r.readonly = append(r.readonly, p)
			if real, err := filepath.EvalSymlinks(p); err == nil && real != p && within(real, []string{r.root}) {
				r.readonly = append(r.readonly, real) // a link is kept, and what it leads to
				r.hold(real)
			}
		} else if slices.Contains(absent, name) {
			r.guards = append(r.guards, newGuard(dir, name))
		}
	}
}

// hold keeps the folders between the root and a path in their places: what could be moved away would take the path's
// protection along, and leave its name free.
func (r *repository) hold(path string) {
	for d := filepath.Dir(path); d != r.root && within(d, []string{r.root}); d = filepath.Dir(d) {
		if !slices.Contains(r.pinned, d) {
			r.pinned = append(r.pinned, d)
		}
	}
}

// bare says whether a folder is a repository itself, by what git looks for.
func bare(dir string) bool {
	return isPlainFile(filepath.Join(dir, "HEAD")) && isPlainFolder(filepath.Join(dir, "objects")) && isPlainFolder(filepath.Join(dir, "refs"))
}

// linked follows a pointer file, of a linked worktree or a submodule, to where commits are stored. What the pointer
// says counts only if the other side says so too: somebody may have written the pointer in a box.
func (r *repository) linked(root, at string, named bool) {
	to, ok := strings.CutPrefix(pointer(at), "gitdir: ")
	if !ok {
		return
	}
	dir, err := filepath.EvalSymlinks(absolute(root, to))
	if err != nil || !isPlainFolder(dir) {
		return
	}
	if common := pointer(filepath.Join(dir, "commondir")); common != "" {
		r.worktree(dir, absolute(dir, common), at, named)
		return
	}
	if tree := worktreeOf(dir); tree != root {
		return
	}
	if named {
		r.writable = append(r.writable, dir)
	}
	r.gitFolder(dir, 0)
}

// worktree gives a linked worktree its own folder and, of the repository that it shares, only where commits go.
func (r *repository) worktree(dir, common, at string, named bool) {
	common, err := filepath.EvalSymlinks(common)
	if err != nil || filepath.Dir(dir) != filepath.Join(common, "worktrees") {
		return
	}
	back := absolute(dir, pointer(filepath.Join(dir, "gitdir")))
	if holder, err := filepath.EvalSymlinks(filepath.Dir(back)); err != nil || filepath.Join(holder, filepath.Base(back)) != at {
		return
	}
	if named {
		r.writable, r.seen = append(r.writable, dir), append(r.seen, common)
		for _, name := range []string{"objects", "refs", "logs"} {
			if p := filepath.Join(common, name); isPlainFolder(p) {
				r.writable = append(r.writable, p)
			}
		}
	}
	r.keep(dir, []string{"commondir", "gitdir", "config.worktree"}, []string{"config.worktree"})
}

// worktreeOf is the checkout that a submodule's repository says is its own.
func worktreeOf(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil || len(text) > 1<<20 {
		return ""
	}
	core := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			core = strings.EqualFold(line, "[core]")
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if ok && core && strings.EqualFold(strings.TrimSpace(name), "worktree") {
			real, err := filepath.EvalSymlinks(absolute(dir, strings.Trim(strings.TrimSpace(value), `"`)))
			if err != nil {
				return ""
			}
			return real
		}
	}
	return ""
}

// pointer is the one line of a file that names a folder; "" if it is none.
func pointer(path string) string {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxPointer {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\r\n")
}

func absolute(base, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(base, p)
}

func folders(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		if e.IsDir() && len(out) < maxNested {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// makeLike makes a folder that belongs to whom its parent does. Nothing is said if it cannot: then nobody else can
// either, or the box will not.
func makeLike(path, parent string, mode uint32) {
	var st unix.Stat_t
	if unix.Lstat(parent, &st) == nil && unix.Mkdir(path, mode) == nil && os.Geteuid() == 0 {
		unix.Lchown(path, int(st.Uid), int(st.Gid))
	}
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

func isPlainFile(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}
