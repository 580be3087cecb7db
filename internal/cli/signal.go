package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signal is the cause of a context that a signal ended.
type Signal struct{ Number syscall.Signal }

// Error names the signal.
func (s Signal) Error() string { return "ended by signal: " + s.Number.String() }

// Signalled returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with a [Signal] as its cause. The second
// one ends the process at once. Under nohup SIGHUP stays ignored.
func Signalled(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	watch := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		watch = append(watch, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, watch...)
	go func() {
		cancel(Signal{(<-signals).(syscall.Signal)})
		os.Exit(128 + int((<-signals).(syscall.Signal)))
	}()
	return ctx
}
