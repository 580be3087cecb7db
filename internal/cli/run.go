package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

type runCommand struct {
	Sandbox  string   `enum:"read-only,workspace-write,danger-full-access" default:"workspace-write" placeholder:"MODE" help:"What the command may write: read-only, workspace-write (this folder and a private /tmp), danger-full-access (no restriction at all). Default: workspace-write."`
	Network  string   `default:"" placeholder:"off|full|allow:HOST,…" help:"What it may reach: off (nothing but its own loopback), full, or named hosts through a proxy (allow:example.com,*.example.org:8443; * is any name). Default: off; full with danger-full-access, which confines nothing."`
	Timeout  span     `placeholder:"DURATION" help:"End the command after this long, with exit code 124 (30s, 5m; default: never)."`
	Memory   capacity `placeholder:"SIZE" help:"End it when it takes more memory than this (512mb, 4gb; default: no limit of ours)."`
	Pids     int      `name:"processes" placeholder:"N" help:"Let it have no more processes than this, and end what keeps trying (default: no limit of ours)."`
	Disk     capacity `placeholder:"SIZE" help:"End it when it has added more than this to its folders' disks (default: no limit of ours)."`
	TTY      bool     `name:"tty" help:"Run in a terminal, for programs that want one. Keys go to the command, Ctrl-C too."`
	JSON     bool     `help:"Write the receipt as a JSON line."`
	Cwd      string   `placeholder:"DIR" help:"Run in this folder, which is the workspace (default: the current one)."`
	Writable []string `placeholder:"DIR" sep:"none" help:"A further folder that may be written, with workspace-write. May be given more than once."`
	Show     []string `placeholder:"PATH" sep:"none" help:"Let it see a path that is hidden by default, such as ~/.npmrc. May be given more than once."`
	Approval string   `enum:"on-request,untrusted,never," default:"" placeholder:"POLICY" help:"Decide about the command first, and ask at the terminal: on-request, untrusted or never, by your rules (see hardshell policy). Default: it is your own command, and nothing is asked."`
	Rules    []string `placeholder:"FILE" sep:"none" help:"With --approval: a further file of rules. May be given more than once."`
	Command  []string `arg:"" passthrough:"partial" name:"command" help:"The command, after --."`
}

func (runCommand) Help() string {
	return `Streams pass through live, stdin too; the receipt is the last line of stderr. The exit code is the command's, 124 when
its time ran out, 128+n when signal n ended it, and 125 when the sandbox could not run it.

Example:

  hardshell run --timeout 5m -- npm test
  hardshell run --tty --writable ~/.cache -- bash
`
}

// Run runs one command in a box of its own and removes the box.
func (c runCommand) Run(ctx context.Context, p *program) error {
	argv := c.Command
	if len(argv) > 0 && argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return usageError{fault.New(fault.Invalid, "run needs a command").WithTry("hardshell run -- ls -la")}
	}
	if c.Pids < 0 {
		return usageError{fault.New(fault.Invalid, "a number of processes cannot be negative").WithTry("--processes 256")}
	}
	if c.TTY && !c.JSON && !terminal(p.In) {
		fmt.Fprintln(p.Err, "hardshell: stdin is no terminal: what comes from it is typed into the command's, and its end as Ctrl-D")
	}
	unconfined := c.Sandbox == sandbox.DangerFullAccess.String()
	switch {
	case c.Network == "" && unconfined:
		c.Network = sandbox.NetworkFull.String()
	case c.Network == "":
		c.Network = sandbox.NetworkOff.String()
	case c.Network != sandbox.NetworkFull.String() && unconfined:
		return usageError{fault.New(fault.Invalid, "danger-full-access confines nothing, so it cannot take the network away").
			WithTry("--sandbox workspace-write")}
	}
	if _, _, err := c.network(); err != nil {
		return err
	}
	if len(c.Writable) > 0 && c.Sandbox == sandbox.ReadOnly.String() {
		return usageError{fault.New(fault.Invalid, "read-only has no writable folders").WithTry("--sandbox workspace-write")}
	}
	if len(c.Rules) > 0 && c.Approval == "" {
		return usageError{fault.New(fault.Invalid, "rules decide only with --approval").WithTry("--approval untrusted")}
	}
	if c.Approval != "" {
		if err := c.approve(ctx, p, argv); err != nil {
			p.tell(err)
			return exitCode(exitRun)
		}
	}
	receipt, err := c.run(ctx, p, argv)
	if err != nil {
		p.tell(err)
		return exitCode(exitRun)
	}
	receipt.write(p, c.JSON)
	if receipt.ExitCode == 0 {
		return nil
	}
	return exitCode(receipt.ExitCode)
}

func (c runCommand) run(ctx context.Context, p *program, argv []string) (receipt, error) {
	mode, err := sandbox.ParseMode(c.Sandbox)
	if err != nil {
		return receipt{}, err
	}
	network, hosts, err := c.network()
	if err != nil {
		return receipt{}, err
	}
	cwd, err := folder("--cwd", c.Cwd)
	if err != nil {
		return receipt{}, err
	}
	policy := sandbox.Policy{Mode: mode, Network: network, Least: sandbox.RungRestricted}
	for _, path := range c.Show {
		real, err := filepath.Abs(path)
		if err != nil {
			return receipt{}, err
		}
		policy.Shown = append(policy.Shown, real)
	}
	var writable []string
	if mode == sandbox.WorkspaceWrite { // elsewhere everything can be written anyway
		if policy.WritableRoots, err = folders("--writable", c.Writable); err != nil {
			return receipt{}, err
		}
		writable = append([]string{cwd}, policy.WritableRoots...)
	}
	if policy.Hidden, err = p.hides(cwd, writable); err != nil {
		return receipt{}, err
	}
	var undo cleanup.Stack
	defer undo.Run()
	dir, err := os.MkdirTemp("", "hardshell-run-")
	if err != nil {
		return receipt{}, fmt.Errorf("make the box's folder: %w", err)
	}
	undo.Add(func() { os.RemoveAll(dir) })
	var proxy *egress.Proxy
	environ := p.environ
	if len(hosts) > 0 {
		policy.Least = sandbox.RungJail // a weaker box has no network of its own whose only door the proxy could be
		if proxy, err = c.proxy(p, hosts); err != nil {
			return receipt{}, err
		}
		undo.Add(func() { proxy.Close() })
	}
	start := time.Now()
	limits := sandbox.Limits{MemoryBytes: int64(c.Memory), Pids: c.Pids, DiskBytes: int64(c.Disk)}
	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: dir, Cwd: cwd, Policy: policy, Limits: limits, Once: true})
	if err != nil {
		return receipt{}, err
	}
	undo.Add(func() {
		var tidy sync.WaitGroup
		tidy.Go(func() { os.RemoveAll(dir) }) // what a resident in its last moment still writes goes with the next
		box.Close()
		tidy.Wait()
	})
	if proxy != nil {
		if environ, err = out(ctx, box, proxy, environ); err != nil {
			return receipt{}, err
		}
	}
	opened := time.Since(start)
	command := process.Command{Key: "run", Argv: argv, Env: environ, Dir: cwd, Stdin: p.In, Timeout: time.Duration(c.Timeout)}
	job, exit, err := c.stream(ctx, p, box, command)
	if err != nil {
		return receipt{}, err
	}
	r := c.account(exit, box.Report(), opened)
	if proxy != nil {
		r.Network, r.Blocked = c.Network, blocked(proxy)
	}
	if exit.Code != 0 && !exit.TimedOut && !exit.Cancelled && !exit.OutOfMemory && exit.Limit == "" {
		if denial, ok := sandbox.Explain(box.Report(), policy, cwd, exit.Code, c.lastWords(job)); ok {
			r.Denial = &denial
		}
	}
	r.Removed = box.Removed()
	var signal Signal
	if exit.Cancelled && errors.As(context.Cause(ctx), &signal) {
		r.ExitCode, r.Cancelled = 128+int(signal.Number), true
	}
	return r, nil
}

// hides lists what no command is to see of hardshell itself, beside what no box shows anyway: where the settings put its
// data, and their file, unless that is part of the workspace. A data folder that is not there yet and that a command could
// make is made, or the next server would start with what the command put into it.
func (p *program) hides(workspace string, writable []string) (paths []string, err error) {
	data, file, err := config.Own(config.Source{Environ: p.environ, UID: os.Getuid()})
	if err != nil {
		return nil, err
	}
	in := func(path, folder string) bool {
		rel, err := filepath.Rel(folder, path)
		return err == nil && filepath.IsLocal(rel)
	}
	if data != "" {
		paths = append(paths, data)
		_, absent := os.Lstat(data)
		if errors.Is(absent, fs.ErrNotExist) && slices.ContainsFunc(writable, func(root string) bool { return in(data, root) }) {
			if err := config.PrepareData(data); err != nil {
				return nil, err
			}
		}
	}
	if file != "" && !in(file, workspace) {
		paths = append(paths, file)
	}
	return paths, nil
}

// stream starts the command and passes its streams through until it has ended, with --tty by way of a terminal.
func (c runCommand) stream(ctx context.Context, p *program, box *sandbox.Box, command process.Command) (*process.Job, process.Exit, error) {
	if !c.TTY {
		keepRunning()
		job, err := box.Start(ctx, command)
		if err != nil {
			return nil, process.Exit{}, err
		}
		exit, err := p.follow(ctx, job)
		return job, exit, err
	}
	own := openTTY(p.Streams)
	size := own.size()
	command.TTY, command.Stdin = &size, own.keys(p.In)
	back, err := own.raw()
	if err != nil {
		return nil, process.Exit{}, fmt.Errorf("prepare the terminal: %w", err)
	}
	defer back()
	defer beforeExit(ctx, back)()
	job, err := box.Start(ctx, command)
	if err != nil {
		return nil, process.Exit{}, err
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	go own.follow(following, job)
	exit, err := p.follow(ctx, job)
	return job, exit, err
}

// lastWords are the end of what a command said about itself. In a terminal there is one stream for everything.
func (c runCommand) lastWords(job *process.Job) []byte {
	stream := process.Stderr
	if c.TTY {
		stream = process.Stdout
	}
	const enough = 16 << 10
	r := job.Reader(stream)
	tail := make([]byte, min(r.Size(), enough))
	n, err := r.ReadAt(tail, r.Size()-int64(len(tail)))
	if err != nil && err != io.EOF {
		return nil // it only helps to explain
	}
	return tail[:n]
}

// follow passes a job's streams through until it ends. When the context ends first, the job is killed and what it
// had written is still passed on.
func (p *program) follow(ctx context.Context, job *process.Job) (process.Exit, error) {
	stop := context.AfterFunc(ctx, job.Kill)
	defer stop()
	lasting := context.WithoutCancel(ctx) // the end of a killed job is waited for; the box guarantees it comes
	var broken error
	for chunk, err := range job.Follow(lasting) {
		if err != nil {
			return process.Exit{}, err
		}
		to := p.Out
		if chunk.Stream == process.Stderr {
			to = p.Err
		}
		if broken != nil {
			continue
		}
		if _, err := to.Write(chunk.Data); err != nil {
			broken = fmt.Errorf("pass output on: %w", err)
			job.Kill() // nobody reads any more
		}
	}
	exit, err := job.Wait(lasting)
	return exit, errors.Join(err, broken)
}

// folder returns the folder that a flag names, with links resolved: the kernel's rules go by the real path.
func folder(flag, dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	real, err := filepath.EvalSymlinks(abs)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	why := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		why = "it, or a folder above it, is closed to this user"
	case err != nil:
		return "", fault.Wrap(fault.Invalid, err, "%s %s: the folder cannot be used", flag, dir)
	case !info.IsDir():
		why = "it is not a folder"
	}
	if why != "" {
		return "", fault.New(fault.Invalid, "open the folder %s: %s", dir, why).WithTry("%s DIR, with a folder that exists", flag)
	}
	return real, nil
}

// folders are those that a flag names which may be given more than once.
func folders(flag string, names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		real, err := folder(flag, name)
		if err != nil {
			return nil, err
		}
		out = append(out, real)
	}
	return out, nil
}
