// Package peers runs the sandboxes of others beside ours, where they are installed, for the benchmarks.
//
// It installs nothing and measures nothing: the error of a constructor says in words for the table why a peer is absent.
package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Bubblewrap returns the command line that runs argv in a bubblewrap with every namespace, a read-only root, and its
// own /proc, /dev and /tmp.
func Bubblewrap(argv []string) ([]string, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("not installed")
	}
	argv = append([]string{bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}, argv...)
	if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
		return nil, errors.New("it cannot make a sandbox here")
	}
	return argv, nil
}

// Runc is a bundle of runc's that shows the system's programs, and has what `runc spec` gives.
type Runc struct {
	path, dir string
	n         int
	live      string // the container of Exec
}

// NewRunc makes the bundle in a folder of its own and tries it.
func NewRunc(dir string) (*Runc, error) {
	path, err := exec.LookPath("runc")
	if err != nil {
		return nil, errors.New("not installed")
	}
	r := &Runc{path: path, dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "rootfs"), 0o755); err != nil {
		return nil, err
	}
	for _, p := range []string{"bin", "sbin", "lib", "lib64", "usr", "proc", "dev", "sys", "tmp"} {
		at := filepath.Join(dir, "rootfs", p)
		if link, err := os.Readlink("/" + p); err == nil {
			if err := os.Symlink(link, at); err != nil {
				return nil, err
			}
			continue
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			return nil, err
		}
	}
	spec := exec.Command(path, "spec")
	spec.Dir = dir
	if err := spec.Run(); err != nil {
		return nil, err
	}
	if err := r.Run([]string{"/bin/true"}); err != nil {
		return nil, fmt.Errorf("it cannot run a container here: %w", err)
	}
	return r, nil
}

// Run runs a command in a container of its own.
func (r *Runc) Run(argv []string) error {
	if err := r.set(argv); err != nil {
		return err
	}
	return r.do("run", r.next())
}

// Exec runs a command in a container that lives.
func (r *Runc) Exec(argv []string) error {
	if r.live == "" {
		if err := r.set([]string{"/bin/sleep", "3600"}); err != nil {
			return err
		}
		name := r.next()
		if err := r.do("run", "--detach", name); err != nil {
			return err
		}
		r.live = name
	}
	return r.do(append([]string{"exec", r.live}, argv...)...)
}

// Close ends the container of Exec.
func (r *Runc) Close() error {
	if r.live == "" {
		return nil
	}
	return r.do("delete", "--force", r.live)
}

func (r *Runc) next() string {
	r.n++
	return "bench-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(r.n)
}

// do leaves runc no stream of ours: a container that lives would keep it open.
func (r *Runc) do(args ...string) error {
	c := exec.Command(r.path, append([]string{"--root", filepath.Join(r.dir, "state")}, args...)...)
	c.Dir = r.dir
	return c.Run()
}

// set puts a command into the bundle.
func (r *Runc) set(argv []string) error {
	name := filepath.Join(r.dir, "config.json")
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	process, ok := config["process"].(map[string]any)
	if !ok {
		return errors.New("its spec has no process")
	}
	process["terminal"], process["args"] = false, argv
	mounts, _ := config["mounts"].([]any)
	if r.n == 0 {
		config["mounts"] = append(mounts, map[string]any{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"rbind", "ro"}})
	}
	if raw, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(name, raw, 0o600)
}
