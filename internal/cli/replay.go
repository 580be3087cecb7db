package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm/cassette"
	"github.com/hardshell-dev/hardshell/internal/llm/chaos"
)

type replayCommand struct {
	Cassette string   `arg:"" placeholder:"FILE" help:"The cassette, see docs/cassettes.md."`
	Listen   string   `default:"127.0.0.1:0" placeholder:"ADDR" help:"Address and port of this machine for clients (default: a free port of 127.0.0.1)."`
	Speed    float64  `placeholder:"N" help:"Wait between the pieces of an answer as the cassette says, N times as fast (default: don't wait)."`
	Split    uint64   `placeholder:"SEED" help:"Cut answers at random places of this seed instead of where they were cut."`
	Chaos    *uint64  `placeholder:"SEED" help:"Misbehave as servers do: refuse, hang up, cut, be late, say frames twice. The same seed does the same."`
	MaxDelay span     `placeholder:"DURATION" help:"With --chaos: how late it may be, each time (1s; default: not at all)."`
	Command  []string `arg:"" optional:"" passthrough:"partial" name:"command" help:"A command, after --: play while it runs, with HARDSHELL_UPSTREAM set to the player's address. Nothing confines it."`
}

func (replayCommand) Help() string {
	return `Clients use the address that is printed as a provider's base URL, with any key. A question that the cassette holds no
answer to gets status 404.

Example:

  hardshell replay turns.jsonl --listen 127.0.0.1:7171
  hardshell replay turns.jsonl --chaos 7 --max-delay 200ms -- npm test
`
}

// Run plays until a signal, or while its command runs.
func (c replayCommand) Run(ctx context.Context, p *program) error {
	if c.Speed < 0 {
		return usageError{fault.New(fault.Invalid, "a speed is not negative").WithTry("--speed 1")}
	}
	raw, err := os.ReadFile(c.Cassette)
	if err != nil {
		return fmt.Errorf("read the cassette: %w", err)
	}
	tape, err := cassette.Parse(raw)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "%s cannot be played", c.Cassette).WithTry("hardshell record --help, or docs/cassettes.md")
	}
	if tape.Torn {
		fmt.Fprintf(p.Err, "hardshell: %s ends within an exchange, which is left out\n", c.Cassette)
	}
	var h http.Handler = cassette.NewPlayer(tape, cassette.PlayOptions{Split: c.Split, Speed: c.Speed, Played: func(r *http.Request, i int) {
		if i < 0 {
			fmt.Fprintf(p.Err, "hardshell: the cassette holds no answer to %s %s\n", visible(r.Method), visible(r.URL.Path))
		}
	}})
	if c.Chaos != nil {
		h = chaos.New(h, chaos.Options{Seed: *c.Chaos, MaxDelay: time.Duration(c.MaxDelay), Did: func(n uint64, plan string) {
			fmt.Fprintf(p.Err, "chaos     request %d: %s\n", n, plan)
		}})
	}
	return p.stand(ctx, c.Listen, h, c.Command)
}

// lastBytes is how long answers have to end when nobody needs the server any more.
const lastBytes = time.Second

// stand serves clients of this machine until a signal, or while a command runs, whose exit code is then ours.
func (p *program) stand(ctx context.Context, listen string, h http.Handler, command []string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || !loopback(host) {
		return usageError{fault.New(fault.Invalid, "--listen %s is not an address of this machine alone", listen).WithTry("--listen 127.0.0.1:0")}
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "it is not possible to listen on %s", listen).WithTry("--listen 127.0.0.1:0")
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		// An answer whose last byte the client has may not have ended here yet.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBytes)
		defer cancel()
		if server.Shutdown(ending) != nil {
			server.Close()
		}
	}()
	address := "http://" + listener.Addr().String()
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) > 0 {
		return p.beside(ctx, address, command)
	}
	fmt.Fprintln(p.Out, address)
	select {
	case <-ctx.Done():
		return nil // a signal is how it ends
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	}
}

// grace is how long a command has to end after a signal.
const grace = 5 * time.Second

// beside runs a command that finds a server by HARDSHELL_UPSTREAM.
func (p *program) beside(ctx context.Context, address string, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, p.Out, p.Err
	cmd.Env = append(append([]string(nil), p.environ...), "HARDSHELL_UPSTREAM="+address)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &ended) && ended.ExitCode() >= 0:
		return exitCode(ended.ExitCode())
	case errors.As(err, &ended):
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exitCode(128 + int(status.Signal()))
		}
		return exitCode(exitFailed)
	case err != nil:
		return fmt.Errorf("run the command: %w", err)
	}
	return nil
}
