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
	var taker atomic.Pointer[func() bool]
	parent = context.WithValue(context.WithValue(parent, lastAct{}, &last), interruptTaker{}, &taker)
	ctx, cancel := context.WithCancelCause(parent)
	watch := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		watch = append(watch, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, watch...)
	next := func() syscall.Signal {
		for {
			got := (<-signals).(syscall.Signal)
			if take := taker.Load(); got != syscall.SIGINT || take == nil || !(*take)() {
				return got
			}
		}
	}
	go func() {
		cancel(Signal{next()})
		second := next()
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

// interruptTaker is where a context of [Signalled] keeps who is asked first about a SIGINT.
type interruptTaker struct{}

// takeInterrupts asks about each SIGINT first: one that is taken ends nothing. undo gives them back.
func takeInterrupts(ctx context.Context, take func() bool) (undo func()) {
	taker, ok := ctx.Value(interruptTaker{}).(*atomic.Pointer[func() bool])
	if !ok {
		return func() {}
	}
	taker.Store(&take)
	return func() { taker.CompareAndSwap(&take, nil) }
}
