package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

var background = context.Background()

// boxes makes hosted boxes, each in folders of its own.
type boxes struct {
	base string
	n    int
	open []*sandbox.Box
}

// begin makes a box and runs its first command.
func (b *boxes) begin() error {
	box, err := b.add()
	if err != nil {
		return err
	}
	return runIn(box, "first", command)
}

func (b *boxes) add() (*sandbox.Box, error) {
	b.n++
	dir := filepath.Join(b.base, "boxes", strconv.Itoa(b.n))
	h := &sandbox.Hosted{Workspace: filepath.Join(dir, "data"), Tmp: filepath.Join(dir, "tmp"), Home: filepath.Join(dir, "home")}
	if os.Geteuid() == 0 {
		h.UID = 1_999_000_000 + b.n
	}
	for _, d := range []string{h.Workspace, h.Tmp, h.Home} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
		if h.UID > 0 {
			if err := os.Chown(d, h.UID, h.UID); err != nil {
				return nil, err
			}
		}
	}
	box, err := sandbox.Open(background, sandbox.Spec{Dir: filepath.Join(dir, "box"), Hosted: h,
		Policy: sandbox.Policy{Mode: sandbox.WorkspaceWrite}, Limits: sandbox.Limits{MemoryBytes: 256 << 20, Pids: 128}})
	if err == nil {
		b.open = append(b.open, box)
	}
	return box, err
}

func runIn(box *sandbox.Box, key string, argv []string) error {
	job, err := box.Start(background, process.Command{Key: key, Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		return err
	}
	exit, err := job.Wait(background)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("exit %+v", exit)
	}
	return err
}

// end closes what is open.
func (b *boxes) end() error {
	for _, box := range b.open {
		if err := box.Close(); err != nil {
			return err
		}
	}
	b.open = nil
	return os.RemoveAll(filepath.Join(b.base, "boxes"))
}
