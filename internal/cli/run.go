package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/process"
)

type runCommand struct {
	Sandbox string        `enum:"read-only,workspace-write,danger-full-access" default:"workspace-write" placeholder:"MODE" help:"What the command may write: read-only, workspace-write (this folder and a private /tmp), danger-full-access (no restriction at all). Default: workspace-write."`
	Network string        `enum:",off,full" default:"" placeholder:"off|full" help:"What it may reach: off (nothing but its own loopback) or full. Default: off; full with danger-full-access, which confines nothing."`
	Timeout time.Duration `placeholder:"DURATION" help:"End the command after this long, with exit code 124 (30s, 5m; default: never)."`
	Cwd     string        `placeholder:"DIR" help:"Run in this folder, which is the workspace (default: the current one)."`
	JSON    bool          `help:"Write the receipt as a JSON line."`
	Command []string      `arg:"" passthrough:"" name:"command" help:"The command, after --."`
}

func (runCommand) Help() string {
	return `Streams pass through live; the receipt is the last line of stderr. The exit code is the command's, 124 when its
time ran out, 128+n when signal n ended it, and 125 when the sandbox could not run it.

Example:

  hardshell run --timeout 5m -- npm test
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
	if c.Timeout < 0 {
		return usageError{fault.New(fault.Invalid, "a time-out cannot be negative").WithTry("--timeout 30s")}
	}
	unconfined := c.Sandbox == sandbox.DangerFullAccess.String()
	switch {
	case c.Network == "" && unconfined:
		c.Network = sandbox.NetworkFull.String()
	case c.Network == "":
		c.Network = sandbox.NetworkOff.String()
	case c.Network == sandbox.NetworkOff.String() && unconfined:
		return usageError{fault.New(fault.Invalid, "danger-full-access confines nothing, so it cannot take the network away").
			WithTry("--sandbox workspace-write")}
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
	network := sandbox.NetworkOff
	if c.Network == sandbox.NetworkFull.String() {
		network = sandbox.NetworkFull
	}
	cwd, err := workspace(c.Cwd)
	if err != nil {
		return receipt{}, err
	}
	var undo cleanup.Stack
	defer undo.Run()
	dir, err := os.MkdirTemp("", "hardshell-run-")
	if err != nil {
		return receipt{}, fmt.Errorf("make the box's folder: %w", err)
	}
	undo.Add(func() { os.RemoveAll(dir) })
	start := time.Now()
	box, err := sandbox.Open(ctx, sandbox.Spec{Dir: dir, Cwd: cwd, Policy: sandbox.Policy{Mode: mode, Network: network}})
	if err != nil {
		return receipt{}, err
	}
	undo.Add(func() { box.Close() })
	opened := time.Since(start)
	job, err := box.Start(ctx, process.Command{Key: "run", Argv: argv, Env: p.environ, Dir: cwd, Stdin: p.In, Timeout: c.Timeout})
	if err != nil {
		return receipt{}, err
	}
	exit, err := p.follow(ctx, job)
	if err != nil {
		return receipt{}, err
	}
	report := box.Report()
	r := receipt{ExitCode: exit.Code, Signal: exit.Signal, TimedOut: exit.TimedOut, OutOfMemory: exit.OutOfMemory, Error: exit.Error,
		DurationMS: exit.Ended.Sub(exit.Started).Milliseconds(), OpenMS: float64(opened.Microseconds()) / 1000, Sandbox: c.Sandbox,
		Network: c.Network, Rung: string(report.Got), Asked: string(report.Asked), Missing: report.Missing,
		StdoutBytes: exit.Stdout, StderrBytes: exit.Stderr, duration: exit.Ended.Sub(exit.Started)}
	var signal Signal
	if exit.Cancelled && errors.As(context.Cause(ctx), &signal) {
		r.ExitCode, r.Cancelled = 128+int(signal.Number), true
	}
	return r, nil
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

// workspace returns the folder a local box stands in, with links resolved: the kernel's rules go by the real path.
func workspace(dir string) (string, error) {
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the folder cannot be used").WithTry("--cwd DIR, with a folder that exists")
	}
	info, err := os.Stat(real)
	if err != nil || !info.IsDir() {
		return "", fault.New(fault.Invalid, "%s is not a folder", dir).WithTry("--cwd DIR, with a folder that exists")
	}
	return real, nil
}

// receipt is the account of one command that ran on this machine.
type receipt struct {
	ExitCode    int      `json:"exit_code"`
	Signal      string   `json:"signal,omitempty"`
	TimedOut    bool     `json:"timed_out,omitempty"`
	Cancelled   bool     `json:"cancelled,omitempty"`
	OutOfMemory bool     `json:"out_of_memory,omitempty"`
	Error       string   `json:"error,omitempty"`
	DurationMS  int64    `json:"duration_ms"`
	OpenMS      float64  `json:"open_ms"`
	Sandbox     string   `json:"sandbox"`
	Network     string   `json:"network"`
	Asked       string   `json:"asked"`
	Rung        string   `json:"rung"`
	Missing     []string `json:"missing,omitempty"`
	StdoutBytes int64    `json:"stdout_bytes"`
	StderrBytes int64    `json:"stderr_bytes"`
	duration    time.Duration
}

// write says the receipt on stderr.
func (r receipt) write(p *program, asJSON bool) {
	if asJSON {
		raw, err := json.Marshal(r)
		if err != nil {
			p.tell(fmt.Errorf("write the receipt: %w", err))
			return
		}
		fmt.Fprintf(p.Err, "%s\n", raw)
		return
	}
	how := fmt.Sprintf("exit %d", r.ExitCode)
	switch {
	case r.TimedOut:
		how += " (time ran out)"
	case r.OutOfMemory:
		how += " (out of memory)"
	case r.Signal != "":
		how += " (" + r.Signal + ")"
	case r.Error != "":
		how += " (" + r.Error + ")"
	}
	parts := []string{how, duration(r.duration), r.Rung, "network " + r.Network, bytesText(r.StdoutBytes + r.StderrBytes)}
	if len(r.Missing) > 0 {
		parts = append(parts, "missing "+strings.Join(r.Missing, ", "))
	}
	fmt.Fprintf(p.Err, "hardshell: %s\n", strings.Join(parts, " · "))
}
