package container

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

// Command is a script for a container's shell. Key and Index make it run at most once; an empty Key gets a fresh one.
type Command struct {
	Key       string
	Index     int
	Script    string            // exact bytes, run as bash -c without login
	Timeout   time.Duration     // 0 is the default; a longer one than is allowed is cut
	MaxOutput int               // characters of each stream in the result; 0 is the default, never more than that
	Dir       string            // where it starts, relative to /mnt/data or absolute; empty is /mnt/data
	Env       map[string]string // added to what every command starts with
	Stdin     string
	// Network is what it may reach, if that is less than its container may; nil is the container's. While it runs, all that
	// runs in the container has no more; what it leaves running has the container's afterwards.
	Network *NetworkPolicy
	Lease   string // whose Fence it is: the response's id; empty is the Key
	Fence   uint64 // the owner's; one lower than was seen for the lease is refused with CodeStaleOwner
}

const (
	// maxInline is the longest script that travels as an argument: the kernel's MAX_ARG_STRLEN is 128 KiB with the NUL.
	maxInline = 128<<10 - 1
	// maxScript bounds a script altogether. A model does not write more; a mistake does.
	maxScript = 16 << 20
	// scriptPrefix begins the name of a long script's file in the container's /tmp.
	scriptPrefix = ".hardshell-script-"
)

func (c Command) validate() error {
	if strings.TrimSpace(c.Script) == "" {
		return fault.New(fault.Invalid, "The command is empty.").WithParam("command")
	}
	if strings.IndexByte(c.Script, 0) >= 0 {
		return fault.New(fault.Invalid, "The command holds a NUL byte, which no shell can read.").WithParam("command").
			WithTry("write NUL as \\0 in printf, or upload the bytes as a file")
	}
	if err := c.checkSurroundings(); err != nil {
		return err
	}
	if len(c.Script) > maxScript {
		return fault.New(fault.TooLarge, "The command has %d bytes; %d are allowed.", len(c.Script), maxScript).
			WithParam("command").WithTry("upload a file to the container and run it")
	}
	return nil
}

// environment is all that a command starts with. Nothing of the gateway's own environment is in it. There is no
// terminal and nobody who could answer, so pagers are off, prompts fail at once, and git without -m says what to use
// (it does so on a dumb terminal as long as no EDITOR is set).
func environment(shell string) []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + HomeDir,
		"USER=" + User,
		"LOGNAME=" + User,
		"SHELL=" + shell,
		"PWD=" + Workdir,
		"TMPDIR=" + Tmpdir,
		"LANG=C.UTF-8",
		"TERM=dumb",
		"NO_COLOR=1",
		"PAGER=cat",
		"MANPAGER=cat",
		"GIT_PAGER=cat",
		"GH_PAGER=cat",
		"SYSTEMD_PAGER=cat",
		"GIT_TERMINAL_PROMPT=0",
		"DEBIAN_FRONTEND=noninteractive",
		"PIP_NO_INPUT=1",
		"PIP_DISABLE_PIP_VERSION_CHECK=1",
		"npm_config_yes=true",
		"npm_config_update_notifier=false",
		"PYTHONUNBUFFERED=1", // what was printed before a time-out is there
	}
}

// Exec runs a command in a container, booting it first if it must, and returns when the command has started. The
// context covers the command's whole life: when it ends, the command is cancelled. A container that cannot be booted
// is fault.Isolation or fault.Unavailable.
func (s *Service) Exec(ctx context.Context, org, containerID string, c Command) (*Execution, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Key == "" {
		c.Key = id.New(id.Call)
	}
	if _, err := s.Usable(ctx, org, containerID); err != nil {
		return nil, err
	}
	if err := s.fences.raise(containerID, c); err != nil {
		return nil, err
	}
	p, ws, err := s.prepare(ctx, containerID)
	if err != nil {
		return nil, err
	}
	if err := s.disk.admit(p); err != nil {
		return nil, err
	}
	if err := s.begin(p); err != nil {
		return nil, err
	}
	e, err := s.start(ctx, p, ws, c)
	if err != nil {
		s.leave(p)
		return nil, err
	}
	return e, nil
}

func (s *Service) start(ctx context.Context, p *place, ws Workspace, c Command) (*Execution, error) {
	b, tree, err := s.box(ctx, p)
	if err != nil {
		return nil, err
	}
	argv, script, err := s.argv(ws, c)
	if err != nil {
		return nil, err
	}
	e := &Execution{service: s, place: p, tree: tree, script: script, workspace: ws,
		timeout: s.limits.timeout(c.Timeout), chars: s.limits.output(c.MaxOutput), begun: s.now(), done: make(chan struct{})}
	e.output = c.output(ws)
	if e.widen, err = s.narrow(p, c.Key, c.Network); err != nil {
		e.removeScript()
		return nil, err
	}
	e.span = tree.open()
	e.job, b, err = s.startIn(ctx, p, b, process.Command{Key: c.Key, Index: c.Index, Argv: argv, Env: c.environment(ws.Shell),
		Dir: c.dir(), Stdin: c.stdin(), Timeout: e.timeout, Lease: c.Lease, Fence: c.Fence})
	if err != nil {
		e.span.close()
		if !handedOver(err) { // else it may run, and be its next owner's
			e.widen()
			e.removeScript()
		}
		return nil, failed(err, "The command could not be started.")
	}
	e.boot, e.isolation, e.restarted = b, b.box.Isolation(), b.restarted()
	e.blocker, _ = b.box.(Blocker)
	s.watchOver(ctx, e)
	return e, nil
}

// watchOver follows an execution to its end. It is counted in, so that Close waits for it.
func (s *Service) watchOver(ctx context.Context, e *Execution) {
	e.detach = context.AfterFunc(ctx, e.Cancel)
	s.disk.entered(e)
	s.observe.CommandBegan()
	go e.finish()
}

// argv runs a script by its exact bytes. "--" keeps a script that begins with a dash from being an option, and the
// name behind it makes the shell's messages begin with "bash:" and not with a path. A script that is too long for an
// argument is read from a file in the container's /tmp; script is its host path, to be removed at the end.
func (s *Service) argv(ws Workspace, c Command) (argv []string, script string, err error) {
	text := c.Script
	name := ws.Shell[strings.LastIndexByte(ws.Shell, '/')+1:]
	if len(text) > maxInline {
		script = scriptName(c)
		if err := writeScript(ws, script, text); err != nil {
			return nil, "", failed(err, "The command is too long to be an argument and could not be written to a file.")
		}
		text = ". " + Tmpdir + "/" + script
	}
	return []string{ws.Shell, "-c", "--", text, name}, script, nil
}

// scriptName is the same whoever owns the command, so that a later owner removes the file too.
func scriptName(c Command) string { return scriptPrefix + c.Key + "-" + strconv.Itoa(c.Index) }

func writeScript(ws Workspace, name, text string) error {
	root, err := os.OpenRoot(ws.Tmp)
	if err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	defer root.Close()
	half := scriptPrefix + rand.Text() // the command may be there already, and be reading the same text
	f, err := root.OpenFile(half, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write script: %w", err)
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = own(f, ws, 0o600)
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = root.Rename(half, name)
	}
	if err != nil {
		root.Remove(half)
		return fmt.Errorf("write script: %w", diskFull(err))
	}
	return nil
}

// own gives a fresh file to the container's user.
func own(f *os.File, ws Workspace, mode fs.FileMode) error {
	if ws.UID != 0 {
		if err := f.Chown(ws.UID, ws.UID); err != nil {
			return err
		}
	}
	return f.Chmod(mode)
}

// diskFull gives "no space left" its kind.
func diskFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fault.Wrap(fault.Unavailable, err, "The disk that holds the containers is full.").
			WithTry("delete containers or files that are not needed")
	}
	return err
}
