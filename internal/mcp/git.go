package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/command"
)

const (
	gitWait = 30 * time.Second
	gitLook = 20 * time.Millisecond // between two tries
)

// turn is a call's turn at a git repository: while it has it, no other command that may change the repository runs, of
// this client or another. Its methods are called by the call alone, one after the other. Without a path it does nothing.
type turn struct {
	d      *door
	path   string // of the lock
	unlock func() // while it is held
	note   string // for the model
}

// turnAt is the turn that a call needs.
func (d *door) turnAt(tool string, raw json.RawMessage) *turn {
	repository := ""
	if d.config.Locks != "" {
		repository = d.repository(tool, raw)
	}
	if repository == "" {
		return &turn{d: d}
	}
	sum := sha256.Sum256([]byte(repository))
	return &turn{d: d, path: filepath.Join(d.config.Locks, "git-"+hex.EncodeToString(sum[:16]))}
}

// take waits until nobody else has the repository. It gives up after a while: what holds it may be an editor that waits
// for a person.
func (t *turn) take(ctx context.Context) {
	if t.path == "" || t.unlock != nil {
		return
	}
	most := t.d.config.GitWait
	if most <= 0 {
		most = gitWait
	}
	clock := t.d.config.Clock
	began := clock.Now()
	for {
		unlock, busy, err := try(t.path)
		waited := clock.Now().Sub(began)
		switch {
		case err == nil:
			if t.unlock = unlock; waited >= time.Second {
				t.note = fmt.Sprintf("Waited %.1f seconds for another git command on this repository.", waited.Seconds())
			}
			return
		case !busy:
			t.d.config.Logger.Warn("the lock of a repository cannot be taken", "error", err)
			return
		case waited >= most:
			t.note = fmt.Sprintf("Another git command has held this repository for %v; this one ran beside it.", waited.Round(time.Second))
			return
		}
		soon, stop := clock.Timer(gitLook)
		select {
		case <-soon:
		case <-ctx.Done():
			stop()
			return
		}
	}
}

// release lets the next one have the repository.
func (t *turn) release() {
	if t.unlock != nil {
		t.unlock()
		t.unlock = nil
	}
}

// repository is the git folder that a call may change, or empty. It is that of the folder where the command starts; what
// a script does elsewhere is not seen, and neither is what a program does that is not git.
func (d *door) repository(tool string, raw json.RawMessage) string {
	if tool == terminal.ToolWriteStdin || !strings.Contains(string(raw), "git") {
		return ""
	}
	var a struct {
		Command json.RawMessage `json:"command"`
		Cmd     json.RawMessage `json:"cmd"`
		Workdir string          `json:"workdir"`
	}
	if json.Unmarshal(raw, &a) != nil {
		return ""
	}
	if len(a.Command) == 0 {
		a.Command = a.Cmd
	}
	var text string
	var argv []string
	var script *command.Script
	var err error
	switch {
	case json.Unmarshal(a.Command, &text) == nil:
		script, err = command.Parse(text, command.Bash)
	case json.Unmarshal(a.Command, &argv) == nil && len(argv) > 0:
		script, err = command.Argv(argv)
	default:
		return ""
	}
	if err != nil {
		return ""
	}
	for i := range script.Parts {
		if p := &script.Parts[i]; p.Name() == "git" && p.Class != command.ReadOnly {
			dir := a.Workdir
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(d.session.TurnContext().Cwd, dir)
			}
			if d.config.Repository != nil {
				return d.config.Repository(dir)
			}
			return gitFolder(dir)
		}
	}
	return ""
}

// gitFolder is what all worktrees of a folder's repository share.
func gitFolder(dir string) string {
	for {
		at := filepath.Join(dir, ".git")
		if _, err := os.Lstat(at); err == nil {
			if real, err := filepath.EvalSymlinks(at); err == nil {
				at = real
			}
			if target, ok := gitPointer(at); ok {
				if !filepath.IsAbs(target) {
					target = filepath.Join(dir, target)
				}
				at, _, _ = strings.Cut(filepath.Clean(target), string(filepath.Separator)+"worktrees"+string(filepath.Separator))
			}
			return at
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// gitPointer is where the .git file of a worktree points. A workspace may hold anything by that name.
func gitPointer(path string) (string, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return "", false
	}
	target, ok := strings.CutPrefix(string(text), "gitdir:")
	return strings.TrimSpace(target), ok
}

// keepUntil releases when a session has ended, or the door closes; for anything else at once.
func (d *door) keepUntil(release func(), r terminal.ExecResult) {
	if r.SessionID == 0 || r.ExitCode != nil {
		release()
		return
	}
	s, err := d.session.Live().Get(r.SessionID)
	if err != nil {
		release()
		return
	}
	d.under.Go(func() {
		defer release()
		select {
		case <-s.Done():
		case <-d.ctx.Done():
		}
	})
}
