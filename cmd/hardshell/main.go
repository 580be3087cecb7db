// Command hardshell gives a language model a shell that is safe, fast and honest. See `hardshell --help`.
//
// It does three things: the sandbox package's resident takes over before anything else when that is what this process
// was started for, signals become the end of a context, and everything else is [cli.Main].
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hardshell-dev/hardshell/internal/cli"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	watch := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup stays nohup
		watch = append(watch, syscall.SIGHUP)
	}
	signal.Notify(signals, watch...)
	go func() {
		cancel(cli.Signal{Number: (<-signals).(syscall.Signal)})
		os.Exit(128 + int((<-signals).(syscall.Signal))) // the second one ends at once
	}()
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ()))
}
