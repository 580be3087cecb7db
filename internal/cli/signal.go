package cli

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Signal is the cause of a context that a signal ended.
type Signal struct{ Number syscall.Signal }

// Error names the signal.
func (s Signal) Error() string { return "ended by signal: " + s.Number.String() }

// Signalled returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with a [Signal] as its cause. The second
// one ends the process at once. Under nohup SIGHUP stays ignored.
func Signalled(parent context.Context) context.Context {
	var last atomic.Pointer[func()]
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, lastAct{}, &last))
	watch := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		watch = append(watch, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, watch...)
	go func() {
		cancel(Signal{(<-signals).(syscall.Signal)})
		second := (<-signals).(syscall.Signal)
		if act := last.Load(); act != nil {
			(*act)()
		}
		os.Exit(128 + int(second))
	}()
	return ctx
}

// lastAct is where a context of [Signalled] keeps what must be done before a second signal ends the process.
type lastAct struct{}

// beforeExit names that act; undo takes it back.
func beforeExit(ctx context.Context, act func()) (undo func()) {
	last, ok := ctx.Value(lastAct{}).(*atomic.Pointer[func()])
	if !ok {
		return func() {}
	}
	last.Store(&act)
	return func() { last.CompareAndSwap(&act, nil) }
}
