package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// addPeers adds the sandboxes of others that are installed here.
func (r *report) addPeers(base string) {
	if bwrap, err := exec.LookPath("bwrap"); err != nil {
		r.skip("bubblewrap", errors.New("not installed"))
	} else if argv := append([]string{bwrap, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}, command...); runBare(argv) != nil {
		r.skip("bubblewrap", errors.New("it cannot make a sandbox here"))
	} else {
		r.add(&variant{Name: nameBubblewrap, do: func() error { return runBare(argv) }})
	}
	bundle, err := newBundle(filepath.Join(base, "runc"))
	if err != nil {
		r.skip("runc", err)
		return
	}
	r.add(&variant{Name: "runc run, the defaults of its spec", do: bundle.run, every: 4}) // it takes tens of milliseconds
}

// bundle is a container of runc's that shows the system's programs, and has what `runc spec` gives.
type bundle struct {
	runc, dir string
	n         int
}

func newBundle(dir string) (*bundle, error) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		return nil, errors.New("not installed")
	}
	b := &bundle{runc: runc, dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "rootfs"), 0o755); err != nil {
		return nil, err
	}
	spec := exec.Command(runc, "spec")
	spec.Dir = dir
	if err := spec.Run(); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, err
	}
	process, ok := config["process"].(map[string]any)
	if !ok {
		return nil, errors.New("its spec has no process")
	}
	process["terminal"], process["args"] = false, command
	mounts, _ := config["mounts"].([]any)
	config["mounts"] = append(mounts, map[string]any{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"rbind", "ro"}})
	if raw, err = json.Marshal(config); err != nil {
		return nil, err
	}
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		return nil, err
	}
	for _, p := range []string{"bin", "sbin", "lib", "lib64", "usr", "proc", "dev", "sys", "tmp"} {
		at := filepath.Join(dir, "rootfs", p)
		if link, err := os.Readlink("/" + p); err == nil {
			err = os.Symlink(link, at)
			if err != nil {
				return nil, err
			}
			continue
		}
		if err := os.MkdirAll(at, 0o755); err != nil {
			return nil, err
		}
	}
	if err := b.run(); err != nil {
		return nil, errors.New("it cannot run a container here")
	}
	return b, nil
}

func (b *bundle) run() error {
	b.n++
	c := exec.Command(b.runc, "--root", filepath.Join(b.dir, "state"), "run", "bench-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(b.n))
	c.Dir = b.dir
	return c.Run()
}
