package shellcall

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// folder is where a patch's file stands, with no link on the way: what is there is open, so that a command that swaps a
// folder for a link meanwhile moves no patch to where it may not write.
type folder struct {
	root *os.Root
	real string   // where root is
	new  []string // folders to make in it, for the file
}

// folderOf opens the deepest folder there is on the way to a file of the workspace.
func (e *Executor) folderOf(name string) (*folder, error) {
	dir := filepath.Join(e.cwd, filepath.Dir(name))
	var missing []string
	real, err := filepath.EvalSymlinks(dir)
	for ; err != nil && dir != e.cwd; real, err = filepath.EvalSymlinks(dir) {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing = append([]string{filepath.Base(dir)}, missing...)
		dir = filepath.Dir(dir)
	}
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(e.cwd, real)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, fault.New(fault.Forbidden, "it is outside of the workspace %s", e.cwd)
	}
	root, err := e.root.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	f := &folder{root: root, real: e.cwd, new: missing}
	if rel == "." {
		return f, nil
	}
	for part := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		if err := f.enter(part); err != nil {
			return nil, errors.Join(err, f.root.Close())
		}
	}
	return f, nil
}

// enter goes into a folder of the one that is open. A link is none.
func (f *folder) enter(name string) error {
	next, err := f.root.OpenRoot(name)
	if err != nil {
		return err
	}
	is, err := f.root.Lstat(name)
	opened, failed := next.Stat(".")
	if err = errors.Join(err, failed); err == nil && !os.SameFile(is, opened) {
		err = fault.New(fault.Conflict, "somebody else is changing the folder %s", name)
	}
	if err != nil {
		return errors.Join(err, next.Close())
	}
	err = f.root.Close()
	f.root, f.real = next, filepath.Join(f.real, name)
	return err
}

// file is where a file will be, links resolved.
func (f *folder) file(name string) string {
	return filepath.Join(f.real, filepath.Join(f.new...), filepath.Base(name))
}

// make makes the folders that are missing, and returns the last. What is made belongs to whom the one above belongs.
func (f *folder) make() (fs.FileInfo, error) {
	above, err := f.root.Stat(".")
	for ; err == nil && len(f.new) > 0; f.new = f.new[1:] {
		made := f.root.Mkdir(f.new[0], 0o777)
		if made != nil && !errors.Is(made, fs.ErrExist) {
			return nil, made
		}
		if err = f.enter(f.new[0]); err == nil && made == nil {
			err = f.give(above)
		}
		if err == nil {
			above, err = f.root.Stat(".")
		}
	}
	return above, err
}

// give makes the open folder belong to whom another one belongs.
func (f *folder) give(as fs.FileInfo) error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(give(dir, as), dir.Close())
}
