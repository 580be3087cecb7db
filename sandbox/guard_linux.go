package sandbox

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// guard watches for a name that is not in a folder and that git would obey if it were. The kernel has no way to forbid
// one name in a folder that is to be written, so what appears is taken away when a call ends and when its box does.
type guard struct {
	dir  int // a descriptor: the path may be swapped
	path string
}

func newGuard(dir, name string) guard {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return guard{fd, filepath.Join(dir, name)}
}

// clear removes what has appeared, and says whether something had. A folder of that name stays: git refuses it.
func (g guard) clear() bool {
	return g.dir >= 0 && unix.Unlinkat(g.dir, filepath.Base(g.path), 0) == nil
}

func (g guard) close() {
	if g.dir >= 0 {
		unix.Close(g.dir)
	}
}

// clearGuards looks at every guard. It takes microseconds: there are two for each repository.
func (b *Box) clearGuards() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.guards {
		if g.clear() {
			b.removed = append(b.removed, g.path)
		}
	}
}

// dropGuards ends the watch.
func (b *Box) dropGuards() {
	b.clearGuards()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.guards {
		g.close()
	}
	b.guards = nil
}

// Removed lists files that commands made where only the user's own git may have them, and that were taken away again:
// a commondir or config.worktree in a repository would make git obey a configuration that a command has written.
func (b *Box) Removed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.removed...)
}
