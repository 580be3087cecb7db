// Package jail is the container runtime over package sandbox: each container is a hosted box of its own, with its own
// namespaces, a minimal read-only root and, when we are root, a uid that no other container has.
//
// It keeps folders and opens boxes; rows, idle time and files are the container package's. What holds: a container's
// box outlives the process that opened it by its lease and no longer, and a later process adopts it with all that runs;
// one that it does not understand it ends; the three folders that a container sees belong to its uid, everything beside
// them to us.
package jail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Options configure the runtime. The zero value works.
type Options struct {
	ReadOnlyBinds []string // further host paths that commands may read
}

// runtime is a container.Runtime, and whatever else is named below.
type runtime struct {
	binds []string
	uids  uidRange // of containers, when we are root
	past  settled
}

var (
	_ container.Runtime   = (*runtime)(nil)
	_ container.Reclaimer = (*runtime)(nil)
	_ container.Adopter   = (*runtime)(nil)
	_ container.Bounded   = (*runtime)(nil)
	_ container.Keeper    = box{}
	_ container.Narrower  = box{}
	_ container.Job       = (*process.Job)(nil)
)

// New returns the runtime.
func New(o Options) container.Runtime {
	r := &runtime{binds: o.ReadOnlyBinds}
	if os.Geteuid() == 0 {
		r.uids = chooseUIDs()
	}
	return r
}

// Name returns "jail".
func (r *runtime) Name() string { return "jail" }

// Supported says whether a jail can be had on this machine.
func (r *runtime) Supported(ctx context.Context) error { return sandbox.Supported(ctx) }

// MaxContainers is the number of uids that we have, when we are root; else there is no bound of ours.
func (r *runtime) MaxContainers() int {
	if os.Geteuid() != 0 {
		return math.MaxInt32
	}
	return r.uids.count
}

// Prepare makes the container's folders: what it sees as /mnt/data, /tmp and /home/user, and the box's own state.
func (r *runtime) Prepare(ctx context.Context, spec container.Spec) (container.Workspace, error) {
	ws := container.Workspace{Dir: filepath.Join(spec.Dir, "workspace"), Tmp: filepath.Join(spec.Dir, "tmp"),
		Home: filepath.Join(spec.Dir, "home"), Output: container.Output, Skills: filepath.Join(spec.Dir, "skills"), Shell: shell()}
	if os.Geteuid() == 0 {
		uid, err := r.uids.of(spec.Slot)
		if err != nil {
			return container.Workspace{}, err
		}
		ws.UID = uid
	}
	if err := os.MkdirAll(spec.Dir, 0o711); err != nil {
		return container.Workspace{}, fmt.Errorf("prepare container: %w", err)
	}
	for _, folder := range []struct {
		path string
		mode fs.FileMode
	}{{ws.Dir, 0o755}, {ws.Tmp, 0o777 | fs.ModeSticky}, {ws.Home, 0o755}} {
		if err := makeFolder(folder.path, folder.mode, ws.UID); err != nil {
			return container.Workspace{}, fmt.Errorf("prepare container: %w", err)
		}
	}
	if err := makeFolder(ws.Skills, 0o755, 0); err != nil { // ours: what stands in it, the container may only read
		return container.Workspace{}, fmt.Errorf("prepare container: %w", err)
	}
	return ws, nil
}

// makeFolder makes a folder for the container's user, once: what the container did to its mode later stays. The folder
// comes to be under another name, so that half of the work is never taken for all of it.
func makeFolder(path string, mode fs.FileMode, uid int) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	half := path + ".new"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := os.Mkdir(half, 0o700); err != nil {
		return err
	}
	if uid != 0 {
		if err := os.Lchown(half, uid, uid); err != nil {
			return err
		}
	}
	if err := os.Chmod(half, mode); err != nil { // past the umask
		return err
	}
	return os.Rename(half, path)
}

// shell is the shell's path, outside and inside alike: the programs of a hosted box are the host's.
func shell() string {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash"} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return "/bin/sh"
}

func boxDir(spec container.Spec) string { return filepath.Join(spec.Dir, "box") }

// Open boots the container's box.
func (r *runtime) Open(ctx context.Context, spec container.Spec) (container.Box, error) {
	ws, err := r.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	restarted := sandbox.Known(boxDir(spec))
	out, err := newExit(spec, false)
	if err != nil {
		return nil, err
	}
	files, err := out.files()
	if err != nil {
		out.close()
		return nil, err
	}
	b, err := sandbox.Open(ctx, sandbox.Spec{
		Dir:    boxDir(spec),
		Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite, Network: out.network()},
		Hosted: &sandbox.Hosted{Workspace: ws.Dir, Tmp: ws.Tmp, Home: ws.Home, UID: ws.UID, Output: ws.Output, ReadOnlyBinds: r.binds, Files: files,
			Shown: []sandbox.Shown{{Source: ws.Skills, Target: container.SkillDir}}},
		Limits: sandbox.Limits{MemoryBytes: spec.MemoryBytes, Pids: spec.Pids, CPUs: spec.CPUs},
		Grace:  spec.Lease,
		Fence:  spec.Fence,
	})
	if err == nil {
		if err = out.join(ctx, b); err != nil {
			b.Close()
		}
	}
	if err != nil {
		out.close()
		return nil, err
	}
	return box{b, restarted, out}, nil
}

// Reclaim ends a box that an earlier process left behind, of whatever version.
func (r *runtime) Reclaim(ctx context.Context, spec container.Spec) error {
	if err := sandbox.End(ctx, boxDir(spec), spec.Fence); err != nil {
		return fmt.Errorf("reclaim container: %w", err)
	}
	return nil
}

// Remove ends what still lives of the container and removes its folders.
func (r *runtime) Remove(ctx context.Context, spec container.Spec) error {
	if _, err := os.Lstat(spec.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := r.Reclaim(ctx, spec); err != nil {
		return err
	}
	r.past.forget(spec.Dir)
	if err := removeAll(spec.Dir); err != nil {
		return fmt.Errorf("remove container: %w", err)
	}
	return nil
}

// removeAll removes a tree whose folders may deny their owner, which is us unless we are root.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	unlock(root, ".")
	return os.RemoveAll(dir)
}

// unlock gives us back the folders below dir. It follows no link out of the tree.
func unlock(root *os.Root, dir string) {
	f, err := root.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	entries, _ := f.ReadDir(-1)
	for _, e := range entries {
		if name := filepath.Join(dir, e.Name()); e.IsDir() {
			root.Chmod(name, 0o700)
			unlock(root, name)
		}
	}
}
