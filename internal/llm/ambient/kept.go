package ambient

import (
	"context"
	"sync"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
)

// Patience bounds a search.
const Patience = 15 * time.Second

// Kept keeps what a search found until its end, and has it sought anew a while before. It is safe for use by many
// goroutines.
type Kept[T any] struct {
	mu    sync.Mutex
	have  T
	ends  time.Time // of what we have; zero: never
	known bool
	now   *search[T] // that is under way
}

// search is one look for the value. found and err are set when done is closed.
type search[T any] struct {
	done  chan struct{}
	found T
	err   error
}

// Get returns what is kept, or what find finds. Within early of its end the value is still given while the next one is
// sought; what that finds wrong is nobody's trouble until the end. A search belongs to nobody who waits for it: it goes
// on, for as long as [Patience], when they leave.
func (k *Kept[T]) Get(ctx context.Context, env Env, early time.Duration, find func(context.Context) (T, time.Time, error)) (T, error) {
	k.mu.Lock()
	now := env.Time()
	if k.known && (k.ends.IsZero() || now.Before(k.ends.Add(-early))) {
		defer k.mu.Unlock()
		return k.have, nil
	}
	s := k.now
	if s == nil {
		s = &search[T]{done: make(chan struct{})}
		k.now = s
		go k.run(context.WithoutCancel(ctx), s, find)
	}
	if k.known && now.Before(k.ends) {
		defer k.mu.Unlock()
		return k.have, nil
	}
	k.mu.Unlock()
	select {
	case <-s.done:
		return s.found, s.err
	case <-ctx.Done():
		var none T
		return none, fault.Wrap(fault.Cancelled, context.Cause(ctx), "the search for credentials was not waited for")
	}
}

func (k *Kept[T]) run(ctx context.Context, s *search[T], find func(context.Context) (T, time.Time, error)) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	found, ends, err := find(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.have, k.ends, k.known = found, ends, true
	}
	s.found, s.err = found, err
	k.now = nil
	close(s.done)
}
